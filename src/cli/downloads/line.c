#include "base/size.h"
#include "cli/downloads/downloads.h"
#include "cli/terminal.h"

static void put_bar(struct str *out, const struct hub_progress *p, int columns)
{
    int full = p->total > 0 ? (int)((double)columns * (double)p->done / (double)p->total) : 0;
    str_append(out, "[");
    for (int i = 0; i < columns; i++)
        str_append(out, i < full ? "#" : ".");
    str_append(out, "] ");
}

static void put_left(struct str *out, double seconds)
{
    long t = (long)(seconds + 0.5);
    if (t >= 3600)
        str_printf(out, "  %ld:%02ld:%02ld left", t / 3600, t / 60 % 60, t % 60);
    else
        str_printf(out, "  %ld:%02ld left", t / 60, t % 60);
}

void downloads_line(struct str *out, const struct hub_progress *p, int columns)
{
    enum { BAR = 16, LEAST = 60 };
    char done[SIZE_TEXT_MAX], total[SIZE_TEXT_MAX], speed[SIZE_TEXT_MAX];
    struct str line = {0};
    double rate = p->seconds >= 1 ? (double)p->came / p->seconds : 0; /* earlier it says little */
    if (columns >= LEAST)
        put_bar(&line, p, BAR);
    str_append(&line, size_text(p->done, done));
    if (p->total >= p->done)
        str_printf(&line, " of %s", size_text(p->total, total));
    if (rate >= 1)
        str_printf(&line, "  %s/s", size_text((int64_t)rate, speed));
    if (rate >= 1 && p->total >= p->done)
        put_left(&line, (double)(p->total - p->done) / rate);
    str_append(&line, "  ");
    str_escape(&line, p->file ? p->file : p->repository);
    text_cut(out, str_text(&line), columns - 1);
    str_free(&line);
}
