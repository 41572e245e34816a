/* When a run saves, what it saves, and which save is the best. */
#include "train/trainer.h"

#include "base/seconds.h"
#include "train/output_dir.h"
#include "train/session/processes/distant.h"

#include <math.h>
#include <string.h>

static int step_folder(const struct trainer *t, int64_t step, struct str *path, struct snug_err *err)
{
    str_printf(path, "%s/step-%08lld", t->o->output_dir, (long long)step);
    return str_check(path, err);
}

/* Whether the output folder has a checkpoint of that step: one that was resumed, or is the best so far, may lie in
 * another folder, or be gone. A process that follows the first one has no such folder. */
bool trainer_has_step(const struct trainer *t, int64_t step)
{
    struct str path = {0};
    struct ckpt_found found = {0};
    bool here = !t->s->follows && !step_folder(t, step, &path, NULL) &&
                !ckpt_find(t->s->output.io, str_text(&path), CKPT_QUICK, (struct ckpt_notes){0}, &found, NULL);
    ckpt_found_free(&found);
    str_free(&path);
    return here;
}

/* When stopping, whatever it takes to go on is saved. Nothing comes after that, so it is written from where it lies:
 * there may be no memory planned for a copy. */
int trainer_save(struct trainer *t, bool stopping, struct snug_err *err)
{
    struct ckpt_tensor *tensors;
    size_t n;
    json_t *doc = NULL;
    bool only_weights = t->o->save_only_model && !stopping;
    bool in_place = stopping && !distant_are(t->s, only_weights); /* whose processes do not wait for a disk */
    if (t->s->follows) {
        t->saved_step = only_weights ? t->saved_step : t->state.step;
        return distant_give(t->s, only_weights, err);
    }
    TRY(ckpt_folder_check(t->s->output.folder, err));
    log_flush(&t->log);
    t->state.log_bytes = t->log.bytes;
    TRY(state_tensors(t->s, &t->s->run, only_weights, &tensors, &n, err));
    int code = state_to_json(t->s, &t->state, only_weights, &doc, err);
    if (!code)
        code = (in_place || state_saves_in_place(t->s, &t->s->run) ? ckpt_save_in_place : ckpt_save_begin)(
            t->saver, t->state.step, t->state.best_step, tensors, n, doc, err);
    if (!code)
        code = distant_end(t->s, only_weights, err);
    if (code == SNUG_STOPPED && stopping)
        team_leave_arenas(t->s);
    if (!code && !only_weights)
        t->saved_step = t->state.step;
    json_decref(doc);
    mem_free(tensors);
    return code;
}

/* A signal: the state is saved unless it is already, and the run ends with SNUG_STOPPED. */
int trainer_stop(struct trainer *t, struct snug_err *err)
{
    if (t->s->follows) { /* the first process saves, and says so */
        if (t->state.step > 0 && t->saved_step != t->state.step)
            TRY(trainer_save(t, true, err));
        return err_set(err, SNUG_STOPPED, "stopped by a signal");
    }
    if (t->state.step == 0 && t->s->output.made)
        log_remove(&t->log);
    if (t->state.step == 0)
        tensorboard_remove(&t->board);
    if (t->state.step == 0)
        return err_set(err, SNUG_STOPPED, "stopped by a signal before the first step; there is nothing to save");
    if (t->saved_step != t->state.step)
        TRY(trainer_save(t, true, err));
    TRY(ckpt_save_wait(t->saver, err));
    return err_set(err, SNUG_STOPPED,
                   "stopped by a signal after step %lld, which is saved; go on with --resume-from-checkpoint %s",
                   (long long)t->state.step, t->o->output_dir);
}

bool trainer_save_due(const struct trainer *t, bool ends_epoch)
{
    struct moment now = trainer_moment(t, ends_epoch);
    bool last = now.step == now.total;
    switch (t->o->save_strategy) {
    case OPT_SAVE_STEPS:
        return last || due(OPT_WHEN_STEPS, t->o->save_steps, &now);
    case OPT_SAVE_EPOCH:
        return last || ends_epoch;
    case OPT_SAVE_BEST:
        return t->state.best_step == t->state.step;
    default:
        return false;
    }
}

/* An evaluation counts only where its weights can be had again: at a step that is saved. */
void trainer_keep_best(struct trainer *t, double value, bool ends_epoch)
{
    bool saved = t->o->save_strategy == OPT_SAVE_BEST || trainer_save_due(t, ends_epoch);
    bool better = t->o->greater_is_better ? value > t->state.best : value < t->state.best;
    if (saved && isfinite(value) && (t->state.best_step < 0 || better)) {
        t->state.best = value;
        t->state.best_step = t->state.step;
    }
}

/* The device or its memory is gone; what is left is on disk. */
int trainer_device_lost(struct trainer *t, int code, struct snug_err *err)
{
    struct snug_err why = err ? *err : (struct snug_err){0};
    const char *from = output_dir_resumes(t->o) ? output_dir_resume_source(t->o) : NULL;
    int64_t step = t->first_step;
    ckpt_save_wait(t->saver, NULL); /* one that is being written was copied before */
    if (!t->o->save_only_model && ckpt_saved_step(t->saver) > step) {
        step = ckpt_saved_step(t->saver);
        from = t->o->output_dir;
    }
    if (!step)
        return err_set(err, code, "step %lld: %s; there is no checkpoint to go on from, so start again",
                       (long long)t->state.step + 1, why.text);
    return err_set(err, code, "step %lld: %s; go on from step %lld, --resume-from-checkpoint %s",
                   (long long)t->state.step + 1, why.text, (long long)step, from);
}

int64_t trainer_result_step(const struct trainer *t)
{
    return t->o->load_best_model_at_end && t->state.best_step >= 0 ? t->state.best_step : t->state.step;
}

int trainer_load_best(struct trainer *t, struct snug_err *err)
{
    struct str path = {0};
    struct train_state ignored;
    if (trainer_result_step(t) == t->state.step)
        return SNUG_OK;
    int code = step_folder(t, t->state.best_step, &path, err);
    if (!code)
        code = state_resume(t->s, str_text(&path), 0, true, session_notes(t->s), &ignored, err);
    str_free(&path);
    return code;
}
