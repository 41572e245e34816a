#include "train/fit/offload.h"

#include "plan/anatomy.h"

bool offload_is_open(const struct session *s)
{
    return s->o->offload_optimizer == OPT_OFFLOAD_AUTO && !s->compile.backend->facts.host_memory && s->compile.train &&
           !s->compile.separate;
}

bool offload_may_send_weights(const struct session *s, const struct choices *asked)
{
    return offload_is_open(s) && s->o->offload_param == OPT_OFFLOAD_AUTO && asked->copies && !asked->host_weights &&
           !s->compile.zero_stage; /* other ranks reach a device's memory alone */
}

static void add_states(void *ctx, const struct held *h)
{
    int64_t *by_layer = ctx;
    if (h->component == COMPONENT_STATES && h->kin)
        by_layer[h->layer] += h->bytes;
}

int offload_layers(const struct plan *p, int64_t bytes, int *layers, struct snug_err *err)
{
    int n = plan_layers(p), k = 0;
    int64_t *by_layer = mem_alloc((size_t)(n + 1) * sizeof *by_layer);
    if (!by_layer)
        return err_no_memory(err, (unsigned long long)(n + 1) * sizeof *by_layer);
    plan_visit(p, p->largest, add_states, by_layer);
    for (; k < n && bytes > 0; k++)
        bytes -= by_layer[k];
    mem_free(by_layer);
    *layers = bytes > 0 ? n + 1 : k;
    return SNUG_OK;
}

int offload_find(const struct session *s, const struct choices *choices, int64_t limit, int *layers,
                 struct snug_err *err)
{
    struct compile_settings settings = s->compile;
    struct plan plan = {0};
    struct programs where;
    settings.dump = NULL;
    settings.trial = true;
    int code = compile_run(&settings, choices, &plan, &where, err);
    if (!code)
        code = offload_layers(&plan, plan.arena_bytes - limit, layers, err);
    plan_free(&plan);
    return code;
}
