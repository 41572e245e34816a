#include "train/generate/rows.h"

#include "train/generate/generate.h"
#include "train/session/prompts.h"

struct giving {
    struct session *s;
    const struct generated_rows *to;
    struct str text; /* of the row so far */
    struct snug_err *err;
};

/* The text of `n` ids behind `n_before` others, which are not part of it, but may change it. *from: where it begins in `all`. */
static int expected_text(const struct tokenizer *t, const int32_t *ids, size_t n_before, size_t n, struct str *all,
                         size_t *from, struct snug_err *err)
{
    struct str before = {0};
    int code = tokenizer_decode(t, ids, n_before, true, &before, err);
    if (!code)
        code = tokenizer_decode(t, ids, n_before + n, true, all, err);
    *from = before.n < all->n ? before.n : all->n;
    str_free(&before);
    return code;
}

static int give(struct giving *g, const struct snug_piece *p)
{
    const struct prompts *prompts = &g->s->prompts;
    size_t begin = prompts->begins[p->prompt], n_before, n, from;
    const int32_t *ids = prompts_expected(g->s, (size_t)p->prompt, &n_before, &n);
    struct str expected = {0};
    int code = expected_text(g->s->tokenizer, ids, n_before, n, &expected, &from, g->err);
    struct generated_row row = {.row = prompts->rows[p->prompt],
                                .prompt = prompts->ids + begin,
                                .n_prompt = prompts->begins[p->prompt + 1] - begin,
                                .expected = str_text(&expected) + from,
                                .expected_bytes = expected.n - from,
                                .text = str_text(&g->text),
                                .bytes = g->text.n,
                                .stopped = p->stopped};
    if (!code)
        code = str_check(&g->text, g->err);
    if (!code)
        code = g->to->take(g->to->ctx, &row, g->err);
    str_free(&expected);
    return code;
}

static int take_piece(void *ctx, const struct snug_piece *p)
{
    struct giving *g = ctx;
    str_append_n(&g->text, p->text, p->text_bytes);
    if (!p->ended)
        return SNUG_OK;
    int code = give(g, p);
    str_free(&g->text);
    return code;
}

int generate_rows(struct session *s, const struct generated_rows *to, struct snug_err *err)
{
    struct giving g = {.s = s, .to = to, .err = err};
    int code = generate_run(s, take_piece, &g, err);
    str_free(&g.text);
    return code;
}
