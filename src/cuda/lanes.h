/* lanes.h: a stream for each lane of a program (graph/lanes.h), and events by which they wait for one another. In a graph that is
 * captured, these become its branches. */
#ifndef CUDA_LANES_H
#define CUDA_LANES_H

#include "backend/backend.h"

#include <cuda_runtime_api.h>

/* Work that a lane has been given in this call: up to number `work`, counted from 1, it is over when the event is. */
struct lane_mark {
    int work;
    cudaEvent_t over;
};

struct cuda_lane {
    cudaStream_t stream;
    struct lane_mark *marks; /* n of this call; events of earlier calls are used again */
    size_t cap;
    int n, made;
    int waited[LANE_COUNT]; /* of each other lane, up to which work it has waited */
};

struct cuda_lanes {
    bool open;                       /* some may be at work that LANE_COMPUTE has not waited for: */
    int given;                       /* the number of the last work that it belongs to */
    struct cuda_lane of[LANE_COUNT]; /* that of LANE_COMPUTE has the backend's own stream */
};

/* To be closed even where it fails. */
int cuda_lanes_open(struct cuda_lanes *l, cudaStream_t compute, int device, struct snug_err *err);
void cuda_lanes_close(struct cuda_lanes *l);

/* For work: begin, where they are not open yet, then for each work (or works of one launch, of which it is the first) `before`, the launch
 * into the stream of its lane, `behind` with the number of the last one. Behind `settle`, LANE_COMPUTE has waited for all. */
void cuda_lanes_begin(struct cuda_lanes *l);
int cuda_lanes_before(struct cuda_lanes *l, const struct work *w, struct snug_err *err);
int cuda_lanes_behind(struct cuda_lanes *l, enum lane lane, int work, struct snug_err *err);
int cuda_lanes_settle(struct cuda_lanes *l, struct snug_err *err);

#endif
