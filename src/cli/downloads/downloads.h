/* downloads.h: what a command's options name on the Hugging Face hub, brought here before the command runs. */
#ifndef CLI_DOWNLOADS_H
#define CLI_DOWNLOADS_H

#include "base/str.h"
#include "hub/hub.h"

/* Shows notes and, where stderr is a terminal, where a download stands. After a signal the exit code is that of a stop. */
int get_downloads(struct options *o, struct snug_err *err);
/* The same of a model that is an argument: *path becomes that of its folder. */
int get_model(struct options *o, const char **path, struct snug_err *err);

/* The line that is drawn again and again: at most `columns` - 1 columns. */
void downloads_line(struct str *out, const struct hub_progress *p, int columns);

#endif
