/* checks.h: the tests of this folder that are not in run.c. */
#ifndef TEST_OP_CHECKS_H
#define TEST_OP_CHECKS_H

/* Under sanitizers only the small cases run. */
#if defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

void test_gradients(void **state);    /* gradients.c */
void test_maps(void **state);         /* adamw8bit.c */
void test_adamw8bit(void **state);    /* adamw8bit.c */
void test_clip(void **state);         /* clip.c */
void test_shape_errors(void **state); /* errors.c */

#endif
