/* text.h: a program in text, a pass over it, and the text that it has to be then; and the texts of a small step. */
#ifndef TEST_PASS_TEXT_H
#define TEST_PASS_TEXT_H

#include "pass/pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Runs the pass that the test file knows as p. */
typedef void apply_pass(struct graph *g, int p);

static inline void text_becomes(const char *before, apply_pass *apply, int p, const char *after)
{
    struct graph g;
    struct snug_err err;
    char *text;
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    int code = graph_parse(&g, before, &err);
    if (!code)
        apply(&g, p);
    if (!code)
        code = graph_check(&g, "the test", &err);
    if (!code)
        code = graph_print(&g, &g.arena, &text, &err);
    if (code)
        fail_msg("%s", err.text);
    assert_string_equal(text, after);
    graph_free(&g);
}

/* ---- A step: an embedding, a layer, a loss. */

#define INPUTS                                                                                                         \
    "%1 input I32[T] \"input_ids\" layer=0 in keep\n"                                                                  \
    "%2 input I32[B+1] \"cu_seqlens\" layer=0 in keep\n"                                                               \
    "%3 input F32[T,2] \"labels\" layer=0 in keep\n"                                                                   \
    "%4 input F64[8] \"step\" layer=0 in keep\n"
#define WEIGHTS                                                                                                        \
    "%5 weight F32[9,4] \"table\" layer=0 in keep\n"                                                                   \
    "%6 weight F32[2,4] \"proj.weight\" layer=1 in keep\n"                                                             \
    "%7 weight F32[2] \"proj.bias\" layer=1 in keep\n"
#define FORWARD                                                                                                        \
    "%8 activation F32[T,4] layer=0\n"                                                                                 \
    "embed(ids=%1 table=%5 y=%8) still=0 layer=0\n"                                                                    \
    "%9 activation F32[T,2] layer=1\n"                                                                                 \
    "linear(x=%8 w=%6 b=%7 y=%9) act=none in_out=0 layer=1\n"                                                          \
    "%10 activation F32[1] \"loss\" layer=2 exact out\n"                                                               \
    "mse(logits=%9 labels=%3 step=%4 loss=%10) layer=2\n"
#define GRADIENTS(flags)                                                                                               \
    "%11 gradient F32[9,4] \"grad.table\" layer=0 of=grad:%5" flags "\n"                                               \
    "%12 gradient F32[2,4] \"grad.proj.weight\" layer=1 of=grad:%6" flags "\n"                                         \
    "%13 gradient F32[2] \"grad.proj.bias\" layer=1 of=grad:%7" flags "\n"
#define BACKWARD(add)                                                                                                  \
    "%14 activation F32[T,2] layer=2\n"                                                                                \
    "mse_bwd(logits=%9 labels=%3 step=%4 dlogits=%14) layer=2 backward\n"                                              \
    "linear_dw(dy=%14 x=%8 dw" add "=%12 db" add "=%13) in_out=0 layer=1 backward\n"                                   \
    "%15 activation F32[T,4] layer=1\n"                                                                                \
    "linear_dx(dy=%14 w=%6 dx=%15) in_out=0 layer=1 backward\n"                                                        \
    "embed_bwd(ids=%1 dy=%15 cu=%2 dtable" add "=%11) still=0 layer=0 backward\n"

#endif
