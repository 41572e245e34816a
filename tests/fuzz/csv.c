/* Any bytes as a CSV file. What is accepted must be the same when every field is written in quotes, and when the bytes
 * stand across the boundary between two pieces of a long file. The first byte chooses delimiter and boundary, and
 * whether to try the latter, which takes its time. */
#include "data/csv.h"
#include "../memory_io.h"
#include "base/str.h"
#include "fuzz.h"

enum { PIECE = 256 * 1024 }; /* source.c reads as much at a time; a wrong value here only finds less */

struct rows {
    int code;
    size_t n;
    struct hash128 content;
    struct str quoted;
};

static struct rows read_rows(const char *data, size_t size, char delimiter, size_t skip)
{
    struct memory_file file = {"f.csv", data, size};
    struct memory_io m;
    struct csv c;
    struct snug_err err = {0};
    struct rows r = {0};
    struct hash_state *h = hash_new();
    memory_io_init(&m, &file, 1);
    r.code = csv_open(&m.io, "f.csv", delimiter, &c, &err);
    while (!r.code) {
        r.code = csv_next(&c, &err);
        if (r.code || !c.n_fields)
            break;
        if (r.n++ < skip)
            continue;
        for (size_t i = 0; i < c.n_fields; i++) {
            size_t bytes;
            const char *field = csv_field(&c, i, &bytes);
            MUST(strlen(field) == bytes);
            hash_add(h, field, bytes + 1);
            str_printf(&r.quoted, "%s\"", i ? (char[]){delimiter, 0} : "");
            for (size_t k = 0; k < bytes; k++)
                str_append_n(&r.quoted, field[k] == '"' ? "\"\"" : field + k, field[k] == '"' ? 2 : 1);
            str_append(&r.quoted, "\"");
        }
        hash_add(h, "\n", 1);
        str_append(&r.quoted, "\r\n");
    }
    csv_close(&c);
    MUST(m.open_files == 0);
    MUST(r.code == SNUG_OK || (r.code == SNUG_ERR_INPUT && strncmp(err.text, "f.csv:", 6) == 0));
    r.content = hash_end(h);
    return r;
}

static void must_be_equal(const struct rows *a, const struct rows *b, size_t skipped)
{
    MUST(a->code == b->code);
    MUST(a->code || (a->n + skipped == b->n && a->content.low == b->content.low && a->content.high == b->content.high));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096)
        return 0;
    char delimiter = ",;\t|"[data[0] & 3];
    const char *text = (const char *)data + 1;
    struct rows plain = read_rows(text, --size, delimiter, 0);
    if (!plain.code) {
        struct rows again = read_rows(str_text(&plain.quoted), plain.quoted.n, delimiter, 0);
        must_be_equal(&plain, &again, 0);
        str_free(&again.quoted);
    }
    if (data[0] >= 0xF0 && !(size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)) {
        static char shifted[PIECE + 4096];
        size_t before = PIECE - (size_t)(data[0] >> 2 & 3) * size / 3; /* so many bytes lie before the boundary */
        memset(shifted, 'a', before);
        shifted[before - 1] = '\n';
        memcpy(shifted + before, text, size);
        struct rows moved = read_rows(shifted, before + size, delimiter, 1);
        /* a beginning that names another kind of file is only one at the beginning */
        if (!plain.code)
            must_be_equal(&plain, &moved, 1);
        str_free(&moved.quoted);
    }
    str_free(&plain.quoted);
    return 0;
}
