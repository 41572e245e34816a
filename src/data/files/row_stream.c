#include "data/files/row_stream.h"

#include "base/str.h"
#include "data/dataset_parts.h"
#include "data/tokens/token_rows.h"
#include "data/words/word_rows.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Texts of the rows of a block, one after another with a 0 byte behind each: `per_row` of a row. */
struct cells {
    int per_row;
    char *bytes;
    size_t n, cap;
    size_t *starts; /* (n_cells) */
    size_t n_cells, starts_cap;
};

struct row_stream {
    struct row_stream_options o;
    const struct dataset_options *data;
    struct table table;
    bool table_open, ended;
    size_t texts_read;
    struct text_block block;
    struct token_rows tokens;
    struct cells cells, words; /* words: any number of each row */
    size_t *words_end;         /* (rows of the block): behind the last word of the row */
    size_t words_end_cap, n_words_end;
    int64_t done;         /* rows of the blocks before */
    struct dataset total; /* of all rows: n_rows, empty, truncated */
    row_block_fn *take;
    void *ctx;
};

enum { BLOCK_CELLS_BYTES = 8 << 20 };

/* ---- columns ---- */

static const char *const text_columns[] = {"text", "text_pair"};

int row_stream_columns(const struct row_stream *s)
{
    return s->table_open ? s->table.columns.n : 1 + (s->o.pairs != NULL);
}

const char *row_stream_column(const struct row_stream *s, int column)
{
    return s->table_open ? s->table.columns.names[column] : text_columns[column];
}

static int add_cell(struct cells *c, const char *text, size_t bytes, struct snug_err *err)
{
    if (!MEM_GROW(c->bytes, c->cap, c->n + bytes + 1) || !MEM_GROW(c->starts, c->starts_cap, c->n_cells + 1))
        return err_no_memory(err, c->n + bytes + 1);
    c->starts[c->n_cells++] = c->n;
    memcpy(c->bytes + c->n, text, bytes);
    c->bytes[c->n + bytes] = 0;
    c->n += bytes + 1;
    return SNUG_OK;
}

static int add_json_cell(struct cells *c, const json_t *v, struct snug_err *err)
{
    if (!v)
        return add_cell(c, "", 0, err);
    if (json_is_string(v))
        return add_cell(c, json_string_value(v), json_string_length(v), err);
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    int code = text ? add_cell(c, text, strlen(text), err) : err_no_memory(err, 64);
    free(text);
    return code;
}

/* Every column; of an object, itself as well, behind them. */
static int add_cells(struct row_stream *s, struct snug_err *err)
{
    const struct table *t = &s->table;
    const json_t *object = table_object(t);
    for (int i = 0; i < t->columns.n; i++) {
        size_t bytes;
        const char *text = object ? NULL : table_cell(t, i, &bytes);
        TRY(object ? add_json_cell(&s->cells, json_object_get(object, t->columns.names[i]), err)
                   : add_cell(&s->cells, text, bytes, err));
    }
    return object ? add_json_cell(&s->cells, object, err) : SNUG_OK;
}

const char *row_stream_cell(const struct row_stream *s, int64_t row, int column)
{
    return s->cells.bytes + s->cells.starts[row * s->cells.per_row + column];
}

const char *row_stream_object(const struct row_stream *s, int64_t row)
{
    int columns = row_stream_columns(s);
    return s->cells.per_row > columns ? row_stream_cell(s, row, columns) : NULL;
}

int64_t row_stream_words(const struct row_stream *s, int64_t row)
{
    return s->data->words ? (int64_t)(s->words_end[row] - (row ? s->words_end[row - 1] : 0)) : 0;
}

const char *row_stream_word(const struct row_stream *s, int64_t row, int64_t word)
{
    return s->words.bytes + s->words.starts[(row ? s->words_end[row - 1] : 0) + (size_t)word];
}

/* ---- blocks ---- */

/* Ids of the texts that are waiting. */
static int encode(struct row_stream *s, struct snug_err *err)
{
    TRY(token_rows_encode(&s->tokens, s->data->tokenizer, s->data->max_length, token_threads(s->data->threads),
                          s->data->stop, &s->block, err));
    return source_check_stop(s->data->stop, s->data->path, err);
}

static int measure(const struct row_stream *s, struct dataset *d, struct snug_err *err)
{
    for (int64_t row = 0; row < d->n_rows; row++) /* dataset_measure would count from the block's first */
        if (dataset_length(d, row) < 1)
            return err_at(err, SNUG_ERR_INPUT,
                          (struct place){.path = s->data->path, .n = s->done + row, .is_row = true},
                          "no tokens; the tokenizer makes none of its text");
    return dataset_measure(d, s->data->path, err);
}

static int make_block(struct row_stream *s, struct row_block *b, struct snug_err *err)
{
    if (s->block.n_rows)
        TRY(encode(s, err));
    const struct token_rows *t = &s->tokens;
    *b = (struct row_block){.first = s->done,
                            .data = {.path = s->data->path,
                                     .task = TASK_UNLABELED,
                                     .n_rows = t->n_rows,
                                     .n_tokens = t->n_tokens,
                                     .offsets = t->offsets,
                                     .ids = t->ids,
                                     .types = t->any_type ? t->types : NULL,
                                     .words = t->words}};
    return measure(s, &b->data, err);
}

/* Hands over the rows that were read. */
static int hand_over(struct row_stream *s, struct snug_err *err)
{
    struct row_block b;
    if (!s->block.n_rows && !s->tokens.n_rows)
        return SNUG_OK;
    TRY(make_block(s, &b, err));
    TRY(s->take(s->ctx, &b, err));
    s->done += b.data.n_rows;
    s->total.n_rows = s->done;
    s->total.truncated += s->tokens.truncated;
    s->tokens.n_rows = s->tokens.n_tokens = s->tokens.truncated = 0;
    s->tokens.any_type = false;
    s->cells.n = s->cells.n_cells = 0;
    s->words.n = s->words.n_cells = s->n_words_end = 0;
    return SNUG_OK;
}

static bool is_full(const struct row_stream *s)
{
    return text_block_full(&s->block) || s->cells.n >= BLOCK_CELLS_BYTES ||
           (s->o.most_rows && (int64_t)s->block.n_rows >= s->o.most_rows);
}

/* ---- rows ---- */

/* Behind what stands before each source. */
static int add_source(struct row_stream *s, struct place place, const char *text, size_t bytes, struct snug_err *err)
{
    struct str source = {0};
    str_append(&source, s->data->source_prefix);
    str_append_n(&source, text, bytes);
    int code = str_check(&source, err);
    if (!code)
        code = text_block_add(&s->block, place, str_text(&source), source.n, NULL, 0, err);
    str_free(&source);
    return code;
}

static int add_row(struct row_stream *s, struct place place, const char *text, size_t bytes, const char *pair,
                   size_t pair_bytes, struct snug_err *err)
{
    if (bytes == 0 || (pair && pair_bytes == 0)) {
        if (s->data->empty_is_error)
            return err_at(err, SNUG_ERR_INPUT, place,
                          "the text is empty, which --empty=error refuses; fill it in, or leave the option out");
        s->total.empty++;
    }
    if (s->data->source_prefix)
        return add_source(s, place, text, bytes, err);
    return text_block_add(&s->block, place, text, bytes, pair, pair_bytes, err);
}

/* `key`: the member with the words. */
static int add_words(struct row_stream *s, struct place place, json_t *row, const char *key, struct snug_err *err)
{
    size_t i;
    json_t *word;
    TRY(word_row_check(row, key, NULL, place, err));
    json_array_foreach(json_object_get(row, key), i, word)
        TRY(add_cell(&s->words, json_string_value(word), json_string_length(word), err));
    if (!MEM_GROW(s->words_end, s->words_end_cap, s->n_words_end + 1))
        return err_no_memory(err, s->n_words_end * sizeof *s->words_end);
    s->words_end[s->n_words_end++] = s->words.n_cells;
    s->block.words = key;
    s->total.empty += !json_array_size(json_object_get(row, key));
    return text_block_add_object(&s->block, place, row, err);
}

static int add_text(struct row_stream *s, struct place place, const char *text, size_t bytes, const char *pair,
                    size_t pair_bytes, struct snug_err *err)
{
    if (!s->data->words)
        return add_row(s, place, text, bytes, pair, pair_bytes, err);
    json_t *row = word_row_of_text(text, bytes, "tokens");
    int code = row ? add_words(s, place, row, "tokens", err) : err_no_memory(err, bytes);
    json_decref(row);
    return code;
}

static int read_text(struct row_stream *s, struct snug_err *err)
{
    size_t i = s->texts_read;
    s->ended = i == s->o.n_texts;
    if (s->ended)
        return SNUG_OK;
    const char *text = s->o.texts[i], *pair = s->o.pairs ? s->o.pairs[i] : NULL;
    struct place place = {.path = s->data->path, .n = (int64_t)i, .is_row = true};
    s->texts_read++;
    TRY(add_cell(&s->cells, text, strlen(text), err));
    if (pair)
        TRY(add_cell(&s->cells, pair, strlen(pair), err));
    return add_text(s, place, text, strlen(text), pair, pair ? strlen(pair) : 0, err);
}

static int read_row(struct row_stream *s, struct snug_err *err)
{
    const struct table *t = &s->table;
    if (!s->table_open)
        return read_text(s, err);
    TRY(table_next(&s->table, err));
    s->ended = t->ended;
    if (s->ended)
        return SNUG_OK;
    if (t->columns.form == ROWS_WORDS)
        TRY(add_words(s, t->place, table_object(t), t->columns.names[t->columns.turns], err));
    else
        TRY(add_text(s, t->place, t->row_text, t->text_bytes, t->row_pair, t->pair_bytes, err));
    return add_cells(s, err);
}

/* Until a block is full, or the end. */
static int read_block(struct row_stream *s, struct snug_err *err)
{
    while (!s->ended && !is_full(s)) {
        TRY(read_row(s, err));
        TRY(source_check_stop(s->data->stop, s->data->path, err));
    }
    return SNUG_OK;
}

/* The input has nothing more at present: what there is shall not wait for it. */
static int before_waiting(void *ctx, struct snug_err *err)
{
    struct row_stream *s = ctx;
    return s->take ? hand_over(s, err) : SNUG_OK;
}

/* ---- the stream ---- */

int row_stream_open(const struct io *io, const struct row_stream_options *o, struct row_stream **out,
                    struct snug_err *err)
{
    struct row_stream *s = mem_alloc(sizeof *s);
    *out = NULL;
    if (!s)
        return err_no_memory(err, sizeof *s);
    *s = (struct row_stream){.o = *o, .data = o->data};
    if (!o->texts) {
        enum data_format format = o->format;
        int code = SNUG_OK;
        if (format == FORMAT_UNKNOWN && !o->data->standard_input)
            code = data_format_of(io, o->data->path, &format, err);
        if (!code)
            code = table_open(io, o->data, format, TABLE_NO_LABELS, &s->table, err);
        if (code) {
            mem_free(s);
            return code;
        }
        s->table_open = true;
        table_before_waiting(&s->table, before_waiting, s);
    }
    s->cells.per_row = row_stream_columns(s) + (s->table_open && table_has_objects(&s->table));
    *out = s;
    return SNUG_OK;
}

int row_stream_peek(struct row_stream *s, struct row_block *first, bool *whole, struct snug_err *err)
{
    *whole = false;
    if (s->table_open && table_is_stream(&s->table))
        return SNUG_OK;
    TRY(read_block(s, err));
    *whole = s->ended && s->block.n_rows;
    return *whole ? make_block(s, first, err) : SNUG_OK;
}

int row_stream_run(struct row_stream *s, row_block_fn *take, void *ctx, struct snug_err *err)
{
    s->take = take;
    s->ctx = ctx;
    do {
        int code = read_block(s, err);
        if (code == SNUG_ERR_INPUT)
            hand_over(s, NULL); /* the rows before the bad one, which is what is reported */
        TRY(code);
        TRY(hand_over(s, err));
    } while (!s->ended);
    if (!s->done)
        return err_set(err, SNUG_ERR_INPUT, "%s: 0 rows behind the header; give some data", s->data->path);
    dataset_note_rows(s->data, &s->total);
    return SNUG_OK;
}

void row_stream_close(struct row_stream *s)
{
    if (!s)
        return;
    if (s->table_open)
        table_close(&s->table);
    text_block_free(&s->block);
    token_rows_free(&s->tokens);
    mem_free(s->cells.bytes);
    mem_free(s->cells.starts);
    mem_free(s->words.bytes);
    mem_free(s->words.starts);
    mem_free(s->words_end);
    mem_free(s);
}
