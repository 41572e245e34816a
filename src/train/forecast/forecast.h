/* forecast.h: how long a step, an evaluation and the whole run will take, said before anything runs.
 *
 * On a GPU the run is rehearsed: its own programs with random weights and a micro-batch such as the data have on the
 * average (typical.h), until the chip is as warm and as slow as training makes it. That takes a second or two, is kept in
 * the device's profile, and is what `measured` means.
 *
 * The profile keeps the times of that run's nodes, too, one of each form. Where a plan cannot be rehearsed, because the GPU is not there
 * or has no room, it is reckoned from those, if they know it nearly whole (run/known_nodes.h).
 *
 * Elsewhere, and where another program has the GPU's memory, a model of two such layers is rehearsed on a few tokens,
 * node by node, and the run's nodes are reckoned from those (run/node_time.h): an estimate, in a few tenths of a
 * second. Where threads had to wait for a processor meanwhile it is called a guess: what is timed is then longer than the
 * same in the run or, if the other programs stay, may be as long.
 *
 * Reading the model and the data, and writing checkpoints, are not in it. */
#ifndef TRAIN_FORECAST_FORECAST_H
#define TRAIN_FORECAST_FORECAST_H

#include "run/op_times.h"
#include "train/forecast/exchange.h"

#include <stdbool.h>
#include <stdint.h>

struct session;
struct snug_err;

struct forecast {
    bool known;          /* else everything is 0: nothing is trained, the reference backend, no room to try */
    bool measured;       /* else estimated */
    bool disturbed;      /* estimated while other programs had the processors: a guess */
    double step_seconds; /* of an optimizer step on rows of the data's mean length */
    struct exchange
        exchange;           /* between ranks: its seconds are a part of step_seconds, the bytes those of such a step */
    double samples, tokens; /* of such a step */
    double evaluation_seconds;  /* with the answers that it asks for */
    double answer_seconds;      /* of these, answers (--eval-samples) */
    int64_t steps, evaluations; /* of the run; 0 without data */
    double run_seconds;         /* of all of them; the last step of an epoch may have fewer rows */
};

/* For a session that is planned. */
int forecast_run(const struct session *s, struct forecast *out, struct snug_err *err);

/* Which ops a step's time goes to, by the nodes that the device's profile has; steps 0: it has none of this run. */
int forecast_ops(const struct session *s, struct op_times *out, struct snug_err *err);

#endif
