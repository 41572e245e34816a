/* snug predict: a line per row, in the order of the file: CSV, or JSON lines with --json. */
#include "base/str.h"
#include "cli/commands.h"
#include "cli/screen.h"

#include <string.h>

struct printer {
    const snug_session *s;
    bool json;
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

/* What is predicted: the likeliest label, or those of probability over 1/2 with ';' between them. */
static void put_prediction(struct printer *p, const double *values)
{
    struct str names = {0};
    char buf[32];
    int64_t n = snug_num_labels(p->s), best = 0;
    bool several = snug_problem_type(p->s) == SNUG_MULTI_LABEL;
    for (int64_t i = 1; i < n; i++)
        best = values[i] > values[best] ? i : best;
    for (int64_t i = 0; i < n; i++)
        if (several ? values[i] > 0.5 : i == best) {
            str_append(&names, names.n ? ";" : "");
            str_append(&names, label(p->s, i, buf));
        }
    p->line.failed |= names.failed;
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

static void put_row(void *ctx, int64_t index, const double *values)
{
    struct printer *p = ctx;
    char buf[32];
    bool number = snug_problem_type(p->s) == SNUG_REGRESSION;
    p->line.n = 0;
    str_printf(&p->line, p->json ? "{\"row\":%lld" : "%lld", (long long)index);
    if (!number) {
        str_append(&p->line, p->json ? ",\"label\":" : ",");
        put_prediction(p, values);
    }
    if (p->json)
        str_append(&p->line, number ? ",\"values\":{" : ",\"probabilities\":{");
    for (int64_t i = 0; i < snug_num_labels(p->s); i++) {
        str_append(&p->line, i || !p->json ? "," : "");
        if (p->json) {
            put_text(p, label(p->s, i, buf));
            str_append(&p->line, ":");
        }
        str_printf(&p->line, "%.6g", values[i]);
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
    if (!code && !p.json && snug_num_labels(p.s))
        put_header(&p);
    if (!code)
        code = snug_predict(c.session, put_row, &p, err);
    if (!code)
        code = str_check(&p.line, err);
    str_free(&p.line);
    return cli_close(&c, code);
}
