#include "train/session/stream.h"

#include "train/session/batches.h"
#include "train/session/datasets.h"
#include "train/session/prompts.h"

#include <string.h>

enum {
    TOKENS_OF_A_ROW = 4,    /* fewer are rare: batches of shorter rows are cut by their number */
    BLOCK_VALUES = 4 << 20, /* logits of a block */
};

static bool is_standard_input(const struct options *o)
{
    return o->data && !strcmp(o->data, "-");
}

bool stream_is_wanted(const struct io *io, const struct options *o)
{
    enum data_format format;
    if (o->command != CMD_PREDICT)
        return false;
    if (o->text.n || is_standard_input(o) || o->data_format != FORMAT_UNKNOWN)
        return true;
    return o->data && !data_format_of(io, o->data, &format, NULL) && data_format_is_table(format);
}

static int check_pairs(const struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    if (o->text_pair.n && prompts_are_predicted(s))
        return err_set(err, SNUG_ERR_USAGE, "--text-pair: a %s model reads one text, its source; leave it out",
                       s->model.arch->model_type);
    if (!o->text_pair.n || o->text_pair.n == o->text.n)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "--text-pair: %zu for %zu --text; give one for each, or none", o->text_pair.n,
                   o->text.n);
}

int stream_open(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    bool input = is_standard_input(o);
    const char *name = o->text.n ? "--text" : input ? "standard input" : o->data; /* in messages */
    TRY(check_pairs(s, err));
    s->stream_data = datasets_options(s, (struct opt_paths){.first = name}, &s->labels);
    s->stream_data.standard_input = input;
    struct row_stream_options r = {.data = &s->stream_data,
                                   .texts = o->text.items,
                                   .pairs = o->text_pair.items,
                                   .n_texts = o->text.n,
                                   .format = (enum data_format)o->data_format,
                                   .most_rows = 1 + BLOCK_VALUES / (s->model.num_labels + 1)};
    return row_stream_open(s->io, &r, &s->stream, err);
}

int stream_size(struct session *s, struct snug_err *err)
{
    struct compile_settings *c = &s->compile;
    struct row_block all;
    bool whole;
    TRY(row_stream_peek(s->stream, &all, &whole, err));
    if (prompts_are_predicted(s)) {
        prompts_size(s, whole ? all.data.n_rows : INT64_MAX, whole ? all.data.longest : s->max_length);
        return whole ? datasets_check_ids(&s->model, &all.data, s->stream_data.path, err) : SNUG_OK;
    }
    int64_t tokens = batches_eval_tokens(s, whole ? &all.data : NULL);
    if (tokens < 0)
        return err_no_memory(err, (unsigned long long)all.data.longest * 8);
    int64_t rows = whole ? all.data.n_rows : tokens / TOKENS_OF_A_ROW + 1;
    s->eval_most.tokens = tokens;
    s->eval_most.rows = (int32_t)(rows < INT32_MAX ? rows : INT32_MAX);
    c->eval_max = (struct dims){.T = backend_bucket(c->backend, tokens), .B = s->eval_most.rows};
    if (!whole)
        return SNUG_OK;
    struct eval_loader *e;
    TRY(datasets_check_ids(&s->model, &all.data, s->stream_data.path, err));
    TRY(batches_open_eval(s, &all.data, &e, err));
    c->eval_max = batches_eval_dims(s, e);
    eval_close(e);
    return SNUG_OK;
}
