/* --eval-samples: after each evaluation, what the model answers to some of its rows. Greedy, so that the same weights answer the same.
 * The program and its cache lie in the plan where the training step has what lives within a step; no weight or state is touched. */
#include "train/trainer.h"

#include "base/seconds.h"
#include "train/generate/generate.h"
#include "train/session/prompts.h"

struct answers {
    struct trainer *t;
    struct str text; /* of the answer so far */
    struct snug_err *err;
};

/* Appends a member with the text of `n` ids behind `n_before` others, which are not part of it. */
static int add_text(struct answers *a, struct str *line, const char *name, const int32_t *ids, size_t n_before,
                    size_t n, bool skip_special)
{
    const struct tokenizer *tokenizer = a->t->s->tokenizer;
    struct str before = {0}, all = {0};
    int code = tokenizer_decode(tokenizer, ids, n_before, skip_special, &before, a->err);
    if (!code)
        code = tokenizer_decode(tokenizer, ids, n_before + n, skip_special, &all, a->err);
    str_printf(line, ", \"%s\": ", name);
    str_json(line, str_text(&all) + (before.n < all.n ? before.n : all.n));
    str_free(&before);
    str_free(&all);
    return code;
}

static int add_answer(struct answers *a, struct str *line, const struct snug_piece *p)
{
    const struct prompts *prompts = &a->t->s->prompts;
    const int32_t *prompt = prompts->ids + prompts->begins[p->prompt];
    size_t n_expected, n_prompt = prompts->begins[p->prompt + 1] - prompts->begins[p->prompt];
    const int32_t *expected = prompts_expected(a->t->s, (size_t)p->prompt, &n_expected);
    trainer_begin_line(a->t, line);
    str_printf(line, ", \"eval_sample\": %lld", (long long)prompts->rows[p->prompt]);
    TRY(add_text(a, line, "prompt", prompt, 0, n_prompt, false));
    TRY(add_text(a, line, "expected", expected - n_prompt, n_prompt, n_expected, true));
    str_append(line, ", \"generated\": ");
    str_json(line, str_text(&a->text));
    str_printf(line, ", \"finish_reason\": \"%s\"", p->stopped ? "stop" : "length");
    return SNUG_OK;
}

static int take_piece(void *ctx, const struct snug_piece *p)
{
    struct answers *a = ctx;
    struct str line = {0};
    str_append_n(&a->text, p->text, p->text_bytes);
    if (!p->ended)
        return SNUG_OK;
    int code = add_answer(a, &line, p);
    if (!code)
        trainer_end_line(a->t, &line);
    str_free(&line);
    str_free(&a->text);
    return code;
}

int trainer_answer_samples(struct trainer *t, struct snug_err *err)
{
    struct answers a = {.t = t, .err = err};
    double start = seconds_now();
    int code = t->s->prompts.n ? generate_run(t->s, take_piece, &a, err) : SNUG_OK;
    t->evaluating += seconds_now() - start;
    str_free(&a.text);
    return code;
}
