/* text.h: what Python's strings do. Positions and lengths that a template sees are in code points, here in bytes unless
 * it says otherwise. */
#ifndef CHAT_TEXT_H
#define CHAT_TEXT_H

#include "chat/value.h"

#define CHAT_NOWHERE ((size_t)-1)

/* Bytes of the white space (Python's str.isspace) that begins at `s`; 0: none does. */
size_t chat_space(const char *s, size_t n);
size_t chat_skip_spaces(const char *s, size_t n);  /* bytes of white space at the beginning */
size_t chat_until_spaces(const char *s, size_t n); /* bytes before the white space at the end */

size_t chat_length(struct chat_value text);                /* code points */
size_t chat_offset(struct chat_value text, size_t points); /* bytes of so many code points, or of all */
size_t chat_find(struct chat_value text, struct chat_value what, size_t from); /* CHAT_NOWHERE: not there */

enum chat_side { CHAT_LEFT = 1, CHAT_RIGHT = 2, CHAT_BOTH = 3 };
/* `chars` NULL: white space. The result is a part of `text`. */
struct chat_value chat_strip(struct chat_value text, const struct chat_value *chars, enum chat_side side);
/* most < 0: all of them. */
int chat_replace(struct chat_run *r, struct chat_value text, struct chat_value from, struct chat_value to, int64_t most,
                 struct chat_value *out);
/* `separator` NULL: white space. most < 0: no limit. */
int chat_split(struct chat_run *r, struct chat_value text, const struct chat_value *separator, int64_t most,
               struct chat_value *out);
int chat_split_lines(struct chat_run *r, struct chat_value text, struct chat_value *out);

/* Words of CHAT_TITLE, a method of Python, are runs of letters; those of CHAT_WORDS, a filter of Jinja, begin behind a blank, - or an opening
 * bracket. */
enum chat_case { CHAT_LOWER, CHAT_UPPER, CHAT_CAPITALIZED, CHAT_TITLE, CHAT_WORDS };
int chat_in_case(struct chat_run *r, struct chat_value text, enum chat_case how, struct chat_value *out);

/* `from` and `to` are code points, negative ones from the end, as in text[from:to:step]. */
int chat_slice(struct chat_run *r, struct chat_value v, const int64_t *from, const int64_t *to, int64_t step,
               struct chat_value *out);

#endif
