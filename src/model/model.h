/* model.h: architectures. Each is one file (config.json to graph) and one row in model.c. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "format/json.h"
#include "graph/graph.h"
#include "model/task.h"

/* What a config.json says, in terms that all architectures share. */
struct model_config {
    const struct model_arch *arch;
    enum model_task task;
    enum problem problem;
    int64_t hidden_size, layers, heads, kv_heads, intermediate_size, vocab_size, max_positions, type_vocab_size;
    int64_t num_labels;
    int64_t pad_id; /* -1: none */
    bool untied;    /* the output has embeddings of its own, which no task here can use */
    enum act act;
    double norm_eps, init_std;
    double dropout_embedding, dropout_hidden, dropout_attention, dropout_classifier;
};

/* What a build adds to the graph. The inputs have fixed names, which model_add_inputs documents. */
struct built {
    int logits; /* (B,labels) or (T,V) */
    int loss;   /* (1) */
};

/* A task of an architecture. */
struct model_head {
    const char *class_name; /* that transformers loads; NULL: the architecture has no such task */
    const char *weight;     /* that tells whether it was trained; NULL: it has none of its own */
};

/* What training's loss has besides the problem. */
struct loss_settings {
    double smoothing;   /* of labels */
    bool class_weights; /* the input "class_weights" (V) says what a class counts */
};

struct model_arch {
    const char *model_type;                             /* of config.json */
    const char *class_prefix;                           /* what `architectures` entries begin with */
    const char *hidden_key, *heads_key, *positions_key; /* of config.json */
    const char *weight_prefix;      /* of the base model's tensors; files of the bare base model leave it out */
    const struct model_head *heads; /* by enum model_task */
    int (*config)(json_t *o, const char *path, struct model_config *c, struct snug_err *err);
    void (*build)(struct graph *g, const struct model_config *c, bool dropout, struct loss_settings loss,
                  struct built *out);
};

/* Reads config.json `o` (from file `path`): SNUG_ERR_INPUT with key and value where something is missing, out of range
 * or not supported. The task and the kind of labels stay AUTO where the file does not say. */
int model_config_read(json_t *o, const char *path, struct model_config *c, struct snug_err *err);

/* The configured task's row, and its class, which goes into the config.json of the result. */
const struct task *model_task(const struct model_config *c);
const char *model_class(const struct model_config *c);

/* Configures the task. SNUG_ERR_USAGE where the architecture does not have it, SNUG_ERR_INPUT where config.json (`path`)
 * is one that it cannot work with. */
int model_set_task(struct model_config *c, enum model_task task, const char *path, struct snug_err *err);

/* The forward pass of the configured task with its loss, into an empty graph. `dropout` false: every probability is 0.
 */
int model_build(const struct model_config *c, bool dropout, struct loss_settings loss, struct graph *g,
                struct built *out, struct snug_err *err);

/* Evaluation of a language model: after model_build; the output "predictions" (T) I32, what each token's logits say,
 * takes the place of "logits". */
int model_predict(struct graph *g, const struct built *b, struct snug_err *err);

/* For the builders in this folder. */
struct inputs {
    int ids, positions, types; /* (T) I32 */
    int cu_seqlens;            /* (B+1) I32 */
    int coords;                /* (T,2) I32: sample within the optimizer step, position */
    int samples;               /* (B,2) I32: the same for one row per sequence; position is 0 */
    int rng;                   /* (4) I32 */
    int step;                  /* (8) F64, enum step_scalar */
    int labels;                /* (B) I32, (B,V) F32 or (T) I32 */
};
void model_add_inputs(struct graph *g, const struct model_config *c, struct inputs *in);

int model_weight(struct graph *g, struct init init, const char *name, int ndim, const struct dim *shape);
#define WEIGHT(g, init, name, ...) model_weight((g), (init), (name), SHAPE(__VA_ARGS__))

/* y = act(x W^T + b) with weights PREFIX.weight and PREFIX.bias. */
struct layer_options {
    struct init weight, bias;
    enum act act;
    bool in_out; /* GPT-2's Conv1D */
};
int model_linear(struct graph *g, int x, const char *prefix, int64_t in, int64_t out, struct layer_options o);

/* norm with weights PREFIX.weight and PREFIX.bias; p 0: no dropout. Gives the node, for y and h. */
struct op_norm model_norm(struct graph *g, const struct inputs *in, int x, int res, const char *prefix, int64_t width,
                          double eps, double p, int64_t site);

/* The loss that the configured task and problem type ask for; labels are the input. */
int model_loss(struct graph *g, const struct model_config *c, const struct inputs *in, int logits,
               struct loss_settings loss);

int model_read_act(json_t *o, const char *path, const char *key, enum act fallback, enum act *out,
                   struct snug_err *err);

#endif
