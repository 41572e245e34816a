/* predictions.h: predictions as lines of text: CSV with a header, an object a line, or a table for people. */
#ifndef CLI_PREDICTIONS_H
#define CLI_PREDICTIONS_H

#include "base/str.h"

struct predictions {
    const snug_session *s;
    bool json;
    double threshold; /* of several labels those above it are named */
    int64_t top;      /* only so many labels, the likeliest first; 0: all, in their order */
    bool terminal;    /* what texts could do to one is escaped; files and pipes get them as they are */
    int columns;      /* of a terminal, which gets a table of that width instead of CSV; 0: none */
    struct str line;  /* what is to be written next, with its line break */

    bool begun;
    struct likely {
        int64_t label;
        double value;
    } * order;        /* (num_labels) scratch */
    int longest_name; /* of a label, in columns; 0: not yet known */
};

/* Sets `line` to that of a row, and in front of the first to the header. Within the callback of snug_predict. */
int predictions_add(struct predictions *p, int64_t index, const double *values, struct snug_err *err);
void predictions_free(struct predictions *p);

/* ---- for predictions.c and the prediction_*.c alone ---- */

void predictions_put_csv(struct predictions *p, const char *text); /* a field, quoted where it has to be */

/* Columns of a table for the names of labels. */
int prediction_name_columns(struct predictions *p);

/* All lines of a row of words, and the header where it is the first. */
void prediction_words_row(struct predictions *p, int64_t index, const double *values);

/* The line of a question, and the header where it is the first. */
void prediction_answers_row(struct predictions *p, int64_t index);

/* Puts the `top` likeliest labels, the likeliest first, or with 0 all in their order, into p->order; how many. values NULL:
 * 0 for each. */
int64_t predictions_choose(struct predictions *p, const double *values, int64_t top);

/* The same of a text that was written, whole. */
void prediction_text_row(struct predictions *p, int64_t index);

/* A row of the table, behind its header where it is the first, into p->line without the last line's end. */
void prediction_table_row(struct predictions *p, int64_t index, const double *values);

#endif
