#include "run/nodes.h"

#include "base/seconds.h"
#include "ranks/ranks.h"
#include "ranks/shard.h"

#include <string.h>

/* All nodes of all programs at their largest, for the backend to measure. */
static int tune(struct run *r, void (*begins)(void *ctx), void *ctx, bool *changed, struct snug_err *err)
{
    int n = 0;
    for (int k = 0; k < r->plan.n_programs; k++)
        n += r->plan.programs[k].graph.n_nodes;
    struct work *nodes = mem_alloc((size_t)n * sizeof *nodes);
    if (!nodes)
        return err_no_memory(err, (unsigned long long)n * sizeof *nodes);
    n = 0;
    for (int k = 0; k < r->plan.n_programs; k++) {
        const struct program *g = &r->plan.programs[k];
        for (int i = 1; i < g->graph.n_nodes; i++, n++) {
            nodes[n].op = g->graph.nodes[i].op;
            compile_args(g, &g->graph.nodes[i], g->max, NULL, -1, &nodes[n].args);
        }
    }
    int code = r->backend->profile->tune(r->backend, nodes, n, begins, ctx, changed, err);
    mem_free(nodes);
    return code;
}

int run_open(struct run *r, const struct compile_settings *s, const struct choices *choices, struct snug_err *err)
{
    *r = (struct run){.backend = s->backend, .threads = s->threads, .offload_dir = s->offload_dir, .io = s->io};
    return compile_run(s, choices, &r->plan, &r->where, err);
}

int run_tune(struct run *r, const struct compile_settings *s, const struct choices *choices, void (*begins)(void *ctx),
             void *ctx, bool *anew, struct snug_err *err)
{
    *anew = false;
    if (!backend_tunes(s->backend) || s->dump) /* graphs are looked at without a GPU's time */
        return SNUG_OK;
    TRY(tune(r, begins, ctx, anew, err));
    if (!*anew)
        return SNUG_OK;
    plan_free(&r->plan);
    return compile_run(s, choices, &r->plan, &r->where, err);
}

static int alloc_on_disk(struct run *r, struct snug_err *err)
{
    struct scratch file;
    TRY(scratch_open(r->io, r->offload_dir, &file, err));
    int code = scratch_reserve(&file, r->plan.disk_bytes, err);
    if (!code)
        code = scratch_map(&file, IO_MAP_SHARED, &r->disk, err);
    scratch_drop(&file);
    r->arenas.of[MEMORY_DISK] = r->disk.p;
    return code;
}

int run_alloc(struct run *r, struct snug_err *err)
{
    void *p;
    int nodes = 0;
    for (int k = 0; k < r->plan.n_programs; k++)
        nodes = r->plan.programs[k].graph.n_nodes > nodes ? r->plan.programs[k].graph.n_nodes : nodes;
    r->work = mem_alloc((size_t)nodes * sizeof *r->work);
    r->place = mem_alloc((size_t)nodes * sizeof *r->place);
    if (!r->work || !r->place)
        return err_no_memory(err, (unsigned long long)nodes * sizeof *r->work);
    if (r->plan.images_bytes)
        TRY(r->backend->arena->alloc_host(r->backend, r->plan.images_bytes, &r->images, err));
    TRY(r->backend->arena->alloc(r->backend, r->plan.arena_bytes, r->plan.inputs_bytes, r->images, &p, err));
    r->arenas.of[MEMORY_DEVICE] = p;
    if (r->plan.disk_bytes)
        TRY(alloc_on_disk(r, err));
    if (!r->plan.host_bytes)
        return SNUG_OK;
    TRY(r->backend->arena->alloc_host(r->backend, r->plan.host_bytes, &p, err));
    r->arenas.of[MEMORY_HOST] = p;
    memset(p, 0, (size_t)r->plan.host_bytes);
    return SNUG_OK;
}

void run_close(struct run *r)
{
    if (r->arenas.of[MEMORY_DEVICE])
        r->backend->arena->free(r->backend, r->arenas.of[MEMORY_DEVICE], r->plan.arena_bytes);
    if (r->arenas.of[MEMORY_HOST])
        r->backend->arena->free_host(r->backend, r->arenas.of[MEMORY_HOST]);
    mapping_close(&r->disk);
    if (r->images)
        r->backend->arena->free_host(r->backend, r->images);
    mem_free(r->work);
    mem_free(r->place);
    if (!r->shares_plan)
        plan_free(&r->plan);
    *r = (struct run){0};
}

struct run run_beside(const struct run *of, const struct backend *backend)
{
    return (struct run){.backend = backend,
                        .threads = of->threads,
                        .plan = of->plan,
                        .where = of->where,
                        .offload_dir = of->offload_dir,
                        .io = of->io,
                        .shares_plan = true};
}

int run_copy_persistent(struct run *to, const struct run *from, struct snug_err *err)
{
    const struct backend *b = to->backend;
    int64_t first = from->plan.inputs_bytes;
    TRY(b->arena->upload(b, to->arenas.of[MEMORY_DEVICE] + first, from->arenas.of[MEMORY_DEVICE] + first,
                         from->plan.owned_at[MEMORY_DEVICE] - first, err));
    for (enum memory m = MEMORY_DEVICE + 1; m < MEMORY_COUNT; m++)
        if (from->plan.owned_at[m])
            TRY(b->arena->upload(b, to->arenas.of[m], from->arenas.of[m], from->plan.owned_at[m], err));
    return SNUG_OK;
}

/* In the arena of the rank that has it, if that one is in this process; NULL where there is none, or no room for it. */
static void *place_of(const struct run *r, const struct program *g, int id)
{
    const struct value *v = graph_value(&g->graph, id);
    const struct run *owner = v->rank && r->ranks ? r->ranks[v->rank - 1] : r;
    char *arena = owner->arenas.of[v->memory];
    return arena && g->at[id] >= 0 ? arena + g->at[id] : NULL;
}

/* What a pull reads. Where the rank that has it is only thought of (a rehearsal), something else is at its place, whose bits may be no
 * numbers: then it reads a value of this rank of the same kind, at least as large. */
static void *pulled_from(const struct run *r, const struct program *g, int id)
{
    const struct value *x = graph_value(&g->graph, id);
    int found = id;
    for (int i = 1; i < g->graph.n_values && !r->rank && found == id; i++) {
        const struct value *v = graph_value(&g->graph, i);
        if (v->persists && v->rank == 1 && v->memory == x->memory && v->dtype == x->dtype && v->role == x->role &&
            v->kin == x->kin && value_elements(v, g->max) >= value_elements(x, g->max))
            found = i;
    }
    return place_of(r, g, found);
}

bool run_has(const struct run *r, const struct run_value *v)
{
    return !v->rank || !r->rank || r->ranks || v->rank == r->rank->me + 1;
}

struct run_value run_part_of(const struct run_value *v, int64_t first, int64_t n)
{
    struct run_value part = *v;
    part.elements = n;
    part.first += v->shards ? first : 0;
    part.data = (char *)v->data + (v->shards ? 0 : dtype_bytes(v->dtype, first));
    return part;
}

/* A rank that is only thought to have others beside it has the largest. */
static bool has_shard(const struct run *r, const struct run_value *v, int k)
{
    return r->rank ? r->ranks || k == r->rank->me : k == shard_largest(v->whole, v->chunk, v->shards);
}

bool run_shard(const struct run *r, const struct run_value *v, int k, struct run_value *out, int64_t *at)
{
    struct shard s = shard_of(v->whole, v->chunk, v->shards, k);
    int64_t end = v->first + v->elements, from = s.first > v->first ? s.first : v->first;
    end = s.first + s.n < end ? s.first + s.n : end;
    char *there = r->ranks ? r->ranks[k]->arenas.of[v->memory] + ((char *)v->data - r->arenas.of[v->memory]) : v->data;
    *out = *v;
    out->shards = 0;
    out->rank = k + 1;
    out->elements = end - from;
    out->data = there + dtype_bytes(v->dtype, from - s.first);
    *at = from - v->first;
    return from < end;
}

static struct run_value describe(const struct run *r, const struct program *g, int id, struct dims dims)
{
    const struct value *v = graph_value(&g->graph, id);
    struct run_value out = {.name = v->name,
                            .data = place_of(r, g, id),
                            .memory = v->memory,
                            .rank = v->rank,
                            .dtype = v->dtype,
                            .role = v->role,
                            .kin = v->kin,
                            .frozen = v->frozen,
                            .ndim = v->ndim,
                            .elements = value_elements(v, dims),
                            .init = v->init,
                            .shards = v->view ? 0 : v->shards,
                            .chunk = v->chunk,
                            .whole = value_elements(v, dims)};
    for (int d = 0; d < v->ndim; d++)
        out.shape[d + v->row] = dim_size(v->shape[d], dims);
    if (v->row) /* as files have it */
        out.shape[0] = 1, out.ndim++;
    return out;
}

bool run_output(const struct run *r, int k, const char *name, struct dims dims, struct run_value *out)
{
    const struct program *g = &r->plan.programs[k];
    int id = graph_find(&g->graph, name);
    if (id)
        *out = describe(r, g, id, dims);
    return id && g->at[id] >= 0;
}

bool run_find(const struct run *r, const char *name, struct run_value *out)
{
    for (int k = 0; k < r->plan.n_programs; k++) {
        const struct program *g = &r->plan.programs[k];
        int id = graph_find(&g->graph, name);
        if (id && g->graph.values[id].persists) {
            *out = describe(r, g, id, g->max);
            return true;
        }
    }
    return false;
}

static bool known_before(const struct run *r, int k, const char *name)
{
    for (int i = 0; i < k; i++) {
        int id = graph_find(&r->plan.programs[i].graph, name);
        if (id && r->plan.programs[i].graph.values[id].persists)
            return true;
    }
    return false;
}

int run_list(const struct run *r, unsigned roles, struct run_value **values, size_t *n, struct snug_err *err)
{
    size_t cap = 0;
    *values = NULL;
    *n = 0;
    for (int k = 0; k < r->plan.n_programs; k++) {
        const struct program *g = &r->plan.programs[k];
        for (int i = 1; i < g->graph.n_values; i++) {
            const struct value *v = graph_value(&g->graph, i);
            if (!v->persists || v->group || !v->name || !(roles >> v->role & 1) || known_before(r, k, v->name))
                continue;
            if (!MEM_GROW(*values, cap, *n + 1)) {
                mem_free(*values);
                *values = NULL;
                return err_no_memory(err, cap * 2 * sizeof **values);
            }
            (*values)[(*n)++] = describe(r, g, i, g->max);
        }
    }
    return SNUG_OK;
}

void run_fill_work(const struct run *r, const struct program *g, const struct node *n, struct dims dims, struct work *w)
{
    w->op = n->op;
    w->joins = n->joins;
    w->lane = n->lane;
    memset(w->after, 0, sizeof w->after);
    compile_args(g, n, dims, &r->arenas, r->rank ? r->rank->me : -1, &w->args);
    w->call = (struct call){.workspace = n->workspace ? r->arenas.of[MEMORY_DEVICE] + g->at[n->workspace] : NULL,
                            .threads = r->threads,
                            .rank = r->rank,
                            .arenas = r->others};
    if (n->op == OP_pull)
        w->args.pull.x.data = pulled_from(r, g, n->u.pull.x);
}

bool run_executes(const struct run *r, const struct node *n)
{
    return node_is_of(n, r->rank ? r->rank->me + 1 : 1);
}

int run_first_update(const struct program *g)
{
    int k = 1;
    while (k < g->graph.n_nodes && !op_is_update(g->graph.nodes[k].op))
        k++;
    return k;
}

/* Where the loss is known, and the gradient's norm if this program computes it before it changes anything. */
static int results_at(const struct program *g)
{
    int update = run_first_update(g);
    for (int k = 1; k < update; k++)
        if (g->graph.nodes[k].op == OP_clip)
            return update;
    return g->graph.n_nodes;
}

/* Results that were fetched in between would wait for these. For sums they wait anyway. */
static bool has_copies_before(const struct program *g, int end)
{
    for (int k = 1; k < end; k++)
        if (g->graph.nodes[k].lane != LANE_COMPUTE && g->graph.nodes[k].lane != LANE_SUMS)
            return true;
    return false;
}

bool run_exchanges(const struct run *r, int k)
{
    const struct graph *g = k >= 0 ? &r->plan.programs[k].graph : NULL;
    bool together = r->rank && !ranks_share_memory(r->rank);
    for (int i = 1; g && i < g->n_nodes; i++)
        if (op_exchanges(g->nodes[i].op) || (together && g->nodes[i].op == OP_pull))
            return true;
    return false;
}

bool run_updates_wait(const struct run *r, int k)
{
    const struct program *g = &r->plan.programs[k];
    return results_at(g) < g->graph.n_nodes;
}

/* Each node is over before the next begins, and an error says which it was. */
static int run_one_by_one(struct run *r, const struct program *g, struct dims dims, int from, int end,
                          struct snug_err *err)
{
    const struct backend *b = r->backend;
    struct snug_err why = {0};
    for (int i = from; i < end; i++) {
        const struct node *n = &g->graph.nodes[i];
        if (!run_executes(r, n))
            continue;
        run_fill_work(r, g, n, dims, r->work);
        int code = b->run(b, r->work, 1, &why);
        if (!code)
            code = b->arena->sync(b, &why);
        if (code)
            return err_set(err, code, "%s in layer %d%s, node %d of program %s: %s", node_op(n)->name, n->layer,
                           n->backward ? " (backward)" : "", i, g->name, why.text);
    }
    return SNUG_OK;
}

/* Nodes that run at the same time have shares by what they read and write. */
static void add_times(const struct run *r, const struct program *g, int from, int end, double seconds)
{
    double bytes[2] = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int i = from; i < end; i++) {
            const struct node *n = &g->graph.nodes[i];
            double mine = 1 + compile_bytes(g, n, &r->work[i - from].args, MEMORY_DEVICE);
            bytes[pass] += mine;
            r->times->of[n->op].seconds += pass ? seconds * mine / bytes[0] : 0;
            r->times->of[n->op].nodes += pass;
        }
}

static int run_and_time(struct run *r, const struct program *g, struct dims dims, int from, int end,
                        struct snug_err *err)
{
    for (int i = from, next; i < end; i = next) {
        run_fill_work(r, g, &g->graph.nodes[i], dims, &r->work[0]);
        for (next = i + 1; next < end && g->graph.nodes[next].joins; next++)
            run_fill_work(r, g, &g->graph.nodes[next], dims, &r->work[next - i]);
        if (!run_executes(r, &g->graph.nodes[i])) /* nor those that join it */
            continue;
        double start = seconds_now();
        TRY(r->backend->run(r->backend, r->work, next - i, err));
        add_times(r, g, i, next, seconds_now() - start);
    }
    return SNUG_OK;
}

/* The place of what a node waits for in a lane, 0 where it is before `first`. */
static int find_after(const struct run *r, const struct program *g, const struct node *n, enum lane lane, int first)
{
    int k = n->after[lane];
    while (k >= first && (g->graph.nodes[k].lane != lane || !r->place[k])) /* another rank's */
        k--;
    return k >= first ? r->place[k] : 0;
}

/* Work for those of the nodes from … end-1 that this rank executes; gives how many. What they wait for are nodes from `first` on, which are
 * numbered in the order in which they are given; what was given before is over. By the plan, what a lane uses lives until a node that
 * computes has waited for it: where that node is another rank's, the next one waits. */
static int fill(struct run *r, const struct program *g, struct dims dims, int first, int from, int end)
{
    int n = 0, given = from > first ? r->given : 0, owed[LANE_COUNT] = {0};
    for (int i = from; i < end; i++) {
        const struct node *node = &g->graph.nodes[i];
        bool mine = run_executes(r, node), computes = node->lane == LANE_COMPUTE;
        r->place[i] = mine ? given + n + 1 : 0;
        struct work *w = &r->work[n];
        if (mine)
            run_fill_work(r, g, node, dims, w);
        for (enum lane lane = 0; lane < LANE_COUNT; lane++) {
            int after = find_after(r, g, node, lane, first);
            after = computes && owed[lane] > after ? owed[lane] : after;
            if (mine)
                w->after[lane] = after;
            if (computes)
                owed[lane] = mine ? 0 : after;
        }
        n += mine;
    }
    r->given = given + n;
    return n;
}

/* Nodes from … end-1. */
static int run_part(struct run *r, int k, int part, struct dims dims, int from, int end, struct snug_err *err)
{
    const struct program *g = &r->plan.programs[k];
    bool known = false;
    while (from < end && !run_executes(r, &g->graph.nodes[from]))
        from++;
    if (from >= end)
        return SNUG_OK;
    if (r->backend->facts.one_by_one)
        return run_one_by_one(r, g, dims, from, end, err);
    if (r->times && r->backend->facts.host_memory)
        return run_and_time(r, g, dims, from, end, err);
    if (r->backend->replay)
        TRY(r->backend->replay(r->backend, &(struct sequence){k, part, dims}, &known, err));
    if (known)
        return SNUG_OK;
    return r->backend->run(r->backend, r->work, fill(r, g, dims, from, from, end), err);
}

int run_settle(struct run *r, struct snug_err *err)
{
    bool trails = r->trailing;
    r->trailing = 0;
    return trails ? r->backend->settle(r->backend, err) : SNUG_OK;
}

static int fetch_all(struct run *r, const struct run_fetch *fetch, int n, struct snug_err *err)
{
    for (int i = 0; i < n; i++)
        TRY(r->backend->arena->fetch(r->backend, fetch[i].flight, fetch[i].to, fetch[i].from, fetch[i].bytes, err));
    return SNUG_OK;
}

/* A program that leaves lanes at work, and whose beginning may run beside what they still do for its run before. */
static int run_on(struct run *r, int k, struct dims dims, const struct run_fetch *fetch, int n_fetch,
                  struct snug_err *err)
{
    const struct program *g = &r->plan.programs[k];
    const struct backend *b = r->backend;
    int first = g->settle, there = results_at(g);
    TRY(run_part(r, k, 0, dims, 1, first, err));
    TRY(run_settle(r, err));
    r->trailing = k + 1;
    TRY(b->run_on(b, &(struct sequence){k, 1, dims}, r->work, fill(r, g, dims, first, first, there), err));
    TRY(fetch_all(r, fetch, n_fetch, err));
    int n = fill(r, g, dims, first, there, g->graph.n_nodes);
    return b->run_on(b, &(struct sequence){k, 2, dims}, r->work, n, err);
}

int run_program(struct run *r, int k, struct dims dims, const struct run_fetch *fetch, int n_fetch,
                struct snug_err *err)
{
    const struct program *g = &r->plan.programs[k];
    if (r->trailing != k + 1)
        TRY(run_settle(r, err));
    if (g->settle && r->backend->run_on && !r->backend->facts.one_by_one)
        return run_on(r, k, dims, fetch, n_fetch, err);
    int there = has_copies_before(g, results_at(g)) ? g->graph.n_nodes : results_at(g);
    TRY(run_part(r, k, 0, dims, 1, there, err));
    TRY(fetch_all(r, fetch, n_fetch, err));
    return run_part(r, k, 1, dims, there, g->graph.n_nodes, err);
}

double run_flops(const struct run *r, int k, struct dims dims)
{
    const struct program *g = &r->plan.programs[k];
    double flops = 0;
    for (int i = 1; i < g->graph.n_nodes; i++) {
        union args_any args;
        compile_args(g, &g->graph.nodes[i], dims, NULL, -1, &args);
        flops += node_op(&g->graph.nodes[i])->flops(&args);
    }
    return flops;
}

/* That of the device on which it lies: large copies from memory that is not pinned, asked for by another device's stream, were seen to
 * hang. */
static const struct backend *backend_of(const struct run *r, const struct run_value *v)
{
    return v->rank && r->ranks ? r->ranks[v->rank - 1]->backend : r->backend;
}

/* `host` is read, or written. */
static int each_shard(const struct run *r, const struct run_value *v, void *host, enum dtype type, bool writes,
                      struct snug_err *err)
{
    for (int k = 0; k < v->shards; k++) {
        struct run_value part;
        int64_t at;
        if (!has_shard(r, v, k) || !run_shard(r, v, k, &part, &at))
            continue;
        char *here = (char *)host + dtype_bytes(type, at);
        TRY(writes ? run_write(r, &part, here, type, part.elements, err) : run_read(r, &part, here, type, err));
    }
    return SNUG_OK;
}

int run_read(const struct run *r, const struct run_value *v, void *to, enum dtype type, struct snug_err *err)
{
    if (v->shards)
        return each_shard(r, v, to, type, false, err);
    const struct backend *b = backend_of(r, v);
    int64_t bytes = dtype_bytes(v->dtype, v->elements);
    if (v->dtype == type)
        return b->arena->download(b, to, v->data, bytes, err);
    void *raw = mem_alloc((size_t)bytes);
    if (!raw)
        return err_no_memory(err, (unsigned long long)bytes);
    int code = b->arena->download(b, raw, v->data, bytes, err);
    if (!code)
        dtype_convert(to, type, raw, v->dtype, v->elements);
    mem_free(raw);
    return code;
}

int run_write(const struct run *r, const struct run_value *v, const void *from, enum dtype type, int64_t elements,
              struct snug_err *err)
{
    if (v->shards) {
        struct run_value part = run_part_of(v, 0, elements);
        return each_shard(r, &part, (void *)from, type, true, err);
    }
    const struct backend *b = backend_of(r, v);
    int64_t bytes = dtype_bytes(v->dtype, elements);
    if (v->dtype == type)
        return b->arena->upload(b, v->data, from, bytes, err);
    void *raw = mem_alloc((size_t)bytes);
    if (!raw)
        return err_no_memory(err, (unsigned long long)bytes);
    dtype_convert(raw, v->dtype, from, type, elements);
    int code = b->arena->upload(b, v->data, raw, bytes, err);
    mem_free(raw);
    return code;
}
