#include "cli/screen.h"

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* A window that became narrower has broken the line that stands there into several. */
static void clear_line(struct screen *s)
{
    int columns = terminal_columns(STDOUT_FILENO);
    if (s->drawn && columns)
        for (int above = (s->drawn - 1) / columns; above > 0; above--)
            fputs("\033[A", stdout);
    if (s->drawn)
        fputs("\r\033[J", stdout);
    s->drawn = 0;
}

static void show_note(void *ctx, const char *line)
{
    struct screen *s = ctx;
    pthread_mutex_lock(&s->lock);
    clear_line(s);
    fflush(stdout);
    print_note(line);
    pthread_mutex_unlock(&s->lock);
}

static void show_plan(void *ctx)
{
    struct screen *s = ctx;
    if (s->plan)
        print_wrapped(stdout, s->plan, PLAN_INDENT);
    fflush(stdout);
}

static void draw_progress(struct screen *s, const struct snug_progress *p)
{
    struct str line = {0};
    s->now = *p;
    if (!s->terminal || s->json || (s->drawn && p->seconds - s->last < 0.1 && p->step < p->steps))
        return;
    progress_drawn(&line, p, terminal_columns(STDOUT_FILENO));
    clear_line(s);
    fputs(str_text(&line), stdout);
    fflush(stdout);
    s->drawn = (int)line.n;
    s->last = p->seconds;
    str_free(&line);
}

static void show_progress(void *ctx, const struct snug_progress *p)
{
    struct screen *s = ctx;
    pthread_mutex_lock(&s->lock);
    draw_progress(s, p);
    pthread_mutex_unlock(&s->lock);
}

/* "  f1 0.5"; whether it fitted the columns, of which 0 are as many as are wanted. */
static bool put_metric(struct str *out, const char *name, const json_t *value, int columns)
{
    struct str text = {0};
    if (json_is_number(value))
        str_printf(&text, "  %s %.5g", name, json_number_value(value));
    else if (json_is_string(value)) /* "NaN" */
        str_printf(&text, "  %s %s", name, json_string_value(value));
    bool fits = !columns || out->n + text.n <= (size_t)columns;
    if (fits)
        str_append(out, str_text(&text));
    str_free(&text);
    return fits;
}

/* {"step": 3, …, "eval_loss": 0.5, …} as: evaluation at step 3:  loss 0.5  … On a terminal a line has what fits: the
 * metric for the best model, then the others in their order, the more important first. */
static void put_evaluation(struct str *out, const struct screen *s, json_t *o)
{
    int columns = s->terminal ? terminal_columns(STDOUT_FILENO) : 0;
    const char *name, *best = s->best_metric ? s->best_metric : "loss";
    char member[64];
    json_t *value;
    snprintf(member, sizeof member, "eval_%s", strncmp(best, "eval_", 5) ? best : best + 5);
    str_printf(out, "evaluation at step %lld:", (long long)json_integer_value(json_object_get(o, "step")));
    bool fits = put_metric(out, member + 5, json_object_get(o, member), columns);
    json_object_foreach(o, name, value) if (fits && !strncmp(name, "eval_", 5) && strcmp(name, member) != 0) fits =
        put_metric(out, name + 5, value, columns);
}

/* A text on one line: all of it, or its last `most` bytes. */
static void put_end(struct str *out, const char *name, const json_t *value, size_t most)
{
    const char *text = json_string_value(value) ? json_string_value(value) : "";
    size_t n = strlen(text), from = n > most ? n - most : 0;
    while (from && ((unsigned char)text[from] & 0xC0) == 0x80) /* not within a character */
        from++;
    str_printf(out, "  %-10s %s", name, from ? "…" : "");
    for (const char *at = text + from; *at;) {
        size_t line = strcspn(at, "\n");
        struct str part = {0};
        str_append_n(&part, at, line);
        str_escape(out, str_text(&part));
        str_free(&part);
        at += line;
        if (*at && at++)
            str_append(out, "\\n");
    }
    str_append(out, "\n");
}

/* {…, "eval_sample": 3, "prompt": …, "expected": …, "generated": …} in four lines. */
static void put_sample(struct str *out, const json_t *o)
{
    str_printf(out, "row %lld, answered at step %lld\n",
               (long long)json_integer_value(json_object_get(o, "eval_sample")),
               (long long)json_integer_value(json_object_get(o, "step")));
    put_end(out, "prompt", json_object_get(o, "prompt"), 200);
    put_end(out, "expected", json_object_get(o, "expected"), 1000);
    put_end(out, "generated", json_object_get(o, "generated"), 1000);
}

/* A step of the log, with the log's mean loss. */
static void put_step(struct str *out, struct screen *s, const json_t *o)
{
    const json_t *loss = json_object_get(o, "loss");
    s->now.loss = json_is_number(loss) ? json_number_value(loss) : NAN;
    if (s->terminal)
        progress_logged(out, &s->now, terminal_columns(STDOUT_FILENO));
    else
        progress_whole(out, &s->now);
}

/* A line of the log, which stays; on a terminal the progress line goes on below it. */
static void show_logged(void *ctx, const char *json)
{
    struct screen *s = ctx;
    struct str line = {0};
    if (s->json) {
        fputs(json, stdout);
        fflush(stdout);
        return;
    }
    json_t *o = json_loads(json, 0, NULL);
    if (json_object_get(o, "eval_loss"))
        put_evaluation(&line, s, o);
    else if (json_object_get(o, "eval_sample"))
        put_sample(&line, o);
    else
        put_step(&line, s, o);
    if (!json_object_get(o, "eval_sample"))
        str_append(&line, "\n");
    pthread_mutex_lock(&s->lock);
    clear_line(s);
    print_wrapped(stdout, str_text(&line), 2);
    fflush(stdout);
    pthread_mutex_unlock(&s->lock);
    json_decref(o);
    str_free(&line);
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
    s->drawn = 0;
    fflush(stdout);
}

int cli_open(struct cli_session *c, struct options *o, struct snug_err *err)
{
    struct screen *s = &c->screen;
    pthread_mutex_init(&s->lock, NULL);
    s->terminal = terminal_redraws(STDOUT_FILENO);
    s->best_metric = o->metric_for_best_model;
    TRY(snug_stop_new(&c->stop, err));
    TRY(snug_stop_on_signals(c->stop, err));
    struct snug_events e = {.note = show_note,
                            .started = show_plan,
                            .progress = show_progress,
                            .logged = show_logged,
                            .dump = s->dump ? show_graph : NULL,
                            .ctx = s,
                            .stop = c->stop};
    if (options_follows(o)) /* the first process shows what all do */
        e = (struct snug_events){.stop = c->stop};
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
    pthread_mutex_destroy(&c->screen.lock);
    return code;
}
