/* trie.h: a set of byte strings, each with a number, walked one byte at a time: one walk along a text finds every
 * member that starts there. The edges lie in one open-addressing hash table, so that building is plain insertion and a
 * step is one probe. */
#ifndef TOKENIZER_TRIE_H
#define TOKENIZER_TRIE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct trie {
    uint64_t *edges; /* (n_slots) parent << 36 | byte << 28 | child; 0 is a free slot, for no child is the root */
    size_t n_slots;  /* 0 or a power of two, at least twice n_nodes */
    int32_t *values; /* (n_nodes) of the string that ends at a node, -1 for none */
    size_t n_nodes, values_cap;
};

enum { TRIE_ROOT = 0 };

/* Adds a string, or gives one that is there another value (>= 0). */
int trie_add(struct trie *t, const char *s, size_t bytes, int32_t value, struct snug_err *err);
int32_t trie_find(const struct trie *t, const char *s, size_t bytes); /* -1: not a member */
void trie_free(struct trie *t);

static inline size_t trie_slot(const struct trie *t, uint64_t key)
{
    return (size_t)((key * 0x9E3779B97F4A7C15u) >> 32) & (t->n_slots - 1);
}

/* The node below `node` for `byte`; 0 when there is none. */
static inline uint32_t trie_step(const struct trie *t, uint32_t node, unsigned char byte)
{
    if (!t->n_slots)
        return 0;
    uint64_t key = (uint64_t)node << 8 | byte;
    for (size_t i = trie_slot(t, key);; i = (i + 1) & (t->n_slots - 1)) {
        uint64_t edge = t->edges[i];
        if (edge >> 28 == key)
            return (uint32_t)(edge & 0xFFFFFFF); /* 0 in a free slot, which the root's byte 0 could match */
        if (!edge)
            return 0;
    }
}

#endif
