/* snug train. */
#include "cli/commands.h"
#include "cli/screen.h"
#include "plan/report.h"

static void show_plan(const struct session *s)
{
    struct str out = {0};
    plan_report_text(&s->run.plan, &out);
    plan_heading(s, stdout);
    printf("arena: %lld bytes, %.3f %% above the lower bound; 'snug plan' shows what is in it\n",
           (long long)s->run.plan.arena_bytes,
           100.0 * ((double)s->run.plan.arena_bytes / (double)s->run.plan.lower_bound_bytes - 1));
    str_free(&out);
}

static void show_summary(const struct session *s, const struct train_summary *t)
{
    if (t->complete_before) {
        printf("already complete at step %lld\n", (long long)t->first_step);
        return;
    }
    printf("Time: %.2f\nSamples/second: %.2f\nTokens/second: %.0f\nMemory occupied: %.0f MB (arena, as planned: %.0f "
           "MB)\n",
           t->seconds, t->samples_per_second, t->tokens_per_second, (double)t->memory_bytes / 1e6,
           (double)t->arena_bytes / 1e6);
    printf("First step after %.2f s\nThe fine-tuned model, a Hugging Face folder: %s\n", t->first_step_seconds,
           s->o->output_dir);
}

int run_train(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct session s = {0};
    struct screen screen;
    struct stop_flag stop = {0};
    struct train_summary summary;
    (void)args;
    screen_open(&screen);
    TRY(signals_install(&stop, err));
    int code = session_open(&s, &io_posix, o, screen_notes(&screen), &stop, err);
    if (!code) {
        show_plan(&s);
        code = train_run(&s, screen_training(&screen), &summary, err);
        screen_close(&screen);
    }
    if (!code)
        show_summary(&s, &summary);
    session_close(&s);
    signals_restore();
    return code == SNUG_STOPPED && stop_exit_code(&stop) ? stop_exit_code(&stop) : code;
}
