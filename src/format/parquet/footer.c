#include "format/parquet/footer.h"

#include <string.h>

#define ROWS(table)                                                                                                    \
    {                                                                                                                  \
        .rows = table, .n = sizeof table / sizeof *table                                                               \
    }

/* ---- the footer ---- */

#define ELEMENT(id, kind, member)                                                                                      \
    {                                                                                                                  \
        id, kind, offsetof(struct parquet_element, member), NULL                                                       \
    }
static const struct thrift_field decimal_rows[] = {ELEMENT(1, THRIFT_INT, logical_scale)};
static const struct thrift_field integer_rows[] = {ELEMENT(2, THRIFT_BOOL, is_signed)};
static const struct thrift_fields decimal = ROWS(decimal_rows), integer = ROWS(integer_rows);
static const struct thrift_field logical_rows[] = {
    ELEMENT(1, THRIFT_PRESENT, is_string), ELEMENT(2, THRIFT_PRESENT, is_map),      ELEMENT(3, THRIFT_PRESENT, is_list),
    ELEMENT(4, THRIFT_PRESENT, is_enum),   {5, THRIFT_STRUCT, 0, &decimal},         {10, THRIFT_STRUCT, 0, &integer},
    ELEMENT(12, THRIFT_PRESENT, is_json),  ELEMENT(15, THRIFT_PRESENT, is_float16),
};
static const struct thrift_fields logical = ROWS(logical_rows);
static const struct thrift_field element_rows[] = {
    ELEMENT(1, THRIFT_INT, type),  ELEMENT(2, THRIFT_INT, type_length), ELEMENT(3, THRIFT_INT, repetition),
    ELEMENT(4, THRIFT_TEXT, name), ELEMENT(5, THRIFT_INT, n_children),  ELEMENT(6, THRIFT_INT, converted),
    ELEMENT(7, THRIFT_INT, scale), {10, THRIFT_STRUCT, 0, &logical},
};
static const struct parquet_element blank_element = {.name = {"", 0},
                                                     .type = -1,
                                                     .type_length = -1,
                                                     .repetition = -1,
                                                     .n_children = -1,
                                                     .converted = -1,
                                                     .scale = -1,
                                                     .logical_scale = -1,
                                                     .is_signed = true};
static const struct thrift_fields element = {element_rows, sizeof element_rows / sizeof *element_rows,
                                             sizeof(struct parquet_element), &blank_element};

#define CHUNK(id, kind, member)                                                                                        \
    {                                                                                                                  \
        id, kind, offsetof(struct parquet_chunk, member), NULL                                                         \
    }
static const struct thrift_field description_rows[] = {
    CHUNK(1, THRIFT_INT, type),  CHUNK(4, THRIFT_INT, codec),     CHUNK(5, THRIFT_INT, n_values),
    CHUNK(7, THRIFT_INT, bytes), CHUNK(9, THRIFT_INT, data_page), CHUNK(11, THRIFT_INT, dictionary_page),
};
static const struct thrift_fields description = ROWS(description_rows);
static const struct thrift_field chunk_rows[] = {
    CHUNK(1, THRIFT_TEXT, file),
    {3, THRIFT_STRUCT, 0, &description},
    CHUNK(8, THRIFT_PRESENT, encrypted),
};
static const struct parquet_chunk blank_chunk = {
    .type = -1, .codec = -1, .n_values = -1, .bytes = -1, .data_page = -1, .dictionary_page = -1};
static const struct thrift_fields chunk = {chunk_rows, sizeof chunk_rows / sizeof *chunk_rows,
                                           sizeof(struct parquet_chunk), &blank_chunk};

static const struct thrift_field group_rows[] = {
    {1, THRIFT_LIST, offsetof(struct parquet_group, chunks), &chunk},
    {3, THRIFT_INT, offsetof(struct parquet_group, n_rows), NULL},
};
static const struct thrift_fields group = {group_rows, sizeof group_rows / sizeof *group_rows,
                                           sizeof(struct parquet_group), NULL};

static const struct thrift_field key_rows[] = {
    {1, THRIFT_TEXT, offsetof(struct parquet_key, key), NULL},
    {2, THRIFT_TEXT, offsetof(struct parquet_key, value), NULL},
};
static const struct thrift_fields key = {key_rows, sizeof key_rows / sizeof *key_rows, sizeof(struct parquet_key),
                                         NULL};

static const struct thrift_field footer_rows[] = {
    {2, THRIFT_LIST, offsetof(struct parquet_footer, schema), &element},
    {3, THRIFT_INT, offsetof(struct parquet_footer, n_rows), NULL},
    {4, THRIFT_LIST, offsetof(struct parquet_footer, groups), &group},
    {5, THRIFT_LIST, offsetof(struct parquet_footer, keys), &key},
};
static const struct thrift_fields footer = ROWS(footer_rows);

static uint32_t little_u32(const unsigned char *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static int read_bytes(const struct io *io, int fd, const char *path, int64_t size, struct parquet_footer *f, size_t *n,
                      struct snug_err *err)
{
    enum { TAIL = 8, LEAST = 12 };
    unsigned char head[4] = {0}, tail[TAIL] = {0};
    if (size >= 4)
        TRY(io_read_at(io, fd, path, head, sizeof head, 0, err));
    if (size >= LEAST)
        TRY(io_read_at(io, fd, path, tail, TAIL, size - TAIL, err));
    if (!memcmp(head, "PARE", 4) || !memcmp(tail + 4, "PARE", 4))
        return err_set(err, SNUG_ERR_INPUT, "%s: is encrypted; write it without encryption", path);
    if (memcmp(head, "PAR1", 4))
        return err_set(err, SNUG_ERR_INPUT, "%s: no Parquet file: it does not begin with PAR1; name it by what it is",
                       path);
    if (memcmp(tail + 4, "PAR1", 4))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: the Parquet file is cut: it has %lld bytes, the last of which are not PAR1; get it again",
                       path, (long long)size);
    *n = little_u32(tail);
    if (*n > (uint64_t)(size - LEAST))
        return err_set(err, SNUG_ERR_INPUT, "%s: a footer of %zu bytes in a Parquet file of %lld; get the file again",
                       path, *n, (long long)size);
    if (*n > PARQUET_FOOTER_BYTES)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: a footer of %zu bytes is over the limit of %d; write larger row groups", path, *n,
                       PARQUET_FOOTER_BYTES);
    f->data_end = size - TAIL - (int64_t)*n;
    f->bytes = mem_alloc(*n + 1);
    return f->bytes ? io_read_at(io, fd, path, f->bytes, *n, f->data_end, err) : err_no_memory(err, *n);
}

int parquet_footer_read(const struct io *io, int fd, const char *path, int64_t size, struct parquet_footer *f,
                        struct snug_err *err)
{
    size_t n = 0;
    *f = (struct parquet_footer){.n_rows = -1};
    TRY(read_bytes(io, fd, path, size, f, &n, err));
    const uint8_t *bytes = (const uint8_t *)f->bytes;
    struct thrift t = {.p = bytes, .end = bytes + n, .arena = &f->arena};
    if (!thrift_struct(&t, &footer, f))
        return t.no_memory
                   ? err_no_memory(err, n)
                   : err_set(err, SNUG_ERR_INPUT,
                             "%s: the footer of the Parquet file is damaged at byte %zu of %zu; get the file again",
                             path, (size_t)(t.p - bytes), n);
    return SNUG_OK;
}

void parquet_footer_free(struct parquet_footer *f)
{
    mem_free(f->bytes);
    arena_free(&f->arena);
    *f = (struct parquet_footer){0};
}

/* ---- headers of pages ---- */

#define PAGE(id, kind, member)                                                                                         \
    {                                                                                                                  \
        id, kind, offsetof(struct parquet_page, member), NULL                                                          \
    }
static const struct thrift_field data_rows[] = {
    PAGE(1, THRIFT_INT, n_values),
    PAGE(2, THRIFT_INT, encoding),
    PAGE(3, THRIFT_INT, def_encoding),
    PAGE(4, THRIFT_INT, rep_encoding),
};
static const struct thrift_field dictionary_rows[] = {
    PAGE(1, THRIFT_INT, n_values),
    PAGE(2, THRIFT_INT, encoding),
};
static const struct thrift_field data_v2_rows[] = {
    PAGE(1, THRIFT_INT, n_values),  PAGE(4, THRIFT_INT, encoding),    PAGE(5, THRIFT_INT, def_bytes),
    PAGE(6, THRIFT_INT, rep_bytes), PAGE(7, THRIFT_BOOL, compressed),
};
static const struct thrift_fields data = ROWS(data_rows), dictionary = ROWS(dictionary_rows),
                                  data_v2 = ROWS(data_v2_rows);
static const struct thrift_field page_rows[] = {
    PAGE(1, THRIFT_INT, type),       PAGE(2, THRIFT_INT, bytes),   PAGE(3, THRIFT_INT, stored_bytes),
    PAGE(4, THRIFT_INT, crc),        {5, THRIFT_STRUCT, 0, &data}, {7, THRIFT_STRUCT, 0, &dictionary},
    {8, THRIFT_STRUCT, 0, &data_v2},
};
static const struct thrift_fields page_fields = ROWS(page_rows);

bool parquet_page_read(const void *bytes, size_t n, struct parquet_page *page, size_t *header_bytes, bool *more)
{
    struct arena none = {0};
    struct thrift t = {.p = bytes, .end = (const uint8_t *)bytes + n, .arena = &none};
    *page = (struct parquet_page){.type = -1,
                                  .bytes = -1,
                                  .stored_bytes = -1,
                                  .crc = PARQUET_NO_CRC,
                                  .n_values = -1,
                                  .encoding = -1,
                                  .def_encoding = -1,
                                  .rep_encoding = -1,
                                  .def_bytes = -1,
                                  .rep_bytes = -1,
                                  .compressed = true};
    bool whole = thrift_struct(&t, &page_fields, page);
    *header_bytes = (size_t)(t.p - (const uint8_t *)bytes);
    *more = t.ended;
    return whole;
}
