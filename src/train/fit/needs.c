#include "train/fit/needs.h"

#include "train/evaluation/eval_pass.h"
#include "train/evaluation/evaluate.h"
#include "train/state.h"

/* What a run takes besides the arena, in the host's memory. Checkpoints are copied before they are written, so that
 * training goes on meanwhile, but for what lies on disk; metrics keep something of every row. */
int needs_besides(const struct session *s, struct run *r, struct snug_err *err)
{
    struct ckpt_tensor *tensors;
    size_t n;
    r->plan.results_bytes = stepper_results_bytes();
    if (r->where.eval >= 0)
        r->plan.results_bytes += eval_pass_bytes(r, &s->model, s->compile.eval_max);
    if (s->has_data && s->o->command != CMD_PREDICT) {
        struct metrics_setup setup = evaluate_setup(s);
        r->plan.metrics_bytes = metrics_bytes(&setup);
    }
    if (!s->compile.train || s->compile.separate || s->o->save_strategy == OPT_SAVE_NO)
        return SNUG_OK;
    TRY(state_tensors(s, r, s->o->save_only_model, &tensors, &n, err));
    r->plan.checkpoint_bytes = ckpt_snapshot_bytes(tensors, n, state_saves_in_place(s, r));
    mem_free(tensors);
    return SNUG_OK;
}

int needs_ranks(const struct session *s)
{
    return s->processes ? s->beside : s->compile.ranks > 1 ? s->compile.ranks : 1;
}

int64_t needs_host_bytes(const struct plan *p, int ranks)
{
    return ranks * (p->host_bytes + plan_transfer_bytes(p)) + needs_once_bytes(p);
}

int64_t needs_once_bytes(const struct plan *p)
{
    return p->checkpoint_bytes + p->metrics_bytes;
}

int64_t needs_bytes(const struct backend *b, const struct plan *p)
{
    return p->arena_bytes + (b->facts.host_memory ? p->host_bytes + needs_once_bytes(p) : 0);
}
