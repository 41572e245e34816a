/* Predictions of question answering: a line a question, with its answer, and with --top-k the likeliest ones. */
#include "cli/predictions.h"
#include "cli/terminal.h"

#include <string.h>

enum { ROW_COLUMNS = 4, GAP = 2, PROBABILITY_COLUMNS = 6, LEAST_TEXT = 16 };

/* As text with a 0 behind it. */
static void copy(const struct snug_answer *a, struct str *s)
{
    s->n = 0;
    str_append(s, "");
    str_append_n(s, a->text, a->bytes);
}

static int64_t shown(const struct predictions *p)
{
    int64_t n = snug_answers(p->s);
    return p->top < n ? p->top : n;
}

static void put_json_answer(struct predictions *p, int i, const char *name)
{
    struct snug_answer a = snug_answer(p->s, i);
    struct str text = {0};
    copy(&a, &text);
    str_printf(&p->line, "\"%s\":", name);
    str_json_printed(&p->line, a.bytes ? str_text(&text) : "");
    str_append(&p->line, ",\"probability\":");
    str_json_number(&p->line, a.probability, 6);
    p->line.failed |= text.failed;
    str_free(&text);
}

static void put_json(struct predictions *p, int64_t index)
{
    str_printf(&p->line, "{\"row\":%lld,", (long long)index);
    if (snug_question_id(p->s)) {
        str_append(&p->line, "\"id\":");
        str_json_printed(&p->line, snug_question_id(p->s));
        str_append(&p->line, ",");
    }
    put_json_answer(p, 0, "answer");
    if (p->top) {
        str_append(&p->line, ",\"answers\":[");
        for (int i = 0; i < shown(p); i++) {
            str_append(&p->line, i ? ",{" : "{");
            put_json_answer(p, i, "text");
            str_append(&p->line, "}");
        }
        str_append(&p->line, "]");
    }
    str_append(&p->line, ",\"question\":");
    str_json_printed(&p->line, snug_question(p->s));
    str_append(&p->line, "}\n");
}

static void put_csv_answer(struct predictions *p, int i)
{
    struct snug_answer a = snug_answer(p->s, i);
    struct str text = {0};
    copy(&a, &text);
    predictions_put_csv(p, a.bytes ? str_text(&text) : "");
    str_printf(&p->line, ",%.6g,", a.probability);
    p->line.failed |= text.failed;
    str_free(&text);
}

/* With --top-k there are so many columns in each row, whatever it has. */
static void put_csv(struct predictions *p, int64_t index)
{
    int64_t n = p->top ? p->top : 1;
    if (!p->begun) {
        str_append(&p->line, "row,id,");
        for (int64_t i = 0; i < n; i++)
            if (p->top)
                str_printf(&p->line, "answer_%lld,probability_%lld,", (long long)i + 1, (long long)i + 1);
            else
                str_append(&p->line, "answer,probability,");
        str_append(&p->line, "question\n");
    }
    str_printf(&p->line, "%lld,", (long long)index);
    predictions_put_csv(p, snug_question_id(p->s) ? snug_question_id(p->s) : "");
    str_append(&p->line, ",");
    for (int i = 0; i < n; i++)
        if (i < snug_answers(p->s))
            put_csv_answer(p, i);
        else
            str_append(&p->line, ",,");
    predictions_put_csv(p, snug_question(p->s));
    str_append(&p->line, "\n");
}

static void put_table(struct predictions *p, int64_t index)
{
    int left = p->columns - ROW_COLUMNS - PROBABILITY_COLUMNS - 2 * GAP;
    if (!p->begun)
        str_printf(&p->line, "%*s%*s%*s%*sanswer\n", ROW_COLUMNS, "row", GAP, "", PROBABILITY_COLUMNS, "prob.", GAP,
                   "");
    for (int i = 0; i < (p->top ? shown(p) : 1); i++) {
        struct snug_answer a = snug_answer(p->s, i);
        struct str text = {0}, clean = {0};
        copy(&a, &text);
        str_escape(&clean, a.bytes ? str_text(&text) : "(none)");
        str_printf(&p->line, "%*lld%*s%*.4f%*s", ROW_COLUMNS, (long long)index, GAP, "", PROBABILITY_COLUMNS,
                   a.probability, GAP, "");
        text_cut(&p->line, str_text(&clean), left > LEAST_TEXT ? left : LEAST_TEXT);
        str_append(&p->line, "\n");
        p->line.failed |= clean.failed || text.failed;
        str_free(&text);
        str_free(&clean);
    }
}

void prediction_answers_row(struct predictions *p, int64_t index)
{
    if (p->json)
        put_json(p, index);
    else if (p->columns)
        put_table(p, index);
    else
        put_csv(p, index);
}
