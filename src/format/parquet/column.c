#include "format/parquet/column.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define AGAIN "; get the file again"
enum { HEADER_BYTES = 4096, MOST_HEADER_BYTES = 16 << 20 };

int parquet_column_err(const struct parquet_column *c, struct snug_err *err, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return err_set(err, SNUG_ERR_INPUT, "%s: row group %lld, column '%s': %s", c->input->path, (long long)c->group,
                   c->leaf->name, text);
}

/* ---- a page as it was stored ---- */

/* Most headers are short. Statistics in them may be long, as texts are. */
static int read_header(struct parquet_column *c, struct parquet_page *page, struct snug_err *err)
{
    size_t header_bytes;
    bool more = true;
    for (size_t n = HEADER_BYTES; more && n <= MOST_HEADER_BYTES; n *= 4) {
        int64_t left = c->end - c->at;
        size_t room = left < (int64_t)n ? (size_t)left : n;
        if (!MEM_GROW(c->stored, c->stored_cap, room + 1))
            return err_no_memory(err, room);
        TRY(io_read_at(c->input->io, c->input->fd, c->input->path, c->stored, room, c->at, err));
        if (parquet_page_read(c->stored, room, page, &header_bytes, &more)) {
            c->at += (int64_t)header_bytes;
            return SNUG_OK;
        }
        if (room < n)
            break;
    }
    return parquet_column_err(c, err, "no header of a page at offset %lld" AGAIN, (long long)c->at);
}

static int check_header(const struct parquet_column *c, const struct parquet_page *page, struct snug_err *err)
{
    if (page->stored_bytes < 0 || page->stored_bytes > c->end - c->at || page->bytes < 0)
        return parquet_column_err(c, err, "a page of %lld bytes at offset %lld, where the column ends at %lld" AGAIN,
                                  (long long)page->stored_bytes, (long long)c->at, (long long)c->end);
    if (page->bytes > PARQUET_PAGE_BYTES || page->stored_bytes > PARQUET_PAGE_BYTES)
        return parquet_column_err(c, err, "a page of %lld bytes is over the limit of %d; write smaller pages",
                                  (long long)page->bytes, PARQUET_PAGE_BYTES);
    return SNUG_OK;
}

static int read_stored(struct parquet_column *c, const struct parquet_page *page, struct snug_err *err)
{
    size_t n = (size_t)page->stored_bytes;
    if (!MEM_GROW(c->stored, c->stored_cap, n + 1))
        return err_no_memory(err, n);
    TRY(io_read_at(c->input->io, c->input->fd, c->input->path, c->stored, n, c->at, err));
    if (page->crc != PARQUET_NO_CRC && (uint32_t)page->crc != (uint32_t)crc32(0, c->stored, (uInt)n))
        return parquet_column_err(c, err, "the page at offset %lld has another checksum than its header says" AGAIN,
                                  (long long)c->at);
    c->at += page->stored_bytes;
    return SNUG_OK;
}

/* The first `plain` bytes are not compressed. */
static int unpack(struct parquet_column *c, const struct parquet_page *page, size_t plain, uint8_t **out, size_t *cap,
                  struct snug_err *err)
{
    size_t n = (size_t)page->stored_bytes, size = (size_t)page->bytes;
    const struct parquet_codec *codec = page->compressed ? c->codec : parquet_codec(0);
    if (plain > n || plain > size)
        return parquet_column_err(c, err, "levels of %zu bytes in a page of %zu" AGAIN, plain, n < size ? n : size);
    if (!MEM_GROW(*out, *cap, size + 1))
        return err_no_memory(err, size);
    memcpy(*out, c->stored, plain);
    if (size == plain) /* nothing but nulls */
        return SNUG_OK;
    if (!codec->unpack(c->stored + plain, n - plain, *out + plain, size - plain))
        return parquet_column_err(c, err, "the page before offset %lld is no %zu bytes of %s" AGAIN, (long long)c->at,
                                  size, codec->name);
    return SNUG_OK;
}

/* ---- what is in it ---- */

static int find_encoding(const struct parquet_column *c, int64_t number, const struct parquet_encoding **e,
                         struct snug_err *err)
{
    *e = parquet_encoding(number);
    return *e ? SNUG_OK
              : parquet_column_err(c, err, "encoding %lld is not known here; write it as PLAIN", (long long)number);
}

static int start_values(struct parquet_column *c, int64_t number, const uint8_t *bytes, size_t n, struct snug_err *err)
{
    const struct parquet_encoding *e;
    TRY(find_encoding(c, number, &e, err));
    if (parquet_encoding_is_dictionary(e) && !c->values.dictionary.items)
        return parquet_column_err(c, err, "values from a dictionary that is not there" AGAIN);
    if (parquet_values_start(&c->values, e, bytes, n))
        return SNUG_OK;
    return c->values.no_memory ? err_no_memory(err, n)
                               : parquet_column_err(c, err, "a page that is not in %s, as its header says" AGAIN,
                                                    parquet_encoding_name(e));
}

static int read_dictionary(struct parquet_column *c, const struct parquet_page *page, struct snug_err *err)
{
    TRY(unpack(c, page, 0, &c->dictionary_page, &c->dictionary_page_cap, err));
    struct parquet_values v = {.type = c->leaf->type, .width = c->leaf->width};
    size_t n = page->n_values > 0 ? (size_t)page->n_values : 0, least = v.width ? v.width : 4;
    if (page->n_values < 0 || v.type == PARQUET_BOOLEAN || n > (size_t)page->bytes / least)
        return parquet_column_err(c, err, "a dictionary of %lld values in %lld bytes" AGAIN, (long long)page->n_values,
                                  (long long)page->bytes);
    if (page->encoding != 0 && page->encoding != 2)
        return parquet_column_err(c, err, "a dictionary in encoding %lld, not PLAIN" AGAIN, (long long)page->encoding);
    if (!MEM_GROW(c->dictionary, c->dictionary_cap, n + 1))
        return err_no_memory(err, n * sizeof *c->dictionary);
    parquet_values_start(&v, parquet_encoding(0), c->dictionary_page, (size_t)page->bytes);
    for (size_t i = 0; i < n; i++)
        if (!parquet_values_next(&v, &c->dictionary[i]))
            return parquet_column_err(c, err, "the dictionary ends within value %zu of %zu" AGAIN, i, n);
    c->values.dictionary = (struct parquet_dictionary){c->dictionary, n};
    return SNUG_OK;
}

static int bits_of(int most)
{
    int bits = 0;
    while (most >> bits)
        bits++;
    return bits;
}

/* Levels of version 1, behind their length; *at moves behind them. */
static int levels_v1(const struct parquet_column *c, int64_t encoding, int most, size_t size, size_t *at,
                     struct hybrid *h, struct snug_err *err)
{
    enum { RLE = 3 };
    const uint8_t *b = c->page + *at;
    if (!most)
        return SNUG_OK;
    if (encoding != RLE)
        return parquet_column_err(c, err, "levels in encoding %lld, not RLE; write the file anew", (long long)encoding);
    size_t left = size - *at, n = left >= 4 ? b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24 : 0;
    if (left < 4 || n > left - 4)
        return parquet_column_err(c, err, "levels of %zu bytes in a page of %zu" AGAIN, n, size);
    hybrid_start(h, b + 4, n, bits_of(most));
    *at += 4 + n;
    return SNUG_OK;
}

static int read_v1(struct parquet_column *c, const struct parquet_page *page, struct snug_err *err)
{
    size_t size = (size_t)page->bytes, at = 0;
    TRY(unpack(c, page, 0, &c->page, &c->page_cap, err));
    TRY(levels_v1(c, page->rep_encoding, c->leaf->max_rep, size, &at, &c->reps, err));
    TRY(levels_v1(c, page->def_encoding, c->leaf->max_def, size, &at, &c->defs, err));
    return start_values(c, page->encoding, c->page + at, size - at, err);
}

static int read_v2(struct parquet_column *c, const struct parquet_page *page, struct snug_err *err)
{
    int64_t reps = page->rep_bytes, defs = page->def_bytes;
    if (reps < 0 || defs < 0 || reps > PARQUET_PAGE_BYTES || defs > PARQUET_PAGE_BYTES)
        return parquet_column_err(c, err, "levels of %lld and %lld bytes" AGAIN, (long long)reps, (long long)defs);
    size_t plain = (size_t)(reps + defs);
    TRY(unpack(c, page, plain, &c->page, &c->page_cap, err));
    hybrid_start(&c->reps, c->page, (size_t)reps, bits_of(c->leaf->max_rep));
    hybrid_start(&c->defs, c->page + reps, (size_t)defs, bits_of(c->leaf->max_def));
    return start_values(c, page->encoding, c->page + plain, (size_t)page->bytes - plain, err);
}

static int read_data(struct parquet_column *c, const struct parquet_page *page, struct snug_err *err)
{
    if (page->n_values < 0 || page->n_values > c->n_chunk)
        return parquet_column_err(c, err, "a page of %lld values, where %lld are left" AGAIN, (long long)page->n_values,
                                  (long long)c->n_chunk);
    c->n_page = page->n_values;
    c->n_chunk -= page->n_values;
    if (!c->n_page)
        return SNUG_OK;
    return page->type == PARQUET_DATA_PAGE ? read_v1(c, page, err) : read_v2(c, page, err);
}

static int read_page(struct parquet_column *c, struct snug_err *err)
{
    struct parquet_page page;
    if (c->at >= c->end)
        return parquet_column_err(c, err, "its pages end %lld values too early" AGAIN, (long long)c->n_chunk);
    TRY(read_header(c, &page, err));
    TRY(check_header(c, &page, err));
    TRY(read_stored(c, &page, err));
    return page.type == PARQUET_DICTIONARY_PAGE                                  ? read_dictionary(c, &page, err)
           : page.type == PARQUET_DATA_PAGE || page.type == PARQUET_DATA_PAGE_V2 ? read_data(c, &page, err)
                                                                                 : SNUG_OK;
}

/* ---- the column ---- */

static int check_chunk(struct parquet_column *c, const struct parquet_chunk *chunk, struct snug_err *err)
{
    int64_t first = chunk->dictionary_page > 0 && chunk->dictionary_page < chunk->data_page ? chunk->dictionary_page
                                                                                            : chunk->data_page;
    c->codec = parquet_codec(chunk->codec);
    c->n_chunk = chunk->n_values;
    if (chunk->encrypted)
        return parquet_column_err(c, err, "is encrypted; write it without encryption");
    if (chunk->file.n)
        return parquet_column_err(c, err, "its values are in another file; give the files with the rows");
    if (chunk->type != (int64_t)c->leaf->type || chunk->n_values < 0)
        return parquet_column_err(c, err, "type %lld and %lld values, where the schema says type %d" AGAIN,
                                  (long long)chunk->type, (long long)chunk->n_values, (int)c->leaf->type);
    if (!c->codec)
        return parquet_column_err(c, err, "compression %lld is not known here; write it with snappy or zstd",
                                  (long long)chunk->codec);
    if (!c->codec->unpack)
        return parquet_column_err(c, err, "compression %s is not read; write it with snappy or zstd", c->codec->name);
    if (!chunk->n_values) /* where its pages would begin means nothing */
        return SNUG_OK;
    if (first < 4 || chunk->bytes < 0 || first > c->input->data_end || chunk->bytes > c->input->data_end - first)
        return parquet_column_err(c, err, "%lld bytes at offset %lld, where the data end at %lld" AGAIN,
                                  (long long)chunk->bytes, (long long)first, (long long)c->input->data_end);
    c->at = first;
    c->end = first + chunk->bytes;
    return SNUG_OK;
}

int parquet_column_start(struct parquet_column *c, const struct parquet_input *input, const struct parquet_leaf *leaf,
                         const struct parquet_chunk *chunk, int64_t group, struct snug_err *err)
{
    c->input = input;
    c->leaf = leaf;
    c->group = group;
    c->ended = false;
    c->n_page = 0;
    c->values.type = leaf->type;
    c->values.width = leaf->width;
    c->values.dictionary = (struct parquet_dictionary){0};
    TRY(check_chunk(c, chunk, err));
    return parquet_column_next(c, err);
}

static bool next_level(struct hybrid *h, int most, int *level)
{
    uint32_t x = 0;
    bool there = !most || hybrid_next(h, &x);
    *level = (int)x;
    return there && x <= (uint32_t)most;
}

int parquet_column_next(struct parquet_column *c, struct snug_err *err)
{
    while (!c->n_page && c->n_chunk)
        TRY(read_page(c, err));
    c->ended = !c->n_page;
    if (c->ended)
        return SNUG_OK;
    c->n_page--;
    if (!next_level(&c->reps, c->leaf->max_rep, &c->rep) || !next_level(&c->defs, c->leaf->max_def, &c->def))
        return parquet_column_err(c, err, "the levels of a page are damaged, %lld values before its end" AGAIN,
                                  (long long)c->n_page);
    if (c->def < c->leaf->max_def || parquet_values_next(&c->values, &c->value))
        return SNUG_OK;
    return c->values.no_memory
               ? err_no_memory(err, c->values.text_n)
               : parquet_column_err(c, err, "the values of a page are damaged, %lld before its end" AGAIN,
                                    (long long)c->n_page);
}

void parquet_column_free(struct parquet_column *c)
{
    mem_free(c->stored);
    mem_free(c->page);
    mem_free(c->dictionary_page);
    mem_free(c->dictionary);
    parquet_values_free(&c->values);
    *c = (struct parquet_column){0};
}
