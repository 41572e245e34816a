/* matching.h: what the files of adapter/ share while they match modules. */
#ifndef ADAPTER_MATCHING_H
#define ADAPTER_MATCHING_H

#include "adapter/match.h"
#include "tokenizer/regex.h"

struct matching {
    const struct adapter_config *c;
    const struct model_config *model;
    const struct graph *g;
    struct adapter_set *out;
    struct regex_match *scratch;
    const char **modules; /* (n) the linear layers' paths; in the arena */
    const char **heads;   /* (n) the path again where it is a part of the task's output layer, else NULL */
    bool *in_out;         /* (n) their weights are (I,O) */
    const char **routers; /* (n) of those that choose experts the path as PEFT has it; else NULL */
    bool *experts;        /* by value: weights of experts */
    bool *routes;         /* by value: weights of routers */
    size_t n, cap, cap_heads, cap_in_out, cap_routers, cap_list, cap_saved, cap_parts;
};

/* ---- names (names.c) ---- */

bool matching_ends(const char *path, const char *end);                  /* whether it is the path, or its last names */
bool matching_names_weight(const char *path, const char *parameter);    /* of the module's weight, as PEFT names it */
bool matching_is_parameter(const struct matching *m, const char *path); /* whether target_parameters has its weight */
/* Of a list of names or ends of paths, or one regular expression for the whole. */
int matching_in_list(const struct matching *m, json_t *list, const char *path, bool *matches, struct snug_err *err);
/* The value of the first expression that the path ends with, else what `value` holds. */
int matching_pattern_value(const struct matching *m, json_t *patterns, const char *path, double *value,
                           struct snug_err *err);

/* ---- modules (match.c) ---- */

bool matching_all_linear(const struct adapter_config *c);
/* Whether target_modules means what has this path. */
int matching_is_target(const struct matching *m, const char *path, bool *target, struct snug_err *err);
/* Whether that or target_parameters means module i. */
int matching_is_target_module(const struct matching *m, size_t i, bool *target, struct snug_err *err);
const char *matching_peft_path(const struct matching *m, size_t i);
/* With the rank and the scale that the configuration has for new.module. */
int matching_add(struct matching *m, struct adapter new, struct snug_err *err);

/* ---- mixtures of experts (experts.c) ---- */

/* Refuses router i where PEFT knows it as a parameter alone and it is named as a module: files have all experts' weights as one. */
int experts_check_router(const struct matching *m, size_t i, struct snug_err *err);

int experts_find(struct matching *m, struct snug_err *err); /* fills m->experts and m->routes */
/* Of a router's weight: how PEFT names its module; NULL: no experts are there. */
int experts_router_path(struct matching *m, const struct value *router, const char **out, struct snug_err *err);
int experts_check_parameters(const struct matching *m, struct snug_err *err);
int experts_match(struct matching *m, struct snug_err *err); /* adds the adapters that target_parameters asks for */
/* What PEFT, too, adapts without dropout and DoRA alone: `path`, which is `what`. */
int experts_check_plain(const struct matching *m, const char *path, const char *what, const char *otherwise,
                        struct snug_err *err);

/* ---- names of an expert's layers (expert_layers.c) ---- */

/* Those that c and its document have become names of parameters. */
int experts_rename(struct matching *m, struct adapter_config *c, struct snug_err *err);

#endif
