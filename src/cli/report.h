/* report.h: the metrics of an evaluation, as one JSON object or as tables that fit the terminal. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Numbers with names, in the order in which they were added. */
struct numbers {
    struct {
        char name[32];
        double value;
    } * of;
    size_t n, cap;
    bool failed; /* memory ran out */
};
void numbers_add(void *numbers, const char *name, double value); /* a metric callback of snug.h */
void numbers_free(struct numbers *n);

/* `all`: of all rows. What there is of single labels, and what was taken for what, is asked of the session. */
int report_json(const struct numbers *all, const snug_session *s, struct snug_err *err);
/* columns: of the terminal; 0: there is none, and nothing is left out or cut. */
int report_text(const struct numbers *all, const snug_session *s, int columns, struct snug_err *err);

/* The name of a label, "LABEL_id" where it has none, in `buf`. */
const char *label_name(const snug_session *s, int64_t id, char buf[32]);

#endif
