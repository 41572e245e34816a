/* compile.h: from a model's configuration and the settings of a run to planned programs. */
#ifndef COMPILE_H
#define COMPILE_H

#include "backend/backend.h"
#include "base/io.h"
#include "model/model.h"
#include "pass/pass.h"
#include "plan/plan.h"

/* What was asked for. What a plan may choose besides is in struct choices (pass/pass.h). */
struct compile_settings {
    const struct model_config *model;
    const struct backend *backend;
    int threads;
    const struct stop_flag *stop; /* NULL: never */
    struct precision precision;
    struct dims eval_max;     /* the largest batch of an evaluation; B 0: no evaluation program */
    struct dims generate_max; /* likewise of a call of generation, whose sequences have cache_rows tokens at most */
    int64_t cache_rows, source_rows; /* source_rows: of an encoder-decoder, tokens of a sequence's source */
    int64_t beams; /* so many sequences are beams of one prompt, and share what they have in common; 0 and 1: none do */
    int ranks;     /* that train side by side, each with a program like this; 0 and 1: one */
    bool in_turn;  /* they take part in one exchange at a time: processes, of which one sends what the others take */
    double link_seconds; /* of a byte that they exchange; 0: not known */
    int zero_stage;      /* what each of them keeps for itself alone (struct pass_settings) */
    bool trial; /* only to be looked at, by a search: programs and plan are not checked, as those that run are */
    int64_t trial_most; /* of a trial: as struct plan has it */
    bool train;         /* else evaluation only */
    bool keep_grads;    /* gradients stay after the micro-step, and nothing is updated (own loops, debug grad) */
    bool separate;      /* micro-steps and update are programs of their own even without accumulation */
    int64_t longest;    /* no row of training or evaluation has more tokens; 0: as many as the model takes */
    bool dropout;
    double smoothing;
    int64_t head_chunk;              /* without choices.whole_logits: rows of logits at a time; 0: all */
    int64_t head_vocabulary;         /* of heads with so many outputs and more */
    const float *class_weights;      /* (num_labels) of training's loss, NULL: none */
    const struct adapters *adapters; /* of which only the weights are trained (pass_adapt), NULL: none */
    struct quantization quantization;
    const char *freeze; /* patterns of the weights that are not trained (pass_freeze), NULL: all are trained */
    struct update update;
    /* Of states on disk: their file, which has no name, is in this folder. NULL: none lie there. */
    const char *offload_dir;
    const struct io *io;
    /* Called with the text of a graph after the pass of that name; NULL: never. */
    void (*dump)(void *ctx, const char *pass, const char *program, const char *text);
    void *dump_ctx;
};

/* The programs of a run, by place in struct plan; -1 where there is none. With accumulation 1 `step` does all;
 * otherwise a window is `first`, `next` for each further micro-batch, `update`. */
struct programs {
    int step, first, next, update, eval, generate;
    int copies; /* writes the 16-bit copies from the weights: after these were read from a file */
};

/* SNUG_STOPPED where s->stop asks for it. */
int compile_run(const struct compile_settings *s, const struct choices *choices, struct plan *plan,
                struct programs *where, struct snug_err *err);

/* What depends on the backend, the last step before the plan: which nodes run at the same time, and the workspaces that
 * kernels ask for. SNUG_ERR_USAGE where the backend has no kernel for a node. */
int compile_for_backend(const struct backend *b, int threads, struct program *g, struct snug_err *err);

/* Fills what a kernel gets for a node at sizes n, of shards that of rank `me`, counted from 0; below 0: the one with most elements. arenas
 * NULL: shapes only; an absent slot has ndim 0. */
void compile_args(const struct program *g, const struct node *n, struct dims dims, const struct arenas *arenas, int me,
                  union args_any *out);

/* Bytes of all that the node reads and writes in one memory, once each. */
double compile_bytes(const struct program *g, const struct node *n, const union args_any *args, enum memory memory);

#endif
