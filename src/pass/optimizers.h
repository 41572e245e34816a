/* optimizers.h: the update of one weight by each optimizer, with the states that it has. */
#ifndef PASS_OPTIMIZERS_H
#define PASS_OPTIMIZERS_H

#include "pass/pass.h"

/* What an update is given, whatever the optimizer: ids of values, 0 for none. */
struct weight_update {
    int weight, gradient, copy, step, coef;
    int ahead; /* the state KIN_AHEAD, where the program has it already */
    double weight_decay;
    int64_t noise;       /* 0: what is stored is not rounded (op/optimizer/rounding.h) */
    bool codes;          /* states of 8 bits: this tensor is large enough */
    bool matrix;         /* Muon's, which leaves others to AdamW */
    enum dtype products; /* the type in which products of an update compute */
    int shards;          /* not 0: as many ranks have a shard of it each, of whole chunks of so many elements */
    int64_t chunk;
    /* Of a weight in shards, Adafactor's states, and the sums that a part of the update hands to the next: of all ranks (all), and what
     * each writes of them (mine). */
    struct {
        int row, col, m;
        struct {
            int all, mine;
        } col_sums, row_sums, weight_sums, squares;
    } factored;
};

/* In how many parts weights in shards are updated. A part comes for all weights before the next, so that a GPU does it in few launches. */
int optimizer_parts(enum optimizer o);

/* Emits a part of the update of a weight, counted from 0; the first one adds its states to the graph. What is not in shards has only that. */
void optimizer_update(struct graph *g, const struct update *u, struct weight_update *w, int part);

/* The type of a state of the weight's shape, but for codes. */
enum dtype optimizer_state_type(const struct update *u);

/* How much of its state a weight is taken ahead, of those that optimizer_averages. */
double optimizer_ahead(const struct update *u);

#endif
