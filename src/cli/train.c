/* snug train. */
#include "cli/commands.h"
#include "cli/screen.h"

static void print_summary(const snug_session *s, const struct snug_summary *t, const char *output_dir)
{
    if (!t->steps) {
        printf("already complete at step %lld\nThe fine-tuned model, a Hugging Face folder: %s\n",
               (long long)t->first_step, output_dir);
        return;
    }
    printf("Time: %.2f\nSamples/second: %.2f\nTokens/second: %.0f\n", t->seconds, t->samples_per_second,
           t->tokens_per_second);
    printf("Memory occupied: %.0f MB (arena, as planned: %.0f MB)\nFirst step after %.2f s\n",
           (double)t->memory_bytes / 1e6, (double)snug_peak_bytes(s) / 1e6, t->first_step_seconds);
    printf("The fine-tuned model, a Hugging Face folder: %s\n", output_dir);
}

int run_train(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {0};
    struct snug_summary summary;
    (void)args;
    int code = cli_open(&c, o, err);
    if (!code)
        code = snug_plan_summary(c.session, &c.screen.plan, err);
    if (!code) {
        code = snug_train(c.session, &summary, err);
        screen_end(&c.screen);
    }
    if (!code)
        print_summary(c.session, &summary, o->output_dir);
    snug_free(c.screen.plan);
    return cli_close(&c, code);
}
