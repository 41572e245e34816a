#include "train/fit/offload.h"

#include "plan/anatomy.h"
#include "train/fit/needs.h"

static bool has_device(const struct session *s)
{
    return !s->compile.backend->facts.host_memory && s->compile.train && !s->compile.separate;
}

bool offload_is_open(const struct session *s)
{
    return s->o->offload_optimizer == OPT_OFFLOAD_AUTO && has_device(s);
}

bool offload_may_send_activations(const struct session *s)
{
    return options_activations(s->o) == OPT_OFFLOAD_AUTO && has_device(s);
}

bool offload_may_send_weights(const struct session *s, const struct choices *asked)
{
    return offload_is_open(s) && s->o->offload_param == OPT_OFFLOAD_AUTO && asked->copies && !asked->host_weights &&
           (!s->compile.zero_stage || s->compile.zero_stage > 2); /* other ranks reach a device's memory alone */
}

static void add_states(void *ctx, const struct held *h)
{
    int64_t *by_layer = ctx;
    if (h->component == COMPONENT_STATES && h->kin)
        by_layer[h->layer] += h->bytes;
}

int64_t offload_host_memory(const struct session *s)
{
    const struct backend *b = s->compile.backend;
    return s->o->host_memory_budget   ? s->o->host_memory_budget
           : b->arena->host_available ? b->arena->host_available(b)
                                      : INT64_MAX;
}

int64_t offload_room(const struct session *s, const struct plan *p)
{
    int64_t there = offload_host_memory(s);
    if (!(offload_is_open(s) || offload_may_send_activations(s)) || there == INT64_MAX)
        return INT64_MAX;
    int64_t room = (there - needs_once_bytes(p)) / needs_ranks(s) - plan_transfer_bytes(p);
    return room > 0 ? room : 0;
}

int offload_layers(const struct plan *p, int64_t bytes, int64_t room, struct offload *out, struct snug_err *err)
{
    int n = plan_layers(p);
    int64_t *by_layer = mem_alloc((size_t)(n + 1) * sizeof *by_layer);
    if (!by_layer)
        return err_no_memory(err, (unsigned long long)(n + 1) * sizeof *by_layer);
    plan_visit(p, p->largest, add_states, by_layer);
    *out = (struct offload){0};
    for (; out->fewest < n && bytes > 0; out->fewest++)
        bytes -= by_layer[out->fewest];
    out->fewest += bytes > 0;
    for (; out->most < n && by_layer[out->most] <= room; out->most++)
        room -= by_layer[out->most];
    mem_free(by_layer);
    return SNUG_OK;
}

int offload_find(const struct session *s, const struct choices *choices, int64_t limit, int64_t room,
                 struct offload *out, struct snug_err *err)
{
    struct compile_settings settings = s->compile;
    struct plan plan = {0};
    struct programs where;
    settings.dump = NULL;
    settings.trial = true;
    settings.trial_most = 1; /* what lives at once is often too much already, and is known without packing */
    int code = compile_run(&settings, choices, &plan, &where, err);
    if (!code)
        code = offload_layers(&plan, plan.lower_bound_bytes - limit, room, out, err);
    if (!code && out->fewest <= plan_layers(&plan)) {
        plan_free(&plan);
        plan = (struct plan){0};
        settings.trial_most = 0;
        code = compile_run(&settings, choices, &plan, &where, err);
        if (!code)
            code = offload_layers(&plan, plan.arena_bytes - limit, room, out, err);
    }
    plan_free(&plan);
    return code;
}
