/* snug predict: a line per row, in the order of the file: CSV, or JSON lines with --json. */
#include "base/str.h"
#include "cli/commands.h"
#include "cli/screen.h"

#include <math.h>
#include <string.h>

struct printer {
    const snug_session *s;
    bool json, begun;
    struct str line;
};

/* A class without a name of its own is LABEL_id, as in transformers. */
static const char *label(const snug_session *s, int64_t id, char buf[32])
{
    const char *name = snug_label(s, id);
    snprintf(buf, 32, "LABEL_%lld", (long long)id);
    return name ? name : buf;
}

static void put_text(struct printer *p, const char *text)
{
    if (p->json) {
        str_json(&p->line, text);
        return;
    }
    bool quote = strpbrk(text, ",\"\r\n") != NULL;
    str_append(&p->line, quote ? "\"" : "");
    for (; *text; text++)
        str_append_n(&p->line, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    str_append(&p->line, quote ? "\"" : "");
}

static void put_likeliest(struct printer *p, const double *values)
{
    char buf[32];
    int64_t best = 0;
    for (int64_t i = 1; i < snug_num_labels(p->s); i++)
        best = values[i] > values[best] ? i : best;
    put_text(p, label(p->s, best, buf));
}

/* The labels of probability over 1/2: a JSON array, or with ';' between them. */
static void put_several(struct printer *p, const double *values)
{
    struct str names = {0};
    char buf[32];
    for (int64_t i = 0; i < snug_num_labels(p->s); i++) {
        if (values[i] <= 0.5)
            continue;
        str_append(&names, names.n ? p->json ? "," : ";" : "");
        if (p->json)
            str_json(&names, label(p->s, i, buf));
        else
            str_append(&names, label(p->s, i, buf));
    }
    p->line.failed |= names.failed;
    if (p->json)
        str_printf(&p->line, "[%s]", str_text(&names));
    else
        put_text(p, str_text(&names));
    str_free(&names);
}

static void put_header(struct printer *p)
{
    char buf[32];
    str_append(&p->line, snug_problem_type(p->s) == SNUG_REGRESSION ? "row" : "row,label");
    for (int64_t i = 0; i < snug_num_labels(p->s); i++) {
        str_append(&p->line, ",");
        put_text(p, label(p->s, i, buf));
    }
    puts(str_text(&p->line));
}

static void put_value(struct printer *p, double x)
{
    if (p->json && !isfinite(x))
        str_append(&p->line, "null");
    else
        str_printf(&p->line, "%.6g", x);
}

static void put_row(void *ctx, int64_t index, const double *values)
{
    struct printer *p = ctx;
    char buf[32];
    bool number = snug_problem_type(p->s) == SNUG_REGRESSION;
    if (!p->begun && !p->json)
        put_header(p);
    p->begun = true;
    p->line.n = 0;
    str_printf(&p->line, p->json ? "{\"row\":%lld" : "%lld", (long long)index);
    if (!number) {
        str_append(&p->line, p->json ? ",\"label\":" : ",");
        if (snug_problem_type(p->s) == SNUG_MULTI_LABEL)
            put_several(p, values);
        else
            put_likeliest(p, values);
    }
    if (p->json)
        str_append(&p->line, number ? ",\"values\":{" : ",\"probabilities\":{");
    for (int64_t i = 0; i < snug_num_labels(p->s); i++) {
        str_append(&p->line, i || !p->json ? "," : "");
        if (p->json) {
            put_text(p, label(p->s, i, buf));
            str_append(&p->line, ":");
        }
        put_value(p, values[i]);
    }
    str_append(&p->line, p->json ? "}}" : "");
    puts(str_text(&p->line));
}

int run_predict(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {0};
    struct printer p = {.json = o->json};
    (void)args;
    int code = cli_open(&c, o, err);
    p.s = c.session;
    if (!code)
        code = snug_predict(c.session, put_row, &p, err);
    if (!code)
        code = str_check(&p.line, err);
    str_free(&p.line);
    return cli_close(&c, code);
}
