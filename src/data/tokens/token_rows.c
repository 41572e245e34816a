#include "data/tokens/token_rows.h"

#include "data/words/word_rows.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

enum { BLOCK_OBJECTS = 2048, BLOCK_ROWS = 16384, BLOCK_BYTES = 8 << 20, PIECE_ROWS = 64, MAX_THREADS = 64 };

/* ---- rows ---- */

int token_rows_add(struct token_rows *t, const int32_t *ids, const int32_t *types, size_t n, struct snug_err *err)
{
    size_t end = (size_t)t->n_tokens + n;
    if (!MEM_GROW(t->offsets, t->offsets_cap, (size_t)t->n_rows + 2) || !MEM_GROW(t->ids, t->ids_cap, end) ||
        !MEM_GROW(t->types, t->types_cap, end))
        return err_no_memory(err, end * (sizeof *t->ids + sizeof *t->types));
    if (n)
        memcpy(t->ids + t->n_tokens, ids, n * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        t->types[(size_t)t->n_tokens + i] = types ? (uint8_t)types[i] : 0;
        t->any_type |= types && types[i];
    }
    t->n_tokens = (int64_t)end;
    t->offsets[0] = 0;
    t->offsets[++t->n_rows] = t->n_tokens;
    return SNUG_OK;
}

int token_rows_add_masked(struct token_rows *t, const int32_t *ids, const uint8_t *loss_mask, size_t n,
                          struct snug_err *err)
{
    size_t end = (size_t)t->n_tokens + n;
    if (!MEM_GROW(t->loss_mask, t->loss_mask_cap, end))
        return err_no_memory(err, end);
    memcpy(t->loss_mask + t->n_tokens, loss_mask, n);
    return token_rows_add(t, ids, NULL, n, err);
}

int token_rows_add_words(struct token_rows *t, const struct token_buf *row, struct snug_err *err)
{
    size_t end = (size_t)t->n_tokens + row->n;
    if (!MEM_GROW(t->words, t->words_cap, end + 1)) /* + 1: also of a row without tokens */
        return err_no_memory(err, end * sizeof *t->words);
    if (row->n)
        memcpy(t->words + t->n_tokens, row->words, row->n * sizeof *t->words);
    t->truncated += row->truncated;
    return token_rows_add(t, row->ids, row->type_ids, row->n, err);
}

int token_rows_add_pair(struct token_rows *t, const int32_t *source, size_t n_source, const int32_t *target,
                        size_t n_target, struct snug_err *err)
{
    if (!MEM_GROW(t->sources, t->sources_cap, (size_t)t->n_rows + 1))
        return err_no_memory(err, (size_t)t->n_rows * sizeof *t->sources);
    t->sources[t->n_rows] = (int32_t)n_source;
    TRY(token_rows_add(t, source, NULL, n_source, err));
    t->n_rows--; /* it goes on */
    return token_rows_add(t, target, NULL, n_target, err);
}

int token_rows_append(struct token_rows *t, const struct token_rows *more, struct snug_err *err)
{
    size_t rows = (size_t)(t->n_rows + more->n_rows), tokens = (size_t)(t->n_tokens + more->n_tokens);
    size_t n = (size_t)more->n_tokens;
    if (!MEM_GROW(t->offsets, t->offsets_cap, rows + 1) || !MEM_GROW(t->ids, t->ids_cap, tokens) ||
        !MEM_GROW(t->types, t->types_cap, tokens) ||
        (more->loss_mask && !MEM_GROW(t->loss_mask, t->loss_mask_cap, tokens)) ||
        (more->words && !MEM_GROW(t->words, t->words_cap, tokens + 1)) ||
        (more->sources && !MEM_GROW(t->sources, t->sources_cap, rows)))
        return err_no_memory(err, tokens * (sizeof *t->ids + sizeof *t->types));
    if (more->sources)
        memcpy(t->sources + t->n_rows, more->sources, (size_t)more->n_rows * sizeof *t->sources);
    if (more->words && n)
        memcpy(t->words + t->n_tokens, more->words, n * sizeof *t->words);
    if (more->loss_mask && n)
        memcpy(t->loss_mask + t->n_tokens, more->loss_mask, n);
    if (n)
        memcpy(t->ids + t->n_tokens, more->ids, n * sizeof *t->ids);
    if (n && more->types)
        memcpy(t->types + t->n_tokens, more->types, n);
    else if (n)
        memset(t->types + t->n_tokens, 0, n);
    t->offsets[0] = 0;
    for (int64_t i = 1; i <= more->n_rows; i++)
        t->offsets[t->n_rows + i] = t->n_tokens + more->offsets[i];
    t->n_rows += more->n_rows;
    t->n_tokens += more->n_tokens;
    t->any_type |= more->any_type;
    t->truncated += more->truncated;
    t->no_target += more->no_target;
    return SNUG_OK;
}

void token_rows_free(struct token_rows *t)
{
    mem_free(t->offsets);
    mem_free(t->ids);
    mem_free(t->types);
    mem_free(t->loss_mask);
    mem_free(t->words);
    mem_free(t->sources);
    *t = (struct token_rows){0};
}

/* ---- texts ---- */

static int add_text(struct text_block *b, const char *text, size_t bytes, size_t *at, struct snug_err *err)
{
    if (!MEM_GROW(b->texts, b->texts_cap, b->n_texts + bytes + 1)) /* + 1: never NULL, also for empty texts */
        return err_no_memory(err, b->n_texts + bytes);
    *at = b->n_texts;
    memcpy(b->texts + b->n_texts, text, bytes);
    b->n_texts += bytes;
    return SNUG_OK;
}

int text_block_add(struct text_block *b, struct place p, const char *text, size_t text_bytes, const char *pair,
                   size_t pair_bytes, struct snug_err *err)
{
    if (!MEM_GROW(b->rows, b->rows_cap, b->n_rows + 1))
        return err_no_memory(err, b->n_rows * sizeof *b->rows);
    struct text_row *r = &b->rows[b->n_rows];
    *r = (struct text_row){.place = p, .text_bytes = text_bytes, .pair_bytes = pair_bytes};
    TRY(add_text(b, text, text_bytes, &r->text, err));
    if (pair)
        TRY(add_text(b, pair, pair_bytes, &r->pair, err));
    b->has_pair = pair != NULL;
    b->n_rows++;
    return SNUG_OK;
}

int text_block_add_object(struct text_block *b, struct place p, json_t *object, struct snug_err *err)
{
    if (!MEM_GROW(b->rows, b->rows_cap, b->n_rows + 1))
        return err_no_memory(err, b->n_rows * sizeof *b->rows);
    b->rows[b->n_rows++] = (struct text_row){.place = p, .object = json_incref(object)};
    return SNUG_OK;
}

static void drop_objects(struct text_block *b)
{
    for (size_t i = 0; i < b->n_rows; i++)
        json_decref(b->rows[i].object);
}

bool text_block_full(const struct text_block *b)
{
    if (b->n_rows >= BLOCK_OBJECTS && b->rows[0].object)
        return true;
    return b->n_rows >= BLOCK_ROWS || b->n_texts >= BLOCK_BYTES;
}

void text_block_free(struct text_block *b)
{
    drop_objects(b);
    mem_free(b->rows);
    mem_free(b->texts);
    *b = (struct text_block){0};
}

/* ---- tokenizing ---- */

/* A piece is PIECE_ROWS rows of the block; whichever thread takes it, its result goes to its place in `pieces`. */
struct piece {
    struct token_rows rows;
    int code;
    struct snug_err err;
};

struct work {
    const struct tokenizer *tokenizer;
    int64_t max_length;
    const struct text_block *block;
    const struct stop_flag *stop;
    struct piece *pieces; /* (n_pieces) */
    size_t n_pieces;
    atomic_size_t next;
};

static int encode_object(const struct work *w, const struct text_row *r, struct chat_buf *buf, struct token_rows *out,
                         struct snug_err *err)
{
    struct snug_err e;
    int code = chat_row_encode(w->block->chat, w->tokenizer, w->max_length, w->block->columns, r->object, buf, &e);
    if (code == SNUG_ERR_INPUT)
        return err_at(err, code, r->place, "%s", e.text);
    if (code)
        return err_set(err, code, "%s", e.text);
    if (!buf->has_target) {
        out->no_target++;
        return SNUG_OK;
    }
    out->truncated += buf->truncated;
    return token_rows_add_masked(out, buf->ids, buf->mask, buf->n, err);
}

static int encode_words(const struct work *w, const struct text_row *r, struct word_buf *buf, struct token_rows *out,
                        struct snug_err *err)
{
    struct snug_err e;
    int code = word_row_encode(w->tokenizer, w->max_length, r->object, w->block->words, buf, &e);
    if (code == SNUG_ERR_INPUT)
        return err_at(err, code, r->place, "%s", e.text);
    return code ? err_set(err, code, "%s", e.text) : token_rows_add_words(out, &buf->tokens, err);
}

static int check_text(int code, const struct text_row *r, const struct snug_err *why, struct snug_err *err)
{
    if (code == SNUG_ERR_INPUT)
        return err_at(err, code, r->place, "%s", why->text);
    return code ? err_set(err, code, "%s", why->text) : SNUG_OK;
}

/* Of a source and a target. Without tokens on one side there is nothing to learn. */
static int encode_pair(const struct work *w, const struct text_row *r, struct token_buf *source,
                       struct token_buf *target, struct token_rows *out, struct snug_err *err)
{
    const struct text_block *b = w->block;
    struct snug_err e;
    int code = tokenizer_encode(w->tokenizer, b->texts + r->text, r->text_bytes, NULL, 0, w->max_length, source, &e);
    TRY(check_text(code, r, &e, err));
    code = tokenizer_encode_target(w->tokenizer, b->texts + r->pair, r->pair_bytes, b->max_target_length, target, &e);
    if (code == SNUG_ERR_USAGE)
        return err_set(err, code, "--max-target-length %lld: leaves no room beside a target's special tokens; use more",
                       (long long)b->max_target_length);
    TRY(check_text(code, r, &e, err));
    if (!source->n || !target->n) {
        out->no_target++;
        return SNUG_OK;
    }
    out->truncated += source->truncated || target->truncated;
    return token_rows_add_pair(out, source->ids, source->n, target->ids, target->n, err);
}

static int encode_row(const struct work *w, const struct text_row *r, struct token_buf *buf, struct token_rows *out,
                      struct snug_err *err)
{
    const char *texts = w->block->texts;
    const char *pair = w->block->has_pair ? texts + r->pair : NULL;
    struct snug_err e;
    int code =
        tokenizer_encode(w->tokenizer, texts + r->text, r->text_bytes, pair, r->pair_bytes, w->max_length, buf, &e);
    if (code == SNUG_ERR_INPUT) /* the row's fault, not that of max_length or memory */
        return err_at(err, code, r->place, "%s", e.text);
    if (code)
        return err_set(err, code, "%s", e.text);
    out->truncated += buf->truncated;
    return token_rows_add(out, buf->ids, buf->type_ids, buf->n, err);
}

/* Working memory of a thread, for rows of each kind. */
struct row_bufs {
    struct token_buf text, target;
    struct chat_buf chat;
    struct word_buf words;
};

static void encode_piece(const struct work *w, size_t i, struct row_bufs *b)
{
    struct piece *p = &w->pieces[i];
    size_t end = (i + 1) * PIECE_ROWS < w->block->n_rows ? (i + 1) * PIECE_ROWS : w->block->n_rows;
    for (size_t row = i * PIECE_ROWS; row < end && !p->code; row++)
        p->code = w->block->seq2seq ? encode_pair(w, &w->block->rows[row], &b->text, &b->target, &p->rows, &p->err)
                  : !w->block->rows[row].object ? encode_row(w, &w->block->rows[row], &b->text, &p->rows, &p->err)
                  : w->block->words             ? encode_words(w, &w->block->rows[row], &b->words, &p->rows, &p->err)
                                                : encode_object(w, &w->block->rows[row], &b->chat, &p->rows, &p->err);
}

static void *run(void *arg)
{
    struct work *w = arg;
    struct row_bufs b = {0};
    for (size_t i; !stop_asked(w->stop) && (i = atomic_fetch_add(&w->next, 1)) < w->n_pieces;)
        encode_piece(w, i, &b);
    chat_buf_free(&b.chat);
    token_buf_free(&b.text);
    token_buf_free(&b.target);
    word_buf_free(&b.words);
    return NULL;
}

static void run_on_threads(struct work *w, int threads)
{
    pthread_t ids[MAX_THREADS];
    int started = 0;
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < threads - 1 && pthread_create(&ids[started], NULL, run, w) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    run(w); /* this thread too: should none start, it does all the work */
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
}

int token_rows_encode(struct token_rows *t, const struct tokenizer *tokenizer, int64_t max_length, int threads,
                      const struct stop_flag *stop, struct text_block *b, struct snug_err *err)
{
    struct work w = {.tokenizer = tokenizer, .max_length = max_length, .stop = stop, .block = b};
    w.n_pieces = (b->n_rows + PIECE_ROWS - 1) / PIECE_ROWS;
    w.pieces = mem_alloc(w.n_pieces * sizeof *w.pieces);
    if (!w.pieces)
        return err_no_memory(err, w.n_pieces * sizeof *w.pieces);
    run_on_threads(&w, (size_t)threads < w.n_pieces ? threads : (int)w.n_pieces);
    int code = SNUG_OK;
    for (size_t i = 0; i < w.n_pieces; i++) {
        if (!code && w.pieces[i].code) {
            code = w.pieces[i].code;
            if (err)
                *err = w.pieces[i].err;
        }
        if (!code)
            code = token_rows_append(t, &w.pieces[i].rows, err);
        token_rows_free(&w.pieces[i].rows);
    }
    mem_free(w.pieces);
    drop_objects(b);
    b->n_rows = b->n_texts = 0;
    return code;
}

int token_threads(int asked)
{
    cpu_set_t set;
    int n = asked > 0 ? asked : sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n < MAX_THREADS ? n : MAX_THREADS;
}
