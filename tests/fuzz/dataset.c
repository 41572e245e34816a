/* Any bytes as a file of data, from its format to its labels. The first byte chooses the format, the task and the size of
 * the pieces in which the bytes come: they may change nothing. */
#include "rows.h"

#include <stdio.h>
#include <string.h>

struct result {
    int code;
    struct dataset d;
    struct snug_err err;
};

static struct result read_data(const struct memory_file *file, size_t piece, const struct dataset_options *o)
{
    struct memory_io m;
    struct result r = {0};
    memory_io_init(&m, file, 1);
    m.short_read = piece;
    r.code = dataset_open(&m.io, o, &r.d, &r.err);
    MUST(m.open_files == 0);
    MUST(r.code == SNUG_OK || r.code == SNUG_ERR_INPUT || r.code == SNUG_ERR_USAGE);
    size_t n = strlen(r.err.text);
    MUST(!r.code || (n > 3 && n < sizeof r.err.text && !strchr(r.err.text, '\n')));
    return r;
}

static void must_be_equal(const struct result *a, const struct result *b)
{
    MUST(a->code == b->code);
    if (a->code) {
        MUST(!strcmp(a->err.text, b->err.text));
        return;
    }
    MUST(a->d.n_rows == b->d.n_rows && a->d.n_tokens == b->d.n_tokens && a->d.num_labels == b->d.num_labels);
    MUST(!memcmp(a->d.ids, b->d.ids, (size_t)a->d.n_tokens * sizeof *a->d.ids));
    MUST(!memcmp(&a->d.fingerprint, &b->d.fingerprint, sizeof a->d.fingerprint));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"f.csv", "f.jsonl", "f.json", "f.txt"};
    static const enum data_task tasks[] = {TASK_AUTO, TASK_CLASS, TASK_REGRESSION, TASK_MULTI_LABEL, TASK_UNLABELED};
    if (size < 2 || size > 4096)
        return 0;
    const char *path = paths[data[0] & 3];
    struct memory_file file = {path, data + 2, size - 2};
    struct dataset_options o = {.path = path,
                                .task = tasks[(data[0] >> 2) % 5],
                                .tokenizer = small_tokenizer(),
                                .max_length = 6,
                                .label_column = data[0] >> 5 & 1 ? "x,y" : NULL,
                                .ignore_label = data[0] >> 6 & 1 ? "-1" : NULL,
                                .threads = 1,
                                .cache_dir = ""};
    struct result whole = read_data(&file, 0, &o), pieces = read_data(&file, size / 8 + 1 + data[1] % 16, &o);
    must_be_equal(&whole, &pieces);
    if (!whole.code) {
        must_be_rows(&whole.d, &o);
        dataset_close(&whole.d);
        dataset_close(&pieces.d);
    }
    return 0;
}
