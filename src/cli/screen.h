/* screen.h: what a run shows: a line for each entry of the log, and on a terminal below them where it stands, a line that
 * is drawn again and again. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "options/options.h"
#include "snug/snug.h"

#include <pthread.h>

/* Where the texts of snug_plan_summary, and of the summary of a run, begin. */
enum { PLAN_INDENT = 9 };

struct screen {
    pthread_mutex_t
        lock;      /* of the terminal and of what stands there: notes of a checkpoint come from its writer's thread */
    bool terminal; /* a line can be drawn again */
    bool json;     /* the lines of the log as they are, and nothing else */
    int drawn;     /* columns of the progress line that stands there; 0: none */
    double last;   /* seconds, when it was drawn */
    struct snug_progress now;
    const char *best_metric; /* what evaluations are compared by; NULL: nothing is */
    char *plan;              /* shown when training starts: a run that is refused prints nothing on stdout */
    const char *dump;        /* the pass whose programs are printed, NULL: none */
};

/* Opens a session that shows itself on the screen and stops on signals; cli_close gives back both, and turns `code`
 * into the exit code. */
struct cli_session {
    struct screen screen;
    snug_stop *stop;
    snug_session *session;
};
int cli_open(struct cli_session *c, struct options *o, struct snug_err *err);
int cli_close(struct cli_session *c, int code);

void screen_end(struct screen *s); /* ends the progress line */

#endif
