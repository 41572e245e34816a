/* Any bytes as a CSV file. What is accepted must be the same when every field is written in quotes, and when the bytes
 * come in small pieces behind a first line. The first byte chooses the delimiter and the size of the
 * pieces, and whether there are any. */
#include "data/files/csv.h"
#include "../memory_io.h"
#include "base/str.h"
#include "fuzz.h"

enum { FIRST_LINE = 64 }; /* source.c reads as much before it gives anything out */

struct rows {
    int code;
    size_t n;
    struct hash128 content;
};

static void append_quoted(struct str *s, const char *field)
{
    for (;;) {
        size_t n = strcspn(field, "\"");
        str_append_n(s, field, n);
        if (!field[n])
            return;
        str_append(s, "\"\"");
        field += n + 1;
    }
}

static void append_row(struct str *s, struct csv *c, char delimiter)
{
    size_t bytes;
    for (size_t i = 0; i < c->n_fields; i++) {
        str_append_n(s, &delimiter, i > 0);
        str_append(s, "\"");
        append_quoted(s, csv_field(c, i, &bytes));
        str_append(s, "\"");
    }
    str_append(s, "\r\n");
}

/* `piece`: most bytes that one read gives, 0: all. The first `skip` rows do not count. `quoted`, unless NULL, gets all with
 * every field in quotes. */
static struct rows read_rows(const char *data, size_t size, char delimiter, size_t piece, size_t skip,
                             struct str *quoted)
{
    struct memory_file file = {"f.csv", data, size};
    struct memory_io m;
    struct csv c;
    struct snug_err err = {0};
    struct rows r = {0};
    struct hash_state *h = hash_new();
    memory_io_init(&m, &file, 1);
    m.short_read = piece;
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
        }
        hash_add(h, "\n", 1);
        if (quoted)
            append_row(quoted, &c, delimiter);
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
    struct str quoted = {0};
    struct rows plain = read_rows(text, --size, delimiter, 0, 0, &quoted);
    if (!plain.code) {
        struct rows again = read_rows(str_text(&quoted), quoted.n, delimiter, 0, 0, NULL);
        must_be_equal(&plain, &again, 0);
    }
    /* Behind a line, because a mark of the kind of file is one only at the beginning, which is read at once. */
    if (data[0] >> 6 & 1 && !plain.code && !(size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)) {
        static char behind[FIRST_LINE + 4096];
        memset(behind, 'a', FIRST_LINE);
        behind[FIRST_LINE - 1] = '\n';
        memcpy(behind + FIRST_LINE, text, size);
        struct rows pieces =
            read_rows(behind, FIRST_LINE + size, delimiter, size / 8 + 1 + (data[0] >> 2) % 16, 1, NULL);
        must_be_equal(&plain, &pieces, 1);
    }
    str_free(&quoted);
    return 0;
}
