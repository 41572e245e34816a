#include "train/own_loop.h"

#include "train/train.h"

#include <math.h>

static int start(struct own_loop *l, struct session *s, struct snug_err *err)
{
    int64_t per_epoch;
    if (!s->has_train || s->run.where.first < 0)
        return err_set(err, SNUG_ERR_USAGE, "there is nothing to train; open a session of train with SNUG_OWN_LOOP");
    if (!s->loaded)
        return err_set(err, SNUG_ERR_USAGE, "the weights are not there; call snug_load first");
    train_steps(s, &l->steps, &per_epoch);
    l->schedule = schedule_of(s->o, l->steps);
    l->averaging = average_rule_of(s->o, l->steps);
    if (schedule_follows_metric(s->o))
        return err_set(err, SNUG_ERR_USAGE,
                       "--lr-scheduler-type: in an own loop nobody evaluates for it; take one that goes by steps, or "
                       "choose the rate yourself");
    return train_open_loader(s, NULL, 0, l->steps, &l->order, &l->loader, err);
}

int own_loop_next(struct own_loop *l, struct session *s, struct snug_window *w, struct snug_err *err)
{
    *w = (struct snug_window){0};
    if (!l->loader)
        TRY(start(l, s, err));
    TRY(loader_next(l->loader, &l->window, err));
    l->done = 0;
    l->loss = 0;
    if (l->window)
        *w = (struct snug_window){.step = l->window->step,
                                  .steps = l->steps,
                                  .epoch = l->window->epoch,
                                  .n_micro = l->window->n_micro,
                                  .samples = l->window->n_samples,
                                  .tokens = l->window->n_tokens,
                                  .learning_rate = schedule_rate(&l->schedule, l->updates)};
    return SNUG_OK;
}

static int no_window(struct snug_err *err)
{
    return err_set(err, SNUG_ERR_USAGE, "there is no window, or its update is made; call snug_next first");
}

static struct step_inputs inputs_of(const struct own_loop *l, const struct session *s, double learning_rate)
{
    return (struct step_inputs){.step = l->window->step,
                                .update = l->updates + 1,
                                .learning_rate = learning_rate,
                                .n = stepper_targets(&s->stepper, l->window),
                                .scaled = precision_scales(&s->compile.precision) && isfinite(l->loss)};
}

int own_loop_forward_backward(struct own_loop *l, struct session *s, int i, double *loss, struct snug_err *err)
{
    if (!l->window)
        return no_window(err);
    if (i != l->done || i >= l->window->n_micro)
        return err_set(err, SNUG_ERR_USAGE, "micro-batch %d: %d of %d are done; take each once, in order, from 0", i,
                       l->done, l->window->n_micro);
    struct step_inputs in = inputs_of(l, s, 0);
    TRY(stepper_micro(&s->stepper, l->window, i, &in, loss, err));
    l->done++;
    l->loss += *loss;
    return SNUG_OK;
}

int own_loop_update(struct own_loop *l, struct session *s, double learning_rate, double *grad_norm,
                    struct snug_err *err)
{
    if (!l->window)
        return no_window(err);
    if (l->done < l->window->n_micro)
        return err_set(err, SNUG_ERR_USAGE,
                       "only %d of the window's %d micro-batches are done; call snug_forward_backward for the others",
                       l->done, l->window->n_micro);
    struct step_result r;
    struct step_inputs in = inputs_of(l, s, learning_rate);
    struct average_step average = average_next(&l->averaging, &l->average, learning_rate, l->updates + 1);
    in.learning_rate = average.rate;
    in.average = average.share;
    long long step = l->window->step + 1;
    l->window = NULL;
    TRY(stepper_update(&s->stepper, &in, &r, err));
    if (grad_norm)
        *grad_norm = r.grad_norm;
    if (!r.finite && !in.scaled)
        return err_set(err, SNUG_ERR_NUMERIC,
                       "step %lld: the gradient norm is %g, first in %s; lower the learning rate", step, r.grad_norm,
                       r.where);
    l->updates += r.finite;
    l->average = r.finite ? average.after : l->average;
    return SNUG_OK;
}

void own_loop_close(struct own_loop *l)
{
    loader_close(l->loader);
    order_close(&l->order);
}
