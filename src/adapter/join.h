/* join.h: the file of an adapter from before transformers 5, in which each layer of each expert has its own matrices, read as those of
 * parameters. */
#ifndef ADAPTER_JOIN_H
#define ADAPTER_JOIN_H

#include "adapter/match.h"
#include "format/model_dir.h"

/* Where the folder is such a one, its tensors become those that the adapters of `set` have, put together whenever they are read. g: the
 * forward pass of the model, as adapter_match had it. SNUG_ERR_INPUT where one is missing or has another shape or type. */
int adapter_join(struct model_dir *d, const struct adapter_set *set, const struct graph *g, struct snug_err *err);

#endif
