/* predictions.h: predictions as lines of text: CSV with a header, or an object a line. */
#ifndef CLI_PREDICTIONS_H
#define CLI_PREDICTIONS_H

#include "base/str.h"

struct predictions {
    const snug_session *s;
    bool json;
    double threshold; /* of several labels those above it are named */
    int64_t top;      /* only so many labels, the likeliest first; 0: all, in their order */
    bool terminal;    /* what texts could do to one is escaped; files and pipes get them as they are */
    struct str line;  /* what is to be written next, with its line break */

    bool begun;
    struct likely *order; /* (num_labels) scratch */
};

/* Sets `line` to that of a row, and in front of the first to the header. Within the callback of snug_predict. */
int predictions_add(struct predictions *p, int64_t index, const double *values, struct snug_err *err);
void predictions_free(struct predictions *p);

#endif
