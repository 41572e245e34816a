/* A dataset from a table of texts: rows are read on this thread, a block at a time, and tokenized on several. */
#include "base/str.h"
#include "data/dataset_parts.h"
#include "data/files/table.h"
#include "data/label_reader.h"
#include "data/tokens/token_store.h"
#include "data/words/word_rows.h"

#include <string.h>

struct text_reading {
    const struct dataset_options *o;
    enum data_task task;
    struct table table;
    bool table_open;
    struct label_reader labels;
    struct text_block block;
    struct token_store tokens;
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

/* Tokens of the block that was read. */
static int take_block(struct text_reading *r, int threads, struct snug_err *err)
{
    int64_t max_length = r->o->block_size ? 0 : r->o->max_length;
    TRY(token_rows_encode(&r->tokens.rows, r->o->tokenizer, max_length, threads, r->o->stop, &r->block, err));
    return dataset_settle(r->o, &r->tokens, err);
}

static int read_rows(struct text_reading *r, struct snug_err *err)
{
    int threads = token_threads(r->o->threads);
    while (!r->table.ended) {
        TRY(table_next(&r->table, err));
        if (!r->table.ended)
            TRY(read_row(r, err));
        if (r->table.ended || text_block_full(&r->block))
            TRY(take_block(r, threads, err));
        TRY(source_check_stop(r->o->stop, r->o->path, err));
    }
    if (!r->tokens.any && r->labels.n_ignored)
        return err_set(err, SNUG_ERR_INPUT, "%s: all %lld rows have the label '%s', which --ignore-label leaves out",
                       r->o->path, (long long)r->labels.n_ignored, r->o->ignore_label);
    if (!r->tokens.any && r->tokens.rows.no_target)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: none of %lld rows has anything to learn within %d tokens; give a larger --max-length, or "
                       "other rows",
                       r->o->path, (long long)r->tokens.rows.no_target, (int)r->o->max_length);
    if (!r->tokens.any)
        return err_set(err, SNUG_ERR_INPUT, "%s: 0 rows behind the header; give some data", r->o->path);
    return SNUG_OK;
}

/* A language model learns nothing from a row without tokens. Texts that are joined have the tokenizer's EOS behind each, and what does
 * not fill a block is left out, as transformers' run_clm.py does it. */
static void open_store(struct text_reading *r, const struct io *io, const char *dir)
{
    struct token_store_options s = dataset_store(io, r->o, dir);
    s.drop_empty = task_is_lm(r->task);
    s.block_size = r->o->block_size;
    s.end_id = tokenizer_special(r->o->tokenizer, TOKEN_EOS);
    token_store_open(&r->tokens, &s);
}

static int check_blocks(const struct text_reading *r, const struct dataset *d, struct snug_err *err)
{
    long long rest = (long long)r->tokens.n_rest;
    int size = (int)r->o->block_size;
    if (!d->n_rows)
        return err_set(err, SNUG_ERR_INPUT, "%s: %lld tokens do not fill a block of %d; give a smaller --block-size",
                       r->o->path, rest, size);
    dataset_note(r->o,
                 "texts are joined into %lld blocks of %d tokens; the last %lld tokens fill none and are left out",
                 (long long)d->n_rows, size, rest);
    return SNUG_OK;
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

int text_reading_finish(struct text_reading *r, const struct io *io, const char *dir, struct dataset *d,
                        struct dataset_origin *origin, struct snug_err *err)
{
    open_store(r, io, dir);
    TRY(read_rows(r, err));
    TRY(token_store_finish(&r->tokens, d, err));
    if (r->o->block_size)
        TRY(check_blocks(r, d, err));
    origin->content = table_hash(&r->table);
    TRY(text_reading_hash_columns(r, &origin->columns, err));
    d->task = r->task;
    d->empty = r->empty;
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
    token_store_close(&r->tokens);
    mem_free(r);
}
