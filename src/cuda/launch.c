#include "cuda/launch.h"

#define OP(name, slots, attrs, diff, text)                                                                             \
    static int run_##name(const union args_any *a, const struct cuda_call *c)                                          \
    {                                                                                                                  \
        return cuda_##name(&a->name, c);                                                                               \
    }
#include "graph/ops.h"
#undef OP

static int (*const launchers[OP_COUNT])(const union args_any *, const struct cuda_call *) = {
#define OP(name, slots, attrs, diff, text) [OP_##name] = run_##name,
#include "graph/ops.h"
#undef OP
};

#define ROW(name)                                                                                                      \
    static int64_t workspace_##name(const union args_any *a, const struct cuda_call *c)                                \
    {                                                                                                                  \
        return cuda_##name##_workspace(&a->name, c);                                                                   \
    }
CUDA_WORKSPACES(ROW)
#undef ROW

static int64_t (*const workspaces[OP_COUNT])(const union args_any *, const struct cuda_call *) = {
#define ROW(name) [OP_##name] = workspace_##name,
    CUDA_WORKSPACES(ROW)
#undef ROW
};

#define ROW(name)                                                                                                      \
    static int many_##name(const struct work *w, int n, const struct cuda_call *c)                                     \
    {                                                                                                                  \
        const struct args_##name *a[CUDA_LAUNCH_MANY];                                                                 \
        for (int i = 0; i < n; i++)                                                                                    \
            a[i] = &w[i].args.name;                                                                                    \
        return cuda_##name##_many(a, n, c);                                                                            \
    }
CUDA_BATCHED(ROW)
#undef ROW

static int (*const batched[OP_COUNT])(const struct work *, int, const struct cuda_call *) = {
#define ROW(name) [OP_##name] = many_##name,
    CUDA_BATCHED(ROW)
#undef ROW
};

int cuda_launch(enum op op, const union args_any *args, const struct cuda_call *c)
{
    return launchers[op](args, c);
}

int64_t cuda_launch_workspace(enum op op, const union args_any *args, const struct cuda_call *c)
{
    return workspaces[op] ? workspaces[op](args, c) : 0;
}

bool cuda_launch_together(enum op op)
{
    return batched[op];
}

/* The first of n works, with those that join it; *joined: how many they are. */
static int launch_first(const struct cuda_call *c, const struct work *work, int n, int *joined)
{
    *joined = 1;
    if (!batched[work->op])
        return cuda_launch(work->op, &work->args, c);
    while (*joined < n && *joined < CUDA_LAUNCH_MANY && work[*joined].joins)
        (*joined)++;
    return batched[work->op](work, *joined, c);
}

static bool are_of_lanes(const struct work *work, int n)
{
    for (int i = 0; i < n; i++)
        if (work[i].lane != LANE_COMPUTE)
            return true;
    return false;
}

int cuda_launch_in_turn(const struct cuda_call *c, const struct work *work, int n, struct snug_err *err)
{
    struct cuda_call call = *c;
    call.err = err;
    for (int i = 0, joined; i < n; i += joined) {
        call.workspace = work[i].call.workspace;
        TRY(launch_first(&call, &work[i], n - i, &joined));
    }
    return SNUG_OK;
}

int cuda_launch_on(const struct cuda_call *c, struct cuda_lanes *lanes, const struct work *work, int n,
                   struct snug_err *err)
{
    struct cuda_call call = *c;
    call.err = err;
    for (int i = 0, joined; i < n; i += joined) {
        call.workspace = work[i].call.workspace;
        call.stream = lanes->of[work[i].lane].stream;
        TRY(cuda_lanes_before(lanes, &work[i], err));
        TRY(launch_first(&call, &work[i], n - i, &joined));
        TRY(cuda_lanes_behind(lanes, work[i].lane, lanes->given + i + joined, err));
    }
    lanes->given += n;
    return SNUG_OK;
}

int cuda_launch_nodes(const struct cuda_call *c, struct cuda_lanes *lanes, const struct work *work, int n,
                      struct snug_err *err)
{
    bool beside = are_of_lanes(work, n);
    if (beside)
        TRY(cuda_lanes_settle(lanes, err));
    if (beside)
        cuda_lanes_begin(lanes);
    TRY(cuda_launch_on(c, lanes, work, n, err));
    return beside ? cuda_lanes_settle(lanes, err) : SNUG_OK;
}
