/* anatomy.h: what the arena holds while a program runs: what each value is for, which layer it belongs to, when it is there. */
#ifndef PLAN_ANATOMY_H
#define PLAN_ANATOMY_H

#include "plan/plan.h"

/* What memory is for: the roles of values, and apart from the other activations what a backend keeps of dropout. First what
 * lasts from step to step. ORDER component */
enum component {
    COMPONENT_WEIGHTS,
    COMPONENT_COPIES,
    COMPONENT_STATES,
    COMPONENT_GRADIENTS,
    COMPONENT_INPUTS,
    COMPONENT_SCALARS,
    COMPONENT_ACTIVATIONS,
    COMPONENT_MASKS,
    COMPONENT_WORKSPACES,
    COMPONENT_COUNT
};
extern const char *const component_names[COMPONENT_COUNT];

/* Something with a place of its own. What persists is there at all nodes; else it is from node `first` to node `last`. */
struct held {
    enum component component;
    enum kin kin;
    int layer;
    bool persists, frozen;
    int first, last;
    int64_t bytes;
    char maker[48]; /* the op and slot that writes it first, "op.slot"; of what persists, a word for what it is */
};

/* Calls `see` for all that is in the arena while program `k` runs, what only other programs use included. */
void plan_visit(const struct plan *p, int k, void (*see)(void *ctx, const struct held *h), void *ctx);

/* Layers of the largest program, embeddings and head included, and what they are called. */
int plan_layers(const struct plan *p);
void plan_layer_name(int layer, int n_layers, char *to, size_t room);

/* Bytes of what is there at `node` of program `k`, by component and by layer (arrays of n_layers; may be NULL). */
struct anatomy {
    int64_t by_component[COMPONENT_COUNT];
    int64_t frozen; /* of the weights: those that are not trained */
    int64_t total;  /* sum of all components: the arena's content, without packing gaps */
};
void plan_anatomy(const struct plan *p, int k, int node, struct anatomy *a, int64_t *by_layer, int n_layers);

/* What is there at a node, by component and maker, the most bytes first. */
struct share {
    enum component component;
    char maker[48];
    int n, first_layer, last_layer;
    int64_t bytes;
};
struct shares {
    struct share *of;
    size_t n, cap;
    bool failed; /* memory ran out: some are missing */
};
void plan_shares(const struct plan *p, int k, int node, struct shares *s);
void shares_free(struct shares *s);

/* Bytes of each band at each node of a program: bands[node * n_bands + band]. A component is a band, but for the activations,
 * which are `groups` bands of about equally many layers. False: no memory. */
struct timeline {
    int n_nodes, n_bands, groups, n_layers;
    int64_t *bands;
};
bool timeline_make(const struct plan *p, int k, int groups, struct timeline *t);
void timeline_free(struct timeline *t);
int timeline_band(const struct timeline *t, enum component component, int layer);
int64_t timeline_total(const struct timeline *t, int node);

#endif
