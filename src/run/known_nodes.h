/* known_nodes.h: the times of single nodes that a device's profile keeps, and those of programs that never ran from them.
 *
 * A node is known by its op, by its form (types and shapes in terms of tokens and sequences, what else changes its time) and by how
 * much work it has (node_work). Between two amounts of work of one form times are interpolated. A form that was never measured takes
 * the time of the one of its op, with operands of the same types, that has most nearly as much work, in proportion; not so where it
 * reaches the host's memory. */
#ifndef RUN_KNOWN_NODES_H
#define RUN_KNOWN_NODES_H

#include "run/run.h"

struct known_node;
struct known_nodes {
    struct known_node *all; /* sorted by op, types, form, work */
    size_t n, cap;
    struct known_step *steps;
    size_t n_steps, cap_steps;
    bool failed; /* no memory */
};

/* All that b's profile has. SNUG_ERR_ENV: no memory. known_nodes_close also after a failure. */
int known_nodes_open(struct known_nodes *k, const struct backend *b, struct snug_err *err);
void known_nodes_close(struct known_nodes *k);

/* Measures the nodes of program k of r at `dims`, for which it has been run, and keeps the times in the backend's profile: one node of
 * each form that is not in `known` with that work. `attention` as in node_times_of. */
int known_nodes_measure(const struct known_nodes *known, struct run *r, int k, struct dims dims, double attention,
                        struct snug_err *err);

/* All nodes of program g at `dims`, one after the other. */
struct known_time {
    double seconds; /* of these, of forms that were not measured: */
    double unlike;
    int unknown; /* nodes of which nothing is known, and which are not among the seconds */
};
struct known_time known_nodes_of(const struct known_nodes *k, const struct program *g, struct dims dims,
                                 double attention);
/* The same, with the share of each op added to `ops`, as of `times` runs of the program. */
struct known_time known_nodes_by_op(const struct known_nodes *k, const struct program *g, struct dims dims,
                                    double attention, int64_t times, struct op_times *ops);

/* One after another nodes take longer than each again and again: the chip is warmer, and its cache colder. Keeps how long a step of such
 * nodes has taken; from what is kept follows how long another takes. */
int known_nodes_keep_step(const struct backend *b, const struct known_time *nodes, double seconds,
                          struct snug_err *err);
double known_nodes_step(const struct known_nodes *k, const struct known_time *nodes);

#endif
