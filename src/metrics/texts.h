/* texts.h: how near generated texts are to the expected ones, summed row by row, so that the order of rows changes nothing but the
 * last bits of rouge.
 *
 *     exact_match  the same bytes
 *     rougeL       Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004, as rouge_score has it without a stemmer: the
 *                  longest common subsequence of words, which are runs of a-z and 0-9 in lower case
 *     chrF2        Popović, "chrF: character n-gram F-score for automatic MT evaluation", 2015, as sacrebleu has it: runs of 1 to 6
 *                  characters without white space, counted over all rows */
#ifndef METRICS_TEXTS_H
#define METRICS_TEXTS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { CHRF_ORDER = 6 };

struct text_sums {
    int64_t rows;
    int64_t exact;
    double rouge; /* of F-measures, 0 to 1 each */
    struct {
        int64_t text, expected, both;
    } runs[CHRF_ORDER]; /* of so many characters and one: in the texts, in what was expected, in both */
};

/* Texts are UTF-8; bytes that are none stand between words, and are no characters. SNUG_ERR_ENV: no memory. */
int texts_add(struct text_sums *s, const char *text, size_t bytes, const char *expected, size_t expected_bytes,
              struct snug_err *err);

double texts_chrf(const struct text_sums *s); /* of all rows, 0 to 1 */

#endif
