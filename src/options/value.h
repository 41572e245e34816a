/* value.h: what the files of the options share: a name's meaning, a value's text. */
#ifndef OPTIONS_VALUE_H
#define OPTIONS_VALUE_H

#include "options/options.h"

/* `from`, in all of these, is where a value was given and starts the message: "--learning-rate" or
 * "args.json: learning_rate". Where it is kept it must live as long as `o`. */

static inline void *option_member(const struct options *o, int i)
{
    return (char *)(uintptr_t)o + option_rows[i].offset;
}

/* Reads `text` into the member of row `i`, which is not a KWARGS one. */
int option_read_value(struct options *o, int i, const char *from, const char *text, struct snug_err *err);

/* Adds `n` files behind the one that PATHS row `i` has. */
int option_add_paths(struct options *o, int i, char *const *paths, size_t n, struct snug_err *err);

/* A decimal number such as -1.5e-3 with nothing around it, in the C locale. False for anything else and for what a
 * double cannot hold. */
bool number_read(const char *text, double *out);

/* The shortest text that number_read gives back as `x`. */
enum { NUMBER_TEXT_MAX = 32 };
const char *number_text(double x, char buf[NUMBER_TEXT_MAX]);

/* "true" and "false", in any case; false if it is neither. */
bool flag_read(const char *text, bool *out);

/* A line for the user. */
int option_note(struct options *o, struct snug_err *err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What a name stands for. */
struct option_meaning {
    enum { MEANS_NOTHING, MEANS_OPTION, MEANS_OTHER_COMMAND, MEANS_ACCEPTED, MEANS_REFUSED } kind;
    int option;                             /* MEANS_OPTION, MEANS_OTHER_COMMAND: the row */
    const struct option_spelling *spelling; /* MEANS_OPTION: NULL when it is the row's own name */
    const struct option_foreign *foreign;   /* MEANS_ACCEPTED, MEANS_REFUSED */
};
struct option_meaning option_lookup(const struct options *o, const char *name); /* hyphens are underscores */
struct option_meaning option_lookup_key(const struct options *o, int parent, const char *key);

/* Whether it is true when given without a value. */
bool option_is_flag(const struct option_meaning *m);

/* The row's, or the key's own name most like `name`, or NULL. */
const char *option_nearest(const struct options *o, int parent, const char *name);

/* Gives the option that `m` (MEANS_OPTION) stands for the value `text`, which lives as long as `o`; NULL is a bare
 * flag. */
int option_assign(struct options *o, const struct option_meaning *m, enum option_source source, const char *from,
                  const char *text, struct snug_err *err);

/* One key of KWARGS row `parent`; and all of them from the text of a JSON object. */
int option_assign_key(struct options *o, int parent, enum option_source source, const char *from, const char *key,
                      const char *text, struct snug_err *err);
int option_assign_json_keys(struct options *o, int parent, enum option_source source, const char *from,
                            const char *text, struct snug_err *err);

/* Whether `text` (NULL: a bare flag), given to one that is ignored or refused, asks for nothing that is not so anyway. */
bool option_asks_nothing(const struct option_meaning *m, const char *text);

/* SNUG_ERR_USAGE for a name that is refused, unknown or another command's; a note for one that is ignored. */
int option_refuse(struct options *o, const struct option_meaning *m, const char *from, const char *name,
                  struct snug_err *err);

#endif
