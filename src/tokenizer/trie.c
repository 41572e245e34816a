#include "tokenizer/trie.h"

#include "base/mem.h"

enum { MAX_NODES = 1 << 28, FIRST_SLOTS = 256 };

static void insert_edge(struct trie *t, uint64_t edge)
{
    size_t i = trie_slot(t, edge >> 28);
    while (t->edges[i])
        i = (i + 1) & (t->n_slots - 1);
    t->edges[i] = edge;
}

static int widen(struct trie *t, struct snug_err *err)
{
    struct trie wide = *t;
    wide.n_slots = t->n_slots ? t->n_slots * 2 : FIRST_SLOTS;
    wide.edges = mem_alloc(wide.n_slots * sizeof *wide.edges);
    if (!wide.edges)
        return err_no_memory(err, wide.n_slots * sizeof *wide.edges);
    for (size_t i = 0; i < t->n_slots; i++)
        if (t->edges[i])
            insert_edge(&wide, t->edges[i]);
    mem_free(t->edges);
    *t = wide;
    return 0;
}

static int add_node(struct trie *t, struct snug_err *err)
{
    if (t->n_nodes == MAX_NODES)
        return err_set(err, SNUG_ERR_INPUT, "a vocabulary of more than %d bytes; use a smaller one", MAX_NODES);
    if (!MEM_GROW(t->values, t->values_cap, t->n_nodes + 1))
        return err_no_memory(err, (t->n_nodes + 1) * sizeof *t->values);
    if ((t->n_nodes + 1) * 2 > t->n_slots)
        TRY(widen(t, err));
    t->values[t->n_nodes++] = -1;
    return 0;
}

int trie_add(struct trie *t, const char *s, size_t bytes, int32_t value, struct snug_err *err)
{
    if (!t->n_nodes)
        TRY(add_node(t, err)); /* the root */
    uint32_t node = TRIE_ROOT;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t next = trie_step(t, node, (unsigned char)s[i]);
        if (!next) {
            TRY(add_node(t, err));
            next = (uint32_t)(t->n_nodes - 1);
            insert_edge(t, (uint64_t)node << 36 | (uint64_t)(unsigned char)s[i] << 28 | next);
        }
        node = next;
    }
    t->values[node] = value;
    return 0;
}

int32_t trie_find(const struct trie *t, const char *s, size_t bytes)
{
    uint32_t node = TRIE_ROOT;
    for (size_t i = 0; i < bytes; i++)
        if (!(node = trie_step(t, node, (unsigned char)s[i])))
            return -1;
    return t->n_nodes ? t->values[node] : -1;
}

void trie_free(struct trie *t)
{
    mem_free(t->edges);
    mem_free(t->values);
    *t = (struct trie){0};
}
