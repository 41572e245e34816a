/* op_times.h: which ops a run's steps spend their time in, where the host computes them: nodes that run at the same time are timed
 * together, everything else by itself. It costs two looks at the clock a node. */
#ifndef RUN_OP_TIMES_H
#define RUN_OP_TIMES_H

#include "graph/op.h"

struct op_times {
    struct {
        double seconds;
        int64_t nodes; /* that were run */
    } of[OP_COUNT];
    int64_t steps; /* counted by who asks */
};

#endif
