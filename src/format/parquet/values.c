#include "format/parquet/values.h"

#include <string.h>

typedef bool begin_fn(struct parquet_values *v);
typedef bool next_fn(struct parquet_values *v, struct parquet_value *value);

struct parquet_encoding {
    int number;
    const char *name;
    unsigned types; /* bits of enum parquet_type */
    begin_fn *begin;
    next_fn *next;
};

static size_t left(const struct parquet_values *v)
{
    return (size_t)(v->end - v->p);
}

static uint64_t little(const uint8_t *b, size_t n)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++)
        x |= (uint64_t)b[i] << (8 * i);
    return x;
}

/* ---- PLAIN, BYTE_STREAM_SPLIT ---- */

/* What a value of a fixed size is. */
static void take(enum parquet_type type, const uint8_t *b, size_t width, struct parquet_value *value)
{
    uint64_t bits = width <= 8 ? little(b, width) : 0;
    float x;
    *value = (struct parquet_value){.n = width};
    if (type == PARQUET_INT32) {
        value->i = (int32_t)bits;
    } else if (type == PARQUET_INT64) {
        value->i = (int64_t)bits;
    } else if (type == PARQUET_DOUBLE) {
        memcpy(&value->x, &bits, sizeof value->x);
    } else if (type == PARQUET_FLOAT) {
        memcpy(&x, &(uint32_t){(uint32_t)bits}, sizeof x);
        value->x = (double)x;
    } else {
        value->bytes = b;
    }
}

static bool plain_begin(struct parquet_values *v)
{
    (void)v;
    return true;
}

static bool plain_next(struct parquet_values *v, struct parquet_value *value)
{
    size_t n = v->width;
    uint64_t bit;
    if (v->type == PARQUET_BOOLEAN) {
        bool there = unpack_bits(&v->p, v->end, &v->bit, 1, &bit);
        *value = (struct parquet_value){.i = (int64_t)bit};
        return there;
    }
    if (v->type == PARQUET_BYTE_ARRAY) {
        if (left(v) < 4)
            return false;
        n = (size_t)little(v->p, 4);
        v->p += 4;
    }
    if (left(v) < n)
        return false;
    take(v->type, v->p, n, value);
    v->p += n;
    return true;
}

/* All first bytes, then all second ones, …: what is not there is not counted, so the bytes say how many there are. */
static bool split_begin(struct parquet_values *v)
{
    v->i = 0;
    v->n = left(v) / v->width;
    v->no_memory = !MEM_GROW(v->text, v->text_cap, v->width);
    return left(v) % v->width == 0 && !v->no_memory;
}

static bool split_next(struct parquet_values *v, struct parquet_value *value)
{
    if (v->i == v->n)
        return false;
    for (size_t k = 0; k < v->width; k++)
        v->text[k] = (char)v->p[k * v->n + v->i];
    v->i++;
    take(v->type, (const uint8_t *)v->text, v->width, value);
    return true;
}

/* ---- places in a dictionary, RLE ---- */

static bool places_begin(struct parquet_values *v)
{
    if (!left(v)) { /* no value but nulls */
        hybrid_start(&v->hybrid, v->p, 0, 0);
        return true;
    }
    int width = *v->p;
    hybrid_start(&v->hybrid, v->p + 1, left(v) - 1, width);
    return width <= HYBRID_WIDTH;
}

static bool places_next(struct parquet_values *v, struct parquet_value *value)
{
    uint32_t i;
    if (!hybrid_next(&v->hybrid, &i) || i >= v->dictionary.n)
        return false;
    *value = v->dictionary.items[i];
    return true;
}

static bool truths_begin(struct parquet_values *v)
{
    size_t n = left(v) >= 4 ? (size_t)little(v->p, 4) : 0;
    if (left(v) < 4 || n > left(v) - 4)
        return false;
    hybrid_start(&v->hybrid, v->p + 4, n, 1);
    return true;
}

static bool truths_next(struct parquet_values *v, struct parquet_value *value)
{
    uint32_t x;
    bool there = hybrid_next(&v->hybrid, &x);
    *value = (struct parquet_value){.i = x};
    return there;
}

/* ---- DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY ---- */

static bool numbers_begin(struct parquet_values *v)
{
    return delta_start(&v->numbers, v->p, left(v));
}

static bool numbers_next(struct parquet_values *v, struct parquet_value *value)
{
    int64_t x;
    if (!delta_next(&v->numbers, &x))
        return false;
    *value = (struct parquet_value){.i = v->type == PARQUET_INT32 ? (int32_t)x : x};
    return true;
}

/* Lengths, then bytes. */
static bool lengths_begin(struct parquet_values *v)
{
    if (!delta_start(&v->numbers, v->p, left(v)))
        return false;
    v->p = delta_behind(v->numbers);
    return v->p;
}

static bool lengths_next(struct parquet_values *v, struct parquet_value *value)
{
    int64_t n;
    if (!delta_next(&v->numbers, &n) || n < 0 || (uint64_t)n > left(v))
        return false;
    *value = (struct parquet_value){.bytes = v->p, .n = (size_t)n};
    v->p += n;
    return true;
}

/* How many bytes of the value before begin each value, then what follows them. */
static bool prefixes_begin(struct parquet_values *v)
{
    v->text_n = 0;
    if (!delta_start(&v->prefixes, v->p, left(v)))
        return false;
    v->p = delta_behind(v->prefixes);
    return v->p && lengths_begin(v);
}

static bool prefixes_next(struct parquet_values *v, struct parquet_value *value)
{
    int64_t n;
    struct parquet_value more;
    if (!delta_next(&v->prefixes, &n) || n < 0 || (uint64_t)n > v->text_n || !lengths_next(v, &more))
        return false;
    v->no_memory = !MEM_GROW(v->text, v->text_cap, (size_t)n + more.n + 1);
    if (v->no_memory)
        return false;
    if (more.n)
        memcpy(v->text + n, more.bytes, more.n);
    v->text_n = (size_t)n + more.n;
    *value = (struct parquet_value){.bytes = (const uint8_t *)v->text, .n = v->text_n};
    return v->type != PARQUET_FIXED || v->text_n == v->width;
}

/* ---- the table ---- */

enum {
    ANY = (1 << PARQUET_TYPES) - 1,
    TRUTHS = 1 << PARQUET_BOOLEAN,
    WHOLE = 1 << PARQUET_INT32 | 1 << PARQUET_INT64,
    REAL = 1 << PARQUET_FLOAT | 1 << PARQUET_DOUBLE,
    TEXTS = 1 << PARQUET_BYTE_ARRAY,
    FIXED = 1 << PARQUET_FIXED,
};

static const struct parquet_encoding encodings[] = {
    {0, "PLAIN", ANY, plain_begin, plain_next},
    {2, "PLAIN_DICTIONARY", ANY, places_begin, places_next},
    {3, "RLE", TRUTHS, truths_begin, truths_next},
    {4, "BIT_PACKED", 0, NULL, NULL}, /* of levels, in very old files */
    {5, "DELTA_BINARY_PACKED", WHOLE, numbers_begin, numbers_next},
    {6, "DELTA_LENGTH_BYTE_ARRAY", TEXTS, lengths_begin, lengths_next},
    {7, "DELTA_BYTE_ARRAY", TEXTS | FIXED, prefixes_begin, prefixes_next},
    {8, "RLE_DICTIONARY", ANY, places_begin, places_next},
    {9, "BYTE_STREAM_SPLIT", WHOLE | REAL | FIXED, split_begin, split_next},
};

const struct parquet_encoding *parquet_encoding(int64_t number)
{
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (encodings[i].number == number)
            return &encodings[i];
    return NULL;
}

const char *parquet_encoding_name(const struct parquet_encoding *e)
{
    return e->name;
}

bool parquet_encoding_is_dictionary(const struct parquet_encoding *e)
{
    return e->begin == places_begin;
}

bool parquet_values_start(struct parquet_values *v, const struct parquet_encoding *e, const uint8_t *bytes, size_t n)
{
    v->encoding = e;
    v->p = bytes;
    v->end = bytes + n;
    v->bit = 0;
    return e->types >> v->type & 1 && e->begin(v);
}

bool parquet_values_next(struct parquet_values *v, struct parquet_value *value)
{
    return v->encoding->next(v, value);
}

void parquet_values_free(struct parquet_values *v)
{
    mem_free(v->text);
    v->text = NULL;
    v->text_cap = 0;
}
