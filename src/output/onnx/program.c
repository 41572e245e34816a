#include "output/onnx/program.h"

#include <stdio.h>
#include <string.h>

const char *const onnx_size_names[2] = {"batch_size", "sequence_length"};

struct onnx_made {
    const char *what, *name;
};

int onnx_init(struct onnx *x, const struct graph *g, const struct model_config *c, struct snug_err *err)
{
    size_t n = (size_t)g->n_values + 1;
    *x = (struct onnx){.g = g, .c = c, .place = ""};
    x->of = mem_alloc(n * sizeof *x->of);
    x->turns = mem_alloc(n * sizeof *x->turns);
    if (x->of && x->turns)
        return SNUG_OK;
    onnx_free(x);
    return err_no_memory(err, n * (sizeof *x->of + sizeof *x->turns));
}

void onnx_free(struct onnx *x)
{
    mem_free(x->nodes);
    mem_free(x->tensors);
    mem_free(x->of);
    mem_free(x->turns);
    mem_free(x->made);
    arena_free(&x->arena);
    *x = (struct onnx){0};
}

int onnx_ok(const struct onnx *x, struct snug_err *err)
{
    if (x->err.code && err)
        *err = x->err;
    return x->err.code;
}

void onnx_fail(struct onnx *x, int code, const char *format, ...)
{
    char text[sizeof x->err.text];
    va_list ap;
    if (x->err.code)
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    err_set(&x->err, code, "%s", text);
}

static void no_memory(struct onnx *x, size_t bytes)
{
    if (!x->err.code)
        err_no_memory(&x->err, bytes);
}

const char *onnx_name(struct onnx *x, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    const char *name = arena_vprintf(&x->arena, format, ap);
    va_end(ap);
    if (!name)
        no_memory(x, strlen(format));
    return name ? name : "";
}

/* ---- nodes ---- */

static struct onnx_node *add_node(struct onnx *x, const char *op, const char *const *in)
{
    static struct onnx_node none;
    if (!MEM_GROW(x->nodes, x->cap_nodes, x->n_nodes + 1)) {
        no_memory(x, x->cap_nodes * sizeof *x->nodes);
        none = (struct onnx_node){.out = {"", "", ""}};
        return &none;
    }
    struct onnx_node *n = &x->nodes[x->n_nodes];
    *n = (struct onnx_node){.op = op, .name = onnx_name(x, "%s%s_%zu", x->place, op, x->n_nodes)};
    x->n_nodes++;
    for (int i = 0; i < ONNX_INPUTS && in[i]; i++)
        n->in[i] = in[i];
    return n;
}

const char *onnx_node_with(struct onnx *x, const char *op, const char *const *in, struct onnx_attr attr)
{
    struct onnx_node *n = add_node(x, op, in);
    n->attr = attr;
    return n->out[0] = n->name ? n->name : "";
}

const char *onnx_node(struct onnx *x, const char *op, const char *const *in)
{
    return onnx_node_with(x, op, in, (struct onnx_attr){0});
}

const char *onnx_transpose(struct onnx *x, const char *in, int n, const int64_t *order)
{
    struct onnx_attr perm = {.name = "perm", .kind = ONNX_ATTR_INTS, .n = n};
    memcpy(perm.x, order, (size_t)n * sizeof *order);
    return onnx_node_with(x, "Transpose", ONNX_IN(in), perm);
}

void onnx_split(struct onnx *x, const char *in, int64_t axis, int n, const int64_t *sizes, const char **out)
{
    const char *pieces = onnx_ints(x, n, sizes);
    struct onnx_node *node = add_node(x, "Split", ONNX_IN(in, pieces));
    const char *name = node->name ? node->name : "";
    size_t at = (size_t)(node - x->nodes); /* naming moves no nodes */
    node->attr = ONNX_AXIS(axis);
    for (int i = 0; i < n; i++)
        out[i] = onnx_name(x, "%s_%d", name, i);
    for (int i = 0; i < n && !x->err.code; i++)
        x->nodes[at].out[i] = out[i];
}

void onnx_rename(struct onnx *x, const char *from, const char *to)
{
    for (size_t i = 0; i < x->n_nodes; i++) {
        struct onnx_node *n = &x->nodes[i];
        for (int k = 0; k < ONNX_INPUTS && n->in[k]; k++)
            if (!strcmp(n->in[k], from))
                n->in[k] = to;
        for (int k = 0; k < ONNX_OUTPUTS && n->out[k]; k++)
            if (!strcmp(n->out[k], from))
                n->out[k] = to;
    }
}

static bool is_output(const struct onnx *x, const char *name)
{
    for (int i = 0; i < x->n_outputs; i++)
        if (!strcmp(x->outputs[i].name, name))
            return true;
    return false;
}

/* Whether a node behind the first `n` reads it. */
static bool is_read(const struct onnx *x, size_t n, const char *name)
{
    for (; n < x->n_nodes; n++)
        for (int k = 0; x->nodes[n].op && k < ONNX_INPUTS && x->nodes[n].in[k]; k++)
            if (!strcmp(x->nodes[n].in[k], name))
                return true;
    return false;
}

void onnx_prune(struct onnx *x)
{
    size_t n = 0;
    for (size_t i = x->n_nodes; i-- > 0;) {
        struct onnx_node *node = &x->nodes[i];
        bool needed = false;
        for (int k = 0; k < ONNX_OUTPUTS && node->out[k]; k++)
            needed |= is_output(x, node->out[k]) || is_read(x, i + 1, node->out[k]);
        node->op = needed ? node->op : NULL;
    }
    for (size_t i = 0; i < x->n_nodes; i++)
        if (x->nodes[i].op)
            x->nodes[n++] = x->nodes[i];
    x->n_nodes = n;
    n = 0;
    for (size_t i = 0; i < x->n_tensors; i++)
        if (is_read(x, 0, x->tensors[i].name))
            x->tensors[n++] = x->tensors[i];
    x->n_tensors = n;
}

/* ---- tensors ---- */

static const struct onnx_tensor *find_tensor(const struct onnx *x, const char *name)
{
    for (size_t i = 0; i < x->n_tensors; i++)
        if (!strcmp(x->tensors[i].name, name))
            return &x->tensors[i];
    return NULL;
}

static const char *add_tensor(struct onnx *x, struct onnx_tensor t)
{
    const struct onnx_tensor *same = find_tensor(x, t.name);
    if (same)
        return same->name;
    if (!MEM_GROW(x->tensors, x->cap_tensors, x->n_tensors + 1)) {
        no_memory(x, x->cap_tensors * sizeof t);
        return "";
    }
    t.bytes = t.type == ONNX_INT64 ? 8 : 4;
    for (int i = 0; i < t.ndim; i++)
        t.bytes *= t.shape[i];
    x->tensors[x->n_tensors++] = t;
    return t.name;
}

static const char *add_constant(struct onnx *x, const char *name, enum onnx_type type, int ndim, int64_t n,
                                const void *numbers)
{
    size_t bytes = (size_t)n * (type == ONNX_INT64 ? 8 : 4);
    void *copy = arena_alloc(&x->arena, bytes);
    if (!copy) {
        no_memory(x, bytes);
        return "";
    }
    memcpy(copy, numbers, bytes);
    return add_tensor(x, (struct onnx_tensor){.name = name, .type = type, .ndim = ndim, .shape = {n}, .data = copy});
}

const char *onnx_int(struct onnx *x, int64_t number)
{
    return add_constant(x, onnx_name(x, "int_%lld", (long long)number), ONNX_INT64, 0, 1, &number);
}

const char *onnx_real(struct onnx *x, double number)
{
    float f = (float)number;
    return add_constant(x, onnx_name(x, "real_%.9g", (double)f), ONNX_FLOAT, 0, 1, &f);
}

const char *onnx_ints(struct onnx *x, int n, const int64_t *numbers)
{
    const char *name = "ints";
    for (int i = 0; i < n; i++)
        name = onnx_name(x, "%s_%lld", name, (long long)numbers[i]);
    return add_constant(x, name, ONNX_INT64, 1, n, numbers);
}

const char *onnx_list(struct onnx *x, const char *name, enum onnx_type type, int64_t n, const void *numbers)
{
    return add_constant(x, name, type, 1, n, numbers);
}

const char *onnx_weight(struct onnx *x, int id)
{
    const struct value *v = graph_value(x->g, id);
    bool part = v->base && graph_value(x->g, v->base)->group;
    struct onnx_tensor t = {.name = v->name,
                            .type = ONNX_FLOAT,
                            .ndim = v->ndim,
                            .weight = id,
                            .turned = v->ndim == 2 && x->turns[part ? v->base : id]};
    for (int i = 0; i < v->ndim; i++)
        t.shape[i] = v->shape[t.turned ? 1 - i : i].c;
    if (v->role != ROLE_WEIGHT || (v->base && !part) || v->group || !v->name) {
        onnx_fail(x, SNUG_ERR_USAGE, "%s: no ONNX file is written of such a weight", v->name ? v->name : "a value");
        return "";
    }
    return add_tensor(x, t);
}

/* ---- what is made once ---- */

const char *onnx_made(const struct onnx *x, const char *what)
{
    for (size_t i = 0; i < x->n_made; i++)
        if (!strcmp(x->made[i].what, what))
            return x->made[i].name;
    return NULL;
}

const char *onnx_keep(struct onnx *x, const char *what, const char *name)
{
    const char *key = onnx_name(x, "%s", what);
    if (MEM_GROW(x->made, x->cap_made, x->n_made + 1))
        x->made[x->n_made++] = (struct onnx_made){key, name};
    else
        no_memory(x, x->cap_made * sizeof *x->made);
    return name;
}
