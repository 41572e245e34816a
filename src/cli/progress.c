#include "cli/progress.h"

#include "base/size.h"
#include "cli/terminal.h"

#include <string.h>

/* In the order of a line. */
enum part { STEP, EPOCH, LOSS, NORM, RATE, SAMPLES, TOKENS, MEMORY, LEFT, PARTS };

enum { BAR_LEAST = 10, BAR_MOST = 24, BAR_FRAME = 3, BETWEEN = 2 }; /* frame: brackets and a blank */

struct parts {
    struct str text[PARTS];
};

/* Columns that a part takes in most of its forms: what else is on the line must not come and go with one digit. */
static const int usual_columns[PARTS] = {
    [LOSS] = 11, [NORM] = 11, [RATE] = 11, [SAMPLES] = 15, [TOKENS] = 14, [LEFT] = 9};

static void put_time(struct str *out, double seconds)
{
    long t = (long)(seconds + 0.5);
    if (t >= 3600)
        str_printf(out, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else
        str_printf(out, "%ld:%02ld", t / 60, t % 60);
}

static void make_parts(struct parts *l, const struct snug_progress *p)
{
    char size[SIZE_TEXT_MAX];
    *l = (struct parts){0};
    str_printf(&l->text[STEP], "step %lld/%lld", (long long)p->step, (long long)p->steps);
    str_printf(&l->text[EPOCH], "epoch %.2f", p->epoch);
    str_printf(&l->text[LOSS], "loss %.4f", p->loss);
    str_printf(&l->text[NORM], "norm %.3f", p->grad_norm);
    str_printf(&l->text[RATE], "lr %.3g", p->learning_rate);
    str_printf(&l->text[SAMPLES], "%.1f samples/s", p->samples_per_second);
    str_printf(&l->text[TOKENS], "%.0f tokens/s", p->tokens_per_second);
    str_append(&l->text[MEMORY], size_text(p->memory_bytes, size));
    put_time(&l->text[LEFT], p->seconds_left);
    str_append(&l->text[LEFT], " left");
}

static void free_parts(struct parts *l)
{
    for (int i = 0; i < PARTS; i++)
        str_free(&l->text[i]);
}

static int room_for(const struct parts *l, enum part i)
{
    int columns = (int)l->text[i].n; /* ASCII */
    return columns > usual_columns[i] ? columns : usual_columns[i];
}

static void put_parts(struct str *out, const struct parts *l, const bool shown[PARTS])
{
    bool any = false;
    for (int i = 0; i < PARTS; i++)
        if (shown[i]) {
            str_printf(out, "%s%s", any ? "  " : "", str_text(&l->text[i]));
            any = true;
        }
}

/* Marks the first of `ranked` that fit beside each other, ends at PARTS; BAR stands for the bar's least columns and
 * tells whether it fits. Gives the columns that are used. */
enum { BAR = -1 };
static int choose_parts(const struct parts *l, const int *ranked, int columns, bool shown[PARTS], bool *bar)
{
    int used = 0;
    *bar = false;
    for (; *ranked != PARTS; ranked++) {
        int more = *ranked == BAR ? BAR_FRAME + BAR_LEAST : room_for(l, (enum part) * ranked) + (used ? BETWEEN : 0);
        if (used && used + more > columns)
            break;
        used += more;
        if (*ranked == BAR)
            *bar = true;
        else
            shown[*ranked] = true;
    }
    return used;
}

static void put_bar(struct str *out, const struct snug_progress *p, int columns)
{
    int full = p->steps ? (int)(columns * p->step / p->steps) : columns;
    str_append(out, "[");
    for (int i = 0; i < columns; i++)
        str_append(out, i < full ? "#" : ".");
    str_append(out, "] ");
}

void progress_whole(struct str *out, const struct snug_progress *p)
{
    struct parts l;
    bool shown[PARTS];
    make_parts(&l, p);
    memset(shown, true, sizeof shown);
    put_parts(out, &l, shown);
    free_parts(&l);
}

void progress_drawn(struct str *out, const struct snug_progress *p, int columns)
{
    static const int ranked[] = {STEP, LEFT, LOSS, BAR, SAMPLES, EPOCH, RATE, MEMORY, TOKENS, NORM, PARTS};
    struct parts l;
    bool shown[PARTS] = {false}, bar;
    make_parts(&l, p);
    int more = columns - 1 - choose_parts(&l, ranked, columns - 1, shown, &bar);
    if (bar)
        put_bar(out, p, more < BAR_MOST - BAR_LEAST ? BAR_LEAST + more : BAR_MOST);
    put_parts(out, &l, shown);
    free_parts(&l);
}

void progress_logged(struct str *out, const struct snug_progress *p, int columns)
{
    static const int ranked[] = {STEP, LOSS, EPOCH, RATE, NORM, SAMPLES, TOKENS, MEMORY, PARTS};
    struct parts l;
    bool shown[PARTS] = {false}, bar;
    make_parts(&l, p);
    choose_parts(&l, ranked, columns, shown, &bar);
    put_parts(out, &l, shown);
    free_parts(&l);
}
