/* Metaspace (sentencepiece): blanks become "▁", words begin with one. */
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

#include <string.h>

struct metaspace {
    struct pattern mark; /* "▁" */
    enum { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend;
    bool split;
};

static int read_scheme(struct tokenizer *t, json_t *o, const char *what, struct metaspace *m, struct snug_err *err)
{
    const char *scheme = "always";
    bool add = true, has_scheme = json_object_get(o, "prepend_scheme");
    TRY(json_get_bool(o, t->path, "add_prefix_space", false, &add, err)); /* the spelling of old files */
    TRY(json_get_string(o, t->path, "prepend_scheme", false, &scheme, err));
    if (!strcmp(scheme, "first"))
        m->prepend = PREPEND_FIRST;
    else if (!strcmp(scheme, "never"))
        m->prepend = PREPEND_NEVER;
    else if (strcmp(scheme, "always") != 0)
        return step_not_supported(t, what, json_object_get(o, "prepend_scheme"), "always, first, never", err);
    if (!add && has_scheme && m->prepend != PREPEND_NEVER)
        return err_set(err, SNUG_ERR_INPUT, "%s: %s \"%s\" contradicts add_prefix_space false; remove one", t->path,
                       what, scheme);
    if (!add)
        m->prepend = PREPEND_NEVER;
    return 0;
}

static int read_metaspace(struct tokenizer *t, json_t *o, const char *what, void **state, struct snug_err *err)
{
    struct metaspace *m = step_state(t, sizeof *m, state, err);
    char text[64];
    if (!m)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, what, err, "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"));
    TRY(step_get_string(t, o, "replacement", true, &m->mark.literal, err));
    m->mark.n = strlen(m->mark.literal);
    if (!m->mark.n || (size_t)utf8_sequence(m->mark.literal, m->mark.n) != m->mark.n)
        return err_set(err, SNUG_ERR_INPUT, "%s: %s.replacement is %s; one character was expected", t->path, what,
                       json_value_text(json_object_get(o, "replacement"), text));
    m->split = true;
    TRY(json_get_bool(o, t->path, "split", false, &m->split, err));
    char scheme[64];
    snprintf(scheme, sizeof scheme, "%s.prepend_scheme", what);
    return read_scheme(t, o, scheme, m, err);
}

int pre_tokenizer_Metaspace_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    return read_metaspace(t, o, "pre_tokenizer", state, err);
}

int pre_tokenizer_Metaspace_run(const void *state, struct encoder *e, struct words *w)
{
    const struct metaspace *m = state;
    static const struct pattern blank = {.literal = " ", .n = 1};
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        struct text word = word_text(w, i);
        struct span span = {to->n, 0, w->spans[i].begins};
        bool marked =
            word.n && (word.s[0] == ' ' || (word.n >= m->mark.n && !memcmp(word.s, m->mark.literal, m->mark.n)));
        if (!marked && (m->prepend == PREPEND_ALWAYS || (m->prepend == PREPEND_FIRST && span.begins)))
            TRY(text_before(to, word, m->mark.literal, e->err));
        TRY(pattern_replace(&blank, e, word, m->mark.literal, to));
        span.end = to->n;
        TRY(words_add(e, w, span));
    }
    words_took_text(w, to);
    words_end(e, w);
    return m->split ? words_split(e, w, pattern_next, &m->mark, SPLIT_MERGED_WITH_NEXT, false) : 0;
}

int decoder_Metaspace_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    return read_metaspace(t, o, "decoder", state, err);
}

/* Of the first token the marks go, for encoding has put one there; elsewhere they are blanks. */
int decoder_Metaspace_run(const void *state, struct encoder *e, struct words *w)
{
    const struct metaspace *m = state;
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        size_t start = to->n;
        const char *blank = i == 0 && m->prepend != PREPEND_NEVER ? "" : " ";
        TRY(pattern_replace(&m->mark, e, word_text(w, i), blank, to));
        TRY(words_add(e, w, (struct span){start, to->n, false}));
    }
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}
