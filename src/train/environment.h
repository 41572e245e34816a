/* environment.h: OUT/environment.json, where and how a run is made, for the report: the machine, versions, the command, and what one
 * step holds in memory.
 *     {"snug_version": …, "command": …, "device": …, …,
 *      "memory": {"program": "step", "arena": BYTES, "node": [1, …], "weights": [BYTES, …], "activations": […], …},
 *      "ops": {"how": WORDS, "times": [{"op": "linear", "nodes": of a step, "seconds": of a step}, …]}} */
#ifndef TRAIN_ENVIRONMENT_H
#define TRAIN_ENVIRONMENT_H

#include "base/str.h"
#include "train/session/session.h"

/* Of a session whose program is compiled. `times`: of some of its steps, with steps 0: none. */
int environment_text(const struct session *s, const struct op_times *times, struct str *out, struct snug_err *err);

#endif
