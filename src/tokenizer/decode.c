/* Decoding: the tokens of the ids, through the decoders, joined. */
#include "tokenizer/steps/step.h"

#include <string.h>

/* NULL: it is none. */
static const struct added_token *added_of(const struct tokenizer *t, const char *token)
{
    int32_t index = token ? trie_find(&t->added_ids, token, strlen(token)) : -1;
    return index >= 0 ? &t->added[index] : NULL;
}

/* As in the library, one that normalizing changes is no longer known as special. */
static bool is_special(const struct added_token *added)
{
    return added && added->special && !strcmp(added->content, added->decoded);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return is_special(added_of(t, tokenizer_token(t, id)));
}

/* Tokens are the first text of the pipeline, in a buffer that the first decoder does not write. */
static int gather(struct encoder *e, const int32_t *ids, size_t n, bool skip_special, struct words *w)
{
    const struct tokenizer *t = e->t;
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < n; i++) {
        const char *token = tokenizer_token(t, ids[i]);
        if (!token)
            continue;
        const struct added_token *added = added_of(t, token);
        if (skip_special && is_special(added))
            continue;
        token = added ? added->decoded : token;
        size_t start = to->n;
        TRY(text_append(to, token, strlen(token), e->err));
        TRY(words_add(e, w, (struct span){start, to->n, false}));
    }
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}

static int decode(struct encoder *e, const int32_t *ids, size_t n, bool skip_special, struct str *out)
{
    const struct steps *steps = &e->t->steps[STEP_DECODER];
    struct words w = {0};
    TRY(gather(e, ids, n, skip_special, &w));
    for (size_t i = 0; i < steps->n; i++)
        TRY(steps->list[i].type->decode(steps->list[i].state, e, &w));
    for (size_t i = 0; i < w.n; i++) {
        str_append(out, i && !steps->n ? " " : "");
        str_append_n(out, word_text(&w, i).s, word_text(&w, i).n);
    }
    return str_check(out, e->err);
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special, struct str *out,
                     struct snug_err *err)
{
    struct token_buf buf = {0};
    TRY(scratch_get(&buf, err));
    struct encoder e = {.t = t, .out = &buf, .s = buf.scratch, .err = err};
    int code = decode(&e, ids, n, skip_special, out);
    token_buf_free(&buf);
    return code;
}
