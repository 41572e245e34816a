/* snug train. */
#include "cli/commands.h"
#include "cli/screen.h"

/* In units of 2^20 bytes, as the guide does, whose line comes first. */
static void print_gpu_memory(const snug_session *s, const struct snug_summary *t)
{
    const double mib = 0x1p20;
    double used = (double)t->memory_bytes / mib, arena = (double)snug_peak_bytes(s) / mib,
           before = (double)t->before_bytes / mib, graphs = (double)t->graphs_bytes / mib;
    printf("GPU memory occupied: %lld MB.\n", (long long)(t->memory_bytes >> 20));
    printf(
        "  of it, in the same unit of 2^20 bytes: arena, as planned %.0f; before the start %.0f; %d CUDA graphs %.0f, "
        "made in %.2f s; CUDA and its libraries %.0f\n",
        arena, before, t->graphs, graphs, t->graphs_seconds, used - arena - before - graphs);
    if (t->checkpoint_bytes)
        printf("Memory of the host for a checkpoint's copy: %lld MB\n", (long long)(t->checkpoint_bytes >> 20));
}

static void print_memory(const snug_session *s, const struct snug_summary *t)
{
    printf("Memory occupied: %.0f MB (planned: arena %.0f MB", (double)t->memory_bytes / 1e6,
           (double)snug_peak_bytes(s) / 1e6);
    if (t->checkpoint_bytes)
        printf(", a checkpoint's copy %.0f MB", (double)t->checkpoint_bytes / 1e6);
    printf(")\n");
}

static void print_summary(const snug_session *s, const struct snug_summary *t, const char *output_dir)
{
    if (!t->steps) {
        printf("already complete at step %lld\n", (long long)t->first_step);
    } else {
        struct snug_forecast f = snug_forecast(s);
        printf("Time: %.2f\nSamples/second: %.2f", t->seconds, t->samples_per_second);
        if (f.step_seconds > 0)
            printf(" (predicted: %.2f)", f.samples_per_second);
        printf("\nTokens/second: %.0f\n", t->tokens_per_second);
        (t->gpu ? print_gpu_memory : print_memory)(s, t);
        printf("First step after %.2f s\nWaited for data: %.3f s, %.2f %%\n", t->first_step_seconds,
               t->data_wait_seconds, 100 * t->data_wait_seconds / t->seconds);
    }
    if (t->exported)
        printf("The fine-tuned model, a Hugging Face folder: %s\n", output_dir);
}

/* Names as in the Trainer's last line, where it has them. */
static void print_summary_json(const snug_session *s, const struct snug_summary *t)
{
    printf("{\"first_step\": %lld, \"steps\": %lld, \"arena_bytes\": %lld", (long long)t->first_step,
           (long long)t->steps, (long long)snug_peak_bytes(s));
    if (t->steps)
        printf(", \"train_runtime\": %.6f, \"train_samples_per_second\": %.6g, \"train_tokens_per_second\": %.6g, "
               "\"first_step_seconds\": %.6f, \"data_wait_seconds\": %.6f, \"memory\": %lld",
               t->seconds, t->samples_per_second, t->tokens_per_second, t->first_step_seconds, t->data_wait_seconds,
               (long long)t->memory_bytes);
    if (t->steps && snug_forecast(s).step_seconds > 0)
        printf(", \"predicted_samples_per_second\": %.6g", snug_forecast(s).samples_per_second);
    if (t->steps && t->gpu)
        printf(", \"memory_before\": %lld, \"cuda_graphs\": %d, \"cuda_graphs_bytes\": %lld, \"cuda_graphs_seconds\": "
               "%.6f",
               (long long)t->before_bytes, t->graphs, (long long)t->graphs_bytes, t->graphs_seconds);
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
        print_summary(c.session, &summary, o->output_dir);
    snug_free(c.screen.plan);
    return cli_close(&c, code);
}
