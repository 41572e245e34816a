/* merge.h: how neighbours become one symbol, pair by pair: what BPE is, whatever decides which pairs have a merge. In a header, so that
 * the finder is a part of the loop. */
#ifndef TOKENIZER_MERGE_H
#define TOKENIZER_MERGE_H

#include "base/mem.h"
#include "tokenizer/steps/step.h"

struct symbol {
    int32_t id, before, next; /* -1: none, and `id` -1: merged into the one before */
    size_t end;               /* of its bytes in the word; it starts where the one before ends */
};
struct merge {
    int32_t rank, at, id; /* symbols[at] and the next one become id */
};

/* What symbols[at] and the next one become; false: they have no merge. */
typedef bool merge_finder(const void *state, struct text word, const struct symbol *s, int32_t at, struct merge *m);

static inline int symbol_push(struct encoder *e, size_t *n, int32_t id, size_t end)
{
    struct scratch *s = e->s;
    if (*n >= INT32_MAX - 1)
        return err_set(e->err, SNUG_ERR_INPUT, "a word of more than %d characters; split the text", INT32_MAX - 1);
    if (!MEM_GROW(s->symbols, s->symbols_cap, *n + 1))
        return err_no_memory(e->err, (*n + 1) * sizeof *s->symbols);
    s->symbols[*n] = (struct symbol){id, (int32_t)*n - 1, (int32_t)*n + 1, end};
    ++*n;
    return 0;
}

static inline bool comes_before(const struct merge *a, const struct merge *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static inline int push_merge(struct encoder *e, struct text word, size_t *n, int32_t at, merge_finder *find,
                             const void *state)
{
    struct scratch *s = e->s;
    struct merge m;
    if (s->symbols[at].next < 0 || !find(state, word, s->symbols, at, &m))
        return 0;
    if (!MEM_GROW(s->heap, s->heap_cap, *n + 1))
        return err_no_memory(e->err, (*n + 1) * sizeof *s->heap);
    struct merge *heap = s->heap;
    size_t i = (*n)++;
    for (; i && comes_before(&m, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = m;
    return 0;
}

static inline struct merge pop_merge(struct merge *heap, size_t *n)
{
    struct merge top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && comes_before(&heap[child + 1], &heap[child]))
            child++;
        if (!comes_before(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* Of n symbols; what is gone has the id -1. */
static inline int merge_all(struct encoder *e, struct text word, size_t n, merge_finder *find, const void *state)
{
    size_t n_heap = 0;
    struct symbol *s = e->s->symbols;
    s[n - 1].next = -1;
    for (size_t i = 0; i + 1 < n; i++)
        TRY(push_merge(e, word, &n_heap, (int32_t)i, find, state));
    while (n_heap) {
        struct merge m = pop_merge(e->s->heap, &n_heap), now;
        int32_t next = s[m.at].next;
        if (s[m.at].id < 0 || next < 0)
            continue;
        if (!find(state, word, s, m.at, &now) || now.id != m.id) /* one of the two has become another symbol since */
            continue;
        s[m.at].id = m.id;
        s[m.at].next = s[next].next;
        s[m.at].end = s[next].end;
        s[next].id = -1;
        if (s[next].next >= 0)
            s[s[next].next].before = m.at;
        if (s[m.at].before >= 0)
            TRY(push_merge(e, word, &n_heap, s[m.at].before, find, state));
        TRY(push_merge(e, word, &n_heap, m.at, find, state));
    }
    return 0;
}

#endif
