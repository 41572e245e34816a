/* Numbers of fields are those of onnx.proto (github.com/onnx/onnx, IR version 8). */
#include "output/onnx/write.h"

#include "format/protobuf.h"

#include <stdio.h>
#include <string.h>

void onnx_put_before(struct str *m)
{
    struct str opset = {0};
    proto_number(m, 1, ONNX_IR);
    proto_text(m, 2, "snug");
    proto_text(m, 3, SNUG_VERSION);
    proto_text(&opset, 1, "");
    proto_number(&opset, 2, ONNX_OPSET);
    proto_message(m, 8, &opset);
}

static void put_attr(struct str *node, const struct onnx_attr *a)
{
    struct str m = {0};
    proto_text(&m, 1, a->name);
    if (a->kind == ONNX_ATTR_FLOAT)
        proto_float(&m, 2, (float)a->real);
    if (a->kind == ONNX_ATTR_INT)
        proto_number(&m, 3, a->x[0]);
    for (int i = 0; a->kind == ONNX_ATTR_INTS && i < a->n; i++)
        proto_number(&m, 8, a->x[i]);
    proto_number(&m, 20, a->kind);
    proto_message(node, 5, &m);
}

void onnx_put_nodes(struct str *m, const struct onnx *x)
{
    for (size_t i = 0; i < x->n_nodes; i++) {
        const struct onnx_node *n = &x->nodes[i];
        struct str node = {0};
        for (int k = 0; k < ONNX_INPUTS && n->in[k]; k++)
            proto_text(&node, 1, n->in[k]);
        for (int k = 0; k < ONNX_OUTPUTS && n->out[k]; k++)
            proto_text(&node, 2, n->out[k]);
        proto_text(&node, 3, n->name);
        proto_text(&node, 4, n->op);
        if (n->attr.kind)
            put_attr(&node, &n->attr);
        proto_message(m, 1, &node);
    }
    proto_text(m, 2, x->c->arch->model_type);
}

static void put_end(struct str *m, int field, const struct onnx_end *e)
{
    struct str info = {0}, type = {0}, tensor = {0}, shape = {0};
    for (int i = 0; i < e->ndim; i++) {
        struct str dim = {0};
        if (e->shape[i] > 0)
            proto_number(&dim, 1, e->shape[i]);
        else
            proto_text(&dim, 2, onnx_size_names[-e->shape[i]]);
        proto_message(&shape, 1, &dim);
    }
    proto_number(&tensor, 1, e->type);
    proto_message(&tensor, 2, &shape);
    proto_message(&type, 1, &tensor);
    proto_text(&info, 1, e->name);
    proto_message(&info, 2, &type);
    proto_message(m, field, &info);
}

void onnx_put_ends(struct str *m, const struct onnx *x)
{
    for (int i = 0; i < x->n_inputs; i++)
        put_end(m, 11, &x->inputs[i]);
    for (int i = 0; i < x->n_outputs; i++)
        put_end(m, 12, &x->outputs[i]);
}

static void put_entry(struct str *m, const char *key, const char *value)
{
    struct str entry = {0};
    proto_text(&entry, 1, key);
    proto_text(&entry, 2, value);
    proto_message(m, 13, &entry);
}

void onnx_put_tensor(struct str *m, const struct onnx_tensor *t)
{
    char number[24];
    for (int i = 0; i < t->ndim; i++)
        proto_number(m, 1, t->shape[i]);
    proto_number(m, 2, t->type);
    proto_text(m, 8, t->name);
    if (t->at < 0) {
        proto_key(m, 9, PROTO_BYTES);
        proto_varint(m, (uint64_t)t->bytes);
        return;
    }
    put_entry(m, "location", ONNX_FILE_BESIDE);
    snprintf(number, sizeof number, "%lld", (long long)t->at);
    put_entry(m, "offset", number);
    snprintf(number, sizeof number, "%lld", (long long)t->bytes);
    put_entry(m, "length", number);
    proto_number(m, 14, 1);
}
