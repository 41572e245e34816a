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
};

/* Emits the update of a weight, and adds its states to the graph. */
void optimizer_update(struct graph *g, const struct update *u, const struct weight_update *w);

/* The type of a state of the weight's shape, but for codes. */
enum dtype optimizer_state_type(const struct update *u);

/* How much of its state a weight is taken ahead, of those that optimizer_averages. */
double optimizer_ahead(const struct update *u);

#endif
