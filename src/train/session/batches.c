#include "train/session/batches.h"

#include "train/session/prompts.h"
#include "train/session/stream.h"
#include "train/train.h"

#include <string.h>

static bool only_synthetic(const struct options *o)
{
    const char *paths[] = {o->train_data.first, o->eval_data.first, o->data};
    bool yes = true;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        yes &= !paths[i] || !strncmp(paths[i], "synthetic:", 10);
    return yes;
}

struct masking batches_masking(struct session *s)
{
    struct masking m = {.probability = (float)s->o->mlm_probability,
                        .mask_id = -1,
                        .vocab_size = (int32_t)s->model.vocab_size,
                        .special_ids = s->special_ids};
    for (int t = 0; s->tokenizer && t < TOKEN_SPECIALS; t++) {
        int32_t id = tokenizer_special(s->tokenizer, (enum special_token)t);
        if (id >= 0)
            s->special_ids[m.n_special++] = id;
    }
    if (s->tokenizer)
        m.mask_id = tokenizer_special(s->tokenizer, TOKEN_MASK);
    if (m.mask_id < 0 && only_synthetic(s->o)) /* any id will do: the last */
        m.mask_id = (int32_t)s->model.vocab_size - 1;
    return m;
}

/* Evaluation batches are cut by tokens: of short rows there are more in one. Metrics and predictions do not depend on
 * it. */
int64_t batches_eval_tokens(const struct session *s, const struct dataset *d)
{
    int64_t rows = s->o->per_device_eval_batch_size, busy = s->compile.backend->facts.busy_tokens;
    if (option_given(s->o, per_device_eval_batch_size))
        return d ? loader_max_tokens(d, (int32_t)rows) : rows * s->max_length;
    int64_t longest = s->max_length + s->max_target_length;
    return busy > longest ? busy : longest;
}

struct dims batches_eval_dims(const struct session *s, const struct eval_loader *e)
{
    const struct backend *b = s->compile.backend;
    struct token_count most = eval_largest(e);
    return (struct dims){
        .T = backend_bucket(b, most.T), .B = eval_max_rows(e), .S = most.S ? backend_bucket(b, most.S) : 0};
}

int batches_open_eval(struct session *s, const struct dataset *d, struct eval_loader **out, struct snug_err *err)
{
    struct masking masking = batches_masking(s);
    return eval_open(d, s->eval_most.rows, s->eval_most.tokens, s->o->seed, &masking, out, err);
}

/* Looks at all micro-batches of the run, in each size into which a step may be cut. Not of a run of more rows than are looked at in
 * some seconds: of so many batches the largest is not far from what any order may make. */
static int look_at_all(struct session *s, struct snug_err *err)
{
    const int64_t rows_most = (int64_t)1 << 24;
    struct token_count tokens[LARGEST_MOST];
    int64_t sizes[LARGEST_MOST], total, per_epoch;
    int64_t step_rows = train_step_rows(s->o), rank_rows = step_rows / s->o->ranks;
    int n = 0;
    train_steps(s, &total, &per_epoch);
    if (s->rows_moved || total > rows_most / step_rows)
        return SNUG_OK;
    for (int64_t parts = 1; parts <= rank_rows && parts <= 1 << 16 && n < LARGEST_MOST; parts++)
        if (rank_rows % parts == 0)
            sizes[n++] = rank_rows / parts;
    struct order order;
    int code = train_open_order(s, step_rows, &order, err);
    const struct loader_options o = {.data = &s->train,
                                     .order = &order,
                                     .batch_size = (int32_t)step_rows,
                                     .accumulation = 1,
                                     .ranks = s->o->max_tokens_per_batch ? 1 : (int32_t)s->o->ranks,
                                     .drop_below = train_drop_below(s->o),
                                     .end_step = total};
    if (!code)
        code = loader_largest(&o, sizes, n, s->stop, tokens, err);
    order_close(&order);
    for (int i = 0; i < n && !code; i++) {
        s->largest[i].rows = sizes[i];
        s->largest[i].tokens = tokens[i];
    }
    s->n_largest = code ? 0 : n;
    return code;
}

/* Tokens of the largest micro-batch of B rows in training, if there were no limit; T is -1: no memory. Where the batches were not looked
 * at, sources and targets may each be all of the longest rows. */
static struct token_count most_tokens(const struct session *s, int64_t B)
{
    for (int i = 0; i < s->n_largest; i++)
        if (s->largest[i].rows == B)
            return s->largest[i].tokens;
    int64_t all = s->has_train ? loader_max_tokens(&s->train, (int32_t)B) : 0;
    if (s->has_train)
        return (struct token_count){.T = all, .S = s->train.sources ? all : 0};
    if (s->max_target_length)
        return (struct token_count){.T = B * s->max_target_length, .S = B * s->max_length};
    return (struct token_count){.T = B * s->max_length};
}

static int64_t at_most(int64_t n, int64_t limit)
{
    return limit && n > limit ? limit : n;
}

int batches_train_max(const struct session *s, int64_t B, struct dims *max, struct snug_err *err)
{
    struct token_count most = most_tokens(s, B);
    int64_t limit = s->o->max_tokens_per_batch;
    if (s->has_train && B > s->train.n_rows) /* a short batch is all there is */
        B = s->train.n_rows;
    if (most.T < 0)
        return err_no_memory(err, (unsigned long long)s->train.n_rows * sizeof(int32_t));
    *max = (struct dims){.T = backend_bucket(s->compile.backend, at_most(most.T, limit)), .B = B};
    if (most.S)
        max->S = backend_bucket(s->compile.backend, at_most(most.S, limit));
    return SNUG_OK;
}

bool batches_cut_by_tokens(const struct session *s, int64_t B)
{
    int64_t limit = s->o->max_tokens_per_batch;
    struct token_count most = most_tokens(s, B);
    return limit && s->has_train && most.T + most.S > limit;
}

/* Tokens of all sources; without data, of one. */
static double sum_of_sources(const struct session *s)
{
    double sum = !s->has_train && s->max_target_length ? (double)s->max_length : 0;
    for (int64_t row = 0; s->has_train && s->train.sources && row < s->train.n_rows; row++)
        sum += s->train.sources[row];
    return sum;
}

/* Rows of a step are as long as those of the data are on the average. */
static struct dims usual_size(const struct session *s, int64_t step_rows, const struct choices *c)
{
    const struct backend *b = s->compile.backend;
    double rows = s->has_train ? (double)s->train.n_rows : 1, sources = sum_of_sources(s);
    double tokens = s->has_train ? (double)s->train.n_tokens - sources
                                 : (double)(s->max_target_length ? s->max_target_length : s->max_length);
    double parts = (double)step_rows / (double)c->accumulation / rows;
    int64_t B = (step_rows + c->accumulation - 1) / c->accumulation;
    int64_t T = backend_bucket(b, (int64_t)(tokens * parts) + 1);
    int64_t S = c->micro.S ? backend_bucket(b, (int64_t)(sources * parts) + 1) : 0;
    return (struct dims){.T = T < c->micro.T ? T : c->micro.T,
                         .B = B < c->micro.B ? B : c->micro.B,
                         .S = S < c->micro.S ? S : c->micro.S};
}

int batches_cut(const struct session *s, int64_t rows, int64_t times, struct choices *choices, struct snug_err *err)
{
    choices->accumulation = times;
    TRY(batches_train_max(s, rows, &choices->micro, err));
    int64_t B = choices->micro.B;
    if (batches_cut_by_tokens(s, rows)) {
        int64_t usual = loader_usual_rows(&s->train, (int32_t)B, s->o->max_tokens_per_batch);
        int64_t n = times * ((B + usual - 1) / usual);
        choices->accumulation = n > 1 ? n : 2;
    }
    choices->usual = usual_size(s, rows * times, choices);
    return SNUG_OK;
}

int batches_size(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    struct compile_settings *c = &s->compile;
    if (s->prompts.n)
        prompts_size(s, (int64_t)s->prompts.n, s->prompts.longest);
    if (o->command == CMD_GENERATE)
        return SNUG_OK;
    s->micro_rows = o->per_device_train_batch_size;
    s->micro_batches = o->gradient_accumulation_steps;
    if (c->train && s->has_train)
        TRY(look_at_all(s, err));
    if (c->train)
        TRY(batches_cut(s, s->micro_rows, s->micro_batches, &s->choices, err));
    if (s->stream)
        return stream_size(s, err);
    if (s->has_data && prompts_are_predicted(s)) {
        prompts_size(s, s->data.n_rows, s->data.longest);
        return SNUG_OK;
    }
    if (s->has_data) {
        int64_t tokens = batches_eval_tokens(s, &s->data);
        if (tokens < 0)
            return err_no_memory(err, (unsigned long long)s->data.longest * 8);
        s->eval_most.tokens = tokens;
        s->eval_most.rows = (int32_t)(tokens < INT32_MAX ? tokens : INT32_MAX);
        TRY(batches_open_eval(s, &s->data, &s->eval, err));
        c->eval_max = batches_eval_dims(s, s->eval);
    }
    return SNUG_OK;
}
