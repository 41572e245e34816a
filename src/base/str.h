/* str.h: a string that grows. A failed allocation is remembered instead of reported at each step: append what there is
 * to append, then ask str_check once.
 *     struct str s = {0};
 *     str_printf(&s, "{\"rows\":%d,\"file\":", rows);
 *     str_json(&s, path);
 *     str_append(&s, "}\n");
 *     code = str_check(&s, err);
 *     ... str_text(&s) ...
 *     str_free(&s);                                                                                                  */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct str {
    char *s;  /* NULL until something is appended, then always ends in a 0 byte at s[n] */
    size_t n; /* bytes, without that 0 */
    size_t cap;
    bool failed; /* memory ran out; what came later is missing */
};

void str_append(struct str *s, const char *text);
void str_append_n(struct str *s, const char *bytes, size_t n);
void str_printf(struct str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* `text` as a JSON string with its quotes: only what must be escaped is (RFC 8259, the short forms where there are
 * some), so the bytes are those of Python's json with ensure_ascii=False and of Rust's serde_json. Invalid UTF-8
 * becomes U+FFFD. */
void str_json(struct str *s, const char *text);
void str_json_str(struct str *s, const struct str *text); /* all of it, 0 bytes too */

/* The same for what is printed: characters that utf8_printable refuses are \uXXXX, so that no text from a file steers a
 * terminal. Readers of JSON see no difference. */
void str_json_printed(struct str *s, const char *text);

/* Appends a JSON text, such as json_dumps gives, with the same characters escaped in its strings. */
void str_json_whole_printed(struct str *s, const char *json);

/* Text between tags of XML 1.0, or in an attribute: what it cannot have becomes a question mark. */
void str_xml(struct str *s, const char *text);

/* Text from files and users as a line for a person shows it: each byte of what utf8_printable refuses becomes \xNN.
 * text_escape writes at most room - 1 bytes and a 0 behind them, and gives how many; str_escape appends all. */
size_t text_escape(char *out, size_t room, const char *text);
void str_escape(struct str *s, const char *text);
void str_escape_str(struct str *s, const struct str *text); /* all of it, 0 bytes too */

/* The word for a number that is not finite: NaN, Infinity or -Infinity. NULL for a finite number. */
const char *number_word(double x);
/* A member's value in JSON, with so many significant digits. JSON has no word for what is not finite, so that is a
 * string, which float() of Python and Number() of JavaScript take. */
void str_json_number(struct str *s, double x, int digits);

const char *str_text(const struct str *s);                /* "" when empty */
int str_check(const struct str *s, struct snug_err *err); /* SNUG_ERR_ENV when an append failed */
void str_free(struct str *s);                             /* and empties it */

/* Bytes (1 to 4) of the valid UTF-8 sequence at `s`, of which n > 0 bytes are left; 0 if there is none: overlong forms,
 * surrogates and code points from U+110000 on are invalid. */
int utf8_sequence(const char *s, size_t n);
/* Bytes of the longest prefix of n bytes that is UTF-8 without NUL. */
size_t utf8_prefix(const char *s, size_t n);
/* As utf8_sequence, and 0 for what changes a terminal or the order of what it shows too. These are control characters
 * (to U+001F, U+007F to U+009F) and separators of lines and paragraphs (U+2028, U+2029). The others are marks,
 * embeddings, overrides and isolates of the bidirectional algorithm (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066
 * to U+2069). */
int utf8_printable(const char *s, size_t n);

#endif
