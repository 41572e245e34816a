/* pass.h: the passes over a program, in the order of src/compile.c. Each states what it requires, keeps and breaks. All
 * are sticky: failure is in the graph, for graph_ok. */
#ifndef PASS_PASS_H
#define PASS_PASS_H

#include "graph/graph.h"

/* freeze: marks the weights that are not trained: those whose names one of `patterns` matches, a list with commas of shell
 * patterns in which `*` stands for dots, too (fnmatch without flags; NULL: none). A group is frozen when all of its parts
 * are. The passes behind it do the rest: a frozen weight has no gradient, no state and no update, and where nothing
 * before a node is trained its backward pass is not there. Requires: forward nodes only. */
enum { FREEZE_PATTERN_MAX = 512 };
void pass_freeze(struct graph *g, const char *patterns);
bool freeze_next(const char **patterns, char pattern[FREEZE_PATTERN_MAX]); /* the next of the list; false: no more */
bool freeze_matches(const char *pattern, const char *weight_name);

/* grad: emits the backward pass of `loss` behind the forward nodes. Gradients of trained weights are KIN_GRADIENT of
 * them, parts of groups included; when `accumulate`, they persist and every contribution is added (else the first one is
 * written). Requires: forward nodes only. Keeps: everything. */
void pass_grad(struct graph *g, int loss, bool accumulate);

/* fold_bias: a bias gradient is the sum of its product's dy over the rows. Where one node writes that dy and can add it
 * up on the way (act_bwd, norm_bwd, attention_bwd), that node makes the bias gradient, and linear_dw no longer does. Requires: grad
 * done. Keeps: nodes and their order; results but for the order of those sums. */
void pass_fold_bias(struct graph *g);

/* fold_act: a linear_dx and the act_bwd right behind it, which alone reads what it makes, become one node; the gradient
 * between them is no value any more, and need not be rounded. Requires: grad done; fold_bias before, for the bias
 * gradient to come along. Keeps: the order of nodes; results but for that rounding. */
void pass_fold_act(struct graph *g);

/* precision: gives every float its dtype. Weights, their statistics and states stay in `wide` (F32, or F64 on the
 * reference); activations over tokens become `narrow`, and casts are inserted where a node would mix the two: each use
 * of a weight in a product gets its own copy, which lives only there. With `narrow_grads`, the gradient of a product's
 * weight is narrow too (only where one node writes it, or adds to it). With `copies`, a narrow copy (KIN_COPY) is
 * kept of each weight of a product, for the updates to write, in the place of those casts. With F16 the losses'
 * gradients are scaled by the state "loss_scaler". Requires: grad done, all floats F32. Keeps: order, ids of values. */
struct precision {
    enum dtype wide, narrow;
    bool narrow_grads, copies;
    bool bias_copies; /* with copies: also of the biases of products, which the backend takes in that type */
    bool narrow_sums; /* not for the pass but for who calls it: narrow_grads where gradients are accumulated, too */
};
void pass_precision(struct graph *g, const struct precision *p);

/* keep_mask: what attention's dropout decided is made again in the backward pass, but where the backend's kernel `reads` a
 * kept mask (NULL: nowhere): of such a node, with heads of so many elements of that type. Requires: precision done. Keeps:
 * results, bit for bit. */
typedef bool mask_reader(const struct op_attention_bwd *n, int64_t head_size, enum dtype type);
void pass_keep_mask(struct graph *g, mask_reader *reads);

/* update: the norm of all gradients and one update node per weight. Gradients come from this graph, or (accumulated)
 * from before it. A weight's KIN_COPY is written with it. Requires: grad and precision done. */
enum optimizer { OPTIM_ADAMW, OPTIM_SGD, OPTIM_ADAFACTOR, OPTIM_ADAMW_8BIT, OPTIM_COUNT };
struct update {
    enum optimizer optimizer;
    double beta1, beta2, eps;   /* AdamW */
    double momentum, dampening; /* SGD */
    bool nesterov;
    struct {
        double eps1, eps2, clip_threshold, decay_rate, beta1; /* beta1 below 0: no first moment */
        bool scale_parameter, relative_step, warmup_init;
    } adafactor;
    int64_t min_8bit_size; /* AdamW with 8-bit states: smaller tensors have F32 states, and so do tables of embed */
    bool embeddings_8bit;  /* but for this */
    double weight_decay, max_grad_norm; /* 0: none */
    bool decay_all;                     /* also biases and norms */
    /* Updates wait for the norm of all gradients, as they do where it clips them and where those are scaled. Else they stand
     * behind their layer's backward nodes: gradients die there, but a GPU takes longer with fewer updates at a time, and
     * weights have changed when the norm turns out not to be finite. */
    bool at_end;
    bool scaled; /* gradients are those of the loss times the state "loss_scaler" */
    enum dtype state_type;
};
int pass_loss_scaler(struct graph *g); /* the state "loss_scaler" (enum scaler_scalar), made when it is not there yet */
void pass_update(struct graph *g, const struct update *u);
bool update_is_8bit(const struct update *u, const struct value *weight); /* whether its states have 8 bits */
bool update_decays(const char *weight_name); /* false for biases and norms, as the Trainer decides by name */

/* recompute: drops the activations of segments of `every_n` layers after the forward pass, but for what enters a
 * segment, and computes them again before the segment's backward nodes; the last segment only where what follows it
 * works on tokens (a language model). 0: off. Gives how many layers that is. Requires: grad done. Keeps: results, bit
 * for bit. */
int pass_recompute(struct graph *g, int every_n);

/* pad: the outputs of a large linear layer whose number is no multiple of `sizes` (a vocabulary: 50257) get zeros behind
 * them: the rows of its result and of that one's gradient, and rows behind its weight, the weight's gradient and the
 * bias. Where an op of another kind would see padded rows, or the host, they stay as they are. Requires: precision done. Keeps:
 * everything but the room that those values take. */
void pass_pad(struct graph *g, int64_t sizes);

/* order: removes what nobody needs (nodes, optional outputs) and moves updates that need not wait for the norm to the
 * end of their layer's backward nodes. Keeps: results. */
void pass_order(struct graph *g);

#endif
