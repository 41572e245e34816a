/* pass.h: the passes over a program; passes.h is their list, in the order in which they run. Each states here what it reads of
 * its settings, and what it requires, keeps and breaks. All are sticky: failure is in the graph, for graph_ok. */
#ifndef PASS_PASS_H
#define PASS_PASS_H

#include "graph/graph.h"
#include "op/codes/quantize.h"
#include "pass/passes.h"

/* The programs of a run, and sets of them for passes.h. */
enum program_kind {
    PROGRAM_STEP,       /* forward, backward and update; a gradient lives only until its update */
    PROGRAM_FIRST,      /* forward and backward of the first micro-batch, and */
    PROGRAM_NEXT,       /* of a further one, which adds to its gradients */
    PROGRAM_UPDATE,     /* from those gradients */
    PROGRAM_EVALUATION, /* forward */
    PROGRAM_GENERATION, /* forward, with a cache of keys and values */
    PROGRAM_COPIES      /* the 16-bit copies that stay, from the weights */
};
enum {
    HAS_UPDATE = 1 << PROGRAM_STEP | 1 << PROGRAM_UPDATE,
    HAS_BACKWARD = 1 << PROGRAM_STEP | 1 << PROGRAM_FIRST | 1 << PROGRAM_NEXT,
    HAS_FORWARD = HAS_BACKWARD | 1 << PROGRAM_EVALUATION | 1 << PROGRAM_GENERATION,
    EVERY_PROGRAM = HAS_FORWARD | HAS_UPDATE | 1 << PROGRAM_COPIES
};

struct precision {
    enum dtype wide, narrow;
    bool pure; /* weights and states are bf16, with stochastic rounding; on the reference they are rounded so, in F64 */
    bool fp8;  /* products of layers have factors of 8 bits (pass_fp8) */
    bool narrow_grads;
    bool narrow_sums; /* narrow_grads where gradients are added up over micro-batches, too */
};
/* Small gradients would be 0 in fp16: there the loss has a scale, which is the state "loss_scaler". */
static inline bool precision_scales(const struct precision *p)
{
    return p->narrow == DT_F16;
}

/* Every optimizer: a row is what --optim knows of it, and pass/optimizers.c how it updates a weight.
 *
 *     ROW(x, id, word, update, bits)     update_with_UPDATE emits an update; bits: of the states of large tensors */
#define OPTIMIZERS(ROW, x)                                                                                             \
    ROW(x, OPTIM_ADAMW, "adamw_torch", adamw, 32)                                                                      \
    ROW(x, OPTIM_SGD, "sgd", sgd, 32)                                                                                  \
    ROW(x, OPTIM_ADAFACTOR, "adafactor", adafactor, 32)                                                                \
    ROW(x, OPTIM_ADAMW_8BIT, "adamw_bnb_8bit", adamw, 8)                                                               \
    ROW(x, OPTIM_RMSPROP, "rmsprop", rmsprop, 32)                                                                      \
    ROW(x, OPTIM_RMSPROP_8BIT, "rmsprop_bnb_8bit", rmsprop, 8)                                                         \
    ROW(x, OPTIM_ADAGRAD, "adagrad", adagrad, 32)                                                                      \
    ROW(x, OPTIM_LION, "lion_32bit", lion, 32)                                                                         \
    ROW(x, OPTIM_LION_8BIT, "lion_8bit", lion, 8)                                                                      \
    ROW(x, OPTIM_ADEMAMIX, "ademamix", ademamix, 32)                                                                   \
    ROW(x, OPTIM_ADEMAMIX_8BIT, "ademamix_8bit", ademamix, 8)                                                          \
    ROW(x, OPTIM_LOMO, "lomo", sgd, 32)                                                                                \
    ROW(x, OPTIM_ADALOMO, "adalomo", adafactor, 32)                                                                    \
    ROW(x, OPTIM_STABLE_ADAMW, "stable_adamw", stable_adamw, 32)                                                       \
    ROW(x, OPTIM_MUON, "muon", muon, 32)                                                                               \
    ROW(x, OPTIM_SCHEDULE_FREE_ADAMW, "schedule_free_adamw", schedule_free_adamw, 32)                                  \
    ROW(x, OPTIM_SCHEDULE_FREE_RADAM, "schedule_free_radam", schedule_free_adamw, 32)                                  \
    ROW(x, OPTIM_SCHEDULE_FREE_SGD, "schedule_free_sgd", schedule_free_sgd, 32)
#define OPTIM_ID(x, id, word, update, bits) id,
enum optimizer { OPTIMIZERS(OPTIM_ID, ) OPTIM_COUNT };
#undef OPTIM_ID

/* What Muon multiplies the learning rate with for a matrix (r,c), in the words of torch.optim.Muon: 0.2 sqrt(max(r, c)), for steps of
 * the size of AdamW's, or sqrt(max(1, r / c)). */
#define MUON_RATES(W) W(MUON_LIKE_ADAMW, "match_rms_adamw") W(MUON_ORIGINAL, "original")
#define MUON_RATE_ID(id, word) id,
enum muon_rate { MUON_RATES(MUON_RATE_ID) };
#undef MUON_RATE_ID

/* Where optimizers have values of their own for one key of --optim-args, NAN stands for that value (pass/optimizers.c). */
struct update {
    enum optimizer optimizer;
    double beta1, beta2, eps;   /* of the moments: AdamW, Lion, AdEMAMix */
    double momentum, dampening; /* SGD, RMSprop; momentum also of Muon. NAN: the optimizer's own */
    bool nesterov;
    struct {
        double eps1, eps2, clip_threshold, decay_rate, beta1; /* beta1 below 0: no first moment */
        bool scale_parameter, relative_step, warmup_init;
    } adafactor;
    double own_eps, alpha;          /* NAN: the optimizer's own */
    double beta3, t_alpha, t_beta3; /* AdEMAMix; t 0: no warm-up */
    double lr_decay;                /* Adagrad */
    bool centered;                  /* RMSprop */
    int64_t ns_steps;               /* Muon: iterations of Newton and Schulz */
    enum muon_rate muon_rate;
    int64_t min_8bit_size; /* states of 8 bits: smaller tensors have F32 states, and so do tables of embed */
    bool embeddings_8bit;  /* but for this */
    double weight_decay, max_grad_norm; /* 0: none */
    bool decay_all;                     /* also biases and norms */
    enum dtype state_type;              /* F32, or F64 on the reference */
    bool rounds; /* weights, and states of their shape, are rounded to bf16 as they are stored (precision.pure) */
};

/* Which forward nodes of a layer are computed again before its backward nodes: bit i for the i-th of them, in the order of the
 * program when pass_recompute runs. What those nodes make, and no other node of the layer, is dropped. */
enum { RECOMPUTE_NODES = 64 }; /* a later one is never computed again */
struct recompute_set {
    uint64_t nodes;
    bool joins; /* in one segment with the layer before it, whose result may be dropped too */
    bool sent;  /* what of it is kept is in the host's memory meanwhile (pass_offload) */
};

/* What a plan may give up or take to save room or time. train/fit/fit.c changes these and nothing else of a run.
 * `micro` and `accumulation` decide how a batch is cut, on which bits depend, and whole_logits how the sums of the head's gradient
 * are cut; no other choice changes a bit. */
struct choices {
    struct dims micro;                     /* the largest micro-batch of training */
    struct dims usual;                     /* the mean one, by which seconds are reckoned; all 0: the largest */
    int64_t accumulation;                  /* micro-batches for each update */
    int recompute_every_n;                 /* activations of segments of so many layers are computed again; 0: kept */
    const struct recompute_set *recompute; /* by layer, 0 to the last; NULL: recompute_every_n decides */
    bool keep_masks;   /* of attention's dropout, for the backward pass, where the backend reads them */
    bool whole_logits; /* of a language model's head; else head_chunk rows of them at a time (pass_fold_head) */
    bool copies;       /* 16-bit copies of weights stay; else they are made at each use */
    /* true: all updates stand at the end of the step, behind the norm of all gradients. Where the norm clips or scales
     * gradients, that is so in any case. false: a layer's updates stand behind its backward nodes. Gradients then die
     * there, but a GPU takes longer with fewer updates at a time, and weights have changed before it is known that the
     * norm is not finite. */
    bool updates_at_end;
    /* The optimizer's states lie in a file, but for small ones and for those that forward nodes read, too (`ahead`). */
    bool states_on_disk;
    int host_layers; /* the optimizer's states of layers 0 … host_layers-1 lie in the host's memory, where updates reach them */
    /* What lies in the host's memory is brought to the device as early as the peak leaves room for it. false: that of two groups of updates
     * (pass_stage), or of two layers (pass_offload), at a time. */
    bool prefetch;
    int host_weights; /* and the weights of so many layers whose 16-bit copies stay on the device, for the other nodes */
    int host_activations; /* and the activations of so many layers, between the passes; besides those that `recompute` sends */
};

enum { COPY_LEAST_BYTES = 16 << 10 }; /* of less, starting a copy between memories takes longer than it lasts */

/* Whether an activation may leave for the host's memory, if its layer's do: it is no smaller than what starting a copy is worth. */
bool activation_may_leave(const struct value *v, struct dims max);

/* Layers of a program of so many whose activations are in the host's memory between the passes. */
int choices_sent_layers(const struct choices *c, int n_layers);

/* Whether the backend's kernel for this node, with heads of so many elements of that type, reads a kept dropout mask. */
typedef bool mask_reader(const struct op_attention_bwd *n, int64_t head_size, enum dtype type);

/* An adapter of a linear layer (LoRA: Hu et al., arXiv 2106.09685): y = act(x W^T + b + scale dropout(x) A^T B^T). With dora, the rows of
 * W + scale B A have the lengths that a vector says, which is trained (op/dora.c). */
struct adapter {
    const char *module; /* the name of W without ".weight"; of experts, that of the value with all their weights */
    const char *path;   /* the names of its own weights begin so */
    int64_t experts;    /* 0: of a layer; else W is (E,O,I), and A and B have a matrix for each (op/experts/split.c) */
    int64_t r;          /* A is (r,I), B is (O,r); of experts (r E,I) and (O,r E) */
    double scale;       /* alpha / r */
    bool in_out;        /* W is (I,O), or (E,I,O), as the products' attribute says; pass_adapt goes by that one */
};
struct adapters {
    const struct adapter *list; /* sorted by module */
    size_t n;
    const char *const *saved; /* modules that are trained in full beside them */
    size_t n_saved;
    double dropout;
    bool dora;
};

/* Of weights that are not trained. */
struct quantization {
    int bits;                                        /* of codes, 4 or 8; 0: they stay numbers */
    enum quant_type type;                            /* of 4 bits */
    bool nested;                                     /* what these are multiplied with is in codes of 8 bits */
    bool (*of)(const void *ctx, const char *weight); /* whether this one is; NULL: all are */
    const void *ctx;
};

/* What passes are told of the program, the run and the backend. Each reads what its comment names. */
struct pass_settings {
    enum program_kind program;
    int loss;                        /* of the forward pass */
    const struct adapters *adapters; /* NULL: the model itself is trained */
    struct quantization quantization;
    const char *freeze; /* patterns of the names of weights that are not trained; NULL: none */
    struct precision precision;
    struct update update;
    struct choices choices;
    int64_t head_chunk;      /* rows of logits at a time; 0: all */
    int64_t head_vocabulary; /* only of heads with so many outputs */
    int64_t cache_rows;      /* of generation: tokens that a sequence may have, */
    int64_t source_rows;     /* and its source, */
    int64_t beams;           /* so many of which share what they have in common; 0 and 1: none do */
    mask_reader *reads_mask; /* NULL: no kernel does */
    int64_t product_sizes;   /* products of other sizes than multiples of this are slow; 0: none is */
    bool narrow_bias;        /* products take a bias of the narrow type */
    int ranks;               /* that train side by side and add up their gradients; 0 and 1: one */
    int zero_stage; /* of them: 0: each has all; of its own weights alone (pass/owners.h): 1: states; 2: gradients, too; 3: weights, too */
    bool in_host_memory;   /* the backend computes there, so nothing is brought to it */
    bool pulls_beside;     /* what lies with another rank can come while nodes compute */
    bool sums_beside;      /* ranks can add up gradients while nodes compute */
    int64_t beside_bytes;  /* that another program's values take where this one's lie, at its peak; 0: none do */
    int recomputed_layers; /* out: of how many layers activations are dropped */
};

#define PASS(x, name, programs) void pass_##name(struct graph *g, struct pass_settings *s);
PASSES(PASS, )
#undef PASS

/* adapt: adds an adapter to each linear layer that is in settings.adapters, with the weights PATH.lora_A.weight and
 * PATH.lora_B.weight, and freezes all weights of the model but those of the modules to be saved. Those of experts add two products by
 * expert, without dropout. Adapters that read one value share its dropout, which an evaluation does not have. Where one product computes
 * several layers (its weight is a group), it gets the columns that all of their adapters add; where some have no adapter, and with dora, it
 * becomes a product for each layer. With dora a layer's product has neither bias nor activation; the node behind it has them, and the
 * weight PATH.lora_magnitude_vector. Requires: forward nodes
 * only. */
size_t adapter_module_length(const char *weight_name); /* of the name without ".weight"; 0 where it does not end so */
const struct adapter *adapters_find(const struct adapters *a, const char *weight_name);   /* NULL: it has none */
const struct adapter *adapters_find_experts(const struct adapters *a, const char *value); /* of experts' weights */
bool adapters_save(const struct adapters *a, const char *weight_name); /* whether it is trained in full */

/* freeze: marks the weights that are not trained: those whose names match one of the patterns. `settings.freeze` is a list
 * of shell patterns with commas between them; `*` matches dots too (fnmatch without flags). A group is frozen when all of
 * its parts are. Later passes do the rest: a frozen weight has no gradient, no state and no update, and a node has no
 * backward pass if nothing before it is trained. Requires: forward nodes only. */
enum { FREEZE_PATTERN_MAX = 512 };
bool freeze_next(const char **patterns, char pattern[FREEZE_PATTERN_MAX]); /* the next of the list; false: no more */
bool freeze_matches(const char *pattern, const char *weight_name);

/* quantize: marks the weights that are kept in codes: those that only products of layers read, neither embeddings nor a head, and that
 * are not trained. Each tensor gets what its codes are multiplied with: those of 4 bits (DT_F4) KIN_ABSMAX, and KIN_NESTED_ABSMAX, those
 * of 8 bits (DT_F8_E4M3) KIN_SCALE, of which a group has one for all its rows. Of 4 bits, one whose elements are no multiple of
 * QUANT_BLOCK, and those with which it is a group, stay as they are. Reads quantization. Requires: forward nodes only, adapters and
 * frozen weights known. Keeps: everything else. */

/* grad: emits the backward pass of `loss` behind the forward nodes. Each trained weight, parts of groups included, gets a
 * gradient (KIN_GRADIENT), which outlives the micro-batch; with zero_stage 2 a KIN_PART, which does not. The first contribution to it is
 * written and the others are added; in PROGRAM_NEXT all are added. Requires: forward nodes only. Keeps: everything. */

/* fold_bias: a bias gradient is the sum of its product's dy over the rows. Where one node writes that dy and can add it
 * up on the way (act_bwd, norm_bwd, attention_bwd), that node makes the bias gradient, and linear_dw no longer does. Requires: grad
 * done. Keeps: nodes and their order; results but for the order of those sums. */

/* fold_act: a linear_dx and the act_bwd right behind it become one node, if no other node reads the gradient between them.
 * That gradient is no value any more, so it is not rounded. Requires: grad done, and fold_bias before it, so that the bias
 * gradient comes along. Keeps: the order of nodes; results but for that rounding. */

/* fold_head: a linear layer (with a softcap behind it) whose logits only cross_entropy, argmax and their gradients read becomes one
 * node with all of these, linear_cross_entropy, which makes the logits of head_chunk rows at a time. Heads with fewer outputs than
 * head_vocabulary, and losses with weights of classes, are left alone. Requires: grad done, if there is a backward pass. Keeps: ids of
 * values; results but for the order of the sums of the weight's gradient, which precision leaves wide. */

/* precision: gives every float its dtype.
 * - Weights, statistics and states stay in `wide`: F32, or F64 on the reference. With `pure`, weights are `narrow`.
 * - Activations over tokens become `narrow`. A cast is inserted where a node's activations would mix the two.
 * - Where text is written and weights or copies of them are narrow, or the head is an adapter's base, so do the rows that the head takes;
 *   the logits stay wide.
 * - With `narrow_grads`, the gradient of a product's weight is narrow too, if only one node writes it or adds to it.
 * - Where precision_scales says so, the gradients of the losses are scaled.
 * Requires: grad done, all floats F32. Keeps: order, ids of values. */

/* fp8: where precision.fp8 says so, products of tokens with weights of the model's layers (not of embeddings, head or adapters) become
 * linear_fp8, and those that make the gradients of their inputs, if their sizes are multiples of 16. Before each stands what makes its
 * factors: of the rows that several products of a layer read once, of a weight for each product. A weight that is kept in codes of 8 bits
 * is a factor already, the way it lies; turned round it is made of those codes. The activation of a linear layer becomes
 * a node of its own again, and so does its slope in the backward pass. Gradients of weights are left alone: their sums run over tokens.
 * Requires: precision done. Keeps: order, ids of values. */

/* cache: attention becomes attention_cached. Of each there are two states of the activations' type, (B, cache_rows, width of the
 * keys), and the program has the input "past" (B) I32. Of attention to sources they are (B, source_rows, width), and the input is
 * "source_rows" (B) I32. With beams there are the inputs "cache_at" (B, cache_rows) and "source_at" (B) I32, attention_cached's `at`, and
 * a source's cache is as large as those of its beams together need be for one. That of sources to themselves stays, for a call reads a
 * source whole. A convolution becomes short_conv_cached, of which there is one state in the wide type, (B, rows that it is over, H).
 * Requires: precision done, forward nodes only, no dropout, other attention of targets causal. Keeps: order, ids of
 * values. */

/* materialize: brings each weight to the nodes that use it. Where the optimizer averages weights, the programs with a backward pass
 * bring the weight with its step ahead instead, at each use (`ahead`), and have the state for it (KIN_AHEAD). A node that takes the stored
 * type reads the weight itself. For a slot of SLOT_NODE_TYPE the weight is cast to the type of the node's activations: at each use, or,
 * with choices.copies, as a copy (KIN_COPY) that stays and that updates write. With narrow_bias biases have such copies too. With adapters,
 * a frozen weight that only such slots read, or embed a table without others, is itself narrow. With precision.pure all weights are: then nothing is copied, and a node that
 * wants F32 (norms, the head of a classifier) gets it by a cast at each use. Of a weight in codes each use gets the numbers
 * (`dequantize`). Requires: precision done. Keeps: order, ids of values. */

/* keep_mask: keeps the dropout mask of attention for the backward pass, with choices.keep_masks and for the nodes of which
 * reads_mask says yes. All other nodes make the mask again. Requires: precision done. Keeps: results, bit for bit. */

/* update: adds the norm of all gradients and one update node for each weight, which writes the weight's KIN_COPY too. Sums of squares stand
 * in the order in which the backward pass makes gradients.
 * The gradients are values of this graph; accumulated ones were made by the programs before it. Reads update, precision,
 * choices.updates_at_end. With a zero_stage, states, sums of squares and update of a weight are its owner's alone, or each rank's of its
 * shard, and what the norm is made of all ranks get from each other: it has the same bits. Requires: grad, precision and materialize
 * done. */
int pass_loss_scaler(struct graph *g); /* the state "loss_scaler" (enum scaler_scalar), made when it is not there yet */
bool optimizer_is_8bit(enum optimizer o);     /* whether large tensors have states of 8 bits */
bool optimizer_of_matrices(enum optimizer o); /* whether it leaves what is no matrix of a layer to AdamW (Muon) */
bool optimizer_averages(
    enum optimizer o); /* whether weights are averages, and gradients are taken ahead of them (schedule-free) */
bool optimizer_in_shards(enum optimizer o); /* whether several ranks may update a shard of a matrix each */
bool optimizer_by_tile(
    enum optimizer o); /* whether such shards must be of whole tiles (op/optimizer/adafactor.h), not of blocks of 256 */
bool optimizer_by_layer(enum optimizer o); /* whether it is meant to update each layer in the backward pass (LOMO) */
bool update_is_8bit(const struct update *u, const struct value *weight); /* whether its states have 8 bits */
bool update_decays(const struct value *weight); /* false for biases and norms, as the Trainer decides */

/* reduce: with several ranks, adds up their gradients (all_reduce), those of a group at once. Where a weight has an owner, its gradient
 * becomes the sum there alone; where it is dealt to all (ALL_OWN), each rank's shard of it does, of each weight by itself. That is done
 * - before the update;
 * - with sums_beside and without accumulation behind the backward nodes of a layer, on LANE_SUMS: of owners' sums those of several layers
 *   at once, until each has about as much;
 * - with zero_stage 2 in each micro-step: a rank's gradients (KIN_PART) live in the program, and behind the backward nodes of a layer their
 *   sum goes to the owner, where alone it persists (KIN_GRADIENT), or persists in shards. With sums_beside that is on LANE_SUMS, and the first
 *   node behind the next layer's sums waits for it, so that two layers' gradients live at once.
 * Requires: precision done, no update yet. Keeps: everything else. */

/* share: what the nodes of one rank have written of what all keep, such as weights, all get from it (broadcast); likewise what each has
 * written its shard of. Requires: update done.
 * With zero_stage 3 all ranks wait for each other behind the updates. Keeps: results, bit for bit. */

/* place: puts the optimizer's states of choices.host_layers layers, the embeddings being layer 0, into the host's memory, in all programs
 * that have them. Likewise the weights of choices.host_weights layers that only updates read, and embed, which reads a few rows: those with
 * copies that stay, and tables. With choices.states_on_disk the states of all layers are in a file. Requires: update done, if there is one.
 * Keeps: results, bit for bit. */

/* recompute: drops activations after the forward nodes of a segment of layers, and computes them again before its backward
 * nodes. Sets recomputed_layers. Requires: grad done. Keeps: results, bit for bit.
 * - With choices.recompute_every_n, segments have so many layers. All that a segment makes for itself is dropped; what enters
 *   a segment is kept. The last segment is left alone unless the head works on tokens, as a language model's does.
 * - With choices.recompute, segments are as its `joins` has them, and what its nodes make is dropped. A node that is not needed
 *   again is not computed again.
 * - What a segment begins with is kept. Of a norm that first adds two values of an earlier segment that is their sum, from which the
 *   norm is computed again. */
struct restart {
    int from;      /* the result that is kept, 0: none; the node is computed again from it alone */
    int inputs[2]; /* which are then not needed */
};
struct restart
recompute_restart(const struct node *n); /* where its inputs are not computed again in the same segment */

/* pad: rounds the outputs of large linear layers up to a multiple of product_sizes, as for a vocabulary of 50257. Zeros then
 * stand at the end of each row of the result and of its gradient, and in rows behind the weight, the weight's gradient and
 * the bias. A layer is left alone if the host, or an op whose slot is not SLOT_PADDED, would see the zeros. Requires:
 * precision done. Keeps: everything but the room that those values take. */

/* pull: with zero_stage 3 a matrix of weights, with its copy and what it is taken ahead by, is of its owner alone (value's rank), or in
 * shards, where the weights of a group lie each by itself. Nodes that read it read a value of the program instead, which all ranks pull
 * from the owner, or from all: once for all nodes of a layer that follow one another in one direction, in the type in which it is stored. That stands in front of the layer before, on LANE_IN, and beside it the
 * layer before computes; in front of the layer itself where the backend computes in the host's memory. Requires: pad done. Keeps: results,
 * bit for bit. */

/* order: removes nodes and optional outputs that nobody needs. Updates that do not wait for the norm move behind the last
 * backward node of their layer. Keeps: results. */

/* offload: what the backward pass reads of the activations of choices.host_activations layers, the embeddings being layer 0, and of those
 * that choices.recompute sends, is in the host's memory between the passes: it leaves on LANE_OUT behind the node that makes it, and what came back on LANE_IN is read instead of
 * it. While a layer's activations leave one more layer computes, and while they come back one more segment of layers. With choices.prefetch they leave as late, and
 * come as early, as the peak leaves room for. Activations of less than 16 KiB, and those that would be back at once, stay. Requires: the
 * order of nodes is final. Keeps: results, bit for bit. */

/* stage: brings what updates use of the host's memory to the device before them and back behind them, by `move` on the lanes of copies
 * (graph/lanes.h). Updates that follow one another are cut into groups of 32 MiB, which have buffers on the device in turn. With
 * choices.prefetch there are as many buffers as have room below the peak; else two, which make it higher where it is at the updates. Of
 * small tensors the kernels follow the pointer, as without this pass. Between a file and the device a tensor goes piece by piece by way of
 * the host's memory, where a `page` on the same lane reads or writes it. Requires: the order of nodes is final. Keeps: results, bit for
 * bit. */

#endif
