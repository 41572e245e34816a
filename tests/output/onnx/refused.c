/* output/onnx: a graph with what no ONNX file is written of is refused by what that is. */
#include "output/onnx/lower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct model_arch arch = {.model_type = "new"};
static const struct model_config config = {.arch = &arch, .layers = 1};

/* What a graph begins with: rows of 12 numbers, and where sequences begin. */
struct start {
    struct graph g;
    int x, cu;
};

static void begin(struct start *s)
{
    struct snug_err err;
    assert_int_equal(graph_init(&s->g, &err), 0);
    s->x = graph_add_value(&s->g, "inputs_embeds", ROLE_INPUT, DT_F32, SHAPE(DIM_T, DIM(12)));
    s->cu = graph_add_value(&s->g, "cu_seqlens", ROLE_INPUT, DT_I32, SHAPE(((struct dim){.times.B = 1, .c = 1})));
}

static void expect(struct start *s, int wanted, const char *text)
{
    struct onnx x;
    struct snug_err err = {0};
    if (graph_ok(&s->g, &err))
        fail_msg("%s", err.text);
    assert_int_equal(onnx_init(&x, &s->g, &config, &err), 0);
    onnx_lower(&x, wanted);
    assert_int_equal(onnx_ok(&x, &err), SNUG_ERR_USAGE);
    assert_string_equal(err.text, text);
    onnx_free(&x);
    graph_free(&s->g);
}

static void attention(struct op_attention n, const char *text)
{
    struct start s;
    begin(&s);
    n.qkv = s.x, n.cu = s.cu, n.scale = 1;
    emit_attention(&s.g, &n);
    expect(&s, n.o, text);
}

static void kinds_of_attention(void **state)
{
    (void)state;
    attention((struct op_attention){.heads = 2, .kv_heads = 2, .causal = 1},
              "new models: no ONNX file is written of attention that is causal");
    attention((struct op_attention){.heads = 2, .kv_heads = 1},
              "new models: no ONNX file is written of attention with fewer keys than queries");
    attention((struct op_attention){.heads = 2, .kv_heads = 2, .softcap = 3},
              "new models: no ONNX file is written of attention with capped scores");
}

static void rows_ops_and_inputs(void **state)
{
    struct start s;
    (void)state;
    begin(&s);
    struct op_gather last = {.x = s.x, .cu = s.cu, .last = 1};
    emit_gather(&s.g, &last);
    expect(&s, last.y, "the last token of a sequence: no ONNX file is written of such a model");

    begin(&s);
    struct op_softcap cap = {.x = s.x, .cap = 3};
    emit_softcap(&s.g, &cap);
    expect(&s, cap.y, "new models: no ONNX file is written of their softcap");

    begin(&s);
    struct op_glu gate = {.x = s.x, .act = ACT_relu};
    emit_glu(&s.g, &gate);
    expect(&s, gate.y, "new models: no ONNX file is written of what reads inputs_embeds");
}

static void rotary(struct op_rotary n, int64_t pairs, bool norms, const char *text)
{
    struct start s;
    begin(&s);
    int positions = graph_add_value(&s.g, "positions", ROLE_INPUT, DT_I32, SHAPE(DIM_T));
    int frequencies = graph_add_value(&s.g, "rotary_frequencies", ROLE_INPUT, DT_F64, SHAPE(DIM(pairs)));
    struct op_rotary_table table = {.positions = positions, .frequencies = frequencies, .factor = 1};
    emit_rotary_table(&s.g, &table);
    n.qkv = s.x, n.table = table.table;
    if (norms)
        n.q_gamma = n.k_gamma = graph_add_value(&s.g, "norm", ROLE_WEIGHT, DT_F32, SHAPE(DIM(2)));
    emit_rotary(&s.g, &n);
    expect(&s, n.y, text);
}

static void kinds_of_rotary_positions(void **state)
{
    (void)state;
    rotary((struct op_rotary){.heads = 4, .kv_heads = 1}, 1, false,
           "new models: no ONNX file is written of attention with fewer keys than queries");
    rotary((struct op_rotary){.heads = 2, .kv_heads = 2}, 1, true,
           "new models: no ONNX file is written of heads that are normalised");
    rotary((struct op_rotary){.heads = 1, .kv_heads = 1}, 1, false,
           "new models: no ONNX file is written of heads that turn in part");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_attention),
        cmocka_unit_test(rows_ops_and_inputs),
        cmocka_unit_test(kinds_of_rotary_positions),
    };
    return cmocka_run_group_tests_name("onnx_refused", tests, NULL, NULL);
}
