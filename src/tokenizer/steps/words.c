/* Working memory of the steps, and how words are split. */
#include "base/mem.h"
#include "tokenizer/regex.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"
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
        mem_free(s->normal[i].from);
        mem_free(s->pre[i].s);
        mem_free(s->pre[i].from);
        mem_free(s->spans[i]);
    }
    if (s) {
        mem_free(s->given.from);
        mem_free(s->chars);
        mem_free(s->char_places);
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
    mem_free(b->piece_places);
    *b = (struct token_buf){0};
}

int text_room(struct text_buf *b, size_t more, struct snug_err *err)
{
    if (b->placed && !MEM_GROW(b->from, b->from_cap, b->n + more))
        return err_no_memory(err, (b->n + more) * sizeof *b->from);
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

void text_set_place(struct text_buf *b, struct text in, size_t start, size_t end)
{
    for (; b->n_placed < b->n; b->n_placed++)
        b->from[b->n_placed] = b->place;
    b->place = (struct text_place){0};
    if (start < end)
        b->place = (struct text_place){in.from[start].start, in.from[end - 1].end};
}

int text_copy(struct text_buf *b, struct text in, size_t start, size_t end, struct snug_err *err)
{
    text_from(b, in, start, end);
    TRY(text_append(b, in.s + start, end - start, err));
    if (b->placed && start < end) {
        memcpy(b->from + b->n_placed, in.from + start, (end - start) * sizeof *b->from);
        b->n_placed = b->n;
    }
    return 0;
}

int text_before(struct text_buf *b, struct text in, const char *prefix, struct snug_err *err)
{
    text_from(b, in, 0, in.n ? (size_t)utf8_sequence(in.s, in.n) : 0);
    return text_append(b, prefix, strlen(prefix), err);
}

int token_placed(struct encoder *e, struct text word, size_t start, size_t end)
{
    struct token_buf *out = e->out;
    if (!MEM_GROW(out->piece_places, out->piece_places_cap, out->n_pieces + 1))
        return err_no_memory(e->err, (out->n_pieces + 1) * sizeof *out->piece_places);
    struct text_place *place = &out->piece_places[out->n_pieces];
    *place = (struct text_place){0};
    if (start < end)
        *place = (struct text_place){word.from[start].start, word.from[end - 1].end};
    return 0;
}

void text_start(struct text_buf *b, bool placed)
{
    b->n = b->n_placed = 0;
    b->placed = placed;
    b->place = (struct text_place){0};
}

struct text text_done(struct text_buf *b)
{
    text_from(b, (struct text){0}, 0, 0);
    return (struct text){b->s, b->n, b->placed ? b->from : NULL};
}

struct text_buf *words_next_text(struct encoder *e, struct words *w)
{
    struct text_buf *b = &e->s->pre[w->text_turn];
    text_start(b, e->placed);
    return b;
}

void words_took_text(struct words *w, struct text_buf *b)
{
    w->text = text_done(b);
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
    struct text text = text_part(w->text, word.start, word.end);
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
