#include "cli/screen.h"

#include "cli/commands.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 24 };

static void clear_line(struct screen *s)
{
    if (s->drawn)
        fputs("\r\033[K", stdout);
    s->drawn = false;
}

static void show_note(void *ctx, const char *line)
{
    struct screen *s = ctx;
    clear_line(s);
    fflush(stdout);
    print_note(line);
}

static void put_time(double seconds, char *to, size_t room)
{
    long t = (long)(seconds + 0.5);
    if (t >= 3600)
        snprintf(to, room, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else
        snprintf(to, room, "%ld:%02ld", t / 60, t % 60);
}

static void put_numbers(const struct snug_progress *p)
{
    char left[32];
    put_time(p->seconds_left, left, sizeof left);
    printf("step %lld/%lld  epoch %.2f  loss %.4f  norm %.3f  lr %.3g  %.1f samples/s  %.0f tokens/s  %.0f MB  %s left",
           (long long)p->step, (long long)p->steps, p->epoch, p->loss, p->grad_norm, p->learning_rate,
           p->samples_per_second, p->tokens_per_second, (double)p->memory_bytes / 1e6, left);
}

static void show_plan(void *ctx)
{
    struct screen *s = ctx;
    if (s->plan)
        fputs(s->plan, stdout);
    fflush(stdout);
}

static void show_progress(void *ctx, const struct snug_progress *p)
{
    struct screen *s = ctx;
    s->now = *p;
    if (!s->terminal || s->json || (s->drawn && p->seconds - s->last < 0.1 && p->step < p->steps))
        return;
    int full = (int)(BAR * p->step / p->steps);
    fputs("\r\033[K[", stdout);
    for (int i = 0; i < BAR; i++)
        putchar(i < full ? '#' : '.');
    fputs("] ", stdout);
    put_numbers(p);
    fflush(stdout);
    s->drawn = true;
    s->last = p->seconds;
}

/* {"step": 3, …, "eval_loss": 0.5, …} as: evaluation at step 3: loss 0.5  … */
static void put_evaluation(json_t *o)
{
    const char *name;
    json_t *value;
    printf("evaluation at step %lld:", (long long)json_integer_value(json_object_get(o, "step")));
    json_object_foreach(o, name, value) if (!strncmp(name, "eval_", 5))
    {
        if (json_is_number(value))
            printf("  %s %.5g", name + 5, json_number_value(value));
        else if (json_is_string(value)) /* "NaN" */
            printf("  %s %s", name + 5, json_string_value(value));
    }
    putchar('\n');
}

/* A line of the log: evaluations are shown everywhere, steps where there is no progress line, with the log's mean loss. */
static void show_logged(void *ctx, const char *json)
{
    struct screen *s = ctx;
    json_t *o = json_loads(json, 0, NULL), *loss = json_object_get(o, "loss");
    if (s->json) {
        fputs(json, stdout);
    } else if (json_object_get(o, "eval_loss")) {
        clear_line(s);
        put_evaluation(o);
    } else if (!s->terminal) {
        s->now.loss = json_is_number(loss) ? json_number_value(loss) : NAN;
        put_numbers(&s->now);
        putchar('\n');
    }
    fflush(stdout);
    json_decref(o);
}

static void show_graph(void *ctx, const char *pass, const char *program, const char *text)
{
    const struct screen *s = ctx;
    if (s->dump && !strcmp(pass, s->dump))
        printf("# %s, after %s\n%s", program, pass, text);
}

void screen_end(struct screen *s)
{
    if (s->drawn)
        putchar('\n');
    s->drawn = false;
    fflush(stdout);
}

int cli_open(struct cli_session *c, struct options *o, struct snug_err *err)
{
    struct screen *s = &c->screen;
    s->terminal = isatty(STDOUT_FILENO);
    TRY(snug_stop_new(&c->stop, err));
    TRY(snug_stop_on_signals(c->stop, err));
    struct snug_events e = {.note = show_note,
                            .started = show_plan,
                            .progress = show_progress,
                            .logged = show_logged,
                            .dump = s->dump ? show_graph : NULL,
                            .ctx = s,
                            .stop = c->stop};
    return snug_open((snug_options *)o, SNUG_WHOLE_RUNS, &e, &c->session,
                     err); /* the handle is this struct: options.h */
}

int cli_close(struct cli_session *c, int code)
{
    screen_end(&c->screen);
    snug_close(c->session);
    if (code == SNUG_STOPPED && snug_stop_exit_code(c->stop))
        code = snug_stop_exit_code(c->stop);
    snug_stop_free(c->stop);
    return code;
}
