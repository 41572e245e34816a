/* progress.h: where a run stands, as one line that fits. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "base/str.h"
#include "snug/snug.h"

/* All numbers on one line, for a file or pipe. */
void progress_whole(struct str *out, const struct snug_progress *p);

/* The line that is drawn again and again: at most `columns` - 1 columns, since a terminal breaks the line behind the
 * last one. The least important numbers are left out first, and the bar takes the room that is left. */
void progress_drawn(struct str *out, const struct snug_progress *p, int columns);

/* The line that stays for a step that was logged: what the log has of it; at most `columns` columns. */
void progress_logged(struct str *out, const struct snug_progress *p, int columns);

#endif
