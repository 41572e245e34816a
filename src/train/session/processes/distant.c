#include "train/session/processes/distant.h"

#include "ranks/ranks.h"

#include <string.h>

struct distant {
    const struct session *s;
    int rank; /* counted from 1 */
    struct ckpt_memory memory;
};

/* What the first process asks for. */
struct wanted {
    int64_t rank; /* 0: no more */
    int64_t memory, at, bytes;
};

/* Where that is here. */
static char *place(const struct session *s, const struct wanted *w)
{
    return s->run.arenas.of[w->memory] + w->at;
}

/* `from`, of its rank, goes to `to`, of the first; both in the host's memory. */
static int exchange(const struct session *s, const struct wanted *w, void *from, void *to, struct snug_err *err)
{
    const struct rank *r = &s->here;
    struct piece *out = mem_alloc(2 * (size_t)r->n * sizeof *out), *in = out + r->n;
    if (!out)
        return err_no_memory(err, 2 * (size_t)r->n * sizeof *out);
    if (r->me == w->rank - 1)
        out[0] = (struct piece){from, (size_t)w->bytes};
    if (r->me == 0)
        in[w->rank - 1] = (struct piece){to, (size_t)w->bytes};
    bool met = ranks_exchange(r, out, in);
    mem_free(out);
    return met ? SNUG_OK : ranks_failure(s->processes, err);
}

/* It goes from its rank to `to` of the first, from a device by way of the host. */
static int send(const struct session *s, const struct wanted *w, void *to, struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    if (s->here.me != w->rank - 1)
        return exchange(s, w, NULL, to, err);
    if (b->facts.host_memory || w->memory != MEMORY_DEVICE)
        return exchange(s, w, place(s, w), to, err);
    void *copy = mem_map((size_t)w->bytes);
    if (!copy)
        return err_no_memory(err, (unsigned long long)w->bytes);
    int code = b->arena->download(b, copy, place(s, w), w->bytes, err);
    if (!code)
        code = exchange(s, w, copy, to, err);
    mem_unmap(copy);
    return code;
}

static bool lies_in(const struct session *s, enum memory memory, const char *at)
{
    const char *arena = s->run.arenas.of[memory];
    return arena && at >= arena && at < arena + plan_bytes(&s->run.plan, memory);
}

static int get(void *ctx, void *to_host, const void *from, int64_t bytes, struct snug_err *err)
{
    const struct distant *d = ctx;
    const struct session *s = d->s;
    const char *at = from;
    enum memory memory = MEMORY_COUNT - 1;
    while (memory != MEMORY_DEVICE && !lies_in(s, memory, at))
        memory--;
    struct wanted w = {.rank = d->rank, .memory = memory, .at = at - s->run.arenas.of[memory], .bytes = bytes};
    if (!ranks_share(&s->here, &w, sizeof w))
        return ranks_failure(s->processes, err);
    return send(s, &w, to_host, err);
}

static int put(void *ctx, void *to, const void *from_host, int64_t bytes, struct snug_err *err)
{
    (void)ctx, (void)to, (void)from_host, (void)bytes, (void)err;
    return SNUG_OK;
}

int distant_open(struct session *s, struct snug_err *err)
{
    s->distant = mem_alloc((size_t)s->here.n * sizeof *s->distant);
    for (int i = 0; s->distant && i < s->here.n; i++) {
        struct distant *d = &s->distant[i];
        *d = (struct distant){.s = s, .rank = i + 1, .memory = {.get = get, .put = put, .ctx = d}};
    }
    return s->distant ? SNUG_OK : err_no_memory(err, (size_t)s->here.n * sizeof *s->distant);
}

void distant_close(struct session *s)
{
    mem_free(s->distant);
    s->distant = NULL;
}

bool distant_are(const struct session *s, bool only_weights)
{
    return s->distant && s->run.plan.fullest && (!only_weights || s->compile.zero_stage > 2);
}

const struct ckpt_memory *distant_memory(const struct session *s, int rank)
{
    return s->distant && rank && rank != s->here.me + 1 ? &s->distant[rank - 1].memory : NULL;
}

/* In the type in which its process has it. */
static int read_there(const struct ckpt_memory *there, const struct run_value *v, void *to, enum dtype type,
                      struct snug_err *err)
{
    int64_t bytes = dtype_bytes(v->dtype, v->elements);
    if (v->dtype == type)
        return there->get(there->ctx, to, v->data, bytes, err);
    void *raw = mem_alloc((size_t)bytes);
    if (!raw)
        return err_no_memory(err, (unsigned long long)bytes);
    int code = there->get(there->ctx, raw, v->data, bytes, err);
    if (!code)
        dtype_convert(to, type, raw, v->dtype, v->elements);
    mem_free(raw);
    return code;
}

int distant_read(const struct session *s, const struct run *r, const struct run_value *v, void *to, enum dtype type,
                 struct snug_err *err)
{
    const struct ckpt_memory *there = distant_memory(s, v->rank);
    struct run_value part;
    int64_t at;
    if (!v->shards)
        return there ? read_there(there, v, to, type, err) : run_read(r, v, to, type, err);
    for (int k = 0; k < v->shards; k++)
        if (run_shard(r, v, k, &part, &at))
            TRY(distant_read(s, r, &part, (char *)to + dtype_bytes(type, at), type, err));
    return SNUG_OK;
}

int distant_give(const struct session *s, bool only_weights, struct snug_err *err)
{
    struct wanted w = {.rank = distant_are(s, only_weights)};
    while (w.rank) {
        if (!ranks_share(&s->here, &w, sizeof w))
            return ranks_failure(s->processes, err);
        if (w.rank)
            TRY(send(s, &w, NULL, err));
    }
    return SNUG_OK;
}

int distant_end(const struct session *s, bool only_weights, struct snug_err *err)
{
    struct wanted w = {0};
    return !distant_are(s, only_weights) || ranks_share(&s->here, &w, sizeof w) ? SNUG_OK
                                                                                : ranks_failure(s->processes, err);
}
