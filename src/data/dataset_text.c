/* A dataset from a table of texts: rows are read on this thread, a block at a time, and tokenized on several. */
#include "base/str.h"
#include "data/dataset_parts.h"
#include "data/files/table.h"
#include "data/label_reader.h"
#include "data/token_rows.h"
#include "data/words/word_rows.h"

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

static bool is_blank(const char *text)
{
    return !text[strspn(text, " \t")];
}

/* Words, with tags where they are asked for. */
static int read_words(struct text_reading *r, struct snug_err *err)
{
    const struct table *t = &r->table;
    const struct columns *c = &t->columns;
    bool left_out, tags = r->task == TASK_TOKEN_CLASS;
    json_t *row = table_object(t);
    TRY(word_row_check(row, c->names[c->turns], tags ? c->names[c->labels[0]] : NULL, t->place, err));
    if (tags)
        TRY(label_reader_json(&r->labels, t->place, t->label_jsons, &left_out, err));
    r->empty += !json_array_size(json_object_get(row, c->names[c->turns]));
    return text_block_add_object(&r->block, t->place, row, err);
}

/* The prefix says what is to be done with a source, as T5 has learned it. */
static int add_with_prefix(struct text_reading *r, struct snug_err *err)
{
    const struct table *t = &r->table;
    struct str s = {0};
    str_append(&s, r->o->source_prefix);
    str_append_n(&s, t->row_text, t->text_bytes);
    int code = str_check(&s, err);
    if (!code)
        code = text_block_add(&r->block, t->place, str_text(&s), s.n, t->row_pair, t->pair_bytes, err);
    str_free(&s);
    return code;
}

static int read_row(struct text_reading *r, struct snug_err *err)
{
    const struct table *t = &r->table;
    bool left_out = false;
    if (t->columns.form == ROWS_WORDS)
        return read_words(r, err);
    if (t->columns.form != ROWS_TEXT)
        return text_block_add_object(&r->block, t->place, table_object(t), err);
    if (t->format == FORMAT_LINES && task_is_lm(r->task) && is_blank(t->row_text)) /* what stands between paragraphs */
        return SNUG_OK;
    if (task_has_label(r->task) && table_object(t))
        TRY(label_reader_json(&r->labels, t->place, t->label_jsons, &left_out, err));
    else if (task_has_label(r->task))
        TRY(label_reader_text(&r->labels, t->place, t->label_texts, &left_out, err));
    if (left_out)
        return SNUG_OK;
    if (t->text_bytes == 0 || (t->row_pair && t->pair_bytes == 0)) {
        if (r->o->empty_is_error)
            return err_at(err, SNUG_ERR_INPUT, t->place,
                          "the text is empty, which --empty=error refuses; fill it in, or leave the option out");
        r->empty++;
    }
    return r->o->source_prefix
               ? add_with_prefix(r, err)
               : text_block_add(&r->block, t->place, t->row_text, t->text_bytes, t->row_pair, t->pair_bytes, err);
}

static int read_rows(struct text_reading *r, struct snug_err *err)
{
    int threads = token_threads(r->o->threads);
    int64_t max_length = r->o->block_size ? 0 : r->o->max_length;
    while (!r->table.ended) {
        TRY(table_next(&r->table, err));
        if (!r->table.ended)
            TRY(read_row(r, err));
        if (r->table.ended || text_block_full(&r->block))
            TRY(token_rows_encode(&r->tokens, r->o->tokenizer, max_length, threads, r->o->stop, &r->block, err));
        TRY(source_check_stop(r->o->stop, r->o->path, err));
    }
    if (r->tokens.n_rows == 0 && r->labels.n_ignored)
        return err_set(err, SNUG_ERR_INPUT, "%s: all %lld rows have the label '%s', which --ignore-label leaves out",
                       r->o->path, (long long)r->labels.n_ignored, r->o->ignore_label);
    if (r->tokens.n_rows == 0 && r->tokens.no_target)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: none of %lld rows has anything to learn within %d tokens; give a larger --max-length, or "
                       "other rows",
                       r->o->path, (long long)r->tokens.no_target, (int)r->o->max_length);
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

/* Rows as one text, with the tokenizer's EOS behind each that does not end so, in blocks of one length. What does not
 * fill a block is left out, as transformers' run_clm.py does it. */
static int join_texts(struct text_reading *r, struct snug_err *err)
{
    struct token_rows *t = &r->tokens, joined = {0};
    int32_t end = tokenizer_special(r->o->tokenizer, TOKEN_EOS), size = r->o->block_size;
    int64_t n_blocks = 0;
    int code = SNUG_OK;
    for (int64_t row = 0; row < t->n_rows && !code; row++) {
        size_t n = (size_t)(t->offsets[row + 1] - t->offsets[row]);
        const int32_t *ids = t->ids + t->offsets[row];
        code = token_rows_add(&joined, ids, NULL, n, err);
        if (!code && n && end >= 0 && ids[n - 1] != end)
            code = token_rows_add(&joined, &end, NULL, 1, err);
    }
    n_blocks = joined.n_tokens / size;
    if (!code && !n_blocks)
        code = err_set(err, SNUG_ERR_INPUT, "%s: %lld tokens do not fill a block of %d; give a smaller --block-size",
                       r->o->path, (long long)joined.n_tokens, (int)size);
    if (!code && n_blocks >= joined.n_rows && !MEM_GROW(joined.offsets, joined.offsets_cap, (size_t)n_blocks + 1))
        code = err_no_memory(err, (size_t)n_blocks * sizeof *joined.offsets);
    for (int64_t i = 0; i <= n_blocks && !code; i++)
        joined.offsets[i] = i * size;
    joined.n_rows = n_blocks;
    token_rows_free(code ? &joined : t);
    if (code)
        return code;
    dataset_note(r->o,
                 "texts are joined into %lld blocks of %d tokens; the last %lld tokens fill none and are left out",
                 (long long)n_blocks, (int)size, (long long)(joined.n_tokens - n_blocks * size));
    joined.n_tokens = n_blocks * size;
    *t = joined;
    return SNUG_OK;
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
    d->loss_mask = t->loss_mask;
    d->words = t->words;
    d->sources = t->sources;
    d->truncated = t->truncated;
    d->no_target = t->no_target;
    d->empty = r->empty;
    *t = (struct token_rows){0};
}

/* As JSON strings, so that no name can look like two. */
int text_reading_hash_columns(const struct text_reading *r, struct hash128 *h, struct snug_err *err)
{
    const struct columns *c = &r->table.columns;
    struct str s = {0};
    if (c->form == ROWS_TEXT)
        str_json(&s, c->names[c->text]);
    else if (c->form == ROWS_WORDS)
        str_printf(&s, "words "), str_json(&s, c->names[c->turns]);
    else
        str_printf(&s, "form %d ", (int)c->form);
    str_json(&s, c->pair < 0 ? "" : c->names[c->pair]);
    str_json(&s, c->n_labels ? c->names[c->labels[0]] : "");
    for (int i = 1; i < c->n_labels; i++)
        str_json(&s, c->names[c->labels[i]]);
    if (c->form != ROWS_TEXT && c->form != ROWS_WORDS)
        chat_setup_describe(r->o->chat, &s);
    if (r->o->block_size)
        str_printf(&s, " block %d", (int)r->o->block_size);
    if (r->task == TASK_SEQ2SEQ) {
        str_printf(&s, " target %d ", (int)r->o->max_target_length);
        str_json(&s, r->o->source_prefix ? r->o->source_prefix : "");
    }
    int code = str_check(&s, err);
    *h = hash_bytes(str_text(&s), s.n);
    str_free(&s);
    return code;
}

enum data_task text_reading_task(const struct text_reading *r)
{
    return r->task;
}

const struct columns *text_reading_columns(const struct text_reading *r)
{
    return &r->table.columns;
}

/* A single label does not show more than a class. */
static enum data_task decide_task(const struct dataset_options *o, const struct columns *c)
{
    return o->task != TASK_AUTO ? o->task : c->n_labels > 1 ? TASK_MULTI_LABEL : TASK_CLASS;
}

int text_reading_open(const struct io *io, const struct dataset_options *o, struct text_reading **out,
                      struct snug_err *err)
{
    struct text_reading *r = *out = mem_alloc(sizeof *r);
    if (!r)
        return err_no_memory(err, sizeof *r);
    r->o = o;
    enum data_format format;
    int code;
    TRY_TO(fail, data_format_of(io, o->path, &format, err));
    bool labels = o->task == TASK_AUTO || task_has_classes(o->task), words;
    TRY_TO(fail, table_open(io, o, format, labels ? TABLE_LABELS : TABLE_NO_LABELS, &r->table, err));
    r->table_open = true;
    r->task = decide_task(o, &r->table.columns);
    r->block.seq2seq = r->task == TASK_SEQ2SEQ;
    r->block.max_target_length = o->max_target_length;
    r->block.chat = o->chat;
    r->block.columns = &r->table.columns;
    words = r->table.columns.form == ROWS_WORDS;
    r->block.words = words ? r->table.columns.names[r->table.columns.turns] : NULL;
    if (words && r->task != TASK_TOKEN_CLASS)
        TRY_TO(fail, err_set(err, SNUG_ERR_INPUT,
                             "%s: has words with tags, which --task token-classification learns; name a text with "
                             "--text-column",
                             o->path));
    if (r->table.columns.form != ROWS_TEXT && o->block_size)
        TRY_TO(fail, err_set(err, SNUG_ERR_USAGE,
                             "--block-size: %s holds conversations, which are not joined; leave it out (rows are never "
                             "padded)",
                             o->path));
    if (r->table.columns.form == ROWS_TEXT && o->chat && o->chat->assistant_only)
        TRY_TO(fail, err_set(err, SNUG_ERR_USAGE,
                             "--assistant-only-loss: %s holds texts, no conversations; leave it out", o->path));
    if (r->table.columns.form != ROWS_TEXT && !words && !o->chat)
        TRY_TO(fail, err_set(err, SNUG_ERR_INPUT, "%s: conversations need a tokenizer's chat settings", o->path));
    TRY_TO(fail, label_reader_open(&r->labels, r->task, o, &r->table.columns, err));
    return SNUG_OK;
fail:
    text_reading_close(r);
    *out = NULL;
    return code;
}

int text_reading_finish(struct text_reading *r, struct dataset *d, struct dataset_origin *origin, struct snug_err *err)
{
    TRY(read_rows(r, err));
    if (r->o->block_size)
        TRY(join_texts(r, err));
    origin->content = table_hash(&r->table);
    TRY(text_reading_hash_columns(r, &origin->columns, err));
    d->task = r->task;
    take_tokens(r, d);
    return task_has_classes(r->task) ? label_reader_finish(&r->labels, r->o->path, d, err) : SNUG_OK;
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
