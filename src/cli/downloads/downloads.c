#include "cli/downloads/downloads.h"

#include "base/signals.h"
#include "cli/commands.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <unistd.h>

struct shown {
    bool terminal, drawn;
};

static void clear(struct shown *s)
{
    if (s->drawn)
        fputs("\r\033[J", stderr);
    s->drawn = false;
}

static void show_note(void *ctx, const char *line)
{
    clear(ctx);
    print_note(line);
}

static void show_progress(void *ctx, const struct hub_progress *p)
{
    struct shown *s = ctx;
    struct str line = {0};
    clear(s);
    if (!s->terminal || p->last)
        return;
    downloads_line(&line, p, terminal_columns(STDERR_FILENO));
    fputs(str_text(&line), stderr);
    fflush(stderr);
    s->drawn = true;
    str_free(&line);
}

/* Of the options or, where there is one, of a model's path. */
static int get(struct options *o, const char **model, struct snug_err *err)
{
    struct stop_flag stop = {0};
    struct shown s = {.terminal = terminal_redraws(STDERR_FILENO)};
    const struct hub_events events = {.note = show_note, .progress = show_progress, .ctx = &s, .stop = &stop};
    TRY(signals_install(&stop, err));
    int code = model ? hub_model(o, model, &io_posix, &events, err) : hub_options(o, &io_posix, &events, err);
    clear(&s);
    signals_restore();
    return code == SNUG_STOPPED ? stop_exit_code(&stop) : code;
}

int get_downloads(struct options *o, struct snug_err *err)
{
    return hub_is_asked(o, &io_posix) ? get(o, NULL, err) : SNUG_OK;
}

int get_model(struct options *o, const char **path, struct snug_err *err)
{
    return hub_model_is_asked(*path, &io_posix) ? get(o, path, err) : SNUG_OK;
}
