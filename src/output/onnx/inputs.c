#include "output/onnx/lower.h"

#include <string.h>

/* Token types of which there is one alone are no input. */
static bool has_types(const struct model_config *c)
{
    return c->type_vocab_size > 1;
}

void onnx_inputs(struct onnx *x)
{
    static const char *const names[] = {"input_ids", "attention_mask", "token_type_ids"};
    for (int i = 0; i < (has_types(x->c) ? 3 : 2); i++)
        x->inputs[x->n_inputs++] =
            (struct onnx_end){.name = names[i], .type = ONNX_INT64, .ndim = 2, .shape = {ONNX_BATCH, ONNX_LENGTH}};
}

/* ---- what is computed from them ---- */

static struct onnx_attr to(enum onnx_type type)
{
    return (struct onnx_attr){.name = "to", .kind = ONNX_ATTR_INT, .x = {type}};
}

const char *onnx_sizes(struct onnx *x)
{
    const char *made = onnx_made(x, "sizes");
    return made ? made : onnx_keep(x, "sizes", onnx_node(x, "Shape", ONNX_IN("input_ids")));
}

const char *onnx_mask(struct onnx *x)
{
    const char *made = onnx_made(x, "mask");
    if (made)
        return made;
    const char *mask = onnx_node_with(x, "Cast", ONNX_IN("attention_mask"), to(ONNX_FLOAT));
    return onnx_keep(x, "mask", onnx_node(x, "Unsqueeze", ONNX_IN(mask, ONNX_INTS(x, 2))));
}

/* (length): 0, 1, ... */
static const char *places(struct onnx *x)
{
    const char *made = onnx_made(x, "places");
    if (made)
        return made;
    const char *length = onnx_node(x, "Gather", ONNX_IN(onnx_sizes(x), onnx_int(x, 1)));
    return onnx_keep(x, "places", onnx_node(x, "Range", ONNX_IN(onnx_int(x, 0), length, onnx_int(x, 1))));
}

const char *onnx_distances(struct onnx *x)
{
    const char *made = onnx_made(x, "distances");
    if (made)
        return made;
    const char *queries = onnx_node(x, "Unsqueeze", ONNX_IN(places(x), ONNX_INTS(x, 1)));
    const char *keys = onnx_node(x, "Unsqueeze", ONNX_IN(places(x), ONNX_INTS(x, 0)));
    return onnx_keep(x, "distances", onnx_node(x, "Sub", ONNX_IN(queries, keys)));
}

/* Of families whose positions begin behind the padding token's id: tokens that are no padding are counted, and padding has its own
 * id's position, as transformers' create_position_ids_from_input_ids. Of others a token's position is its place. */
static const char *positions(struct onnx *x)
{
    const struct model_config *c = x->c;
    if (!c->first_position)
        return onnx_node(x, "Unsqueeze", ONNX_IN(places(x), ONNX_INTS(x, 0)));
    const char *token =
        onnx_node(x, "Not", ONNX_IN(onnx_node(x, "Equal", ONNX_IN("input_ids", onnx_int(x, c->pad_id)))));
    token = onnx_node_with(x, "Cast", ONNX_IN(token), to(ONNX_INT64));
    const char *count = onnx_node(x, "CumSum", ONNX_IN(token, onnx_int(x, 1)));
    count = onnx_node(x, "Mul", ONNX_IN(count, token));
    return onnx_node(x, "Add", ONNX_IN(count, onnx_int(x, c->first_position - 1)));
}

static const char *frequencies(struct onnx *x, int kind)
{
    const struct rotary *r = &x->c->rotary[kind];
    float f[ROTARY_PAIRS];
    for (int64_t i = 0; i < r->pairs; i++)
        f[i] = (float)r->frequency[i];
    return onnx_list(x, rotary_inputs[kind], ONNX_FLOAT, r->pairs, f);
}

static const char *relative(struct onnx *x, int64_t n)
{
    int32_t *rows = arena_alloc(&x->arena, (size_t)n * sizeof *rows);
    int64_t *wide = arena_alloc(&x->arena, (size_t)n * sizeof *wide);
    if (!rows || !wide) {
        onnx_fail(x, SNUG_ERR_ENV, "no memory for %lld distances", (long long)n);
        return "";
    }
    relative_rows(&x->c->relative, x->c->longest, rows);
    for (int64_t i = 0; i < n; i++)
        wide[i] = rows[i];
    return onnx_list(x, "relative_rows", ONNX_INT64, n, wide);
}

const char *onnx_input(struct onnx *x, int id)
{
    const char *name = graph_value(x->g, id)->name;
    if (!strcmp(name, "input_ids") || (!strcmp(name, "token_type_ids") && has_types(x->c)))
        return name;
    if (!strcmp(name, "token_type_ids") || !strcmp(name, "task_type_ids"))
        return onnx_node(x, "Unsqueeze", ONNX_IN(ONNX_INTS(x, 0), ONNX_INTS(x, 0)));
    if (!strcmp(name, "positions"))
        return positions(x);
    if (!strcmp(name, "relative_rows"))
        return relative(x, graph_value(x->g, id)->shape[0].c);
    for (int k = 0; k < ROTARY_KINDS; k++)
        if (!strcmp(name, rotary_inputs[k]))
            return frequencies(x, k);
    onnx_fail(x, SNUG_ERR_USAGE, "%s models: no ONNX file is written of what reads %s", x->c->arch->model_type, name);
    return "";
}
