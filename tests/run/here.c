#include "here.h"

#include <signal.h>

char notes[1 << 14];

struct watcher {
    snug_stop *stop;
    int64_t stop_at;
};

static void note(void *ctx, const char *line)
{
    (void)ctx;
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof notes - n, "%s\n", line);
}

static void begin(void *ctx)
{
    struct watcher *w = ctx;
    if (w->stop_at == AT_START)
        snug_stop_ask(w->stop, SIGTERM);
}

static void watch(void *ctx, const struct snug_progress *p)
{
    struct watcher *w = ctx;
    if (p->step == w->stop_at)
        snug_stop_ask(w->stop, SIGTERM);
}

static void set_options(snug_options *o, const char *const *args)
{
    struct snug_err err;
    for (; *args; args += 2)
        if (snug_options_set(o, args[0] + strlen("--"), args[1], &err))
            fail_msg("%s", err.text);
}

int train_here(const char *const *const *lists, int64_t stop_at, struct snug_summary *summary, struct snug_err *err)
{
    snug_options *o;
    snug_session *s = NULL;
    struct watcher watcher = {.stop_at = stop_at};
    notes[0] = 0;
    assert_int_equal(snug_options_new("train", &o, err), SNUG_OK);
    assert_int_equal(snug_stop_new(&watcher.stop, err), SNUG_OK);
    for (; *lists; lists++)
        set_options(o, *lists);
    struct snug_events events = {
        .ctx = &watcher, .note = note, .started = begin, .progress = watch, .stop = watcher.stop};
    int code = snug_open(o, SNUG_WHOLE_RUNS, &events, &s, err);
    if (!code)
        code = snug_train(s, summary, err);
    snug_close(s);
    snug_options_free(o);
    snug_stop_free(watcher.stop);
    return code;
}

struct snug_summary train_to_the_end(const char *const *const *lists)
{
    struct snug_summary summary;
    struct snug_err err;
    if (train_here(lists, NEVER, &summary, &err))
        fail_msg("%s", err.text);
    return summary;
}
