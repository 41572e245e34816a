#include "plan/anatomy.h"

#include "plan/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER component */
const char *const component_names[COMPONENT_COUNT] = {"weights",     "weight copies", "optimizer states",
                                                      "gradients",   "inputs",        "scalars",
                                                      "activations", "dropout masks", "workspaces"};

/* ORDER role */
static const enum component of_role[ROLE_COUNT] = {COMPONENT_ACTIVATIONS, COMPONENT_INPUTS,    COMPONENT_WEIGHTS,
                                                   COMPONENT_STATES,      COMPONENT_GRADIENTS, COMPONENT_COPIES,
                                                   COMPONENT_SCALARS,     COMPONENT_WORKSPACES};

int plan_layers(const struct plan *p)
{
    int n = 0;
    for (int k = 0; k < p->n_programs; k++)
        for (int i = 1; i < p->programs[k].graph.n_values; i++)
            if (p->programs[k].graph.values[i].layer >= n)
                n = p->programs[k].graph.values[i].layer + 1;
    return n;
}

void plan_layer_name(int layer, int n_layers, char *to, size_t room)
{
    if (layer == 0)
        snprintf(to, room, "embeddings");
    else if (layer == n_layers - 1)
        snprintf(to, room, "head");
    else
        snprintf(to, room, "layer %d", layer);
}

/* ---- values ---- */

/* The slot in which one of the nodes that start a transient value's life writes it, or that has it as a workspace. */
static const char *find_maker(const struct graph *g, int id, int first, struct held *h)
{
    for (int k = first; k < g->n_nodes && (k == first || g->nodes[k].joins); k++) {
        const struct node *node = &g->nodes[k];
        const struct op_info *op = node_op(node);
        if (node->workspace == id) {
            snprintf(h->maker, sizeof h->maker, "%s", op->name);
            return NULL;
        }
        for (int i = 0; i < op->n_slots; i++)
            if (node->u.slot[i] && node_writes(node, i) && value_root(g, node->u.slot[i]) == id) {
                snprintf(h->maker, sizeof h->maker, "%s.%s", op->name, op->slots[i].name);
                return op->slots[i].name;
            }
    }
    return NULL;
}

/* Whether a weight, or what belongs to one, is of a mixture's experts: their weights alone lie together in three dimensions. */
static bool is_of_experts(const struct graph *g, int id)
{
    const struct value *v = graph_value(g, id), *weight = graph_value(g, v->kin == KIN_NONE ? id : v->of);
    const struct value *all = weight->base ? graph_value(g, value_root(g, weight->base)) : weight;
    return all->role == ROLE_WEIGHT && all->ndim == 3;
}

static void describe(const struct program *g, int id, struct held *h)
{
    const struct value *v = graph_value(&g->graph, id);
    const char *slot = NULL, *whose = v->persists && is_of_experts(&g->graph, id) ? " of experts" : "";
    bool of_codes = kin_is_of_codes(v->kin);
    h->component = of_codes ? COMPONENT_WEIGHTS : of_role[v->role];
    h->kin = v->kin;
    h->layer = v->layer;
    h->persists = v->persists;
    h->frozen = (v->frozen && !v->group) || of_codes;
    h->first = v->persists ? 0 : g->first[id];
    h->last = v->persists ? g->graph.n_nodes : g->last[id];
    if (v->persists && (v->kin == KIN_NONE || v->role == ROLE_SCALAR))
        snprintf(h->maker, sizeof h->maker, "%s%s", component_names[h->component], whose);
    else if (v->persists)
        snprintf(h->maker, sizeof h->maker, "%s%s", kin_names[v->kin], whose);
    else
        slot = find_maker(&g->graph, id, g->first[id], h);
    if (!*h->maker) /* it holds something before the first node */
        snprintf(h->maker, sizeof h->maker, "%s", component_names[h->component]);
    if (h->component == COMPONENT_ACTIVATIONS && slot && !strcmp(slot, "mask"))
        h->component = COMPONENT_MASKS;
    if (!strcmp(h->maker, "pull.y") || !strcmp(h->maker, "dequantize.y"))
        h->component = COMPONENT_COPIES;
}

void plan_visit(const struct plan *p, int k, void (*see)(void *ctx, const struct held *h), void *ctx)
{
    const struct program *g = &p->programs[k];
    struct held staging = {.component = COMPONENT_INPUTS,
                           .persists = true,
                           .last = g->graph.n_nodes,
                           .bytes = p->staging * p->inputs_bytes,
                           .maker = "inputs on their way"};
    if (staging.bytes)
        see(ctx, &staging);
    for (int i = 1; i < g->graph.n_values; i++) {
        const struct value *v = graph_value(&g->graph, i);
        if (v->base || g->at[i] < 0 || v->memory != MEMORY_DEVICE || (v->rank && v->rank != p->fullest))
            continue;
        struct held h = {.bytes = v->persists ? plan_persistent_room(p, v->name) : plan_room(p, g, i)};
        describe(g, i, &h);
        see(ctx, &h);
    }
    /* What another program keeps and this one does not know is there all the same. */
    for (int other = 0; other < p->n_programs; other++) {
        const struct program *o = &p->programs[other];
        for (int i = 1; i < o->graph.n_values && other != k; i++) {
            const struct value *v = graph_value(&o->graph, i);
            if (!v->persists || v->base || v->memory != MEMORY_DEVICE || graph_find(&g->graph, v->name) ||
                plan_known_place(p, other, v) >= 0 || (v->rank && v->rank != p->fullest))
                continue;
            struct held h = {.bytes = plan_persistent_room(p, v->name)};
            describe(o, i, &h);
            h.last = g->graph.n_nodes;
            see(ctx, &h);
        }
    }
}

/* ---- at a node ---- */

struct at_node {
    int node, n_layers;
    struct anatomy *a;
    int64_t *by_layer;
    struct shares *shares;
};

static bool is_there(const struct at_node *at, const struct held *h)
{
    return h->persists || (h->first <= at->node && at->node <= h->last);
}

static void add_bytes(void *ctx, const struct held *h)
{
    struct at_node *at = ctx;
    if (!is_there(at, h))
        return;
    at->a->by_component[h->component] += h->bytes;
    at->a->frozen += h->frozen ? h->bytes : 0;
    at->a->total += h->bytes;
    if (at->by_layer && h->layer < at->n_layers)
        at->by_layer[h->layer] += h->bytes;
}

void plan_anatomy(const struct plan *p, int k, int node, struct anatomy *a, int64_t *by_layer, int n_layers)
{
    const struct program *g = &p->programs[k];
    *a = (struct anatomy){0};
    plan_visit(p, k, add_bytes, &(struct at_node){.node = node, .n_layers = n_layers, .a = a, .by_layer = by_layer});
    for (int i = 1; i < g->graph.n_values; i++) { /* a part of a weight of which others are trained, or all of it */
        const struct value *v = graph_value(&g->graph, i);
        a->frozen += v->frozen && v->base && g->at[i] >= 0 ? value_bytes(v, g->max) : 0;
    }
}

static void add_share(void *ctx, const struct held *h)
{
    struct at_node *at = ctx;
    struct shares *s = at->shares;
    size_t i = 0;
    if (!is_there(at, h))
        return;
    while (i < s->n && (s->of[i].component != h->component || strcmp(s->of[i].maker, h->maker)))
        i++;
    if (i == s->n) {
        s->failed |= !MEM_GROW(s->of, s->cap, s->n + 1);
        if (s->failed)
            return;
        s->of[s->n++] = (struct share){.component = h->component, .first_layer = h->layer, .last_layer = h->layer};
        memcpy(s->of[i].maker, h->maker, sizeof h->maker);
    }
    struct share *x = &s->of[i];
    x->n++;
    x->bytes += h->bytes;
    x->first_layer = h->layer < x->first_layer ? h->layer : x->first_layer;
    x->last_layer = h->layer > x->last_layer ? h->layer : x->last_layer;
}

static int by_bytes(const void *a, const void *b)
{
    const struct share *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->component != y->component)
        return x->component < y->component ? -1 : 1;
    return strcmp(x->maker, y->maker);
}

void plan_shares(const struct plan *p, int k, int node, struct shares *s)
{
    *s = (struct shares){0};
    plan_visit(p, k, add_share, &(struct at_node){.node = node, .shares = s});
    if (s->n)
        qsort(s->of, s->n, sizeof *s->of, by_bytes);
}

void shares_free(struct shares *s)
{
    mem_free(s->of);
    *s = (struct shares){0};
}

/* ---- at all nodes ---- */

int timeline_band(const struct timeline *t, enum component component, int layer)
{
    int group = t->n_layers ? (int)((int64_t)layer * t->groups / t->n_layers) : 0;
    return component < COMPONENT_ACTIVATIONS    ? (int)component
           : component == COMPONENT_ACTIVATIONS ? COMPONENT_ACTIVATIONS + group
                                                : (int)component + t->groups - 1;
}

/* What begins and ends at a node; the sums of that are what is there. */
static void add_change(void *ctx, const struct held *h)
{
    struct timeline *t = ctx;
    int band = timeline_band(t, h->component, h->layer), first = h->persists ? 0 : h->first;
    t->bands[(size_t)first * (size_t)t->n_bands + (size_t)band] += h->bytes;
    if (!h->persists && h->last + 1 < t->n_nodes)
        t->bands[(size_t)(h->last + 1) * (size_t)t->n_bands + (size_t)band] -= h->bytes;
}

bool timeline_make(const struct plan *p, int k, int groups, struct timeline *t)
{
    int n_layers = plan_layers(p);
    *t = (struct timeline){.n_nodes = p->programs[k].graph.n_nodes, .n_layers = n_layers};
    t->groups = groups < n_layers ? groups : n_layers > 0 ? n_layers : 1;
    t->n_bands = COMPONENT_COUNT - 1 + t->groups;
    t->bands = mem_alloc((size_t)t->n_nodes * (size_t)t->n_bands * sizeof *t->bands);
    if (!t->bands)
        return false;
    plan_visit(p, k, add_change, t);
    for (size_t i = (size_t)t->n_bands; i < (size_t)t->n_nodes * (size_t)t->n_bands; i++)
        t->bands[i] += t->bands[i - (size_t)t->n_bands];
    return true;
}

void timeline_free(struct timeline *t)
{
    mem_free(t->bands);
    *t = (struct timeline){0};
}

int64_t timeline_total(const struct timeline *t, int node)
{
    int64_t total = 0;
    for (int b = 0; b < t->n_bands; b++)
        total += t->bands[(size_t)node * (size_t)t->n_bands + (size_t)b];
    return total;
}
