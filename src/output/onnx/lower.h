/* lower.h: a forward pass of the graph as ONNX nodes, an op at a time.
 *
 * The graph has packed rows: the T tokens of B sequences, one after another. ONNX models get a batch that is padded: ids (batch_size,
 * sequence_length) and a mask. So a value (T,...) becomes a tensor (batch, length, ...), one (B,...) becomes (batch, ...), and what the
 * graph says by cu_seqlens the mask says: keys that are padding are never seen, means leave padding out, and the first row of a
 * sequence is the first of its row of the batch. What stands at padded places means nothing.
 *
 * To add an op: a row here and its function. An op without a row is refused by name. */
#ifndef OUTPUT_ONNX_LOWER_H
#define OUTPUT_ONNX_LOWER_H

#include "output/onnx/program.h"

#define ONNX_LOWERED(ROW)                                                                                              \
    ROW(embed)                                                                                                         \
    ROW(linear)                                                                                                        \
    ROW(bias)                                                                                                          \
    ROW(attention)                                                                                                     \
    ROW(attention_general)                                                                                             \
    ROW(attention_disentangled)                                                                                        \
    ROW(add)                                                                                                           \
    ROW(norm)                                                                                                          \
    ROW(rms_norm)                                                                                                      \
    ROW(glu)                                                                                                           \
    ROW(rotary_table)                                                                                                  \
    ROW(rotary)                                                                                                        \
    ROW(mask_dropout)                                                                                                  \
    ROW(neighbours)                                                                                                    \
    ROW(gather)                                                                                                        \
    ROW(pool)

#define ROW(op) void onnx_lower_##op(struct onnx *x, const struct op_##op *n);
ONNX_LOWERED(ROW)
#undef ROW

/* Nodes for all that `wanted`, a value of the graph, needs. */
void onnx_lower(struct onnx *x, int wanted);

/* ---- For the ops ---- */

/* The tensor that a value is: what a node has made, an input or a weight. */
const char *onnx_use(struct onnx *x, int id);
void onnx_set(struct onnx *x, int id, const char *name);
/* The columns of a matrix in n tensors of the same width. */
void onnx_parts(struct onnx *x, int id, int n, const char *part[ONNX_PARTS]);
const char *onnx_act(struct onnx *x, enum act act, const char *in);

/* ---- Inputs (inputs.c) ---- */

/* The inputs of the whole, as the model's family has them. */
void onnx_inputs(struct onnx *x);
/* A value of role input: of the whole, or computed from those. */
const char *onnx_input(struct onnx *x, int id);

const char *onnx_sizes(struct onnx *x);     /* (2): batch, length */
const char *onnx_mask(struct onnx *x);      /* (batch,length,1) float: 1 for tokens, 0 for padding */
const char *onnx_distances(struct onnx *x); /* (length,length): the query's place minus the key's */

/* ---- What is added to scores of attention (bias.c) ---- */

/* (batch, 1, 1 or length, length): 0 for keys that a query sees, the lowest float for the others. window 0: all that are no padding. */
const char *onnx_seen(struct onnx *x, int64_t window);
/* (batch,heads,length,length): that, and the table's entries by distance, in T5's buckets of both directions. */
const char *onnx_distance_bias(struct onnx *x, int table, int64_t furthest);

#endif
