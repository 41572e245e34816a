/* Any bytes as questions with their contexts: JSON Lines, an array, or SQuAD's files. The first byte chooses the format and the sizes of
 * windows. Windows that are accepted lie in their contexts, and answers that logits say are stretches of these. */
#include "data/questions/questions.h"
#include "rows.h"

#include <string.h>

static void must_be_windows(const struct dataset *d)
{
    const struct questions *q = d->questions;
    int64_t rows = 0;
    for (int64_t i = 0; i < q->n; i++) {
        const struct question *one = &q->list[i];
        MUST(one->first_row == rows && one->n_rows > 0);
        rows += one->n_rows;
        for (int64_t r = one->first_row; r < rows; r++) {
            const struct context_window *w = &q->windows[r];
            MUST(w->question == i && w->at >= 0 && w->tokens >= 0 && w->at + w->tokens <= dataset_length(d, r));
            for (int32_t k = 0; k < w->tokens; k++)
                MUST(q->places[w->places + k].start <= q->places[w->places + k].end &&
                     q->places[w->places + k].end <= one->context_bytes);
        }
    }
    MUST(rows == d->n_rows);
    for (int64_t i = 0; d->targets && i < d->n_tokens; i++)
        MUST(d->targets[i] >= 0 && d->targets[i] <= 3);
}

static void must_be_answers(const struct dataset *d, bool may_be_none)
{
    const struct answer_settings s = {.most = 3, .longest = 4, .may_be_none = may_be_none};
    double *logits = malloc((2 * (size_t)d->n_tokens + 1) * sizeof *logits);
    MUST(logits);
    for (int64_t i = 0; i < 2 * d->n_tokens; i++)
        logits[i] = (double)(i * 37 % 11) - 5;
    for (int64_t i = 0; i < d->questions->n; i++) {
        const struct question *q = &d->questions->list[i];
        struct answer found[4];
        int n = 0;
        MUST(!answers_find(d, i, logits, &s, found, &n, NULL) && n >= 1 && n <= 4);
        for (int k = 0; k < n; k++)
            MUST(!found[k].bytes ||
                 (found[k].text >= q->context && found[k].text + found[k].bytes <= q->context + q->context_bytes));
    }
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096)
        return 0;
    const char *path = data[0] & 1 ? "f.json" : "f.jsonl";
    struct memory_file file = {path, data + 1, size - 1};
    struct memory_io m;
    struct question_options questions = {.doc_stride = data[0] >> 2 & 1 ? 2 : -1};
    struct dataset_options o = {.path = path,
                                .task = data[0] >> 1 & 1 ? TASK_UNLABELED : TASK_SPAN,
                                .tokenizer = small_tokenizer(),
                                .questions = &questions,
                                .max_length = 8 + (data[0] >> 4),
                                .threads = 1,
                                .cache_dir = ""};
    struct dataset d = {0};
    struct snug_err err = {0};
    memory_io_init(&m, &file, 1);
    questions_shown(&m.io, path);
    int code = dataset_open(&m.io, &o, &d, &err);
    MUST(m.open_files == 0);
    if (code) {
        MUST(code == SNUG_ERR_INPUT || code == SNUG_ERR_USAGE);
        MUST(strlen(err.text) > 3 && strlen(err.text) < sizeof err.text && !strchr(err.text, '\n'));
        return 0;
    }
    MUST(d.n_rows > 0 && d.offsets[d.n_rows] == d.n_tokens);
    must_be_windows(&d);
    must_be_answers(&d, data[0] >> 3 & 1);
    dataset_close(&d);
    return 0;
}
