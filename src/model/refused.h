/* refused.h: settings of config.json that change the result and are not supported. Each architecture has a table of its own; docs/models.md
 * shows them (cli/docs/docs_models.c). */
#ifndef MODEL_REFUSED_H
#define MODEL_REFUSED_H

#include "model/config.h"

enum refused_kind {
    REFUSED_TRUE,    /* a switch that is on */
    REFUSED_FALSE,   /* a switch that is off; without the key it is on */
    REFUSED_PRESENT, /* anything but null and {} */
    REFUSED_ABOVE_0, /* a number */
    REFUSED_UNLIKE,  /* a whole number other than the first of `words`, or than `like` gives */
    REFUSED_OTHER,   /* a word that is none of `words` */
};

enum { REFUSED_WORDS = 4 };

struct refused {
    const char *key;
    enum refused_kind kind;
    /* Of REFUSED_OTHER up to NULL. Of REFUSED_UNLIKE the first is the number, or says what `like` gives. */
    const char *words[REFUSED_WORDS];
    int64_t (*like)(const struct model_config *c); /* NULL: the number is the same for all models */
    const char *advice;                            /* of REFUSED_PRESENT; NULL: to use a model without it */
    const char *but;                               /* for documents: which of these are taken; NULL: none */
};

extern const struct refused refused_everywhere[]; /* up to a row without a key, as all tables */

/* Checks config.json `o` (from file `path`) by a table, when `c` has been read. NULL: nothing is refused. */
int refused_check(const struct refused *rows, json_t *o, const char *path, const struct model_config *c,
                  struct snug_err *err);

/* The one that a row of REFUSED_UNLIKE takes. */
int64_t refused_number(const struct refused *row, const struct model_config *c);

/* For a setting that is refused under a condition that no table knows. */
int refused_present(json_t *o, const char *path, const char *key, struct snug_err *err);

#endif
