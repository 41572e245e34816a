/* Predictions of token classification: a tag for each word. JSON has a line a row, with lists; CSV and the table for people a line
 * a word. */
#include "cli/predictions.h"
#include "cli/report.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>

enum { ROW_COLUMNS = 4, GAP = 2, PROBABILITY_COLUMNS = 6, LEAST_WORD = 10 };

/* The likeliest label of a word, -1 where the word has no prediction. */
static int64_t tag_of(const struct predictions *p, const double *values, int64_t word)
{
    int64_t n = snug_num_labels(p->s), best = 0;
    const double *v = values + word * n;
    for (int64_t i = 1; i < n; i++)
        best = v[i] > v[best] ? i : best;
    return isnan(v[best]) ? -1 : best;
}

static double probability(const struct predictions *p, const double *values, int64_t word, int64_t tag)
{
    return values[word * snug_num_labels(p->s) + tag];
}

static void put_json(struct predictions *p, int64_t index, const double *values)
{
    int64_t n = snug_words(p->s);
    char buf[32];
    str_printf(&p->line, "{\"row\":%lld,\"tags\":[", (long long)index);
    for (int64_t w = 0; w < n; w++) {
        int64_t tag = tag_of(p, values, w);
        str_append(&p->line, w ? "," : "");
        if (tag < 0)
            str_append(&p->line, "null");
        else
            str_json_printed(&p->line, label_name(p->s, tag, buf));
    }
    str_append(&p->line, "],\"probabilities\":[");
    for (int64_t w = 0; w < n; w++) {
        int64_t tag = tag_of(p, values, w);
        str_append(&p->line, w ? "," : "");
        if (tag < 0)
            str_append(&p->line, "null");
        else
            str_json_number(&p->line, probability(p, values, w, tag), 6);
    }
    str_append(&p->line, "]");
    if (n && snug_word(p->s, 0)) {
        str_append(&p->line, ",\"words\":[");
        for (int64_t w = 0; w < n; w++) {
            str_append(&p->line, w ? "," : "");
            str_json_printed(&p->line, snug_word(p->s, w));
        }
        str_append(&p->line, "]");
    }
    str_append(&p->line, "}\n");
}

static void put_csv(struct predictions *p, int64_t index, const double *values)
{
    char buf[32];
    if (!p->begun)
        str_append(&p->line, "row,word,tag,probability\n");
    for (int64_t w = 0; w < snug_words(p->s); w++) {
        int64_t tag = tag_of(p, values, w);
        const char *word = snug_word(p->s, w);
        str_printf(&p->line, "%lld,", (long long)index);
        predictions_put_csv(p, word ? word : "");
        str_append(&p->line, ",");
        predictions_put_csv(p, tag < 0 ? "" : label_name(p->s, tag, buf));
        if (tag < 0)
            str_append(&p->line, ",\n");
        else
            str_printf(&p->line, ",%.6g\n", probability(p, values, w, tag));
    }
}

static void put_table(struct predictions *p, int64_t index, const double *values)
{
    int names = prediction_name_columns(p), left = p->columns - ROW_COLUMNS - names - PROBABILITY_COLUMNS - 3 * GAP;
    char buf[32];
    if (!p->begun) {
        str_printf(&p->line, "%*s%*s", ROW_COLUMNS, "row", GAP, "");
        text_cell(&p->line, "tag", names);
        str_printf(&p->line, "%*s%*s%*sword\n", GAP, "", PROBABILITY_COLUMNS, "prob.", GAP, "");
    }
    for (int64_t w = 0; w < snug_words(p->s); w++) {
        int64_t tag = tag_of(p, values, w);
        struct str clean = {0};
        str_escape(&clean, snug_word(p->s, w) ? snug_word(p->s, w) : "");
        str_printf(&p->line, "%*lld%*s", ROW_COLUMNS, (long long)index, GAP, "");
        text_cell(&p->line, tag < 0 ? "(none)" : label_name(p->s, tag, buf), names);
        if (tag < 0)
            str_printf(&p->line, "%*s", GAP + PROBABILITY_COLUMNS + GAP, "");
        else
            str_printf(&p->line, "%*s%*.4f%*s", GAP, "", PROBABILITY_COLUMNS, probability(p, values, w, tag), GAP, "");
        text_cut(&p->line, str_text(&clean), left > LEAST_WORD ? left : LEAST_WORD);
        str_append(&p->line, "\n");
        p->line.failed |= clean.failed;
        str_free(&clean);
    }
}

void prediction_words_row(struct predictions *p, int64_t index, const double *values)
{
    if (p->json)
        put_json(p, index, values);
    else if (p->columns)
        put_table(p, index, values);
    else
        put_csv(p, index, values);
}
