#include "train/session/prompts.h"

#include "data/files/format.h"
#include "data/files/objects/objects.h"
#include "train/session/chat.h"

#include <string.h>

enum { AT_ONCE = 8, PIECE = 512 }; /* prompts that run at once; tokens of a prompt that one call reads */

/* They leave the decoder all its positions. */
static bool are_sources(const struct session *s)
{
    return model_task(&s->model)->labels == TASK_SEQ2SEQ;
}

static int add(struct session *s, const int32_t *ids, size_t n, struct snug_err *err)
{
    struct prompts *p = &s->prompts;
    size_t at = p->n ? p->begins[p->n] : 0;
    if (!n)
        return err_set(err, SNUG_ERR_INPUT, "the prompt has no tokens; write some");
    if ((int64_t)n >= s->model.longest + are_sources(s))
        return err_set(err, SNUG_ERR_INPUT,
                       "the prompt has %zu tokens, and config.json has %s %lld; give a shorter one", n,
                       s->model.arch->positions_key, (long long)s->model.longest);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->model.vocab_size)
            return err_set(err, SNUG_ERR_INPUT,
                           "token id %d is not below vocab_size %lld; use the model's own tokenizer", ids[i],
                           (long long)s->model.vocab_size);
    if (!MEM_GROW(p->ids, p->ids_cap, at + n) || !MEM_GROW(p->begins, p->begins_cap, p->n + 2))
        return err_no_memory(err, (at + n) * sizeof *ids);
    memcpy(p->ids + at, ids, n * sizeof *ids);
    p->begins[p->n++] = at;
    p->begins[p->n] = at + n;
    p->longest = (int64_t)n > p->longest ? (int64_t)n : p->longest;
    return SNUG_OK;
}

static int need_tokenizer(const struct session *s, struct snug_err *err)
{
    if (s->tokenizer)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s has no tokenizer that can be read; give rows of input_ids", s->o->model);
}

static int add_text(struct session *s, const char *text, size_t bytes, struct snug_err *err)
{
    struct token_buf b = {0};
    TRY(need_tokenizer(s, err));
    int code = tokenizer_encode(s->tokenizer, text, bytes, NULL, 0, 0, &b, err);
    if (!code)
        code = add(s, b.ids, b.n, err);
    token_buf_free(&b);
    return code;
}

/* row: the object that they are of, NULL for none. */
static int add_messages(struct session *s, json_t *messages, json_t *row, struct snug_err *err)
{
    struct chat_buf b = {0};
    const int32_t *ids;
    size_t n;
    if (!model_task(&s->model)->converses)
        return err_set(err, SNUG_ERR_INPUT, "a %s model has no conversations; give the text of a source as a prompt",
                       s->model.arch->model_type);
    TRY(need_tokenizer(s, err));
    int code = chat_prompt_encode(&s->chat, s->tokenizer, messages, row, &b, &ids, &n, err);
    if (!code)
        code = add(s, ids, n, err);
    chat_buf_free(&b);
    return code;
}

static int add_chat(struct session *s, const char *text, struct snug_err *err)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", text);
    if (!messages)
        return err_set(err, SNUG_ERR_INPUT, "the message is not UTF-8");
    int code = add_messages(s, messages, NULL, err);
    json_decref(messages);
    return code;
}

static int add_ids(struct session *s, json_t *list, struct snug_err *err)
{
    size_t n = json_array_size(list);
    char text[64];
    int32_t *ids = mem_alloc((n + 1) * sizeof *ids);
    int code = ids ? SNUG_OK : err_no_memory(err, n * sizeof *ids);
    for (size_t i = 0; i < n && !code; i++) {
        json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            code = err_set(err, SNUG_ERR_INPUT, "input_ids has %s; write token ids", json_value_text(id, text));
        ids[i] = (int32_t)json_integer_value(id);
    }
    if (!code)
        code = add(s, ids, n, err);
    mem_free(ids);
    return code;
}

static int add_row(struct session *s, json_t *row, struct snug_err *err)
{
    json_t *prompt = json_object_get(row, "prompt"), *messages = json_object_get(row, "messages");
    json_t *ids = json_object_get(row, "input_ids");
    if (json_is_string(prompt))
        return add_text(s, json_string_value(prompt), json_string_length(prompt), err);
    if (json_is_array(prompt) || json_is_array(messages))
        return add_messages(s, json_is_array(prompt) ? prompt : messages, row, err);
    if (json_is_array(ids))
        return add_ids(s, ids, err);
    return err_set(err, SNUG_ERR_INPUT, "no prompt; write \"prompt\", \"messages\" or \"input_ids\"");
}

static int add_file(struct session *s, const char *path, struct snug_err *err)
{
    struct objects rows;
    struct snug_err why;
    enum data_format format;
    if (data_format_of(s->io, path, &format, NULL)) /* a name without a usual ending */
        format = FORMAT_JSONL;
    if (format == FORMAT_CONLL || !format_has_objects(format))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: prompts are JSON lines (.jsonl) or Parquet; write an object a line with \"prompt\", "
                       "\"messages\" or \"input_ids\"",
                       path);
    TRY(objects_open(s->io, path, format, &rows, err));
    int code = SNUG_OK;
    for (long long row = 1; !code && !(code = objects_next(&rows, err)) && rows.row; row++)
        if ((code = add_row(s, rows.row, &why)) != SNUG_OK)
            code = err_set(err, code, "%s: row %lld: %s", path, row, why.text);
    objects_close(&rows);
    if (!code && !s->prompts.n)
        return err_set(err, SNUG_ERR_INPUT, "%s: holds no prompts; write one object a line", path);
    return code;
}

int prompts_open(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    struct snug_err why;
    if (!s->tokenizer && !o->json)
        return err_set(err, SNUG_ERR_USAGE, "%s has no tokenizer that can be read, so ids have no text; give --json",
                       o->model);
    if (o->data)
        return add_file(s, o->data, err);
    for (size_t i = 0; i < o->prompt.n; i++)
        if (add_text(s, o->prompt.items[i], strlen(o->prompt.items[i]), &why))
            return err_set(err, why.code, "--prompt: %s", why.text);
    for (size_t i = 0; i < o->chat.n; i++)
        if (add_chat(s, o->chat.items[i], &why))
            return err_set(err, why.code, "--chat: %s", why.text);
    return SNUG_OK;
}

/* ---- rows of the evaluation data ---- */

/* Tokens *from … *to - 1 are the row's last answer, or its target. */
static void find_answer(const struct dataset *d, int64_t row, int64_t *from, int64_t *to)
{
    int64_t begin = d->offsets[row];
    *to = d->offsets[row + 1];
    if (d->sources) {
        *from = begin + d->sources[row];
        return;
    }
    while (*to > begin && !chat_is_learned(d, *to - 1))
        --*to;
    *from = *to;
    while (*from > begin && chat_is_learned(d, *from - 1))
        --*from;
    if (*from == begin)
        *from += (*to - begin + 1) / 2;
}

static int check_samples(const struct session *s, const char *flag, struct snug_err *err)
{
    if (!s->has_data)
        return err_set(err, SNUG_ERR_USAGE, "%s: there are no rows to answer; give --eval-data too", flag);
    if (!s->tokenizer)
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: %s has no tokenizer that can be read, so answers have no text; leave it out", flag,
                       s->o->model);
    return SNUG_OK;
}

/* Sample i of n. */
static int64_t sample_row(const struct session *s, int64_t i, int64_t n)
{
    return i * s->data.n_rows / n;
}

/* No more samples than rows. */
static int64_t n_samples(const struct session *s)
{
    return s->o->eval_samples < s->data.n_rows ? s->o->eval_samples : s->data.n_rows;
}

int prompts_of_data(struct session *s, struct snug_err *err)
{
    struct prompts *p = &s->prompts;
    const struct dataset *d = &s->data;
    bool all = s->o->predict_with_generate;
    const char *flag = all ? "--predict-with-generate" : "--eval-samples";
    int64_t from, to;
    if (!all && !s->o->eval_samples)
        return SNUG_OK;
    TRY(check_samples(s, flag, err));
    int64_t n = all ? d->n_rows : n_samples(s);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = sample_row(s, i, n), begin = d->offsets[row];
        find_answer(d, row, &from, &to);
        if (from == begin || from - begin >= s->model.longest + are_sources(s))
            continue;
        if (!MEM_GROW(p->rows, p->rows_cap, p->n + 1))
            return err_no_memory(err, (p->n + 1) * sizeof *p->rows);
        p->rows[p->n] = row;
        TRY(add(s, d->ids + begin, (size_t)(from - begin), err));
    }
    return p->n ? SNUG_OK
                : err_set(err, SNUG_ERR_USAGE, "%s: no row of %s has a prompt that leaves room to answer", flag,
                          d->path);
}

const int32_t *prompts_expected(const struct session *s, size_t i, size_t *n_before, size_t *n)
{
    int64_t from, to;
    find_answer(&s->data, s->prompts.rows[i], &from, &to);
    *n = (size_t)(to - from);
    *n_before = are_sources(s) ? 0 : s->prompts.begins[i + 1] - s->prompts.begins[i];
    return s->data.ids + from - *n_before;
}

bool prompts_is_sample(const struct session *s, int64_t row)
{
    int64_t n = n_samples(s), i = (row * n + s->data.n_rows - 1) / s->data.n_rows;
    return i < n && sample_row(s, i, n) == row;
}

/* ---- rows to predict ---- */

bool prompts_are_predicted(const struct session *s)
{
    return s->o->command == CMD_PREDICT && are_sources(s);
}

int prompts_of_sources(struct session *s, const struct dataset *d, int64_t first, struct snug_err *err)
{
    struct snug_err why;
    s->prompts.n = 0;
    if (!s->tokenizer)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s has no tokenizer that can be read, so ids have no text; 'snug generate --json' writes ids",
                       s->o->model);
    for (int64_t row = 0; row < d->n_rows; row++) {
        int code = add(s, d->ids + d->offsets[row], (size_t)dataset_length(d, row), &why);
        if (code)
            return err_set(err, code, "%s: row %lld: %s", d->path, (long long)(first + row), why.text);
    }
    return SNUG_OK;
}

void prompts_close(struct session *s)
{
    mem_free(s->prompts.rows);
    mem_free(s->prompts.ids);
    mem_free(s->prompts.begins);
}

void prompts_size(struct session *s, int64_t n, int64_t longest)
{
    struct compile_settings *c = &s->compile;
    int64_t given = s->o->per_device_eval_batch_size,
            B = option_given(s->o, per_device_eval_batch_size) ? given : AT_ONCE, beams = s->beams.n;
    int64_t piece = longest < PIECE ? longest : PIECE;
    int64_t rows = longest + s->o->max_new_tokens;
    B = n < B ? n : B;
    c->beams = beams;
    if (are_sources(s)) { /* all may begin in one call, which reads them whole; decoders begin with one token */
        c->generate_max = (struct dims){
            .T = backend_bucket(c->backend, B * beams), .B = B * beams, .S = backend_bucket(c->backend, B * longest)};
        c->source_rows = longest;
        c->cache_rows = s->o->max_new_tokens + 1 < s->model.longest ? s->o->max_new_tokens + 1 : s->model.longest;
        return;
    }
    c->generate_max = (struct dims){.T = backend_bucket(c->backend, B * beams * piece), .B = B * beams};
    c->cache_rows = rows < s->model.longest ? rows : s->model.longest;
}
