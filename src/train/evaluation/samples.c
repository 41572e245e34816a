/* --eval-samples: at each evaluation, what the model answers to some of its rows. Greedy, so that the same weights answer the same.
 * The program and its cache lie in the plan where the training step has what lives within a step; no weight or state is touched. */
#include "train/trainer.h"

#include "base/seconds.h"
#include "train/generate/rows.h"
#include "train/session/prompts.h"

static int add_prompt(const struct trainer *t, const struct generated_row *row, struct str *line, struct snug_err *err)
{
    struct str prompt = {0};
    int code = tokenizer_decode(t->s->tokenizer, row->prompt, row->n_prompt, false, &prompt, err);
    str_append(line, ", \"prompt\": ");
    str_json(line, str_text(&prompt));
    str_free(&prompt);
    return code;
}

static int take_row(void *ctx, const struct generated_row *row, struct snug_err *err)
{
    struct trainer *t = ctx;
    struct str line = {0};
    if (!prompts_is_sample(t->s, row->row))
        return SNUG_OK;
    trainer_begin_line(t, &line);
    str_printf(&line, ", \"eval_sample\": %lld", (long long)row->row);
    int code = add_prompt(t, row, &line, err);
    str_append(&line, ", \"expected\": ");
    str_json(&line, row->expected);
    str_append(&line, ", \"generated\": ");
    str_json(&line, row->text);
    str_printf(&line, ", \"finish_reason\": \"%s\"", row->stopped ? "stop" : "length");
    if (!code)
        trainer_end_line(t, &line);
    str_free(&line);
    return code;
}

struct generated_rows trainer_samples(struct trainer *t)
{
    return (struct generated_rows){.take = take_row, .ctx = t};
}

/* Of a process that helps the first one to answer. */
static int ignore_row(void *ctx, const struct generated_row *row, struct snug_err *err)
{
    (void)ctx, (void)row, (void)err;
    return SNUG_OK;
}

int trainer_answer_samples(struct trainer *t, struct snug_err *err)
{
    struct generated_rows samples = trainer_samples(t);
    double start = seconds_now();
    if (!t->s->prompts.n || t->o->predict_with_generate) /* then the evaluation has told them */
        return SNUG_OK;
    if (t->s->follows && !run_exchanges(&t->s->run, t->s->run.where.generate))
        return SNUG_OK;
    if (t->s->follows)
        samples.take = ignore_row;
    int code = generate_rows(t->s, &samples, err);
    t->evaluating += seconds_now() - start;
    return code;
}
