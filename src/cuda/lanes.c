#include "cuda/lanes.h"

#include "base/mem.h"
#include "cuda/errors.h"

#include <string.h>

int cuda_lanes_open(struct cuda_lanes *l, cudaStream_t compute, int device, struct snug_err *err)
{
    *l = (struct cuda_lanes){.of[LANE_COMPUTE].stream = compute};
    for (enum lane i = LANE_COMPUTE + 1; i < LANE_COUNT; i++)
        OPENING(device, cudaStreamCreateWithFlags(&l->of[i].stream, cudaStreamNonBlocking));
    return SNUG_OK;
}

void cuda_lanes_close(struct cuda_lanes *l)
{
    for (enum lane i = 0; i < LANE_COUNT; i++) {
        struct cuda_lane *lane = &l->of[i];
        for (int k = 0; k < lane->made; k++)
            cudaEventDestroy(lane->marks[k].over);
        mem_free(lane->marks);
        if (i != LANE_COMPUTE && lane->stream)
            cudaStreamDestroy(lane->stream);
    }
    *l = (struct cuda_lanes){0};
}

void cuda_lanes_begin(struct cuda_lanes *l)
{
    if (l->open)
        return;
    l->open = true;
    l->given = 0;
    for (enum lane i = 0; i < LANE_COUNT; i++) {
        l->of[i].n = 0;
        memset(l->of[i].waited, 0xff, sizeof l->of[i].waited); /* -1: not even for what was there before */
    }
}

/* Records that all work which the lane has been given so far, up to number `work`, is over. */
static int mark(struct cuda_lane *lane, int work, struct snug_err *err)
{
    if (!MEM_GROW(lane->marks, lane->cap, (size_t)lane->n + 1))
        return err_no_memory(err, lane->cap * 2 * sizeof *lane->marks);
    struct lane_mark *m = &lane->marks[lane->n];
    if (lane->n == lane->made) {
        CUDA("an event", cudaEventCreateWithFlags(&m->over, cudaEventDisableTiming));
        lane->made++;
    }
    m->work = work;
    lane->n++;
    return cuda_check(cudaEventRecord(m->over, lane->stream), "an event", err);
}

/* The first mark of a lane that is not before `work`. */
static const struct lane_mark *find_mark(const struct cuda_lane *lane, int work)
{
    int from = 0, end = lane->n;
    while (from < end) {
        int middle = (from + end) / 2;
        if (lane->marks[middle].work < work)
            from = middle + 1;
        else
            end = middle;
    }
    return from < lane->n ? &lane->marks[from] : NULL;
}

/* Of LANE_COMPUTE there is no mark yet: what it has been given up to now is what is waited for. */
static int wait_for(struct cuda_lanes *l, enum lane who, enum lane other, int work, struct snug_err *err)
{
    struct cuda_lane *lane = &l->of[who], *from = &l->of[other];
    if (work <= lane->waited[other])
        return SNUG_OK;
    if (other == LANE_COMPUTE && !find_mark(from, work))
        TRY(mark(from, work, err));
    const struct lane_mark *m = find_mark(from, work);
    lane->waited[other] = m->work;
    return cuda_check(cudaStreamWaitEvent(lane->stream, m->over, 0), "an event", err);
}

int cuda_lanes_before(struct cuda_lanes *l, const struct work *w, struct snug_err *err)
{
    for (enum lane i = 0; i < LANE_COUNT; i++)
        if (w->after[i] || (i == LANE_COMPUTE && w->lane != LANE_COMPUTE)) /* which brings a lane into a graph */
            TRY(wait_for(l, w->lane, i, w->after[i], err));
    return SNUG_OK;
}

int cuda_lanes_behind(struct cuda_lanes *l, enum lane lane, int work, struct snug_err *err)
{
    return lane == LANE_COMPUTE ? SNUG_OK : mark(&l->of[lane], work, err);
}

int cuda_lanes_settle(struct cuda_lanes *l, struct snug_err *err)
{
    if (!l->open)
        return SNUG_OK;
    l->open = false;
    for (enum lane i = LANE_COMPUTE + 1; i < LANE_COUNT; i++)
        if (l->of[i].n)
            TRY(wait_for(l, LANE_COMPUTE, i, l->of[i].marks[l->of[i].n - 1].work, err));
    return SNUG_OK;
}
