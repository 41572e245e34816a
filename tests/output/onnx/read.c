#include "read.h"
#include "../../folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A message, or what is left of one. */
struct bytes {
    const unsigned char *at;
    size_t n;
};

struct field {
    int number, kind;
    uint64_t x; /* kinds 0 and 5 */
    struct bytes bytes;
};

static uint64_t take_varint(struct bytes *b)
{
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(b->n > 0 && shift < 64);
        unsigned char c = *b->at++;
        b->n--;
        x |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return x;
    }
}

static bool take(struct bytes *b, struct field *f)
{
    if (!b->n)
        return false;
    uint64_t key = take_varint(b);
    *f = (struct field){.number = (int)(key >> 3), .kind = (int)(key & 7)};
    if (f->kind == 0) {
        f->x = take_varint(b);
        return true;
    }
    assert_true(f->kind == 2 || f->kind == 5);
    size_t n = f->kind == 5 ? 4 : take_varint(b);
    assert_true(n <= b->n);
    f->bytes = (struct bytes){b->at, n};
    if (f->kind == 5)
        f->x = b->at[0] | (uint64_t)b->at[1] << 8 | (uint64_t)b->at[2] << 16 | (uint64_t)b->at[3] << 24;
    b->at += n;
    b->n -= n;
    return true;
}

static void to_text(char *to, size_t room, struct bytes b)
{
    assert_true(b.n < room);
    memcpy(to, b.at, b.n);
    to[b.n] = 0;
}

static double to_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

/* ---- nodes ---- */

static void read_attr(struct bytes b, struct operation *o)
{
    struct field f;
    int type = 0, kinds[] = {[1] = 2, [2] = 3, [7] = 8}, has = 0;
    assert_false(o->has_attr);
    o->has_attr = true;
    while (take(&b, &f)) {
        if (f.number == 1)
            to_text(o->attr, sizeof o->attr, f.bytes);
        if (f.number == 2)
            o->f = to_float(f.x);
        if (f.number == 3)
            o->i = (int64_t)f.x;
        if (f.number == 8) {
            assert_true(o->n_ints < RANK);
            o->ints[o->n_ints++] = (int64_t)f.x;
        }
        if (f.number == 20)
            type = (int)f.x;
        else if (f.number != 1)
            has = f.number;
    }
    assert_true(type == 1 || type == 2 || type == 7);
    assert_int_equal(has, kinds[type]);
}

static void read_node(struct bytes b, struct operation *o)
{
    struct field f;
    while (take(&b, &f)) {
        if (f.number == 1) {
            assert_true(o->n_in < INPUTS);
            to_text(o->in[o->n_in++], NAME, f.bytes);
        } else if (f.number == 2) {
            assert_true(o->n_out < OUTPUTS);
            to_text(o->out[o->n_out++], NAME, f.bytes);
        } else if (f.number == 4) {
            to_text(o->op, sizeof o->op, f.bytes);
        } else if (f.number == 5) {
            read_attr(f.bytes, o);
        } else {
            assert_int_equal(f.number, 3);
        }
    }
    assert_true(o->op[0] && o->n_out);
}

/* ---- tensors ---- */

static void take_numbers(struct array *t, const unsigned char *raw, size_t bytes)
{
    assert_true(t->type == FLOAT || t->type == INT64);
    assert_int_equal(bytes, (size_t)t->n * (t->type == FLOAT ? 4 : 8));
    t->x = malloc((size_t)t->n * sizeof *t->x + 1);
    for (int64_t i = 0; i < t->n; i++) {
        if (t->type == FLOAT) {
            float x;
            memcpy(&x, raw + 4 * i, sizeof x);
            t->x[i] = (double)x;
        } else {
            int64_t x;
            memcpy(&x, raw + 8 * i, sizeof x);
            t->x[i] = (double)x;
        }
    }
}

static void read_entry(struct bytes b, int64_t *offset, int64_t *length)
{
    char key[40] = "", value[40] = "";
    struct field f;
    while (take(&b, &f))
        to_text(f.number == 1 ? key : value, 40, f.bytes);
    if (!strcmp(key, "location"))
        assert_string_equal(value, "model.onnx_data");
    else if (!strcmp(key, "offset"))
        *offset = atoll(value);
    else if (!strcmp(key, "length"))
        *length = atoll(value);
    else
        fail_msg("%s", key);
}

static void read_tensor(struct bytes b, struct array *t, struct bytes beside)
{
    struct bytes raw = {0};
    int64_t offset = -1, length = -1;
    struct field f;
    t->n = 1;
    while (take(&b, &f)) {
        if (f.number == 1) {
            assert_true(t->rank < RANK);
            t->shape[t->rank++] = (int64_t)f.x;
            t->n *= (int64_t)f.x;
        } else if (f.number == 2) {
            t->type = (int)f.x;
        } else if (f.number == 8) {
            to_text(t->name, NAME, f.bytes);
        } else if (f.number == 9) {
            raw = f.bytes;
        } else if (f.number == 13) {
            read_entry(f.bytes, &offset, &length);
        } else {
            assert_int_equal(f.number, 14);
            assert_int_equal(f.x, 1);
            t->beside = true;
        }
    }
    if (t->beside) {
        assert_true(!raw.at && offset >= 0 && offset % 64 == 0 && (size_t)(offset + length) <= beside.n);
        raw = (struct bytes){beside.at + offset, (size_t)length};
    }
    assert_true(t->name[0] && raw.at);
    take_numbers(t, raw.at, raw.n);
}

/* ---- inputs and outputs ---- */

static void read_shape(struct bytes b, struct end *e)
{
    struct field f, size;
    while (take(&b, &f)) {
        assert_int_equal(f.number, 1);
        assert_true(e->rank < RANK);
        assert_true(take(&f.bytes, &size));
        if (size.number == 1)
            e->dim[e->rank] = (int64_t)size.x;
        else
            to_text(e->dim_name[e->rank], sizeof e->dim_name[0], size.bytes);
        e->rank++;
    }
}

static void read_end(struct bytes b, struct end *e)
{
    struct field f, type, part;
    while (take(&b, &f)) {
        if (f.number == 1) {
            to_text(e->name, NAME, f.bytes);
            continue;
        }
        assert_int_equal(f.number, 2);
        assert_true(take(&f.bytes, &type));
        assert_int_equal(type.number, 1); /* a tensor */
        while (take(&type.bytes, &part))
            if (part.number == 1)
                e->type = (int)part.x;
            else
                read_shape(part.bytes, e);
    }
}

/* ---- the file ---- */

static void read_graph(struct bytes b, struct onnx_file *f, struct bytes beside)
{
    struct field part;
    f->nodes = calloc(b.n / 8 + 1, sizeof *f->nodes); /* no node is shorter */
    f->tensors = calloc(b.n / 8 + 1, sizeof *f->tensors);
    while (take(&b, &part)) {
        if (part.number == 1)
            read_node(part.bytes, &f->nodes[f->n_nodes++]);
        else if (part.number == 5)
            read_tensor(part.bytes, &f->tensors[f->n_tensors++], beside);
        else if (part.number == 11 && f->n_inputs < 4)
            read_end(part.bytes, &f->inputs[f->n_inputs++]);
        else if (part.number == 12 && f->n_outputs < 4)
            read_end(part.bytes, &f->outputs[f->n_outputs++]);
        else
            assert_int_equal(part.number, 2);
    }
}

void read_onnx(const char *dir, struct onnx_file *f)
{
    size_t n, n_beside = 0;
    char path[300];
    snprintf(path, sizeof path, "%s/model.onnx_data", dir);
    FILE *there = fopen(path, "rb");
    char *beside = there ? read_text(path, &n_beside) : NULL;
    if (there)
        fclose(there);
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    char *text = read_text(path, &n);
    struct bytes b = {(const unsigned char *)text, n};
    struct field part, of_opset;
    *f = (struct onnx_file){0};
    while (take(&b, &part)) {
        if (part.number == 1)
            f->ir = (int64_t)part.x;
        else if (part.number == 7)
            read_graph(part.bytes, f, (struct bytes){(const unsigned char *)beside, n_beside});
        else if (part.number == 8)
            while (take(&part.bytes, &of_opset))
                f->opset = of_opset.number == 2 ? (int64_t)of_opset.x : f->opset;
    }
    free(text);
    free(beside);
}

void free_onnx(struct onnx_file *f)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        free(f->tensors[i].x);
    free(f->tensors);
    free(f->nodes);
}
