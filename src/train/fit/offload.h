/* offload.h: which optimizer states, weights and activations lie in the host's memory, where that is left to the plan. */
#ifndef TRAIN_FIT_OFFLOAD_H
#define TRAIN_FIT_OFFLOAD_H

#include "train/session/session.h"

/* Whether the plan may put states there: --offload-optimizer auto, and a device with memory of its own. */
bool offload_is_open(const struct session *s);

/* Whether activations may: --offload-activations auto. */
bool offload_may_send_activations(const struct session *s);

/* Whether weights may go there, too: --offload-param auto, and with these choices 16-bit copies of them stay on the device. */
bool offload_may_send_weights(const struct session *s, const struct choices *asked);

/* Bytes of the host's memory that are free for a run on a device: --host-memory-budget, else what there is at present. INT64_MAX where
 * the device is not here, and nobody knows. */
int64_t offload_host_memory(const struct session *s);

/* What each rank may have of it for what the plan puts there: INT64_MAX where the plan may put nothing there. p: a plan of s after
 * needs_besides, by whose other needs it is less. */
int64_t offload_room(const struct session *s, const struct plan *p);

/* Of how many layers, the embeddings being layer 0, states lie in the host's memory. */
struct offload {
    int fewest; /* for the plan to have so many bytes less: 0 where it need not, more than there are where all are not enough */
    int most; /* that the host has room for */
};

/* For a plan in which all are on the device. room: bytes of the host's memory. SNUG_ERR_ENV: no memory. */
int offload_layers(const struct plan *p, int64_t bytes, int64_t room, struct offload *out, struct snug_err *err);

/* The same of a run with these choices whose arena has `limit` bytes at most. */
int offload_find(const struct session *s, const struct choices *choices, int64_t limit, int64_t room,
                 struct offload *out, struct snug_err *err);

#endif
