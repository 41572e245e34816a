#include "format/parquet/schema.h"

#include "base/str.h"

#include <string.h>

enum { MOST_DEPTH = 32, MOST_WIDTH = 1 << 20, MOST_ELEMENTS = 20000, LONGEST_NAME = 1000 }; /* bytes */

struct building {
    struct parquet_footer *f;
    const char *path;
    struct parquet_schema *s;
    const struct parquet_element *elements;
    size_t n, at; /* elements; the next one */
    int depth;
    struct snug_err *err;
};

/* Where an element stands: what it adds to the levels of its parent. */
struct levels {
    int def, rep;
};

static int damaged(const struct building *b, const char *what)
{
    return err_set(b->err, SNUG_ERR_INPUT, "%s: the schema of the Parquet file %s; get the file again", b->path, what);
}

static bool is_text(struct thrift_text t, const char *s)
{
    return t.n == strlen(s) && !memcmp(t.s, s, t.n);
}

static bool is_group(const struct parquet_element *e)
{
    return e->n_children > 0;
}

/* ---- leaves ---- */

static enum parquet_meaning meaning_of(const struct parquet_element *e)
{
    bool decimal = e->is_decimal || e->converted == CONVERTED_DECIMAL;
    bool text = e->is_string || e->is_enum || e->is_json || e->converted == CONVERTED_UTF8 ||
                e->converted == CONVERTED_ENUM || e->converted == CONVERTED_JSON;
    bool plain_unsigned =
        (e->is_integer && !e->is_signed) || (e->converted >= CONVERTED_UINT_8 && e->converted <= CONVERTED_UINT_64);
    switch ((enum parquet_type)e->type) {
    case PARQUET_BOOLEAN:
        return PARQUET_TRUTH;
    case PARQUET_INT32:
    case PARQUET_INT64:
        return decimal ? PARQUET_DECIMAL : plain_unsigned ? PARQUET_UNSIGNED : PARQUET_WHOLE;
    case PARQUET_FLOAT:
    case PARQUET_DOUBLE:
        return PARQUET_REAL;
    case PARQUET_BYTE_ARRAY:
        return text ? PARQUET_TEXT : decimal ? PARQUET_DECIMAL : PARQUET_BYTES;
    case PARQUET_FIXED:
        return decimal ? PARQUET_DECIMAL : e->is_float16 && e->type_length == 2 ? PARQUET_HALF : PARQUET_BYTES;
    case PARQUET_INT96:
    case PARQUET_TYPES:
        break;
    }
    return PARQUET_BYTES;
}

static int add_leaf(struct building *b, const struct parquet_element *e, struct levels at, const char *name,
                    struct parquet_node *node)
{
    static const size_t widths[PARQUET_TYPES] = {
        [PARQUET_INT32] = 4, [PARQUET_INT64] = 8, [PARQUET_INT96] = 12, [PARQUET_FLOAT] = 4, [PARQUET_DOUBLE] = 8};
    if (e->type < 0 || e->type >= PARQUET_TYPES)
        return damaged(b, "has a column of no type");
    if (e->type == PARQUET_FIXED && (e->type_length < 1 || e->type_length > MOST_WIDTH))
        return damaged(b, "has values of an impossible length");
    int64_t scale = e->is_decimal ? e->logical_scale : e->scale;
    node->kind = PARQUET_LEAF;
    node->n_leaves = 1;
    b->s->leaves[b->s->n_leaves++] =
        (struct parquet_leaf){.name = name,
                              .type = (enum parquet_type)e->type,
                              .width = e->type == PARQUET_FIXED ? (size_t)e->type_length : widths[e->type],
                              .meaning = meaning_of(e),
                              .scale = scale > 0 && scale < 400 ? (int)scale : 0,
                              .max_def = at.def,
                              .max_rep = at.rep};
    node->has_bytes = b->s->leaves[node->leaf].meaning == PARQUET_BYTES;
    return SNUG_OK;
}

/* ---- groups ---- */

static int add(struct building *b, struct levels at, const char *parent, struct parquet_node *node);
static int add_content(struct building *b, const struct parquet_element *e, struct levels at, const char *name,
                       struct parquet_node *node);

static int children_of(struct building *b, struct parquet_node *node, int64_t n)
{
    if (n < 1 || (uint64_t)n > b->n - b->at)
        return damaged(b, "has a group of more columns than there are");
    node->children = arena_alloc(&b->f->arena, (size_t)n * sizeof *node->children);
    node->n_children = (int)n;
    return node->children ? SNUG_OK : err_no_memory(b->err, (size_t)n * sizeof *node->children);
}

static int add_struct(struct building *b, const struct parquet_element *e, struct levels at, const char *name,
                      struct parquet_node *node)
{
    node->kind = PARQUET_STRUCT;
    TRY(children_of(b, node, e->n_children));
    for (int i = 0; i < node->n_children; i++) {
        TRY(add(b, at, name, &node->children[i]));
        node->has_bytes |= node->children[i].has_bytes;
    }
    return SNUG_OK;
}

/* The repeated group of a list holds each item alone, but in files of old writers it is the item. */
static bool is_item(const struct building *b, const struct parquet_element *repeated, struct thrift_text list)
{
    const struct parquet_element *child = b->at + 1 < b->n ? &b->elements[b->at + 1] : NULL;
    size_t n = list.n;
    bool tuple =
        repeated->name.n == n + 6 && !memcmp(repeated->name.s, list.s, n) && !memcmp(repeated->name.s + n, "_tuple", 6);
    return repeated->n_children != 1 || is_text(repeated->name, "array") || tuple || !child ||
           child->repetition == PARQUET_REPEATED;
}

/* A list whose repeated element is the next one; `list` is the name of what is around it. */
static int add_items(struct building *b, struct thrift_text list, struct levels at, const char *name,
                     struct parquet_node *node)
{
    const struct parquet_element *e = &b->elements[b->at];
    struct levels in = {at.def + 1, at.rep + 1};
    bool wrapped = is_group(e) && !is_item(b, e, list);
    node->kind = PARQUET_LIST;
    node->item_def = in.def;
    node->item_rep = in.rep;
    TRY(children_of(b, node, 1));
    struct parquet_node *item = node->children;
    const char *below = arena_printf(&b->f->arena, "%s.%.*s", name, (int)e->name.n, e->name.s);
    if (!below)
        return err_no_memory(b->err, strlen(name) + e->name.n);
    b->at++;
    if (wrapped) {
        TRY(add(b, in, below, item));
    } else {
        *item = (struct parquet_node){.name = "", .def = in.def, .leaf = b->s->n_leaves};
        TRY(add_content(b, e, in, below, item));
        item->n_leaves = b->s->n_leaves - item->leaf;
    }
    node->has_bytes = item->has_bytes;
    return SNUG_OK;
}

static bool is_list(const struct building *b, const struct parquet_element *e)
{
    bool list = e->is_list || e->is_map || e->converted == CONVERTED_LIST || e->converted == CONVERTED_MAP ||
                e->converted == CONVERTED_MAP_KEY_VALUE;
    return list && e->n_children == 1 && b->at < b->n && b->elements[b->at].repetition == PARQUET_REPEATED;
}

/* What element e is, whose levels are known and which has been gone past. */
static int add_content(struct building *b, const struct parquet_element *e, struct levels at, const char *name,
                       struct parquet_node *node)
{
    return !is_group(e)    ? add_leaf(b, e, at, name, node)
           : is_list(b, e) ? add_items(b, e->name, at, name, node)
                           : add_struct(b, e, at, name, node);
}

static int add_named(struct building *b, struct levels at, const char *parent, struct parquet_node *node)
{
    const struct parquet_element *e = &b->elements[b->at];
    if (e->name.n > LONGEST_NAME || utf8_prefix(e->name.s, e->name.n) < e->name.n)
        return damaged(b, "has a name that is too long, or not UTF-8");
    if (e->repetition < PARQUET_REQUIRED || e->repetition > PARQUET_REPEATED)
        return damaged(b, "does not say which columns may be null");
    bool repeated = e->repetition == PARQUET_REPEATED; /* without a list around it */
    at.def += e->repetition == PARQUET_OPTIONAL;
    *node = (struct parquet_node){.def = at.def, .leaf = b->s->n_leaves};
    node->name = arena_strndup(&b->f->arena, e->name.s, e->name.n);
    const char *name = arena_printf(&b->f->arena, "%s%s%.*s", parent, *parent ? "." : "", (int)e->name.n, e->name.s);
    if (!node->name || !name)
        return err_no_memory(b->err, e->name.n);
    if (repeated) {
        TRY(add_items(b, (struct thrift_text){"", 0}, at, parent, node));
    } else {
        b->at++;
        TRY(add_content(b, e, at, name, node));
    }
    node->n_leaves = b->s->n_leaves - node->leaf;
    return SNUG_OK;
}

static int add(struct building *b, struct levels at, const char *parent, struct parquet_node *node)
{
    if (b->at == b->n)
        return damaged(b, "has a group of more columns than there are");
    if (++b->depth > MOST_DEPTH)
        return damaged(b, "is nested too deep");
    int code = add_named(b, at, parent, node);
    b->depth--;
    return code;
}

int parquet_schema_build(struct parquet_footer *f, const char *path, struct parquet_schema *s, struct snug_err *err)
{
    struct building b = {.f = f, .path = path, .s = s, .elements = f->schema.items, .n = f->schema.n, .err = err};
    *s = (struct parquet_schema){.root = {.name = ""}};
    if (b.n < 2)
        return err_set(err, SNUG_ERR_INPUT, "%s: a Parquet file without columns; give some data", path);
    if (b.n > MOST_ELEMENTS)
        return err_set(err, SNUG_ERR_INPUT, "%s: %zu columns are over the limit of %d; write those that are needed",
                       path, b.n, MOST_ELEMENTS);
    s->leaves = arena_alloc(&f->arena, b.n * sizeof *s->leaves);
    if (!s->leaves)
        return err_no_memory(err, b.n * sizeof *s->leaves);
    b.at = 1;
    TRY(add_struct(&b, &b.elements[0], (struct levels){0, 0}, "", &s->root));
    s->root.n_leaves = s->n_leaves;
    return b.at == b.n ? SNUG_OK : damaged(&b, "has more columns than its groups");
}
