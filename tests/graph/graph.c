/* graph/: the text of every model's programs reads back as what it was; what the checker and the parser refuse. */
#include "compile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void fail_with(const struct snug_err *err)
{
    fail_msg("%s", err->text);
}

/* Parses `text`; on success prints it again into `again` (in the graph's arena). */
static int parse(struct graph *g, const char *text, char **again, struct snug_err *err)
{
    assert_int_equal(graph_init(g, err), SNUG_OK);
    int code = graph_parse(g, text, err);
    return code ? code : graph_print(g, &g->arena, again, err);
}

static void refuses(const char *text, const char *part)
{
    struct graph g;
    struct snug_err err;
    char *again;
    int code = parse(&g, text, &again, &err);
    if (code != SNUG_ERR_INPUT || !strstr(err.text, part))
        fail_msg("code %d, \"%s\" instead of \"%s\" for\n%s", code, code ? err.text : "", part, text);
    graph_free(&g);
}

/* ---- What models compile to. */

static int seen;

static void reads_back(void *ctx, const char *pass, const char *program, const char *text)
{
    struct graph g;
    struct snug_err err;
    char *again;
    (void)ctx;
    if (parse(&g, text, &again, &err))
        fail_msg("%s after %s: %s", program, pass, err.text);
    assert_string_equal(again, text);
    graph_free(&g);
    seen++;
}

/* A model of tests/golden; gives its config.json, which what it read points into. */
static json_t *golden_model(const char *name, struct model_config *model)
{
    char path[512];
    struct snug_err err;
    snprintf(path, sizeof path, "%s/tests/golden/%s/config.json", getenv("SNUG_SOURCE"), name);
    json_t *config = json_load_file(path, 0, NULL);
    if (model_config_read(config, path, model, &err))
        fail_with(&err);
    if (model->problem == PROBLEM_AUTO)
        model->problem = PROBLEM_SINGLE_LABEL;
    return config;
}

static void programs_of_every_model_read_back(void **state)
{
    (void)state;
    static const char *const models[] = {"bert", "bert_regression", "bert_multilabel", "bert_mlm", "gpt2"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int variant = 0; variant < 8; variant++) {
            struct model_config model;
            struct plan plan = {0};
            struct programs where;
            struct snug_err err;
            json_t *config = golden_model(models[m], &model);
            model.dropout_hidden = model.dropout_attention = variant & 1 ? 0.1 : 0;
            model.layers = 5;
            enum dtype wide = variant == 0 ? DT_F64 : DT_F32;
            struct compile_settings s = {.model = &model,
                                         .backend = variant == 0 ? backend_reference() : backend_cpu(),
                                         .threads = 2,
                                         .precision = {.wide = wide,
                                                       .narrow = variant & 2 ? DT_BF16 : wide,
                                                       .fp8 = variant & 2,
                                                       .narrow_grads = true},
                                         .eval_max = {.T = 30, .B = 3},
                                         .train = true,
                                         .dropout = true,
                                         .smoothing = 0.1,
                                         .update = {.optimizer = variant & 1 ? OPTIM_SGD : OPTIM_ADAMW,
                                                    .beta1 = 0.9,
                                                    .beta2 = 0.999,
                                                    .eps = 1e-8,
                                                    .momentum = 0.9,
                                                    .weight_decay = 0.01,
                                                    .max_grad_norm = variant & 2,
                                                    .state_type = wide},
                                         .dump = reads_back};
            const struct choices choices = {
                .micro = {.T = 60, .B = 7}, .accumulation = variant & 4 ? 3 : 1, .recompute_every_n = variant % 3};
            int before = seen;
            if (compile_run(&s, &choices, &plan, &where, &err))
                fail_with(&err);
            /* build, and the passes adapt, freeze, quantize, grad, fold_bias, fold_act, fold_head, precision, fp8, materialize, keep_mask,
             * reduce, update, share, place, recompute, pad, pull, order, offload, stage; fewer for programs that do less */
            assert_int_equal(seen - before, variant & 4 ? 19 + 19 + 6 + 11 : 22 + 11);
            plan_free(&plan);
            json_decref(config);
        }
}

/* ---- The checker. */

/* A line each: y = x W^T with its loss, where the test replaces a part. */
static void a_sound_graph_is_accepted(void **state)
{
    (void)state;
    struct graph g;
    struct snug_err err;
    char *again;
    const char *text = "%1 input F32[T,4] \"x\" layer=0 in keep\n"
                       "%2 weight F32[6,4] \"w\" layer=0 init=normal:0.02:3:head in keep group\n"
                       "%3 weight F32[2,4] \"w.b\" layer=0 slice=%2+16 in keep\n"
                       "%4 activation F32[T,6] layer=0 out\n"
                       "%5 activation F32[T,2] layer=2\n"
                       "%6 activation F32[T,2] layer=0 out\n"
                       "linear(x=%1 w=%2 y=%4) act=none in_out=0 layer=0\n"
                       "linear(x=%1 w=%3 y=%5) act=tanh in_out=0 layer=2\n"
                       "act_bwd(slope=%5 dy=%5 du=%6) layer=2 backward\n";
    if (parse(&g, text, &again, &err))
        fail_with(&err);
    assert_int_equal(g.n_values, 7);
    assert_int_equal(g.n_nodes, 4);
    assert_int_equal(value_root(&g, 3), 2);
    assert_int_equal(g.values[3].at, 16);
    assert_int_equal(value_elements(&g.values[4], (struct dims){.T = 5}), 30);
    assert_true(g.values[2].init.head && g.values[2].init.zero_row == 3 && g.values[2].init.std == 0.02);
    assert_true(g.values[2].group && !g.values[3].group && g.values[6].live_out && !g.values[5].live_out);
    assert_int_equal(g.nodes[2].u.linear.act, ACT_tanh);
    assert_true(g.nodes[3].backward && !g.nodes[2].backward && g.nodes[2].layer == 2);
    graph_free(&g);
}

#define X "%1 input F32[T,4] \"x\" layer=0 in keep\n"
#define W "%2 weight F32[6,4] \"w\" layer=0 in keep\n"
#define Y "%3 activation F32[T,6] layer=0 out\n"
#define LINEAR "linear(x=%1 w=%2 y=%3) act=none in_out=0 layer=0\n"
#define CU "%4 input I32[B+1] \"cu_seqlens\" layer=0 in keep\n"

static void the_checker_refuses_what_is_unsound(void **state)
{
    (void)state;
    refuses(X W Y "linear(x=%1 w=%9 y=%3) act=none in_out=0 layer=0\n",
            "node 1, linear, slot w (value 9): no such value");
    refuses(X W Y "linear(x=%1 y=%3) act=none in_out=0 layer=0\n", "slot w (value 0): is missing");
    refuses(X W Y "linear(x=%1 w=%2) act=none in_out=0 layer=0\n", "slot y (value 0): is missing");
    refuses(X W Y "%4 activation F32[T,4] layer=0\nlinear(x=%4 w=%2 y=%3) act=none in_out=0 layer=0\n",
            "slot x (value 4): is read before anything writes it");
    refuses(X W Y LINEAR LINEAR, "node 2, linear, slot y (value 3): is written twice");
    refuses(X W Y, "value 3 is wanted but nothing writes it");
    /* a slice that begins in its base and ends outside; of another dtype; of what stands behind it; of nothing */
    refuses(X W Y "%4 weight F32[2,4] \"s\" layer=0 slice=%2+17 in keep\n" LINEAR,
            "value 4 does not lie inside its base");
    refuses(X W Y "%4 weight BF16[2,4] \"s\" layer=0 slice=%2+0 in keep\n" LINEAR, "or has another dtype");
    refuses(X W Y "%4 weight F32[2,4] \"s\" layer=0 slice=%2+8 in keep\n%5 weight F32[4] \"t\" layer=0 slice=%4+5 in "
                  "keep\n" LINEAR,
            "value 5 does not lie inside its base");
    refuses(X W Y
            "%4 weight F32[4] \"s\" layer=0 slice=%5+0 in keep\n%5 weight F32[2,4] \"t\" layer=0 in keep\n" LINEAR,
            "value 4 is a slice of nothing that stands before it");
    refuses(X W Y "%4 weight F32[2,4] \"s\" layer=0 slice=%77+0 in keep\n" LINEAR, "value 4 is a slice of nothing");
    refuses(X W Y "%4 gradient F32[6,4] \"grad.x\" layer=0 of=grad:%1\n" LINEAR, "value 4 is of no weight");
    refuses(X W Y "%2 weight F32[6,4] \"again\" layer=0 in keep\n" LINEAR,
            "a value that is not there yet was expected");
    refuses(X W Y "%4 weight F32[] \"s\" layer=0 in keep\n" LINEAR, "value 4 has no shape");
}

static void the_checker_knows_statistics_and_gradients(void **state)
{
    (void)state;
    refuses(X CU "%5 activation F32[T,2] layer=0 out\n%6 activation F32[1,T] layer=0\n"
                 "%7 input F32[T,6] \"qkv\" layer=0 in keep\n"
                 "attention(qkv=%7 cu=%4 o=%5 lse=%6) heads=1 kv_heads=1 causal=0 scale=1 p=0 site=0 longest=0 "
                 "queries=0 window=0 softcap=0 layer=0\n",
            "slot lse (value 6): a statistic must be exact");
#define DY "%8 input F32[T,6] \"dy\" layer=0 in keep\n"
#define DW "%9 gradient F32[6,4] \"grad.w\" layer=0 out\n"
    refuses(X W DY DW "linear_dw(dy=%8 x=%1 dw=%9) in_out=0 layer=0 backward\n"
                      "linear_dw(dy=%8 x=%1 dw=%9) in_out=0 layer=0 backward\n",
            "node 2, linear_dw, slot dw (value 9): overwrites a gradient that it must add to");
    refuses(X W DY DW "linear_dw(dy=%8 x=%1 dw+=%9) in_out=0 layer=0 backward\n",
            "slot dw (value 9): is read before anything writes it");
    refuses(X W DY DW "%10 gradient F32[3,4] \"grad.part\" layer=0 slice=%9+0 out\n"
                      "linear_dw(dy=%8 x=%1 dw=%10) in_out=0 layer=0 backward\n",
            "gradients accumulate in whole values or in columns, not in slices");
    /* accumulated over micro-batches: what is in it from before must not be lost */
    refuses(X W DY "%9 gradient F32[6,4] \"grad.w\" layer=0 in out keep\n"
                   "linear_dw(dy=%8 x=%1 dw=%9) in_out=0 layer=0 backward\n",
            "overwrites a gradient that it must add to");
}

static void the_checker_knows_shapes_and_types(void **state)
{
    (void)state;
    refuses(X W "%3 activation F32[T,5] layer=0 out\n" LINEAR, "slot y (value 3): has not the shape that the op makes");
    refuses(X W "%3 activation F32[B,6] layer=0 out\n" LINEAR, "slot y (value 3): has not the shape that the op makes");
    refuses(X "%2 weight F32[6,5] \"w\" layer=0 in keep\n" Y LINEAR, "node 1: graph: linear: ");
    refuses(X W Y "%5 activation BF16[T,6] layer=0 out\n%6 activation F32[T,6] layer=0 out\n" LINEAR
                  "cast(x=%3 y=%5) layer=0\n"
                  "act_bwd(slope=%3 dy=%5 du=%6) layer=0 backward\n",
            "node 3, act_bwd, slot dy (value 5): has another dtype than the node's other activations");
}

/* A shape of every dimension: it reads back, and its size is the sum of 2 of the first, 3 of the second …, and 5. Words that
 * only begin as a dimension does are none. */
static void shapes_are_sums_of_all_dimensions(void **state)
{
    (void)state;
    struct graph g;
    struct snug_err err;
    struct dims n = {0};
    char text[256] = "%1 input F32[4,", *again;
    int64_t size = 5;
    for (int i = 0; i < DIMS; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%d%s+", i + 2, dimension_table[i].name);
        n.of[i] = 10 * (i + 1);
        size += 10 * (i + 1) * (i + 2);
    }
    snprintf(text + strlen(text), sizeof text - strlen(text), "5] layer=0 in keep\n");
    if (parse(&g, text, &again, &err))
        fail_with(&err);
    assert_string_equal(again, text);
    assert_int_equal(value_elements(&g.values[1], n), 4 * size);
    n.of[DIMS - 1]++;
    assert_int_equal(value_elements(&g.values[1], n), 4 * (size + DIMS + 1));
    graph_free(&g);
    refuses("%1 input F32[T1,4] layer=0\n", "\"T1,4] layer=0\": a dimension or ] was expected");
    refuses("%1 input F32[BT] layer=0\n", "\"BT] layer=0\": a dimension or ] was expected");
}

/* A stack of two pairs of matrices: the parts of the second pair lie in it, behind the first pair. */
static void slices_of_slices(void **state)
{
    (void)state;
    struct graph g;
    struct snug_err err;
    char *again;
    const char *text = "%1 weight F32[2,4,3] \"stack\" layer=0 in keep group\n"
                       "%2 weight F32[4,3] \"second\" layer=0 slice=%1+12 in keep group\n"
                       "%3 weight F32[2,3] \"second.up\" layer=0 slice=%2+0 in keep\n"
                       "%4 weight F32[2,3] \"second.down\" layer=0 slice=%2+6 in keep\n"
                       "%5 weight F32[2,3] \"first.down\" layer=0 slice=%1+6 in keep\n";
    if (parse(&g, text, &again, &err))
        fail_with(&err);
    assert_string_equal(again, text);
    assert_int_equal(value_root(&g, 4), 1);
    assert_int_equal(value_at(&g, 4), 18);
    struct node up = {.op = OP_cast, .u.cast = {.x = 1, .y = 3}}, down = {.op = OP_cast, .u.cast = {.x = 4}},
                first = {.op = OP_cast, .u.cast = {.x = 5}}, second = {.op = OP_cast, .u.cast = {.x = 2}};
    up.u.cast.x = 0;
    assert_true(!node_conflicts(&g, &up, &down) && !node_conflicts(&g, &up, &first) &&
                node_conflicts(&g, &up, &second));
    graph_free(&g);
}

/* ---- Columns: %3 is made of two that are written, %7 and %8 are read from. */

#define MATRICES                                                                                                       \
    "%1 input F32[T,4] \"x\" layer=0 in keep\n"                                                                        \
    "%2 weight F32[2,4] \"w\" layer=0 in keep\n"                                                                       \
    "%3 activation F32[T,4] layer=0\n"
#define LEFT "%4 activation F32[T,2] layer=0 slice=%3+0 pitch=4\n"
#define RIGHT "%5 activation F32[T,2] layer=0 slice=%3+2 pitch=4\n"
#define WRITES(id) "linear(x=%1 w=%2 y=" id ") act=none in_out=0 layer=0\n"
#define OUT "%6 activation F32[T,2] layer=0 out\n"
#define MIDDLE "%7 activation F32[T,2] layer=0 slice=%3+1 pitch=4\n"
#define PART "%8 weight F32[2,2] \"part\" layer=0 in keep\n"

static void columns_are_parts_of_a_matrix(void **state)
{
    (void)state;
    struct graph g;
    struct snug_err err;
    char *again;
    const char *text =
        MATRICES LEFT WRITES("%4") RIGHT WRITES("%5") OUT "linear(x=%3 w=%2 y=%6) act=none in_out=0 layer=0\n";
    if (parse(&g, text, &again, &err))
        fail_with(&err);
    assert_int_equal(graph_value(&g, graph_add_columns(&g, 5, 1, 1))->pitch, 4);
    assert_int_equal(value_at(&g, g.n_values - 1), 3);
    /* from the first element to the last, of 7 rows */
    assert_int_equal(value_bytes(&g.values[5], (struct dims){.T = 7}), 4 * (6 * 4 + 2));
    assert_int_equal(value_elements(&g.values[5], (struct dims){.T = 7}), 14);
    graph_free(&g);
    const char *parts = MATRICES LEFT WRITES("%4") RIGHT WRITES("%5") MIDDLE PART OUT
        "linear(x=%7 w=%8 y=%6) act=none in_out=0 layer=0\n";
    if (parse(&g, parts, &again, &err))
        fail_with(&err);
    assert_true(!node_conflicts(&g, &g.nodes[1], &g.nodes[2]) && node_conflicts(&g, &g.nodes[1], &g.nodes[3]) &&
                node_conflicts(&g, &g.nodes[2], &g.nodes[3]));
    graph_free(&g);
}

static void the_checker_knows_columns(void **state)
{
    (void)state;
    refuses(MATRICES LEFT WRITES("%4") OUT "linear(x=%3 w=%2 y=%6) act=none in_out=0 layer=0\n",
            "slot x (value 3): is read before anything writes it");
    refuses(MATRICES LEFT WRITES("%4") MIDDLE PART OUT "linear(x=%7 w=%8 y=%6) act=none in_out=0 layer=0\n",
            "slot x (value 7): is read before anything writes it");
    refuses(MATRICES LEFT WRITES("%4") MIDDLE WRITES("%7"), "slot y (value 7): is written twice");
    refuses(MATRICES LEFT WRITES("%4") MIDDLE PART "linear_dx(dy=%4 w=%8 dx=%7) in_out=0 layer=0\n",
            "slot dx (value 7): overwrites a gradient that it must add to");
    refuses(MATRICES LEFT WRITES("%4") MIDDLE PART "linear_dx(dy=%4 w=%8 dx+=%7) in_out=0 layer=0\n",
            "slot dx (value 7): is read before anything writes it");
    refuses(MATRICES LEFT WRITES("%4") OUT "act_bwd(slope=%4 dy=%4 du=%6) layer=0\n",
            "slot slope (value 4): is columns of a wider value, which this op does not know");
    refuses(MATRICES "%4 activation F32[T,2] layer=0 slice=%3+3 pitch=4\n", "value 4 is no columns of its base");
    refuses(MATRICES "%4 activation F32[T,2] layer=0 slice=%3+0 pitch=5\n", "value 4 is no columns of its base");
    refuses(MATRICES "%4 activation F32[B,2] layer=0 slice=%3+0 pitch=4\n", "value 4 cannot be columns of another");
    refuses(MATRICES "%4 weight F32[2,2] layer=0 slice=%2+0 pitch=4\n", "value 4 cannot be columns of another");
    refuses(MATRICES "%4 activation F32[T,2] layer=0 slice=%3+0 pitch=4 out\n", "value 4 cannot be columns of another");
    refuses(MATRICES LEFT "%5 activation F32[2] layer=0 slice=%4+0\n", "value 5 does not lie inside its base");
}

/* ---- The parser. */

static void the_parser_names_line_and_place(void **state)
{
    (void)state;
    refuses(X "%2 wait F32[6,4]\n", "graph text:2: \"wait F32[6,4]\": a role was expected");
    refuses(X "%2 weight F31[6,4]\n", "graph text:2: \"F31[6,4]\": dtype[ was expected");
    refuses("%0 weight F32[6,4]\n", "graph text:1: \"%0 weight F32[6,4]\": a value id was expected");
    refuses("%99999999999999999999 weight F32[6,4]\n", "a value id was expected");
    refuses("%2 weight F32[6,Q]\n", "graph text:1: \"Q]\": a dimension or ] was expected");
    refuses("%2 weight F32[1,2,3,4,5]\n", "a dimension or ] was expected");
    refuses("%2 weight F32[6] \"open\n", "the end of the name was expected");
    refuses("%2 weight F32[6] upside\n", "\"upside\": a property of a value was expected");
    refuses("%2 weight F32[6] init=zero\n", "kind:std:zero row was expected");
    refuses("%2 weight F32[6] slice=2\n", "%base+offset was expected");
    refuses("# comment\n\n  # another\nlinaer(x=%1)\n", "graph text:4: \"linaer(x=%1)\": an op and ( was expected");
    refuses(X W Y "linear(z=%1 w=%2 y=%3)\n", "\"z=%1 w=%2 y=%3)\": a slot of this op was expected");
    refuses(X W Y "linear(x=1 w=%2 y=%3)\n", "=%id was expected");
    refuses(X W Y "linear(x=%1 w=%2 y=%3) act=swoosh\n", "an activation was expected");
    refuses(X W Y "linear(x=%1 w=%2 y=%3) heads=2\n", "an attribute of this op was expected");
    refuses(X W Y "linear(x=%1 w=%2 y=%3) in_out=0.5\n", "expected");
    refuses(X W Y "linear(x=%1 w=%2 y=%3) layer\n", "= was expected");
}

/* ---- Building. */

static void building_stops_at_the_first_failure(void **state)
{
    (void)state;
    struct graph g;
    struct snug_err err;
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    int x = graph_add_value(&g, "x", ROLE_INPUT, DT_F32, 2, (const struct dim[]){DIM_T, DIM(4)});
    int w = graph_add_value(&g, "w", ROLE_WEIGHT, DT_F32, 2, (const struct dim[]){DIM(6), DIM(5)});
    struct op_linear n = {.x = x, .w = w};
    emit_linear(&g, &n); /* 4 is not 5 */
    assert_int_equal(graph_ok(&g, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "linear"));
    char first[SNUG_ERR_TEXT];
    strcpy(first, err.text);
    struct op_linear missing = {.x = x};
    emit_linear(&g, &missing);
    assert_int_equal(graph_add_value(&g, "z", ROLE_INPUT, DT_F32, 1, &DIM_T), 0);
    assert_int_equal(graph_ok(&g, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, first);
    assert_int_equal(g.n_nodes, 1);
    graph_free(&g);
}

/* 50257 words in room for 50304: elements are those of the shape, bytes those of the room. */
static void padding_takes_room(void **state)
{
    const struct dims n = {.T = 3};
    struct value logits = {.dtype = DT_BF16, .ndim = 2, .shape = {DIM_T, DIM(50257)}, .pitch = 50304};
    struct value weight = {.dtype = DT_F32, .ndim = 2, .shape = {DIM(50257), DIM(4)}, .pad_rows = 47};
    struct value bias = {.dtype = DT_F32, .ndim = 1, .shape = {DIM(50257)}, .pad_rows = 47};
    (void)state;
    assert_true(value_elements(&logits, n) == 3 * 50257 && value_bytes(&logits, n) == 2 * 3 * 50304);
    assert_true(value_elements(&weight, n) == 4 * 50257 && value_bytes(&weight, n) == 4 * 4 * 50304);
    assert_true(value_elements(&bias, n) == 50257 && value_bytes(&bias, n) == 4 * 50304);
}

static void slices_are_like_their_base(void **state)
{
    (void)state;
    struct graph g;
    struct snug_err err;
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    g.layer = 7;
    int base = graph_add_value(&g, "qkv", ROLE_WEIGHT, DT_BF16, 2, (const struct dim[]){DIM(12), DIM(4)});
    g.layer = 2;
    int part = graph_add_slice(&g, "k", base, 16, 2, (const struct dim[]){DIM(4), DIM(4)});
    const struct value *v = graph_value(&g, part);
    assert_true(v->base == base && v->at == 16 && v->dtype == DT_BF16 && v->role == ROLE_WEIGHT);
    assert_true(v->live_in && v->persists && v->layer == 7);
    assert_int_equal(value_root(&g, part), base);
    assert_int_equal(value_root(&g, base), base);
    assert_int_equal(value_bytes(v, (struct dims){0}), 32);
    assert_int_equal(graph_find(&g, "k"), part);
    assert_int_equal(graph_find(&g, "v"), 0);
    graph_free(&g);
}

/* Never more memory; and less even with all layers of a language model in one segment, beside whose activations its
 * logits would live. */
static void recomputation_saves_memory(void **state)
{
    (void)state;
    static const char *const models[] = {"bert", "bert_mlm", "gpt2"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct model_config model;
        struct snug_err err;
        json_t *config = golden_model(models[m], &model);
        model.layers = 6;
        model.vocab_size = 2000;
        int64_t stored = 0;
        for (int n = 0; n <= 6; n++) {
            struct plan plan = {0};
            struct programs where;
            struct compile_settings s = {.model = &model,
                                         .backend = backend_cpu(),
                                         .threads = 2,
                                         .precision = {.wide = DT_F32, .narrow = DT_BF16, .narrow_grads = true},
                                         .train = true,
                                         .dropout = true,
                                         .update = {.max_grad_norm = 1, .state_type = DT_F32}};
            const struct choices choices = {.micro = {.T = 1000, .B = 8}, .accumulation = 1, .recompute_every_n = n};
            if (compile_run(&s, &choices, &plan, &where, &err))
                fail_with(&err);
            stored = n ? stored : plan.arena_bytes;
            bool must_save = n && (n < 6 || model_task(&model)->per_token);
            if (plan.arena_bytes > stored - must_save)
                fail_msg("%s, segments of %d: %lld bytes instead of %lld", models[m], n, (long long)plan.arena_bytes,
                         (long long)stored);
            plan_free(&plan);
        }
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_of_every_model_read_back),
        cmocka_unit_test(a_sound_graph_is_accepted),
        cmocka_unit_test(the_checker_refuses_what_is_unsound),
        cmocka_unit_test(the_checker_knows_statistics_and_gradients),
        cmocka_unit_test(the_checker_knows_shapes_and_types),
        cmocka_unit_test(shapes_are_sums_of_all_dimensions),
        cmocka_unit_test(slices_of_slices),
        cmocka_unit_test(columns_are_parts_of_a_matrix),
        cmocka_unit_test(the_checker_knows_columns),
        cmocka_unit_test(the_parser_names_line_and_place),
        cmocka_unit_test(building_stops_at_the_first_failure),
        cmocka_unit_test(slices_are_like_their_base),
        cmocka_unit_test(padding_takes_room),
        cmocka_unit_test(recomputation_saves_memory),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
