/* Any bytes as rows of a source and a target. The first byte chooses the format and whether there is a prefix; what is accepted is laid
 * out as a batch. */
#include "data/loader.h"
#include "rows.h"

#include <string.h>

enum { START = 1, LONGEST = 7 };

static void must_be_sides(const struct dataset *d)
{
    for (int64_t r = 0; r < d->n_rows; r++) {
        int32_t source = d->sources[r], target = dataset_length(d, r) - source;
        MUST(source > 0 && source <= LONGEST && target > 0 && target <= LONGEST - 2);
    }
}

/* The first rows as a batch: a decoder reads the start and its target without the last token. */
static void must_be_a_batch(const struct dataset *d)
{
    struct batch_buffer buffer;
    struct batch b;
    const int64_t rows[] = {0, d->n_rows - 1};
    int n = d->n_rows > 1 ? 2 : 1;
    MUST(!batch_buffer_open(&buffer, d, 2 * d->longest, 2, 1, NULL));
    batch_fill(&buffer, d, rows, n, NULL, 0, NULL, &b);
    MUST(b.ids[0] == START && b.S == b.source_cu_seqlens[n] && b.T == b.cu_seqlens[n]);
    MUST(b.S == d->sources[0] + (n > 1 ? d->sources[rows[1]] : 0));
    batch_buffer_close(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"f.csv", "f.jsonl", "f.json", "f.tsv"};
    if (size < 1 || size > 4096)
        return 0;
    const char *path = paths[data[0] & 3];
    struct memory_file file = {path, data + 1, size - 1};
    struct memory_io m;
    struct dataset_options o = {.path = path,
                                .task = TASK_SEQ2SEQ,
                                .tokenizer = small_tokenizer(),
                                .max_length = LONGEST,
                                .max_target_length = LONGEST - 2,
                                .start_id = START,
                                .source_prefix = data[0] >> 2 & 1 ? "a b: " : NULL,
                                .target_column = data[0] >> 3 & 1 ? "y" : NULL,
                                .threads = 1,
                                .cache_dir = ""};
    struct dataset d = {0};
    struct snug_err err = {0};
    memory_io_init(&m, &file, 1);
    int code = dataset_open(&m.io, &o, &d, &err);
    MUST(m.open_files == 0);
    if (code) {
        MUST(code == SNUG_ERR_INPUT || code == SNUG_ERR_USAGE);
        MUST(strlen(err.text) > 3 && strlen(err.text) < sizeof err.text && !strchr(err.text, '\n'));
        return 0;
    }
    MUST(d.n_rows > 0 && d.offsets[d.n_rows] == d.n_tokens);
    must_be_sides(&d);
    must_be_a_batch(&d);
    dataset_close(&d);
    return 0;
}
