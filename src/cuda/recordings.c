#include "cuda/recordings.h"

#include "base/mem.h"
#include "base/seconds.h"
#include "cuda/launch.h"
#include "cuda/memory.h"
#include "cuda/nccl/connection.h"
#include "cuda/peers/peers.h"

#include <string.h>

enum { MAX_RECORDINGS = 256 };

/* A place for one more sequence: behind the others where there is room, else that of one which was given once, in turn; -1
 * where all are graphs already, and this one is given node by node for ever. */
static int free_place(struct recordings *r)
{
    if (r->n < MAX_RECORDINGS)
        return (int)r->n;
    for (int n = 0; n < MAX_RECORDINGS; n++) {
        int i = (r->forget + n) % MAX_RECORDINGS;
        if (!r->items[i].graph) {
            r->forget = i + 1;
            return i;
        }
    }
    return -1;
}

static int begin(const struct cuda_call *c, bool exchanges, struct snug_err *err)
{
    return exchanges ? cuda_peers_begin(c->peers, err) : SNUG_OK;
}

static int end(const struct cuda_call *c, bool exchanges, int code, struct snug_err *err)
{
    return exchanges ? cuda_peers_end(c->peers, code, err) : code;
}

static int launch_graph(const struct recording *recording, const struct cuda_call *c, const char *what,
                        struct snug_err *err)
{
    TRY(begin(c, recording->exchanges, err));
    int code = cuda_check(cudaGraphLaunch(recording->graph, c->stream), what, err);
    return end(c, recording->exchanges, code, err);
}

/* In lanes, or one after another where these are NULL. */
static int capture(const struct cuda_call *c, struct cuda_lanes *lanes, const struct work *work, int n,
                   cudaGraph_t *graph, struct snug_err *err)
{
    CUDA("capturing", cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal));
    int code = lanes ? cuda_launch_nodes(c, lanes, work, n, err) : cuda_launch_in_turn(c, work, n, err);
    int ended = cuda_check(cudaStreamEndCapture(c->stream, graph), "capturing", code ? NULL : err);
    return code ? code : ended;
}

/* Their code is then on the device: by a graph that nobody launches. */
static int load(const struct cuda_call *c, const struct work *work, int n, struct snug_err *err)
{
    cudaGraph_t graph = NULL;
    int code = capture(c, NULL, work, n, &graph, err);
    if (graph)
        cudaGraphDestroy(graph);
    return code;
}

static bool waits_at_gate(const struct cuda_call *c, bool exchanges)
{
    return exchanges && !c->peers->nccl;
}

static int launch_nodes(const struct cuda_call *c, struct cuda_lanes *lanes, const struct work *work, int n,
                        bool exchanges, struct snug_err *err)
{
    TRY(waits_at_gate(c, exchanges) ? load(c, work, n, err) : SNUG_OK);
    TRY(begin(c, exchanges, err));
    return end(c, exchanges, cuda_launch_nodes(c, lanes, work, n, err), err);
}

/* Of processes also what threads pull by themselves. */
static bool is_exchange(const struct cuda_call *c, enum op op)
{
    return op_exchanges(op) || (op == OP_pull && c->peers->nccl);
}

static bool are_exchanging(const struct cuda_call *c, const struct work *work, int n)
{
    bool found = false;
    for (int i = 0; i < n && c->peers->joined; i++)
        found |= is_exchange(c, work[i].op);
    return found;
}

/* n: it was not given before. */
static size_t find(const struct recordings *r, const struct sequence *s)
{
    size_t i = 0;
    while (i < r->n && memcmp(&r->items[i].of, s, sizeof *s))
        i++;
    return i;
}

/* *place: its index + 1; 0: there is no place for it. */
static int add(struct recordings *r, const struct sequence *s, int *place, struct snug_err *err)
{
    int free = free_place(r);
    *place = 0;
    if (free < 0)
        return SNUG_OK;
    if (!MEM_GROW(r->items, r->cap, r->n + 1))
        return err_no_memory(err, r->cap * 2 * sizeof *r->items);
    r->items[free] = (struct recording){.of = *s};
    r->n += (size_t)free == r->n;
    *place = free + 1;
    return SNUG_OK;
}

int recordings_replay(struct recordings *r, const struct sequence *s, const struct cuda_call *c, const char *what,
                      bool *known, struct snug_err *err)
{
    size_t i = find(r, s);
    *known = i < r->n && r->items[i].graph;
    if (*known)
        return launch_graph(&r->items[i], c, what, err);
    r->place = 0;
    if (r->no_more)
        return SNUG_OK;
    r->capturing = i < r->n;
    if (!r->capturing)
        return add(r, s, &r->place, err);
    r->place = (int)i + 1;
    return SNUG_OK;
}

/* Nodes can always be given one by one: where there is no memory for a graph *out is NULL, and no more are made. */
static int instantiate(struct recordings *r, cudaGraph_t graph, cudaStream_t stream, cudaGraphExec_t *out,
                       struct snug_err *err)
{
    cudaError_t code = cudaGraphInstantiate(out, graph, 0);
    if (code)
        *out = NULL;
    else /* its first launch would do that */
        code = cudaGraphUpload(*out, stream);
    if (code != cudaErrorMemoryAllocation)
        return cuda_check(code, "making a graph", err);
    cudaGetLastError();
    if (*out)
        cudaGraphExecDestroy(*out);
    *out = NULL;
    r->no_more = true;
    return SNUG_OK;
}

static int make_graph(struct recordings *r, struct recording *to, const struct cuda_call *c, const struct work *work,
                      int n, struct snug_err *err)
{
    cudaGraph_t graph = NULL;
    int code = capture(c, r->lanes, work, n, &graph, err);
    if (!code)
        code = instantiate(r, graph, c->stream, &to->graph, err);
    if (graph)
        cudaGraphDestroy(graph);
    return code;
}

static int record(struct recordings *r, struct recording *to, const struct cuda_call *c, const struct work *work, int n,
                  struct snug_err *err)
{
    double start = seconds_now();
    int64_t room = cuda_free_bytes();
    struct cuda_nccl *nccl = to->exchanges ? c->peers->nccl : NULL; /* which is called */
    TRY(nccl ? cuda_nccl_begin(nccl, err) : SNUG_OK);
    int code = make_graph(r, to, c, work, n, err);
    if (nccl)
        cuda_nccl_end(nccl);
    TRY(code);
    if (!to->graph)
        return launch_nodes(c, r->lanes, work, n, to->exchanges, err);
    TRY(launch_graph(to, c, "launching a graph", err));
    int64_t taken = room - cuda_free_bytes();
    r->made++;
    r->bytes += taken > 0 ? taken : 0;
    r->seconds += seconds_now() - start;
    return SNUG_OK;
}

int recordings_run(struct recordings *r, const struct cuda_call *c, const struct work *work, int n,
                   struct snug_err *err)
{
    struct recording *to = r->place ? &r->items[r->place - 1] : NULL;
    bool exchanges = are_exchanging(c, work, n), now = to && (r->capturing || exchanges);
    r->place = 0;
    if (!now)
        return launch_nodes(c, r->lanes, work, n, exchanges, err);
    to->exchanges = exchanges;
    return record(r, to, c, work, n, err);
}

int recordings_run_on(struct recordings *r, const struct sequence *s, const struct cuda_call *c,
                      const struct work *work, int n, struct snug_err *err)
{
    bool exchanges = are_exchanging(c, work, n);
    int place;
    if (waits_at_gate(c, exchanges) && find(r, s) == r->n) {
        TRY(load(c, work, n, err));
        TRY(add(r, s, &place, err));
    }
    TRY(begin(c, exchanges, err));
    cuda_lanes_begin(r->lanes);
    return end(c, exchanges, cuda_launch_on(c, r->lanes, work, n, err), err);
}

void recordings_forget(struct recordings *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].graph)
            cudaGraphExecDestroy(r->items[i].graph);
    mem_free(r->items);
    *r = (struct recordings){.lanes = r->lanes};
}
