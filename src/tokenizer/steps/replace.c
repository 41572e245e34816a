/* Patterns of Split and Replace, and the Replace steps. */
#include "base/mem.h"
#include "tokenizer/regex.h"
#include "tokenizer/steps/step.h"

#include <string.h>

int step_regex(struct tokenizer *t, const char *pattern, const struct regex **out, struct snug_err *err)
{
    if (!MEM_GROW(t->regexes, t->regexes_cap, t->n_regexes + 1))
        return err_no_memory(err, (t->n_regexes + 1) * sizeof *t->regexes);
    TRY(regex_new(pattern, t->path, &t->regexes[t->n_regexes], err));
    *out = t->regexes[t->n_regexes++];
    return 0;
}

int pattern_read(struct tokenizer *t, json_t *o, const char *key, struct pattern *p, struct snug_err *err)
{
    json_t *value = json_object_get(o, key), *string = json_object_get(value, "String");
    const char *regex = json_string_value(json_object_get(value, "Regex"));
    if (json_object_size(value) != 1 || (!json_is_string(string) && !regex))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %s is not {\"String\": \"...\"} or {\"Regex\": \"...\"}; correct the file", t->path, key);
    if (regex)
        return step_regex(t, regex, &p->regex, err);
    p->n = json_string_length(string);
    p->literal = arena_strdup(&t->arena, json_string_value(string));
    return p->literal ? 0 : err_no_memory(err, p->n + 1);
}

bool regex_matcher(const void *state, struct encoder *e, struct text text, size_t at, size_t *start, size_t *end,
                   int *code)
{
    bool found = false;
    if (!e->s->match && !(e->s->match = regex_match_new()))
        *code = err_no_memory(e->err, 1);
    else
        *code = regex_next(state, e->s->match, text.s, text.n, at, &found, start, end, e->err);
    return found;
}

bool pattern_next(const void *state, struct encoder *e, struct text text, size_t at, size_t *start, size_t *end,
                  int *code)
{
    const struct pattern *p = state;
    if (!p->literal)
        return regex_matcher(p->regex, e, text, at, start, end, code);
    const char *found = memmem(text.s + at, text.n - at, p->literal, p->n);
    if (found) {
        *start = (size_t)(found - text.s);
        *end = *start + p->n;
    }
    return found;
}

int pattern_replace(const struct pattern *p, struct encoder *e, struct text in, const char *content,
                    struct text_buf *out)
{
    struct matches m = {0};
    size_t before = 0;
    int code = 0;
    while (matches_next(&m, pattern_next, p, e, in, &code)) {
        TRY(text_copy(out, in, before, m.start, e->err));
        text_from(out, in, m.end ? m.end - 1 : 0, m.end);
        TRY(text_append(out, content, strlen(content), e->err));
        before = m.end;
    }
    TRY(code);
    return text_copy(out, in, before, in.n, e->err);
}

struct replace {
    struct pattern pattern;
    const char *content;
};

static int read_replace(struct tokenizer *t, json_t *o, const char *what, void **state, struct snug_err *err)
{
    struct replace *r = step_state(t, sizeof *r, state, err);
    if (!r)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, what, err, "pattern", "content"));
    TRY(pattern_read(t, o, "pattern", &r->pattern, err));
    return step_get_string(t, o, "content", true, &r->content, err);
}

int normalizer_Replace_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    return read_replace(t, o, "normalizer", state, err);
}

int normalizer_Replace_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    const struct replace *r = state;
    return pattern_replace(&r->pattern, e, in, r->content, out);
}

int decoder_Replace_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    return read_replace(t, o, "decoder", state, err);
}

int decoder_Replace_run(const void *state, struct encoder *e, struct words *w)
{
    const struct replace *r = state;
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        size_t start = to->n;
        TRY(pattern_replace(&r->pattern, e, word_text(w, i), r->content, to));
        TRY(words_add(e, w, (struct span){start, to->n, false}));
    }
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}
