#include "data/files/objects/parquet.h"

#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { VALUE_BYTES = 16 }; /* what a value of any kind counts, beside the bytes of its text */

/* ---- values ---- */

/* The decimal bytes of a whole number, the highest first, of two's complement. */
static double big_endian(const uint8_t *b, size_t n)
{
    double x = n && b[0] & 0x80 ? -1 : 0;
    for (size_t i = 0; i < n; i++)
        x = x * 256 + b[i];
    return x;
}

static double decimal(const struct parquet_leaf *leaf, const struct parquet_value *v)
{
    bool whole = leaf->type == PARQUET_INT32 || leaf->type == PARQUET_INT64;
    return (whole ? (double)v->i : big_endian(v->bytes, v->n)) / pow(10, leaf->scale);
}

static double half(const uint8_t *b)
{
    int bits = b[0] | b[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    double x = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return bits >> 15 ? -x : x;
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* From 2^63 on a whole number is no int64. */
static json_t *without_sign(const struct parquet_leaf *leaf, int64_t i)
{
    return leaf->type == PARQUET_INT32 ? json_integer((uint32_t)i)
           : i < 0                     ? json_real((double)(uint64_t)i)
                                       : json_integer(i);
}

static json_t *named(const struct parquet_node *node, int64_t i)
{
    return node->names && i >= 0 && (uint64_t)i < node->n_names ? json_string(node->names[i]) : json_integer(i);
}

static int make_text(const struct parquet *p, const struct parquet_column *c, json_t **out, struct snug_err *err)
{
    const struct parquet_value *v = &c->value;
    size_t bad = utf8_prefix((const char *)v->bytes, v->n);
    if (bad < v->n && !v->bytes[bad])
        return err_at(err, SNUG_ERR_INPUT, p->place, "'%s' has a NUL byte at %zu; remove it", c->leaf->name, bad);
    if (bad < v->n)
        return err_at(err, SNUG_ERR_INPUT, p->place, "'%s' has the byte 0x%02X at %zu, which is not UTF-8; convert it",
                      c->leaf->name, v->bytes[bad], bad);
    *out = json_stringn_nocheck(v->n ? (const char *)v->bytes : "", v->n);
    return *out ? SNUG_OK : err_no_memory(err, v->n);
}

static int make_value(const struct parquet *p, const struct parquet_node *node, const struct parquet_column *c,
                      json_t **out, struct snug_err *err)
{
    const struct parquet_leaf *leaf = c->leaf;
    const struct parquet_value *v = &c->value;
    switch (leaf->meaning) {
    case PARQUET_TEXT:
    case PARQUET_BYTES:
        return make_text(p, c, out, err);
    case PARQUET_TRUTH:
        *out = json_boolean(v->i);
        break;
    case PARQUET_WHOLE:
        *out = named(node, v->i);
        break;
    case PARQUET_UNSIGNED:
        *out = without_sign(leaf, v->i);
        break;
    case PARQUET_REAL:
        *out = real(v->x);
        break;
    case PARQUET_HALF:
        *out = real(half(v->bytes));
        break;
    case PARQUET_DECIMAL:
        *out = real(decimal(leaf, v));
        break;
    }
    return *out ? SNUG_OK : err_no_memory(err, sizeof **out);
}

/* ---- lists and structs ---- */

/* Where a node's values begin: columns below it have to agree. */
struct position {
    int rep; /* of its first value */
    int def; /* of what is around it, and there */
};

static int no_fit(const struct parquet *p, const struct parquet_column *c, struct snug_err *err)
{
    return err_at(err, SNUG_ERR_INPUT, p->place, "the column '%s' does not fit the others; get the file again",
                  c->leaf->name);
}

/* The column has a value there. */
static int check_value(const struct parquet *p, const struct parquet_column *c, struct position at,
                       struct snug_err *err)
{
    return c->ended || c->rep != at.rep || c->def < at.def ? no_fit(p, c, err) : SNUG_OK;
}

/* A node that is null or empty: each column below it says so, at the same level. */
static int pass_over(struct parquet *p, const struct parquet_node *node, struct position at, struct snug_err *err)
{
    int def = p->columns[node->leaf].def;
    for (int i = node->leaf; i < node->leaf + node->n_leaves; i++) {
        TRY(check_value(p, &p->columns[i], at, err));
        if (p->columns[i].def != def)
            return no_fit(p, &p->columns[i], err);
        TRY(parquet_column_next(&p->columns[i], err));
    }
    return SNUG_OK;
}

static int read_node(struct parquet *p, const struct parquet_node *node, struct position at, json_t **out,
                     struct snug_err *err);

static int read_leaf(struct parquet *p, const struct parquet_node *node, json_t **out, struct snug_err *err)
{
    struct parquet_column *c = &p->columns[node->leaf];
    p->row_bytes += VALUE_BYTES + (c->leaf->meaning == PARQUET_TEXT ? c->value.n : 0);
    if (p->row_bytes > SOURCE_ROW_BYTES)
        return err_at(err, SNUG_ERR_INPUT, p->place, "a row of more than %d bytes; split it", SOURCE_ROW_BYTES);
    TRY(make_value(p, node, c, out, err));
    return parquet_column_next(c, err);
}

static int read_list(struct parquet *p, const struct parquet_node *node, struct position at, json_t *list,
                     struct snug_err *err)
{
    const struct parquet_column *c = &p->columns[node->leaf];
    struct position item = {at.rep, node->item_def};
    do {
        json_t *value = NULL;
        int code = read_node(p, node->children, item, &value, err);
        if (json_array_append_new(list, value) && !code)
            code = err_no_memory(err, sizeof value);
        TRY(code);
        item.rep = node->item_rep;
    } while (!c->ended && c->rep == node->item_rep);
    return SNUG_OK;
}

static int read_struct(struct parquet *p, const struct parquet_node *node, struct position at, json_t *object,
                       struct snug_err *err)
{
    for (int i = 0; i < node->n_children; i++) {
        const struct parquet_node *child = &node->children[i];
        json_t *value = NULL;
        if (child->has_bytes)
            continue;
        int code = read_node(p, child, (struct position){at.rep, node->def}, &value, err);
        if (json_object_set_new(object, child->name, value) && !code)
            code = err_no_memory(err, strlen(child->name));
        TRY(code);
    }
    return SNUG_OK;
}

static int read_node(struct parquet *p, const struct parquet_node *node, struct position at, json_t **out,
                     struct snug_err *err)
{
    const struct parquet_column *c = &p->columns[node->leaf];
    TRY(check_value(p, c, at, err));
    if (c->def < node->def) {
        *out = json_null();
        return pass_over(p, node, at, err);
    }
    if (node->kind == PARQUET_LEAF)
        return read_leaf(p, node, out, err);
    bool list = node->kind == PARQUET_LIST;
    *out = list ? json_array() : json_object();
    if (!*out)
        return err_no_memory(err, sizeof **out);
    if (list && c->def < node->item_def)
        return pass_over(p, node, at, err);
    return list ? read_list(p, node, at, *out, err) : read_struct(p, node, at, *out, err);
}

/* ---- rows ---- */

static int start_group(struct parquet *p, struct snug_err *err)
{
    const struct parquet_group *g = (const struct parquet_group *)p->footer.groups.items + p->group;
    const struct parquet_chunk *chunks = g->chunks.items;
    if (g->n_rows < 0 || g->chunks.n != (size_t)p->schema.n_leaves)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: row group %zu has %lld rows of %zu columns, where the file has %d columns; get the file again",
            p->input.path, p->group, (long long)g->n_rows, g->chunks.n, p->schema.n_leaves);
    for (int i = 0; i < p->schema.root.n_children; i++) {
        const struct parquet_node *node = &p->schema.root.children[i];
        for (int k = node->leaf; k < node->leaf + node->n_leaves && !node->has_bytes; k++)
            TRY(parquet_column_start(&p->columns[k], &p->input, &p->schema.leaves[k], &chunks[k], (int64_t)p->group,
                                     err));
    }
    p->left = g->n_rows;
    p->group++;
    return SNUG_OK;
}

/* Nothing is left behind its last row. */
static int end_group(struct parquet *p, struct snug_err *err)
{
    for (int i = 0; i < p->schema.n_leaves; i++)
        if (p->columns[i].leaf && !p->columns[i].ended)
            return parquet_column_err(&p->columns[i], err, "has more values than rows; get the file again");
    return SNUG_OK;
}

static int end_file(struct parquet *p, struct snug_err *err)
{
    TRY(source_hash_open(p->input.io, p->input.fd, p->input.path, p->size, NULL, &p->hash, err));
    return source_check_unchanged(p->input.io, p->input.fd, p->input.path, p->size, p->mtime, err);
}

int parquet_next(struct parquet *p, struct snug_err *err)
{
    json_decref(p->row);
    p->row = NULL;
    while (!p->left) {
        if (p->group)
            TRY(end_group(p, err));
        if (p->group == p->footer.groups.n)
            return end_file(p, err);
        TRY(start_group(p, err));
    }
    p->place.n++;
    p->left--;
    p->row_bytes = 0;
    p->row = json_object();
    if (!p->row)
        return err_no_memory(err, sizeof *p->row);
    return read_struct(p, &p->schema.root, (struct position){0, 0}, p->row, err);
}

struct hash128 parquet_hash(const struct parquet *p)
{
    return p->hash;
}

/* ---- opening ---- */

static int open_file(const struct io *io, const char *path, struct parquet *p, struct snug_err *err)
{
    struct stat st;
    TRY(io_open_read(io, path, &p->input.fd, &p->size, err));
    if (io->fstat(io, p->input.fd, &st) < 0)
        return err_errno(err, SNUG_ERR_IO, path, "stat", errno);
    p->mtime = st.st_mtim;
    TRY(parquet_footer_read(io, p->input.fd, path, p->size, &p->footer, err));
    p->input.data_end = p->footer.data_end;
    TRY(parquet_schema_build(&p->footer, path, &p->schema, err));
    TRY(parquet_find_classes(&p->footer, &p->schema, err));
    p->columns = mem_alloc((size_t)p->schema.n_leaves * sizeof *p->columns);
    return p->columns ? SNUG_OK : err_no_memory(err, (size_t)p->schema.n_leaves * sizeof *p->columns);
}

int parquet_open(const struct io *io, const char *path, struct parquet *p, struct snug_err *err)
{
    *p =
        (struct parquet){.input = {.io = io, .path = path, .fd = -1}, .place = {.path = path, .n = -1, .is_row = true}};
    int code = open_file(io, path, p, err);
    if (code)
        parquet_close(p);
    return code;
}

void parquet_close(struct parquet *p)
{
    if (!p->input.io) /* never opened */
        return;
    json_decref(p->row);
    p->row = NULL;
    for (int i = 0; i < p->schema.n_leaves && p->columns; i++)
        parquet_column_free(&p->columns[i]);
    mem_free(p->columns);
    p->columns = NULL;
    parquet_footer_free(&p->footer);
    if (p->input.fd >= 0)
        p->input.io->close(p->input.io, p->input.fd);
    p->input.fd = -1;
}
