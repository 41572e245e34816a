/* snug train. */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/screen.h"
#include "cli/terminal.h"
#include "output/own_json.h"
#include "output/record.h"

static void put_size(struct str *out, const char *before, int64_t bytes, const char *behind)
{
    char size[SIZE_TEXT_MAX];
    str_printf(out, "%s%s%s", before, size_text(bytes, size), behind);
}

static void put_gpu_memory(struct str *out, const snug_session *s, const struct snug_summary *t)
{
    int64_t arena = snug_peak_bytes(s);
    put_size(out, "memory   ", t->memory_bytes, " of the GPU in use:");
    put_size(out, " arena ", arena, " as planned,");
    put_size(out, " before the start ", t->before_bytes, ",");
    str_printf(out, " %d CUDA graph%s", t->graphs, t->graphs == 1 ? "" : "s");
    put_size(out, " ", t->graphs_bytes, "");
    str_printf(out, " made in %.2f s,", t->graphs_seconds);
    if (t->connected_bytes)
        put_size(out, " NCCL ", t->connected_bytes, ",");
    put_size(out, " CUDA and its libraries ",
             t->memory_bytes - arena - t->before_bytes - t->graphs_bytes - t->connected_bytes, "\n");
    if (t->host_bytes)
        put_size(out, "         ", t->host_bytes, " of the host for what is offloaded\n");
    if (t->disk_bytes)
        put_size(out, "         ", t->disk_bytes, " on disk for optimizer states\n");
    if (t->checkpoint_bytes)
        put_size(out, "         ", t->checkpoint_bytes, " of the host for a checkpoint's copy\n");
}

static void put_memory(struct str *out, const snug_session *s, const struct snug_summary *t)
{
    put_size(out, "memory   ", t->memory_bytes, " resident:");
    put_size(out, " planned ", snug_peak_bytes(s), "");
    if (t->host_bytes)
        put_size(out, ", offloaded ", t->host_bytes, "");
    if (t->checkpoint_bytes)
        put_size(out, ", a checkpoint's copy ", t->checkpoint_bytes, "");
    if (t->disk_bytes)
        put_size(out, "; on disk ", t->disk_bytes, ", of which the system keeps in memory what has room");
    str_append(out, "\n");
}

/* Four digits, and all of them before the point. */
static void put_rate(struct str *out, double rate)
{
    str_printf(out, rate < 1000 ? "%.4g" : "%.0f", rate);
}

static void put_summary(struct str *out, const snug_session *s, const struct snug_summary *t, const struct options *o)
{
    if (!t->steps) {
        str_printf(out, "already complete at step %lld\n", (long long)t->first_step);
    } else {
        struct snug_forecast f = snug_forecast(s);
        str_printf(out, "trained  %lld step%s in %.2f s, the first after %.2f s\nspeed    ", (long long)t->steps,
                   t->steps == 1 ? "" : "s", t->seconds, t->first_step_seconds);
        put_rate(out, t->samples_per_second);
        str_append(out, " samples/s");
        if (f.step_seconds > 0) {
            str_append(out, " (predicted ");
            put_rate(out, f.samples_per_second);
            str_append(out, ")");
        }
        str_printf(out, ", %.0f tokens/s\n         waited for data %.3f s, %.2f %%\n", t->tokens_per_second,
                   t->data_wait_seconds, 100 * t->data_wait_seconds / t->seconds);
        (t->gpu ? put_gpu_memory : put_memory)(out, s, t);
    }
    if (t->log_lines_missing)
        str_printf(out, "log      %lld lines are missing in log.jsonl\n", (long long)t->log_lines_missing);
    if (t->exported) {
        bool adapter = o->use_peft || o->adapter;
        str_append(out, adapter ? "adapter  " : "model    ");
        str_escape(out, o->output_dir);
        str_append(out,
                   adapter ? ", a folder of PEFT's form, for --adapter and snug merge\n" : ", a Hugging Face folder\n");
    }
}

/* The command that trains with the suggested rate. */
static int put_command(const struct options *o, double rate, struct str *out, struct snug_err *err)
{
    struct options trains = *o; /* whose texts are borrowed */
    trains.source[OPTION_learning_rate] = trains.source[OPTION_json] = FROM_DEFAULT;
    TRY(record_command(&trains, out, err));
    str_printf(out, " --learning-rate %.2g", rate);
    return SNUG_OK;
}

static int put_rate_test(struct str *out, const struct snug_summary *t, const struct options *o, struct snug_err *err)
{
    str_printf(out, "tested   %lld learning rate%s up to %.2g in %.2f s", (long long)t->steps, t->steps == 1 ? "" : "s",
               t->highest_rate, t->seconds);
    str_append(out, t->diverged ? "; there the loss had grown too much\n" : "\n");
    str_append(out, "picture  ");
    str_escape(out, o->output_dir);
    str_append(out, "/" RATE_PICTURE_NAME "; the numbers are in " RATE_TEST_NAME " beside it\n");
    if (!(t->suggested_rate > 0)) {
        str_append(out, "rate     none to suggest: the smoothed loss fell nowhere; look at the picture\n");
        return SNUG_OK;
    }
    str_printf(out, "rate     %.2g, the middle of the longest fall of the smoothed loss\ngo on    ", t->suggested_rate);
    int code = put_command(o, t->suggested_rate, out, err);
    str_append(out, "\n");
    return code;
}

/* Names as in the Trainer's last line, where it has them. */
static void print_summary_json(const snug_session *s, const struct snug_summary *t, const struct options *o)
{
    printf("{\"first_step\": %lld, \"steps\": %lld, \"arena_bytes\": %lld, \"host_bytes\": %lld, \"disk_bytes\": %lld, "
           "\"checkpoint_bytes\": %lld",
           (long long)t->first_step, (long long)t->steps, (long long)snug_peak_bytes(s), (long long)t->host_bytes,
           (long long)t->disk_bytes, (long long)t->checkpoint_bytes);
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
    if (t->connected_bytes)
        printf(", \"nccl_bytes\": %lld", (long long)t->connected_bytes);
    if (o->lr_find)
        printf(", \"diverged\": %s, \"highest_learning_rate\": %.17g", t->diverged ? "true" : "false", t->highest_rate);
    if (o->lr_find && t->suggested_rate > 0)
        printf(", \"suggested_learning_rate\": %.17g", t->suggested_rate);
    if (t->log_lines_missing)
        printf(", \"log_lines_missing\": %lld", (long long)t->log_lines_missing);
    printf("}\n");
}

static int show_result(struct str *out, const snug_session *s, const struct snug_summary *t, const struct options *o,
                       struct snug_err *err)
{
    if (o->json)
        print_summary_json(s, t, o);
    else if (o->lr_find)
        return put_rate_test(out, t, o, err);
    else
        put_summary(out, s, t, o);
    return SNUG_OK;
}

int run_train(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {.screen = {.json = o->json}};
    struct snug_summary summary;
    struct str text = {0};
    (void)args;
    int code = cli_open(&c, o, err);
    if (!code && !o->json)
        code = snug_plan_summary(c.session, &c.screen.plan, err);
    if (!code) {
        code = snug_train(c.session, &summary, err);
        screen_end(&c.screen);
    }
    if (!code && !options_follows(o))
        code = show_result(&text, c.session, &summary, o, err);
    print_wrapped(stdout, str_text(&text), PLAN_INDENT);
    str_free(&text);
    snug_free(c.screen.plan);
    return cli_close(&c, code);
}
