/* regex.h: the regular expressions of tokenizer.json by PCRE2, with the classes of characters that the tokenizers library's own
 * engine (Oniguruma) has. */
#ifndef TOKENIZER_REGEX_H
#define TOKENIZER_REGEX_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct regex;

/* `path` is the file that holds `pattern`. What PCRE2 and Oniguruma read differently is refused: SNUG_ERR_INPUT. */
int regex_new(const char *pattern, const char *path, struct regex **out, struct snug_err *err);
void regex_free(struct regex *r);

/* What matching writes to, one per thread and for all expressions; NULL when memory is out. */
struct regex_match;
struct regex_match *regex_match_new(void);
void regex_match_free(struct regex_match *m);

/* The first match in text[at, n) (valid UTF-8; what lies before `at` can be looked back at). *found tells whether there is one.
 * SNUG_ERR_INPUT: the text makes the expression try more than a bounded number of ways. */
int regex_next(const struct regex *r, struct regex_match *m, const char *text, size_t n, size_t at, bool *found,
               size_t *start, size_t *end, struct snug_err *err);

#endif
