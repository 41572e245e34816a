/* deepspeed.h: what the members of a configuration of DeepSpeed are here: for options_read_deepspeed and the documentation. */
#ifndef OPTIONS_DEEPSPEED_H
#define OPTIONS_DEEPSPEED_H

#include <stddef.h>

/* What is done with a member. */
enum deepspeed_what {
    DEEPSPEED_OBJECT, /* its members have rows of their own; those that `words` lists have no effect here, which is noted */
    DEEPSPEED_SETS, /* the option's value; with `words` one of them, which may be translated: "none Lion=lion_32bit" */
    DEEPSPEED_PATH, /* the option's value where the `device` beside it is nvme; else it has no effect, which is noted */
    DEEPSPEED_FLAG, /* where it is true, the option's value is `words` */
    DEEPSPEED_BETAS, /* [beta1, beta2] */
    DEEPSPEED_BATCH, /* rows of a step of all ranks */
    DEEPSPEED_ONLY,  /* other values than the JSON in `words` are refused */
};

struct deepspeed_key {
    const char *path; /* "optimizer.params.lr"; "" is the whole file */
    enum deepspeed_what what;
    int option; /* SETS, PATH, FLAG */
    const char *words;
    const char *why; /* SETS with words, ONLY: what to do about another value */
};
extern const struct deepspeed_key deepspeed_keys[];
extern const size_t n_deepspeed_keys;

#endif
