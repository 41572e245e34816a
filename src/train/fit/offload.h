/* offload.h: which optimizer states lie in the host's memory, where that is left to the plan. */
#ifndef TRAIN_FIT_OFFLOAD_H
#define TRAIN_FIT_OFFLOAD_H

#include "train/session/session.h"

/* Whether the plan may put states there: --offload-optimizer auto, and a device with memory of its own. */
bool offload_is_open(const struct session *s);

/* Whether weights may go there, too: --offload-param auto, and with these choices 16-bit copies of them stay on the device. */
bool offload_may_send_weights(const struct session *s, const struct choices *asked);

/* Of how many layers, the embeddings being layer 0, states must go for the plan, in which all are on the device, to have `bytes` less:
 * 0 where it need not, more than there are where all of them are not enough. SNUG_ERR_ENV: no memory. */
int offload_layers(const struct plan *p, int64_t bytes, int *layers, struct snug_err *err);

/* The same of a run with these choices whose arena has `limit` bytes at most. */
int offload_find(const struct session *s, const struct choices *choices, int64_t limit, int *layers,
                 struct snug_err *err);

#endif
