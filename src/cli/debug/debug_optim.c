/* snug debug optim TRAJECTORY OUT: replays given gradients through an optimizer, one update a step. */
#include "base/machine.h"
#include "cli/commands.h"
#include "format/safetensors.h"
#include "schedule/average.h"
#include "train/session/session.h"
#include "train/session/settings.h"

#include <string.h>
#include <unistd.h>

enum { MAX_PARAMS = 4096 };

struct replay {
    struct st_file file;
    struct run run;
    struct arena arena;
    int n_params, n_steps;
    bool has_run;
};

static const struct st_tensor *find(struct replay *r, const char *kind, int i, int t)
{
    const char *name = arena_printf(&r->arena, "%s.%d.%d", kind, i, t);
    return name ? st_find(&r->file, name) : NULL;
}

static int open_trajectory(struct replay *r, const char *path, struct snug_err *err)
{
    TRY(st_open(&io_posix, path, &r->file, err));
    while (r->n_params < MAX_PARAMS && find(r, "param", r->n_params, 0))
        r->n_params++;
    while (find(r, "grad", 0, r->n_steps))
        r->n_steps++;
    if (!r->n_params || !r->n_steps)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no param.0.0 and grad.0.0; see 'snug debug optim --help'", path);
    for (int i = 0; i < r->n_params; i++)
        for (int t = 0; t < r->n_steps; t++) {
            const struct st_tensor *p = find(r, "param", i, 0), *g = find(r, "grad", i, t);
            if (!g || g->dtype != DT_F32 || p->dtype != DT_F32 || g->bytes != p->bytes || p->ndim > MAX_DIMS ||
                !p->ndim)
                return err_set(err, SNUG_ERR_INPUT, "%s: grad.%d.%d must be there, F32, with the shape of param.%d.0",
                               path, i, t, i);
        }
    return SNUG_OK;
}

/* A program of nothing but updates: weights "param.I", gradients that are written from outside. */
static int compile(struct replay *r, const struct options *o, struct snug_err *err)
{
    const struct backend *b;
    TRY(settings_backend(o, 0, &b, err));
    r->run = (struct run){.backend = b, .threads = o->threads ? (int)o->threads : machine_cpus()};
    r->has_run = true;
    r->run.plan.align = b->facts.align;
    struct program *g = plan_add(&r->run.plan, "update", (struct dims){0}, err);
    if (!g)
        return SNUG_ERR_ENV;
    graph_add_value(&g->graph, "step", ROLE_INPUT, DT_F64, 1, &DIM(STEP_SCALARS));
    for (int i = 0; i < r->n_params; i++) {
        const struct st_tensor *p = find(r, "param", i, 0);
        struct dim shape[MAX_DIMS];
        for (int d = 0; d < p->ndim; d++)
            shape[d] = DIM(p->shape[d]);
        int weight = graph_add_value(&g->graph, arena_printf(&r->arena, "param.%d", i), ROLE_WEIGHT,
                                     b->facts.float_type, p->ndim, shape);
        int grad = graph_add_kin(&g->graph, KIN_GRADIENT, weight, b->facts.float_type, p->ndim, shape);
        graph_value(&g->graph, grad)->live_in = graph_value(&g->graph, grad)->persists = true;
    }
    struct pass_settings p = {.update = settings_update(o, b)};
    p.update.decay_all = true;
    p.update.max_grad_norm = 0; /* given gradients are taken as they are */
    pass_update(&g->graph, &p);
    pass_order(&g->graph, &p);
    TRY(graph_check(&g->graph, "update", err));
    TRY(compile_for_backend(b, r->run.threads, g, err));
    TRY(plan_pack(&r->run.plan, err));
    return run_alloc(&r->run, err);
}

static int put(struct replay *r, const char *name, const struct st_tensor *t, struct snug_err *err)
{
    struct run_value v;
    void *host = mem_alloc((size_t)t->bytes);
    int code = host ? st_read(&r->file, t, host, err) : err_no_memory(err, (unsigned long long)t->bytes);
    if (!code && run_find(&r->run, name, &v))
        code = run_write(&r->run, &v, host, DT_F32, v.elements, err);
    mem_free(host);
    return code;
}

/* param.I.T for the T that has been reached. */
static int save(struct replay *r, struct st_writer *w, const struct st_tensor *out, int i, struct snug_err *err)
{
    struct run_value v;
    run_find(&r->run, arena_printf(&r->arena, "param.%d", i), &v);
    float *host = mem_alloc((size_t)v.elements * sizeof *host);
    if (!host)
        return err_no_memory(err, (unsigned long long)v.elements * sizeof *host);
    int code = run_read(&r->run, &v, host, DT_F32, err);
    if (!code)
        code = st_write(w, out, 0, host, (size_t)out->bytes, err);
    mem_free(host);
    return code;
}

static int replay(struct replay *r, const struct options *o, struct st_writer *w, const struct st_tensor *out,
                  size_t n_out, struct snug_err *err)
{
    const struct average_rule rule = average_rule_of(o, r->n_steps);
    struct average average = {0};
    struct run_value step;
    run_find(&r->run, "step", &step);
    for (int t = 0; t <= r->n_steps; t++) {
        struct average_step now = average_next(&rule, &average, o->learning_rate, t);
        const double scalars[STEP_SCALARS] = {[STEP_LR] = now.rate, [STEP_UPDATE] = t, [STEP_AVERAGE] = now.share};
        for (int i = 0; i < r->n_params; i++)
            TRY(t ? put(r, arena_printf(&r->arena, "grad.param.%d", i), find(r, "grad", i, t - 1), err)
                  : put(r, arena_printf(&r->arena, "param.%d", i), find(r, "param", i, 0), err));
        if (t) {
            TRY(run_write(&r->run, &step, scalars, DT_F64, STEP_SCALARS, err));
            TRY(run_program(&r->run, 0, (struct dims){0}, NULL, 0, err));
            average = now.after;
        }
        for (int i = 0; i < r->n_params; i++)
            for (size_t k = 0; k < n_out; k++)
                if (!strcmp(out[k].name, arena_printf(&r->arena, "param.%d.%d", i, t)))
                    TRY(save(r, w, &out[k], i, err));
    }
    return SNUG_OK;
}

int run_debug_optim(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct replay r = {0};
    struct st_writer w;
    struct st_tensor *out = NULL;
    size_t n = 0;
    int code = open_trajectory(&r, args->items[0], err);
    if (!code)
        code = compile(&r, o, err);
    if (!code && !(out = mem_alloc((size_t)r.n_params * (size_t)(r.n_steps + 1) * sizeof *out)))
        code = err_no_memory(err, (size_t)r.n_params * sizeof *out);
    for (int i = 0; !code && i < r.n_params; i++)
        for (int t = 0; t <= r.n_steps; t++) {
            out[n] = *find(&r, "param", i, 0);
            out[n++].name = arena_printf(&r.arena, "param.%d.%d", i, t);
        }
    if (!code) {
        unlink(args->items[1]); /* the result of an earlier call */
        code = st_create(&io_posix, args->items[1], out, n, NULL, 0, false, &w, err);
    }
    if (!code) {
        code = replay(&r, o, &w, out, n, err);
        if (code)
            st_abandon(&w);
        else
            code = st_finish(&w, NULL, err);
        if (code)
            unlink(args->items[1]);
    }
    mem_free(out);
    const struct backend *backend = r.run.backend;
    if (r.has_run)
        run_close(&r.run);
    backend_close(backend);
    st_close(&r.file);
    arena_free(&r.arena);
    return code;
}
