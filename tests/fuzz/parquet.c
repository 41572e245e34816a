/* Any bytes as a Parquet file. What is accepted must be the same when the bytes come in small pieces; what is not is refused with
 * the file's name. */
#include "data/files/objects/parquet.h"
#include "../memory_io.h"
#include "fuzz.h"

#include <string.h>

enum { MOST_ROWS = 1000 }; /* a few bytes can say that there are many */

struct rows {
    int code;
    int64_t n;
    struct hash128 content;
    struct snug_err err;
};

static struct rows read_rows(const void *data, size_t size, size_t piece)
{
    struct memory_file file = {"f.parquet", data, size};
    struct memory_io m;
    struct parquet p;
    struct rows r = {0};
    struct hash_state *h = hash_new();
    memory_io_init(&m, &file, 1);
    m.short_read = piece;
    r.code = parquet_open(&m.io, "f.parquet", &p, &r.err);
    for (; !r.code && r.n < MOST_ROWS; r.n++) {
        r.code = parquet_next(&p, &r.err);
        if (r.code || !p.row)
            break;
        MUST(json_is_object(p.row) && p.place.n == r.n);
        char *text = json_dumps(p.row, JSON_COMPACT); /* NULL: it holds no valid UTF-8 */
        MUST(text);
        hash_add(h, text, strlen(text));
        free(text);
    }
    parquet_close(&p);
    MUST(m.open_files == 0);
    MUST(r.code == SNUG_OK || (r.code == SNUG_ERR_INPUT && strncmp(r.err.text, "f.parquet: ", 11) == 0));
    MUST(!r.code || !strchr(r.err.text, '\n'));
    r.content = hash_end(h);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 16384)
        return 0;
    struct rows whole = read_rows(data, size, 0), pieces = read_rows(data, size, size / 8 + 1);
    MUST(whole.code == pieces.code && whole.n == pieces.n && !strcmp(whole.err.text, pieces.err.text));
    MUST(whole.content.low == pieces.content.low && whole.content.high == pieces.content.high);
    return 0;
}
