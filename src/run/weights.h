/* weights.h: filling the weights of a run from a model folder, or with random numbers. */
#ifndef RUN_WEIGHTS_H
#define RUN_WEIGHTS_H

#include "base/hash.h"
#include "format/model_dir.h"
#include "op/codes/quantize.h"
#include "run/run.h"

/* Checks, from the headers alone, that every weight the programs need is there in its shape (names as transformers maps
 * them: with or without the base model's prefix, gamma and beta, module.). What may be new is noted in one line with
 * the seed; anything else that is missing, or has another shape, is SNUG_ERR_INPUT, unless `random`: then a missing
 * weight is made. Tensors that the model does not know are noted, or SNUG_ERR_INPUT with `strict`. */
struct weight_options {
    uint64_t seed;
    const struct model_dir *adapter; /* tensors that are taken from there if it has them; NULL: none */
    struct hash128 *base;            /* what the frozen weights are, by their numbers; NULL: nobody wants to know */
    enum quant_type codes;           /* of weights in codes */
    bool random, strict;
    bool bf16;         /* weights are bf16; the reference has them rounded so */
    bool new_head;     /* the tensors of the task's output layer are not used: it starts anew */
    bool trained_head; /* what may be new is missing all the same, SNUG_ERR_USAGE */
    bool replaced;     /* by a checkpoint's: what is new stays so for no step, and is not noted */
};
int weights_check(const struct model_dir *d, const struct run *r, const struct model_config *c,
                  const struct weight_options *o, struct snug_err *err);

/* Reads all weights into the arena in pieces of 4 MiB; what is bf16 in the file and in the arena goes there as it is.
 * Those that are not there start as their init says, from the seed and their name. */
int weights_load(struct model_dir *d, struct run *r, const struct model_config *c, const struct weight_options *o,
                 struct snug_err *err);

/* SNUG_ERR_INPUT where a tensor of the folder has another shape, or no floats. */
int weights_check_tensor(const struct model_tensor *t, int ndim, const int64_t *shape, struct snug_err *err);

/* A second name of a tied weight must hold the same numbers: else SNUG_ERR_INPUT. */
int weights_check_tied(struct model_dir *d, const struct model_config *c, struct snug_err *err);

/* States start as 0, as the arena does, but for those whose init says otherwise. */
int states_start(struct run *r, struct snug_err *err);

/* To be called whenever weights were written from outside: brings their 16-bit copies up to date. */
int weights_changed(struct run *r, struct snug_err *err);

/* The tensor of an adapter's file, NULL if there is none. */
const struct model_tensor *weights_of_adapter(const struct model_dir *adapter, const char *name);

/* What of the configuration is for the folder's weights to say: whether the output has embeddings of its own
 * (model_config.untied_by_file), and rotary frequencies (model_arch.frequencies). */
int weights_settle(struct model_dir *d, struct model_config *c, struct snug_err *err);

/* The tensor of the folder that holds weight `name`, NULL if there is none. */
const struct model_tensor *weights_find(const struct model_dir *d, const struct model_config *c, const char *name);

#endif
