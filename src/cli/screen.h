/* screen.h: what a run shows: on a terminal a line that is drawn again and again, otherwise a plain line per log entry.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "options/options.h"
#include "snug/snug.h"

struct screen {
    bool terminal;
    bool json;   /* the lines of the log as they are, and nothing else */
    bool drawn;  /* a progress line stands there */
    double last; /* seconds, when it was drawn */
    struct snug_progress now;
    char *plan;       /* shown when training starts: a run that is refused prints nothing on stdout */
    const char *dump; /* the pass whose programs are printed, NULL: none */
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
