/* columns.h: which columns of a table hold the text, the second text and the label. */
#ifndef DATA_FILES_COLUMNS_H
#define DATA_FILES_COLUMNS_H

#include "base/str.h"
#include "data/dataset.h"

#include <jansson.h>

/* What a row is. Of JSON only, and of CoNLL files; others are texts. */
enum row_form {
    ROWS_TEXT,
    ROWS_MESSAGES,      /* "messages": [{"role", "content"}, …] */
    ROWS_CONVERSATIONS, /* "conversations": [{"from", "value"}, …] */
    ROWS_PROMPT,        /* "prompt" and "completion": two texts, or two lists of messages */
    ROWS_WORDS,         /* "tokens": a list of words, for token classification */
};

struct columns {
    char **names; /* (n), in the order of the file; "" for a column without a name */
    size_t names_cap;
    int n;
    int text, pair; /* indices; -1: there is none */
    int *labels;    /* (n_labels) indices: one column, or one for each label (--label-column a,b,c) */
    int n_labels;   /* 0: there is none */
    char **
        classes; /* (n_classes) the labels' names in the order of their ids, where the file says it; NULL: it does not */
    int n_classes;
    enum row_form form;
    int turns, completion;            /* indices of the columns that the form names */
    bool text_guessed, label_guessed; /* found by a name that is not snug's own: text, text_pair, label, labels */
    json_t *row;                      /* the first one, where it is an object, while columns are found; borrowed */
    bool target_is_label;             /* the target was found by a name that labels have first of all */
    struct arena arena;
};

/* Adds a column. SNUG_ERR_INPUT when there is one of this name; several may have none. */
int columns_add(struct columns *c, const char *path, const char *name, struct snug_err *err);
void columns_free(struct columns *c);

/* What a row has in a column. A name that is no member's own may go on in objects: that of {"a": {"b": 1}} is a.b. NULL: nothing. */
json_t *columns_value(json_t *row, const char *name);

/* Finds the columns that `o` names, in any case where no other is meant, or those in objects of the first row, and for the rest those with usual names, in any
 * case, with or without _, - and blanks. Of the label only if `labels`. SNUG_ERR_INPUT when one that `o` names is not
 * there; one that is looked for by its name may be missing. */
int columns_find(struct columns *c, const struct dataset_options *o, bool labels, struct snug_err *err);

/* Sets form, turns and completion. */
void columns_find_form(struct columns *c);

/* The columns of rows of words: sets form and turns, and the column of their tags where `o` names none and one has a usual
 * name; of the tags only if `labels`. false: no column has a usual name for words, and all stays as it is. */
bool columns_find_words(struct columns *c, const struct dataset_options *o, bool labels);

/* A column by its usual name, without regard to case, _, - and blanks; -1: there is none. */
int columns_find_usual(const struct columns *c, const char *name);

bool columns_has(const struct columns *c, int column); /* whether it is text, pair or label */

/* "id, Tweet, Sentiment", for messages. */
void columns_listed(const struct columns *c, struct str *s);

#endif
