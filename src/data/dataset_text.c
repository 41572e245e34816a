/* A dataset from a table of texts: rows are read on this thread, a block at a time, and tokenized on several. */
#include "base/str.h"
#include "data/dataset_parts.h"
#include "data/label_reader.h"
#include "data/table.h"
#include "data/token_rows.h"

#include <string.h>

struct text_reading {
    const struct dataset_options *o;
    enum data_task task;
    struct table table;
    bool table_open;
    struct label_reader labels;
    struct text_block block;
    struct token_rows tokens;
    int64_t empty;
};

static int read_row(struct text_reading *r, struct snug_err *err)
{
    const struct table *t = &r->table;
    if (t->text_bytes == 0 || (t->row_pair && t->pair_bytes == 0)) {
        if (r->o->empty_is_error)
            return err_at(err, SNUG_ERR_INPUT, t->place,
                          "the text is empty, which --empty=error refuses; fill it in, or leave the option out");
        r->empty++;
    }
    if (t->label_text)
        TRY(label_reader_text(&r->labels, t->place, t->label_text, err));
    if (t->label_json)
        TRY(label_reader_json(&r->labels, t->place, t->label_json, err));
    return text_block_add(&r->block, t->place, t->row_text, t->text_bytes, t->row_pair, t->pair_bytes, err);
}

static int read_rows(struct text_reading *r, struct snug_err *err)
{
    int threads = token_threads(r->o->threads);
    while (!r->table.ended) {
        TRY(table_next(&r->table, err));
        if (!r->table.ended)
            TRY(read_row(r, err));
        if (r->table.ended || text_block_full(&r->block))
            TRY(token_rows_encode(&r->tokens, r->o->tokenizer, r->o->max_length, threads, r->o->stop, &r->block, err));
        TRY(source_check_stop(r->o->stop, r->o->path, err));
    }
    if (r->tokens.n_rows == 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: 0 rows behind the header; give some data", r->o->path);
    return SNUG_OK;
}

/* A language model learns nothing from a row without tokens, so it is left out. */
static void drop_rows_without_tokens(struct token_rows *t)
{
    int64_t n = 0;
    for (int64_t row = 0; row < t->n_rows; row++)
        if (t->offsets[row + 1] > t->offsets[row])
            t->offsets[++n] = t->offsets[row + 1];
    t->n_rows = n;
}

static void *shrink(void *p, size_t bytes)
{
    void *smaller = mem_realloc(p, bytes);
    return smaller ? smaller : p;
}

static void take_tokens(struct text_reading *r, struct dataset *d)
{
    struct token_rows *t = &r->tokens;
    if (task_is_lm(r->task))
        drop_rows_without_tokens(t);
    d->n_rows = t->n_rows;
    d->n_tokens = t->n_tokens;
    d->offsets = shrink(t->offsets, (size_t)(t->n_rows + 1) * sizeof *t->offsets);
    d->ids = shrink(t->ids, (size_t)t->n_tokens * sizeof *t->ids);
    if (t->any_type)
        d->types = shrink(t->types, (size_t)t->n_tokens);
    else
        mem_free(t->types);
    d->truncated = t->truncated;
    d->empty = r->empty;
    *t = (struct token_rows){0};
}

/* As JSON strings, so that no name can look like two. */
static int hash_columns(const struct table *t, struct hash128 *h, struct snug_err *err)
{
    struct str s = {0};
    const int columns[] = {t->text, t->pair, t->label};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        str_json(&s, columns[i] < 0 ? "" : t->columns[columns[i]]);
    int code = str_check(&s, err);
    *h = hash_bytes(str_text(&s), s.n);
    str_free(&s);
    return code;
}

int text_reading_open(const struct io *io, const struct dataset_options *o, struct text_reading **out,
                      struct snug_err *err)
{
    struct text_reading *r = *out = mem_alloc(sizeof *r);
    if (!r)
        return err_no_memory(err, sizeof *r);
    r->o = o;
    r->task = text_task(o);
    enum data_format format;
    int code;
    TRY_TO(fail, data_format_of(io, o->path, &format, err));
    TRY_TO(fail, table_open(io, o, format, task_has_label(r->task) ? TABLE_LABELS : TABLE_NO_LABELS, &r->table, err));
    r->table_open = true;
    TRY_TO(fail, label_reader_open(&r->labels, r->task, o, err));
    return SNUG_OK;
fail:
    text_reading_close(r);
    *out = NULL;
    return code;
}

int text_reading_finish(struct text_reading *r, struct dataset *d, struct dataset_origin *origin, struct snug_err *err)
{
    TRY(read_rows(r, err));
    origin->content = table_hash(&r->table);
    TRY(hash_columns(&r->table, &origin->columns, err));
    d->task = r->task;
    take_tokens(r, d);
    return task_has_label(r->task) ? label_reader_finish(&r->labels, r->o->path, d, err) : SNUG_OK;
}

void text_reading_close(struct text_reading *r)
{
    if (!r)
        return;
    if (r->table_open)
        table_close(&r->table);
    label_reader_close(&r->labels);
    text_block_free(&r->block);
    token_rows_free(&r->tokens);
    mem_free(r);
}
