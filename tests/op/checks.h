/* checks.h: the tests of this folder that are not in run.c. */
#ifndef TEST_OP_CHECKS_H
#define TEST_OP_CHECKS_H

#include "../sanitized.h" /* under sanitizers only the small cases run */

void test_gradients(void **state);          /* gradients.c */
void test_columns_recomputed(void **state); /* likewise */
void test_clip(void **state);               /* clip.c */
void test_llm(void **state);                /* llm.c */
void test_rounding(void **state);           /* rounding.c */
void test_shape_errors(void **state);       /* errors.c */
void test_attention(void **state);          /* attention.c */
void test_attention_cached(void **state);   /* the same */
void test_short_conv(void **state);         /* short_conv.c */

#endif
