/* model.h: architectures. Each is one file (config.json to graph) and one row in model.c; everybody else asks the row. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/config.h"

/* What a program is for. */
enum build_mode {
    BUILD_TRAIN,
    BUILD_EVALUATE,
    BUILD_GENERATE, /* the logits of each sequence's last row, and no loss; of a causal language model */
    BUILD_EMBED     /* no head: what it would read, of a task with a prediction for each token */
};

struct build_settings {
    enum build_mode mode;
    int64_t longest;  /* no sequence has more tokens; 0: as many as the model takes */
    double smoothing; /* of labels */
    /* Of training; an evaluation has none of them. */
    bool dropout;       /* false: every probability is 0 */
    bool class_weights; /* the input "class_weights" (V) says what a class counts in the loss */
};

/* What a build adds to the graph. The inputs have fixed names, which build.h documents. */
struct built {
    int logits; /* (B,labels) or (T,V); of BUILD_GENERATE (B,V); of BUILD_EMBED (T,H), named "last_hidden_state" */
    int loss;   /* (1); 0 in BUILD_GENERATE and BUILD_EMBED */
};

struct build;   /* build.h */
struct refused; /* refused.h */

/* A task of an architecture. */
struct model_head {
    const char *class_name; /* that transformers loads; NULL: the architecture has no such task */
    const char *weight;     /* of its output layer: tells whether it was trained; NULL: it has none of its own */
    int (*logits)(struct build *b, int v); /* from what `body` gives */
    /* As `weight`, where config.json says that the output has embeddings of its own. NULL: that is not supported. */
    const char *untied;
    /* As `weight`, of the head's other form, where config.json asks for that. NULL: there is one form. */
    const char *newer;
};

/* A second name of a weight, which files may have too; where the head has a weight of that name, it is no second one. */
struct tied_name {
    const char *name, *weight;
};

/* What the names of some weights begin with, and with what in files. */
struct spelled_name {
    const char *name, *in_files;
};

struct model_arch {
    const char *model_type;    /* of config.json */
    const char *known;         /* well-known models, as docs/models.md lists them */
    const char *class_prefix;  /* what `architectures` entries begin with */
    const char *positions_key; /* of config.json: what limits the length of an input */

    /* Names of tensors in files. */
    const char *base_prefix; /* of the base model's; files of the bare base model leave it out */
    /* Behind that, up to the number: of the layers' tensors, or of those of groups of layers that share weights. */
    const char *layer_prefix;
    const char *second_prefix;    /* likewise, of the second of two stacks; NULL: there is one */
    const struct tied_name *tied; /* up to a row of NULL */
    /* Of the text model of one that reads pictures, too: the object of config.json that its settings are in, how files spell its names
     * (up to a row of NULL), and what the names of the other tensors there begin with (up to NULL), which stay as they are. NULL: it is no
     * such model. */
    const char *part;
    const char *alone; /* the model_type of the text model as a folder of its own */
    const struct spelled_name *spelled;
    const char *const *beside;
    /* What ends the names of tensors that have the rotary frequencies, of a class that follows those of a file; the result has them, too.
     * NULL: config.json alone says them. */
    const char *frequencies;
    const char *excluded;           /* of adapters' modules, an expression for theirs (exclude_modules) */
    const char *const *ignored;     /* ends of the names of what is no weight; up to NULL */
    const struct model_head *heads; /* by enum model_task */
    bool only_attention_drops;      /* there is no dropout but attention's */
    /* Modules that get an adapter when nobody names any, as PEFT has them: separated by commas. NULL: all linear layers. */
    const char *adapted;
    bool unadapted; /* no adapters: the class has other names for its modules than files, and PEFT goes by those */
    const struct refused *refused; /* settings of config.json (refused.h); NULL: none but those that all refuse */

    /* Reads its own part of a config.json, refusing what it does not support. */
    int (*config)(json_t *o, const char *path, struct model_config *c, struct snug_err *err);
    /* The forward pass up to the head: gives (T,H), or (B,H) where the task wants one row a sequence. */
    int (*body)(struct build *b);
};

extern const struct model_arch *const model_archs[]; /* up to NULL */

/* The settings of config.json `o` that are this model's own: `o`, or the part of it that they are in. */
json_t *model_settings(const struct model_arch *a, json_t *o);

/* The configured task's row, and its class, which goes into the config.json of the result. */
const struct task *model_task(const struct model_config *c);
const char *model_class(const struct model_config *c);

bool model_has_task(const struct model_config *c, enum model_task task);

/* Whether the task's output must have the input's embeddings: config.json may not have tie_word_embeddings false. */
bool model_needs_tied(const struct model_arch *a, enum model_task task);

/* Whether both stacks read the same text, the decoder one token later: a classifier's. */
bool model_reads_twice(const struct model_config *c);

/* Configures the task. SNUG_ERR_USAGE where the architecture does not have it, SNUG_ERR_INPUT where config.json (`path`)
 * is one that it cannot work with. */
int model_set_task(struct model_config *c, enum model_task task, const char *path, struct snug_err *err);

/* The forward pass of the configured task with its loss, into an empty graph. What it gives are the values named "loss"
 * and "logits"; in the evaluation of a language model, "predictions" (T) I32 instead of the logits. */
int model_build(const struct model_config *c, struct build_settings settings, struct graph *g, struct built *out,
                struct snug_err *err);

/* ---- Names of tensors in files (names.c) ---- */

enum { MODEL_NAME_MAX = 600 };

/* What transformers calls weight `name` in a file. */
void model_file_name(const struct model_config *c, const char *name, char in_file[MODEL_NAME_MAX]);

/* Spelling i of weight `name`, as files may have it: with or without the base model's prefix, behind "module.", or with
 * gamma and beta for a norm. The first is model_file_name's. false: there are no more. */
bool model_spelling(const struct model_config *c, const char *name, int i, char spelling[MODEL_NAME_MAX]);

/* Whether a tensor of a file is another part's, which a result takes over. */
bool model_carries(const struct model_config *c, const char *name);

/* Whether it has rotary frequencies that go before those of config.json; a result takes it over. */
bool model_has_frequencies(const struct model_config *c, const char *name);

/* Whether a tensor that is no weight of the programs needs no mention: a buffer, or a tied weight's second name. */
bool model_ignores(const struct model_config *c, const char *name);

/* The layer that a tensor belongs to, from 0; -1 for none. */
int64_t model_layer_of(const struct model_config *c, const char *name);

/* The weight that tells whether the task's head was trained, NULL where the head has none of its own; and whether `name`
 * belongs to the same output layer, as classifier.bias does to that of classifier.weight. */
const char *model_head_weight(const struct model_config *c);
bool model_is_of_head(const struct model_config *c, const char *name);

#endif
