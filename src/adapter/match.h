/* match.h: which modules of a model an adapter's configuration means, decided as PEFT does. */
#ifndef ADAPTER_MATCH_H
#define ADAPTER_MATCH_H

#include "adapter/config.h"
#include "model/model.h"
#include "pass/pass.h"

/* A weight of the model for which there is an adapter of experts: rows of one expert's (O,I), or those of all, (E,O,I) or (E,I,O). */
struct adapter_part {
    const char *weight, *module; /* module: of the adapter */
    int64_t expert, row;         /* the first */
};

/* What pass_adapt is told; owns its texts. */
struct adapter_set {
    struct adapters adapters;
    struct adapter_part *parts;
    size_t n_parts;
    bool of_layers; /* a file's configuration has it for each layer of each expert: PEFT with transformers 4 */
    struct arena arena;
};

/* g: the forward pass of the model, before any pass. In c and its document, names of an expert's layers become those of parameters.
 * SNUG_ERR_USAGE (of options) or SNUG_ERR_INPUT (of a file): what is to be matched matches nothing; the message has the names that there
 * are. adapter_set_free also after a failure. */
int adapter_match(struct adapter_config *c, const struct model_config *m, const struct graph *g,
                  struct adapter_set *out, struct snug_err *err);
void adapter_set_free(struct adapter_set *s);

#endif
