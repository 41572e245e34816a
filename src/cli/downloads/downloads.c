#include "cli/downloads/downloads.h"

#include "base/signals.h"
#include "base/size.h"
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

static void put_bar(struct str *out, const struct hub_progress *p, int columns)
{
    int full = p->total > 0 ? (int)((double)columns * (double)p->done / (double)p->total) : 0;
    str_append(out, "[");
    for (int i = 0; i < columns; i++)
        str_append(out, i < full ? "#" : ".");
    str_append(out, "] ");
}

void downloads_line(struct str *out, const struct hub_progress *p, int columns)
{
    enum { BAR = 16, LEAST = 60 };
    char done[SIZE_TEXT_MAX], total[SIZE_TEXT_MAX], speed[SIZE_TEXT_MAX];
    struct str line = {0};
    double rate = p->seconds > 0 ? (double)p->came / p->seconds : 0;
    if (columns >= LEAST)
        put_bar(&line, p, BAR);
    str_append(&line, size_text(p->done, done));
    if (p->total >= p->done)
        str_printf(&line, " of %s", size_text(p->total, total));
    if (rate >= 1)
        str_printf(&line, "  %s/s", size_text((int64_t)rate, speed));
    if (rate >= 1 && p->total >= p->done) {
        long left = (long)((double)(p->total - p->done) / rate + 0.5);
        str_printf(&line, "  %ld:%02ld:%02ld left", left / 3600, left / 60 % 60, left % 60);
    }
    str_append(&line, "  ");
    str_escape(&line, p->file ? p->file : p->repository);
    text_cut(out, str_text(&line), columns - 1);
    str_free(&line);
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

int get_downloads(struct options *o, struct snug_err *err)
{
    struct stop_flag stop = {0};
    struct shown s = {.terminal = terminal_redraws(STDERR_FILENO)};
    const struct hub_events events = {.note = show_note, .progress = show_progress, .ctx = &s, .stop = &stop};
    if (!hub_is_asked(o, &io_posix))
        return SNUG_OK;
    TRY(signals_install(&stop, err));
    int code = hub_options(o, &io_posix, &events, err);
    clear(&s);
    signals_restore();
    return code == SNUG_STOPPED ? stop_exit_code(&stop) : code;
}
