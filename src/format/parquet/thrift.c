#include "format/parquet/thrift.h"

#include "format/parquet/varint.h"

#include <string.h>

enum { MOST_DEPTH = 32 };

/* Types in the protocol. */
enum type { STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, TYPES };

static uint8_t fail(struct thrift *t, bool ended)
{
    t->ended |= ended && !t->failed;
    t->failed = true;
    return 0;
}

static uint8_t read_byte(struct thrift *t)
{
    return t->failed || t->p == t->end ? fail(t, true) : *t->p++;
}

static uint64_t read_varint(struct thrift *t)
{
    uint64_t x;
    return !t->failed && varint_read(&t->p, t->end, &x) ? x : fail(t, t->p == t->end);
}

static int64_t read_zigzag(struct thrift *t)
{
    return zigzag(read_varint(t));
}

static const uint8_t *read_bytes(struct thrift *t, uint64_t n)
{
    if (t->failed || n > (uint64_t)(t->end - t->p)) {
        fail(t, true);
        return NULL;
    }
    t->p += n;
    return t->p - n;
}

/* A header of 4 bits of size and 4 of type. */
static enum type list_header(struct thrift *t, uint64_t *n)
{
    uint8_t byte = read_byte(t);
    *n = byte >> 4 == 15 ? read_varint(t) : byte >> 4;
    if (*n > (uint64_t)(t->end - t->p)) /* an element has a byte at least */
        fail(t, true);
    return byte & 15;
}

/* ---- what nobody wants ---- */

static void skip(struct thrift *t, enum type type, bool in_list);

static void skip_list(struct thrift *t)
{
    uint64_t n;
    enum type type = list_header(t, &n);
    for (uint64_t i = 0; i < n && !t->failed; i++)
        skip(t, type, true);
}

static void skip_map(struct thrift *t)
{
    uint64_t n = read_varint(t);
    uint8_t types = n ? read_byte(t) : 0;
    for (uint64_t i = 0; i < n && !t->failed; i++) {
        skip(t, types >> 4, true);
        skip(t, types & 15, true);
    }
}

/* In a list, a truth value has a byte of its own. */
static void skip(struct thrift *t, enum type type, bool in_list)
{
    static const struct thrift_fields none = {0};
    switch (type) {
    case TRUE:
    case FALSE:
        if (in_list)
            read_byte(t);
        return;
    case BYTE:
        read_byte(t);
        return;
    case I16:
    case I32:
    case I64:
        read_varint(t);
        return;
    case DOUBLE:
        read_bytes(t, 8);
        return;
    case BINARY:
        read_bytes(t, read_varint(t));
        return;
    case LIST:
    case SET:
    case MAP:
        if (++t->depth > MOST_DEPTH)
            fail(t, false);
        else if (type == MAP)
            skip_map(t);
        else
            skip_list(t);
        t->depth--;
        return;
    case STRUCT:
        thrift_struct(t, &none, NULL);
        return;
    case STOP:
    case TYPES:
        break;
    }
    fail(t, false);
}

/* ---- what a table wants ---- */

static void read_list(struct thrift *t, const struct thrift_fields *fields, struct thrift_list *out)
{
    uint64_t n;
    enum type type = list_header(t, &n);
    if (t->failed || type != STRUCT) {
        fail(t, false);
        return;
    }
    char *items = arena_alloc(t->arena, n * fields->item_bytes + 1);
    if (!items) {
        t->no_memory = true;
        fail(t, false);
        return;
    }
    for (uint64_t i = 0; i < n && !t->failed; i++) {
        if (fields->blank)
            memcpy(items + i * fields->item_bytes, fields->blank, fields->item_bytes);
        thrift_struct(t, fields, items + i * fields->item_bytes);
    }
    *out = (struct thrift_list){items, n};
}

/* Which type of the protocol a kind has; whole numbers have several. */
static bool fits(enum thrift_kind kind, enum type type)
{
    static const enum type types[] = {[THRIFT_TEXT] = BINARY, [THRIFT_STRUCT] = STRUCT, [THRIFT_LIST] = LIST};
    return kind == THRIFT_INT       ? type >= BYTE && type <= I64
           : kind == THRIFT_BOOL    ? type == TRUE || type == FALSE
           : kind == THRIFT_PRESENT ? true
                                    : type == types[kind];
}

static void read_field(struct thrift *t, const struct thrift_field *f, enum type type, char *out)
{
    void *to = out + f->offset;
    if (f->kind == THRIFT_INT) {
        *(int64_t *)to = type == BYTE ? (int8_t)read_byte(t) : read_zigzag(t);
    } else if (f->kind == THRIFT_BOOL) {
        *(bool *)to = type == TRUE;
    } else if (f->kind == THRIFT_TEXT) {
        uint64_t n = read_varint(t);
        const uint8_t *s = read_bytes(t, n);
        *(struct thrift_text *)to = (struct thrift_text){s ? (const char *)s : "", s ? n : 0};
    } else if (f->kind == THRIFT_STRUCT) {
        thrift_struct(t, f->fields, out);
    } else if (f->kind == THRIFT_LIST) {
        read_list(t, f->fields, to);
    } else {
        *(bool *)to = true;
        skip(t, type, false);
    }
}

static const struct thrift_field *find(const struct thrift_fields *fields, int64_t id, enum type type)
{
    for (size_t i = 0; i < fields->n; i++)
        if (fields->rows[i].id == id && fits(fields->rows[i].kind, type))
            return &fields->rows[i];
    return NULL;
}

bool thrift_struct(struct thrift *t, const struct thrift_fields *fields, void *out)
{
    if (++t->depth > MOST_DEPTH)
        fail(t, false);
    for (int64_t id = 0; !t->failed;) {
        uint8_t byte = read_byte(t);
        enum type type = byte & 15;
        if (t->failed || type == STOP)
            break;
        id = byte >> 4 ? id + (byte >> 4) : read_zigzag(t);
        if (id < 0 || id > INT16_MAX) {
            fail(t, false);
            break;
        }
        const struct thrift_field *f = find(fields, id, type);
        if (f)
            read_field(t, f, type, out);
        else
            skip(t, type, false);
    }
    t->depth--;
    return !t->failed;
}
