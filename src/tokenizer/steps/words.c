/* Working memory of the steps, and how words are split. */
#include "base/mem.h"
#include "tokenizer/regex.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/word_cache.h"

#include <string.h>

int scratch_get(struct token_buf *out, struct snug_err *err)
{
    if (!out->scratch)
        out->scratch = mem_alloc(sizeof *out->scratch);
    return out->scratch ? 0 : err_no_memory(err, sizeof *out->scratch);
}

void token_buf_free(struct token_buf *b)
{
    struct scratch *s = b->scratch;
    for (int i = 0; s && i < 2; i++) {
        mem_free(s->normal[i].s);
        mem_free(s->pre[i].s);
        mem_free(s->spans[i]);
    }
    if (s) {
        mem_free(s->chars);
        mem_free(s->symbols);
        mem_free(s->heap);
        mem_free(s->lattice);
        mem_free(s->words);
        regex_match_free(s->match);
    }
    mem_free(s);
    mem_free(b->ids);
    mem_free(b->type_ids);
    mem_free(b->pieces);
    mem_free(b->words);
    mem_free(b->piece_words);
    *b = (struct token_buf){0};
}

int text_room(struct text_buf *b, size_t more, struct snug_err *err)
{
    return MEM_GROW(b->s, b->cap, b->n + more) ? 0 : err_no_memory(err, b->n + more);
}

int text_append(struct text_buf *b, const char *s, size_t n, struct snug_err *err)
{
    TRY(text_room(b, n, err));
    if (n)
        memcpy(b->s + b->n, s, n);
    b->n += n;
    return 0;
}

struct text_buf *words_next_text(struct encoder *e, struct words *w)
{
    struct text_buf *b = &e->s->pre[w->text_turn];
    b->n = 0;
    return b;
}

void words_took_text(struct words *w, const struct text_buf *b)
{
    w->text = (struct text){b->s, b->n};
    w->text_turn ^= 1;
}

/* While a step adds words, w->spans and w->n are still those that it reads. */
void words_begin(struct encoder *e, struct words *w)
{
    e->n_next = 0;
    (void)w;
}

int words_add(struct encoder *e, struct words *w, struct span span)
{
    struct scratch *s = e->s;
    if (!MEM_GROW(s->spans[w->span_turn], s->spans_cap[w->span_turn], e->n_next + 1))
        return err_no_memory(e->err, (e->n_next + 1) * sizeof span);
    s->spans[w->span_turn][e->n_next++] = span;
    return 0;
}

void words_end(struct encoder *e, struct words *w)
{
    w->spans = e->s->spans[w->span_turn];
    w->n = e->n_next;
    w->span_turn ^= 1;
}

/* The parts of one word so far: what matched and what did not, in their order. */
struct splitter {
    enum split_behavior behavior;
    struct span word, last; /* last: the part that the next one may be joined with */
    bool has_last, last_matched;
};

static int put(struct encoder *e, struct words *w, const struct splitter *p)
{
    if (!p->has_last || p->last.start == p->last.end)
        return 0;
    return words_add(e, w, p->last);
}

/* A part [start, end) of the word; an empty one can be a match too. */
static int put_part(struct encoder *e, struct words *w, struct splitter *p, size_t start, size_t end, bool matched)
{
    if (p->behavior == SPLIT_REMOVED && matched)
        return 0;
    bool join = false;
    if (p->has_last && p->behavior == SPLIT_CONTIGUOUS)
        join = matched == p->last_matched;
    else if (p->has_last && p->behavior == SPLIT_MERGED_WITH_PREVIOUS)
        join = matched && !p->last_matched;
    else if (p->has_last && p->behavior == SPLIT_MERGED_WITH_NEXT)
        join = !matched && p->last_matched;
    p->last_matched = matched;
    if (join) {
        p->last.end = end;
        return 0;
    }
    TRY(put(e, w, p));
    p->last = (struct span){start, end, p->word.begins && start == p->word.start};
    p->has_last = true;
    return 0;
}

static int split_word(struct encoder *e, struct words *w, struct span word, split_matcher *match, const void *state,
                      struct splitter p, bool invert)
{
    struct text text = {w->text.s + word.start, word.end - word.start};
    struct matches m = {0};
    size_t before = 0;
    int code = 0;
    p.word = word;
    while (matches_next(&m, match, state, e, text, &code)) {
        if (before < m.start)
            TRY(put_part(e, w, &p, word.start + before, word.start + m.start, invert));
        TRY(put_part(e, w, &p, word.start + m.start, word.start + m.end, !invert));
        before = m.end;
    }
    TRY(code);
    if (before < text.n)
        TRY(put_part(e, w, &p, word.start + before, word.end, invert));
    return put(e, w, &p);
}

/* An empty match right behind the one before it does not count, and an empty text has none. */
bool matches_next(struct matches *m, split_matcher *match, const void *state, struct encoder *e, struct text text,
                  int *code)
{
    while (text.n && m->at <= text.n) {
        if (!match(state, e, text, m->at, &m->start, &m->end, code))
            return false;
        if (m->start < m->end || !m->any || m->end != m->last_end) {
            m->at = m->last_end = m->end;
            m->any = true;
            return true;
        }
        m->at += m->at < text.n ? (size_t)utf8_sequence(text.s + m->at, text.n - m->at) : 1;
    }
    return false;
}

int words_split(struct encoder *e, struct words *w, split_matcher *match, const void *state, enum split_behavior b,
                bool invert)
{
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++)
        TRY(split_word(e, w, w->spans[i], match, state, (struct splitter){.behavior = b}, invert));
    words_end(e, w);
    return 0;
}

int step_get_behavior(struct tokenizer *t, json_t *o, const char *what, bool required, enum split_behavior *b,
                      struct snug_err *err)
{
    /* ORDER split_behavior */
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *name = NULL;
    TRY(json_get_string(o, t->path, "behavior", required, &name, err));
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) {
            *b = (enum split_behavior)i;
            return 0;
        }
    return name ? step_not_supported(t, what, json_object_get(o, "behavior"),
                                     "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous", err)
                : 0;
}
