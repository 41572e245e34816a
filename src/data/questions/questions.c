/* Reading questions, and cutting their contexts into windows. */
#include "data/questions/questions.h"

#include "data/dataset_parts.h"
#include "data/files/format.h"
#include "data/files/objects/objects.h"
#include "format/json.h"
#include "tokenizer/unicode.h"

#include <limits.h>
#include <string.h>

void questions_free(struct questions *q)
{
    if (!q)
        return;
    arena_free(&q->arena);
    mem_free(q->list);
    mem_free(q->windows);
    if (q->mapped.p)
        mapping_close(&q->mapped);
    else
        mem_free(q->places);
    mem_free(q);
}

struct reading {
    const struct dataset_options *o;
    struct questions *q;
    struct token_store tokens; /* whose rows' `words` are their targets */
    struct scratch places;     /* the first n_places of all; q->places has those behind them */
    int64_t n_places;
    struct token_buf buf;
    struct place place;
    const char *last; /* the context before, which often is the same */
    size_t last_bytes;
    int64_t empty;
    bool labels;
};

/* The first answer of a question, in bytes of its context. */
struct stretch {
    size_t start, end;
};

/* ---- windows ---- */

enum { USUAL_STRIDE = 128 };

static int too_long(const struct reading *r, size_t question, int64_t room, int64_t stride, struct snug_err *err)
{
    if (room < 1) /* no stride would do */
        return err_at(err, SNUG_ERR_INPUT, r->place,
                      "the question has %zu tokens, which leaves none of --max-length %d for its context; shorten the "
                      "question, or give a larger --max-length",
                      question, (int)r->o->max_length);
    return err_at(err, SNUG_ERR_INPUT, r->place,
                  "the question has %zu tokens, which leaves %lld of --max-length %d for windows over its context, and "
                  "--doc-stride %lld needs more; shorten the question, or change one of the two",
                  question, (long long)room, (int)r->o->max_length, (long long)stride);
}

/* Marks the answer, or token 0 where it is not whole in the window. */
static int mark(struct reading *r, const struct context_window *w, const struct stretch *answer, struct snug_err *err)
{
    struct token_rows *rows = &r->tokens.rows;
    size_t n = (size_t)rows->n_tokens;
    int64_t row = rows->offsets[rows->n_rows - 1];
    if (!MEM_GROW(rows->words, rows->words_cap, n))
        return err_no_memory(err, n * sizeof *rows->words);
    int32_t *to = rows->words + row;
    memset(to, 0, (n - (size_t)row) * sizeof *to);
    const struct answer_place *places = r->q->places + (w->places - r->n_places);
    int32_t start = -1, end = -1;
    bool whole = answer && w->tokens && places[0].start <= answer->start && places[w->tokens - 1].end >= answer->end;
    for (int32_t i = 0; whole && i < w->tokens; i++)
        start = places[i].start <= answer->start ? i : start;
    for (int32_t i = w->tokens - 1; whole && i >= 0; i--)
        end = places[i].end >= answer->end ? i : end;
    whole = whole && start >= 0 && end >= start;
    to[whole ? w->at + start : 0] |= 1;
    to[whole ? w->at + end : 0] |= 2;
    return SNUG_OK;
}

static int64_t rows_so_far(const struct reading *r)
{
    return r->tokens.n_rows + r->tokens.rows.n_rows;
}

static int add_window(struct reading *r, size_t n_first, size_t from, size_t to, int64_t places,
                      const struct stretch *answer, struct snug_err *err)
{
    struct questions *q = r->q;
    size_t at;
    TRY(tokenizer_window(r->o->tokenizer, n_first, from, to, &r->buf, &at, err));
    int64_t row = rows_so_far(r);
    if (!MEM_GROW(q->windows, q->windows_cap, (size_t)row + 1))
        return err_no_memory(err, (size_t)row * sizeof *q->windows);
    struct context_window *w = &q->windows[row];
    *w = (struct context_window){
        .question = q->n - 1, .places = places + (int64_t)from, .at = (int32_t)at, .tokens = (int32_t)(to - from)};
    TRY(token_rows_add(&r->tokens.rows, r->buf.ids, r->buf.type_ids, r->buf.n, err));
    return r->labels ? mark(r, w, answer, err) : SNUG_OK;
}

static int append_places(struct reading *r, struct snug_err *err)
{
    struct questions *q = r->q;
    const int64_t size = sizeof *q->places, n = (int64_t)q->n_places;
    TRY(token_store_append(&r->tokens, &r->places, r->n_places * size, q->places, n * size, err));
    r->n_places += n;
    q->n_places = 0;
    return SNUG_OK;
}

/* Between two questions. Places leave with the tokens. */
static int settle(struct reading *r, struct snug_err *err)
{
    const int64_t before = r->tokens.n_rows;
    TRY(dataset_settle(r->o, &r->tokens, err));
    return r->tokens.n_rows > before ? append_places(r, err) : SNUG_OK;
}

static int add_windows(struct reading *r, struct question *q, const struct stretch *answer, struct snug_err *err)
{
    const struct tokenizer *t = r->o->tokenizer;
    struct questions *all = r->q;
    size_t n_first, length = strlen(q->text), skip = strspn(q->text, " \t\r\n\v\f");
    struct snug_err e = {0};
    int code =
        tokenizer_encode_whole(t, q->text + skip, length - skip, q->context, q->context_bytes, &r->buf, &n_first, &e);
    if (code)
        return code == SNUG_ERR_INPUT ? err_at(err, code, r->place, "%s", e.text) : err_set(err, code, "%s", e.text);
    size_t n = r->buf.n_pieces - n_first;
    int64_t room =
        r->o->max_length ? r->o->max_length - tokenizer_template_tokens(t, true) - (int64_t)n_first : (int64_t)n + 1;
    int64_t stride = r->o->questions->doc_stride;
    if (stride < 0)
        stride = room / 2 < USUAL_STRIDE ? room / 2 : USUAL_STRIDE;
    if (room < 1 || (room < (int64_t)n && room <= stride))
        return too_long(r, n_first, room, stride, err);
    if (!MEM_GROW(all->places, all->places_cap, all->n_places + n))
        return err_no_memory(err, (all->n_places + n) * sizeof *all->places);
    for (size_t i = 0; i < n; i++) {
        struct text_place p = r->buf.piece_places[n_first + i];
        all->places[all->n_places + i] = (struct answer_place){(uint32_t)p.start, (uint32_t)p.end};
    }
    int64_t places = r->n_places + (int64_t)all->n_places;
    all->n_places += n;
    q->first_row = rows_so_far(r);
    for (size_t from = 0;; from += (size_t)(room - stride)) {
        size_t to = n - from > (size_t)room ? from + (size_t)room : n;
        TRY(add_window(r, n_first, from, to, places, answer, err));
        if (to == n)
            break;
    }
    q->n_rows = rows_so_far(r) - q->first_row;
    return settle(r, err);
}

/* ---- questions ---- */

static char *keep(struct reading *r, const char *text, size_t bytes, struct snug_err *err)
{
    char *kept = arena_strndup(&r->q->arena, text, bytes);
    if (!kept)
        err_no_memory(err, bytes + 1);
    return kept;
}

static int get_text(const struct reading *r, json_t *o, const char *key, json_t **text, struct snug_err *err)
{
    char shown[64];
    *text = json_object_get(o, key);
    if (!*text)
        return err_at(err, SNUG_ERR_INPUT, r->place, "no '%s'; a row needs a question, a context and answers", key);
    return json_is_string(*text)
               ? SNUG_OK
               : err_at(err, SNUG_ERR_INPUT, r->place, "'%s' is %s, not a string", key, json_value_text(*text, shown));
}

/* Bytes of the first `chars` characters; more than `bytes`: there are not so many. */
static size_t bytes_of(const char *text, size_t bytes, int64_t chars)
{
    size_t at = 0;
    for (; chars > 0 && at < bytes; chars--)
        at += (size_t)utf8_sequence(text + at, bytes - at);
    return chars > 0 ? bytes + 1 : at;
}

/* Answer i of the question, at character `start` of its context. */
static int add_answer(struct reading *r, struct question *q, const char **answers, size_t i, json_t *text,
                      json_t *start, struct stretch *first, struct snug_err *err)
{
    char shown[64];
    size_t n = json_string_length(text);
    if (!json_is_string(text) || !n)
        return err_at(err, SNUG_ERR_INPUT, r->place, "an answer is %s; write its text as a string, or leave it out",
                      json_value_text(text, shown));
    if (!json_is_integer(start) && (start || r->labels))
        return err_at(err, SNUG_ERR_INPUT, r->place,
                      "'answer_start' of \"%s\" is %s; write where in the context it starts, in characters",
                      json_string_value(text), json_value_text(start, shown));
    if (!(answers[i] = keep(r, json_string_value(text), n, err)))
        return SNUG_ERR_ENV;
    int64_t chars = json_integer_value(start);
    size_t at = chars < 0 ? q->context_bytes + 1 : bytes_of(q->context, q->context_bytes, chars);
    if (r->labels && (at > q->context_bytes || at + n > q->context_bytes || memcmp(q->context + at, answers[i], n)))
        return err_at(err, SNUG_ERR_INPUT, r->place,
                      "the answer \"%s\" does not stand at character %lld of its context; correct answer_start",
                      answers[i], (long long)chars);
    if (i == 0)
        *first = (struct stretch){at, at + n};
    return SNUG_OK;
}

/* `answers` of a row, in any of their spellings; none: q->n_answers is 0. */
static int get_answers(struct reading *r, struct question *q, json_t *o, struct stretch *first, struct snug_err *err)
{
    json_t *list = json_object_get(o, "answers"), *text = json_object_get(list, "text"),
           *start = json_object_get(list, "answer_start");
    bool several = json_is_array(list) || json_is_array(text);
    size_t n = json_is_array(list) ? json_array_size(list) : json_is_array(text) ? json_array_size(text) : text != NULL;
    if (!list && r->labels)
        return err_at(
            err, SNUG_ERR_INPUT, r->place,
            "no 'answers'; write {\"text\": [...], \"answer_start\": [...]}, empty where the context has none");
    if (list && !json_is_null(list) && !json_is_array(list) && !text)
        return err_at(err, SNUG_ERR_INPUT, r->place,
                      "'answers' has no 'text'; write {\"text\": [...], \"answer_start\": [...]}");
    if (json_is_array(text) && start && json_array_size(start) != n)
        return err_at(err, SNUG_ERR_INPUT, r->place, "%zu answers but %zu of 'answer_start'; each needs one", n,
                      json_array_size(start));
    const char **answers = arena_alloc(&r->q->arena, (n + 1) * sizeof *answers);
    if (!answers)
        return err_no_memory(err, (n + 1) * sizeof *answers);
    for (size_t i = 0; i < n; i++) {
        json_t *one = json_array_get(list, i);
        json_t *t = one ? json_object_get(one, "text") : several ? json_array_get(text, i) : text;
        json_t *s = one ? json_object_get(one, "answer_start") : several ? json_array_get(start, i) : start;
        TRY(add_answer(r, q, answers, i, t, s, first, err));
    }
    q->answers = answers;
    q->n_answers = n;
    return SNUG_OK;
}

/* A context that is the last one's is kept once. */
static int keep_context(struct reading *r, const char *text, size_t bytes, struct question *q, struct snug_err *err)
{
    if (bytes > UINT32_MAX)
        return err_at(err, SNUG_ERR_INPUT, r->place, "a context of %zu bytes; split it", bytes);
    if (!r->last || r->last_bytes != bytes || memcmp(r->last, text, bytes)) {
        r->last_bytes = bytes;
        if (!(r->last = keep(r, text, bytes, err)))
            return SNUG_ERR_ENV;
    }
    q->context = r->last;
    q->context_bytes = bytes;
    return SNUG_OK;
}

static int new_question(struct reading *r, const char *text, size_t bytes, const char *context, size_t context_bytes,
                        struct question **out, struct snug_err *err)
{
    struct questions *all = r->q;
    if (!MEM_GROW(all->list, all->list_cap, (size_t)all->n + 1))
        return err_no_memory(err, (size_t)all->n * sizeof *all->list);
    struct question *q = *out = &all->list[all->n++];
    *q = (struct question){0};
    if (!bytes || !context_bytes) {
        if (r->o->empty_is_error)
            return err_at(err, SNUG_ERR_INPUT, r->place,
                          "the %s is empty, which --empty=error refuses; fill it in, or leave the option out",
                          bytes ? "context" : "question");
        r->empty++;
    }
    TRY(keep_context(r, context, context_bytes, q, err));
    return (q->text = keep(r, text, bytes, err)) ? SNUG_OK : SNUG_ERR_ENV;
}

static int add_question(struct reading *r, json_t *row, json_t *context, struct snug_err *err)
{
    json_t *text, *id = json_object_get(row, "id");
    struct question *q;
    struct stretch first = {0};
    TRY(get_text(r, row, "question", &text, err));
    TRY(new_question(r, json_string_value(text), json_string_length(text), json_string_value(context),
                     json_string_length(context), &q, err));
    if (json_is_string(id) && !(q->id = keep(r, json_string_value(id), json_string_length(id), err)))
        return SNUG_ERR_ENV;
    TRY(get_answers(r, q, row, &first, err));
    r->q->unanswered |= r->labels && !q->n_answers;
    return add_windows(r, q, q->n_answers ? &first : NULL, err);
}

/* {"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": …}, …]}, …]}, …]} */
static int add_squad(struct reading *r, json_t *data, struct snug_err *err)
{
    size_t a, p, k;
    json_t *article, *paragraph, *row, *context;
    json_array_foreach(data, a, article) json_array_foreach(json_object_get(article, "paragraphs"), p, paragraph)
    {
        TRY(get_text(r, paragraph, "context", &context, err));
        json_array_foreach(json_object_get(paragraph, "qas"), k, row) TRY(add_question(r, row, context, err));
        TRY(source_check_stop(r->o->stop, r->o->path, err));
    }
    return SNUG_OK;
}

static int add_object(struct reading *r, json_t *row, struct snug_err *err)
{
    json_t *context;
    if (json_is_array(json_object_get(row, "data")))
        return add_squad(r, json_object_get(row, "data"), err);
    TRY(get_text(r, row, "context", &context, err));
    return add_question(r, row, context, err);
}

/* ---- files ---- */

static int read_file(struct reading *r, const struct io *io, const char *path, struct hash128 *hash,
                     struct snug_err *err)
{
    enum data_format format;
    struct objects o;
    TRY(data_format_of(io, path, &format, err));
    if (!format_has_objects(format))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: questions with contexts and answers are read from .json, .jsonl and .parquet; convert it",
                       path);
    TRY(objects_open(io, path, format, &o, err));
    int code;
    while (!(code = objects_next(&o, err)) && o.row) {
        r->place = o.place;
        code = add_object(r, o.row, err);
        if (!code)
            code = source_check_stop(r->o->stop, path, err);
        if (code)
            break;
    }
    if (!code)
        *hash = objects_hash(&o);
    objects_close(&o);
    return code;
}

bool questions_shown(const struct io *io, const char *path)
{
    enum data_format format;
    struct objects o;
    if (data_format_of(io, path, &format, NULL) || !format_has_objects(format) ||
        objects_open(io, path, format, &o, NULL))
        return false;
    bool shown = false;
    if (!objects_next(&o, NULL) && o.row)
        shown = json_object_get(json_array_get(json_object_get(o.row, "data"), 0), "paragraphs") ||
                (json_object_get(o.row, "question") && json_object_get(o.row, "context") &&
                 json_object_get(o.row, "answers"));
    objects_close(&o);
    return shown;
}

static int read_texts(struct reading *r, struct snug_err *err)
{
    const struct question_options *o = r->o->questions;
    for (size_t i = 0; i < o->n_texts; i++) {
        struct question *q;
        r->place = (struct place){.path = r->o->path, .n = (int64_t)i, .is_row = true};
        TRY(new_question(r, o->texts[i], strlen(o->texts[i]), o->contexts[i], strlen(o->contexts[i]), &q, err));
        TRY(add_windows(r, q, NULL, err));
    }
    return SNUG_OK;
}

static int read_all(struct reading *r, const struct io *io, struct hash128 *content, struct snug_err *err)
{
    if (r->o->questions->n_texts)
        return read_texts(r, err);
    for (size_t i = 0; i <= r->o->n_more_paths; i++) {
        struct hash128 both[2] = {*content};
        TRY(read_file(r, io, i ? r->o->more_paths[i - 1] : r->o->path, &both[1], err));
        *content = i ? hash_bytes(both, sizeof both) : both[1];
    }
    return SNUG_OK;
}

/* What was read becomes the dataset's. */
static int finish(struct reading *r, struct dataset *d, struct snug_err *err)
{
    struct questions *q = r->q;
    TRY(token_store_finish(&r->tokens, d, err));
    d->targets = d->words;
    d->words = NULL;
    if (!r->n_places)
        return SNUG_OK;
    TRY(append_places(r, err));
    mem_free(q->places);
    q->places = NULL;
    TRY(scratch_map(&r->places, IO_MAP_READ, &q->mapped, err));
    q->places = q->mapped.p;
    return SNUG_OK;
}

int questions_read(const struct io *io, const struct dataset_options *o, const char *dir, struct dataset *d,
                   struct hash128 *content, struct snug_err *err)
{
    struct reading r = {.o = o, .labels = o->task == TASK_SPAN};
    const struct token_store_options store = dataset_store(io, o, dir);
    token_store_open(&r.tokens, &store);
    d->questions = r.q = mem_alloc(sizeof *r.q);
    int code = r.q ? read_all(&r, io, content, err) : err_no_memory(err, sizeof *r.q);
    if (!code)
        code = finish(&r, d, err);
    d->task = o->task;
    d->empty = r.empty;
    token_store_close(&r.tokens);
    scratch_drop(&r.places);
    token_buf_free(&r.buf);
    return code;
}
