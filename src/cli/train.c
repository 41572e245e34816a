/* snug train. */
#include "cli/commands.h"
#include "cli/screen.h"

static void print_summary(const snug_session *s, const struct snug_summary *t, const struct options *o)
{
    if (!t->steps) {
        printf("already complete at step %lld\n", (long long)t->first_step);
    } else {
        printf(
            "Time: %.2f\nSamples/second: %.2f\nTokens/second: %.0f\nMemory occupied: %.0f MB (planned: arena %.0f MB",
            t->seconds, t->samples_per_second, t->tokens_per_second, (double)t->memory_bytes / 1e6,
            (double)snug_peak_bytes(s) / 1e6);
        if (t->checkpoint_bytes)
            printf(", a checkpoint's copy %.0f MB", (double)t->checkpoint_bytes / 1e6);
        printf(")\nFirst step after %.2f s\n", t->first_step_seconds);
    }
    if (!o->discard_model)
        printf("The fine-tuned model, a Hugging Face folder: %s\n", o->output_dir);
}

/* Names as in the Trainer's last line, where it has them. */
static void print_summary_json(const snug_session *s, const struct snug_summary *t)
{
    printf("{\"first_step\": %lld, \"steps\": %lld, \"arena_bytes\": %lld", (long long)t->first_step,
           (long long)t->steps, (long long)snug_peak_bytes(s));
    if (t->steps)
        printf(", \"train_runtime\": %.6f, \"train_samples_per_second\": %.6g, \"train_tokens_per_second\": %.6g, "
               "\"first_step_seconds\": %.6f, \"memory\": %lld",
               t->seconds, t->samples_per_second, t->tokens_per_second, t->first_step_seconds,
               (long long)t->memory_bytes);
    printf("}\n");
}

int run_train(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {.screen = {.json = o->json}};
    struct snug_summary summary;
    (void)args;
    int code = cli_open(&c, o, err);
    if (!code && !o->json)
        code = snug_plan_summary(c.session, &c.screen.plan, err);
    if (!code) {
        code = snug_train(c.session, &summary, err);
        screen_end(&c.screen);
    }
    if (!code && o->json)
        print_summary_json(c.session, &summary);
    else if (!code)
        print_summary(c.session, &summary, o);
    snug_free(c.screen.plan);
    return cli_close(&c, code);
}
