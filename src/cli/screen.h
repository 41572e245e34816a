/* screen.h: what a run shows: on a terminal a line that is drawn again and again, otherwise a plain line per log entry.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "train/train.h"

#include <stdio.h>

struct screen {
    bool terminal;
    bool drawn;  /* a progress line stands there */
    double last; /* seconds, when it was drawn */
    struct progress now;
};

void screen_open(struct screen *s);
struct session_events screen_notes(struct screen *s);
struct train_events screen_training(struct screen *s);
void screen_close(struct screen *s); /* ends the progress line */

/* Model, precision and batch of a session, two lines (plan.c). */
void plan_heading(const struct session *s, FILE *f);

#endif
