#include "format/gguf/spm_merges.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct merge {
    double score;
    int32_t piece, left, right; /* ids */
    int32_t first, second;      /* lengths of the parts in characters */
};

struct merges {
    struct merge *list;
    size_t n, cap;
    char *left; /* a first part, ended with a 0 byte */
    size_t left_cap;
};

static int best_first(const void *a, const void *b)
{
    const struct merge *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->first != y->first)
        return x->first > y->first ? -1 : 1;
    if (x->second != y->second)
        return x->second > y->second ? -1 : 1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static int32_t id_of(json_t *vocab, const char *text)
{
    json_t *id = json_object_get(vocab, text);
    return id ? (int32_t)json_integer_value(id) : -1;
}

/* Bytes that begin a character. */
static int32_t characters(const char *text)
{
    int32_t n = 0;
    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

static int add_splits(struct merges *m, json_t *vocab, const char *piece, int32_t id, double score,
                      struct snug_err *err)
{
    size_t n = strlen(piece);
    int32_t all = characters(piece), cut = 0;
    if (!MEM_GROW(m->left, m->left_cap, n + 1))
        return err_no_memory(err, n + 1);
    for (size_t i = 1; i < n; i++) {
        m->left[i - 1] = piece[i - 1];
        m->left[i] = 0;
        if ((piece[i] & 0xC0) == 0x80) /* within a character */
            continue;
        cut++;
        int32_t left = id_of(vocab, m->left), right = left < 0 ? -1 : id_of(vocab, piece + i);
        if (right < 0)
            continue;
        if (!MEM_GROW(m->list, m->cap, m->n + 1))
            return err_no_memory(err, (m->n + 1) * sizeof *m->list);
        m->list[m->n++] = (struct merge){score, id, left, right, cut, all - cut};
    }
    return SNUG_OK;
}

int spm_merges(json_t *tokens, json_t *types, json_t *scores, size_t n, json_t *vocab, json_t **merges,
               struct snug_err *err)
{
    struct merges m = {0};
    int code = SNUG_OK;
    for (size_t i = 0; i < n && !code; i++)
        if (!types || json_integer_value(json_array_get(types, i)) == 1)
            code = add_splits(&m, vocab, json_string_value(json_array_get(tokens, i)), (int32_t)i,
                              json_number_value(json_array_get(scores, i)), err);
    if (!code && m.n)
        qsort(m.list, m.n, sizeof *m.list, best_first);
    *merges = code ? NULL : json_array();
    for (size_t i = 0; i < m.n && *merges && !code; i++)
        if (json_array_append_new(*merges, json_pack("[OO]", json_array_get(tokens, (size_t)m.list[i].left),
                                                     json_array_get(tokens, (size_t)m.list[i].right))))
            code = err_no_memory(err, m.n);
    mem_free(m.list);
    mem_free(m.left);
    return code || *merges ? code : err_no_memory(err, 64);
}
