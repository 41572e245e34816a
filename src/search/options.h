/* options.h: what can be computed again in a layer, or in a segment of several, and what each way costs. */
#ifndef SEARCH_OPTIONS_H
#define SEARCH_OPTIONS_H

#include "pass/pass.h"
#include "search/layer.h"
#include "search/rates.h"

/* One way. All bytes are those of the program at its largest sizes. */
struct option {
    uint64_t nodes; /* as in struct recompute_set; of a segment, all nodes of all its layers */
    int64_t held;   /* from its forward nodes to its backward nodes, */
    int64_t large;  /* and of it, what may be in the host's memory meanwhile */
    int64_t most;   /* that live at once during its own nodes, less what is held by the layers before it */
    double seconds; /* of what is computed again */
    /* What a layer holds for its own backward pass, the layer behind it may need to compute something again. An option that
     * reads such a value cannot stand behind one that drops it. */
    bool reads_inner, drops_inner;
    bool sent; /* what it holds is in the host's memory between the passes: `held` is without it */
};

struct option_list {
    struct option *all;
    size_t cap;
    int n;
};

/* The options of layer `layer`, of which none is better than another in everything: the first keeps all. With layer < last, the one
 * of the segment layer … last: all is computed again. */
int options_of(const struct layers *l, const struct rates *r, int layer, int last, struct option_list *out,
               struct snug_err *err);

/* Whether the nodes of two layers are the same and use values of the same sizes: their options differ in `most` alone. */
bool options_equal_layers(const struct layers *l, int a, int b);

/* Recomputes `most` of options that were found for an equal layer. */
int options_move(const struct layers *l, const struct rates *r, int layer, struct option_list *options,
                 struct snug_err *err);

#endif
