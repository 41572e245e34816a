/* config.h: what an adapter is, as PEFT's adapter_config.json says it. Only LoRA (Hu et al., arXiv 2106.09685) is supported; what else a
 * file asks for and changes the result is refused by name. */
#ifndef ADAPTER_CONFIG_H
#define ADAPTER_CONFIG_H

#include "format/json.h"

/* Borrows from `doc`. A member that is absent or null is NULL. */
struct adapter_config {
    json_t *doc;
    const char *path; /* for messages: of the file, or "" for one that options made */
    int64_t r;
    double alpha, dropout;
    bool rslora;        /* scale alpha / sqrt(r) in place of alpha / r (Kalajdzievski, arXiv 2312.03732) */
    bool dora;          /* the rows of the sum have lengths that are trained (Liu et al., arXiv 2402.09353) */
    json_t *targets;    /* modules with an adapter: a list of names or ends of names, "all-linear", or an expression */
    json_t *parameters; /* a list: ends of names of weights with an adapter, of experts and of their routers */
    json_t *excluded;   /* a list or an expression of modules without one all the same */
    json_t *saved;      /* a list: modules that are trained in full */
    json_t *ranks, *alphas; /* {expression for the end of a module's path: its r, or alpha} */
    json_t *layers;         /* a number or a list: layers with adapters; NULL: all */
    json_t *layers_names;   /* a name or a list: what stands before a layer's number; NULL: anything */
};

/* SNUG_ERR_INPUT where something is missing, out of range or not supported. */
int adapter_config_read(json_t *doc, const char *path, struct adapter_config *c, struct snug_err *err);

/* What options ask for. Lists are separated by commas; NULL: none. */
struct adapter_wishes {
    int64_t r;
    double alpha, dropout;
    bool rslora, dora;
    const char *targets;    /* names, "all-linear", or one regular expression, told by characters that no name has */
    const char *parameters; /* names, or ends of names, of weights of experts */
    const char *saved;
    const char *excluded;  /* an expression for modules without an adapter */
    const char *base;      /* path of the model's folder */
    const char *task_type; /* PEFT's word: SEQ_CLS, CAUSAL_LM; NULL: none */
    const char *
        heads; /* modules that are trained in full where the model has them, as PEFT has it: "classifier,score"; or NULL */
};

/* The document of a new adapter, as PEFT writes it. A new reference. SNUG_ERR_ENV: no memory. */
int adapter_config_make(const struct adapter_wishes *w, json_t **out, struct snug_err *err);

#endif
