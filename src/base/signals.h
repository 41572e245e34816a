/* signals.h: being asked to stop. The command installs the handlers; the library only looks at a struct stop_flag, in
 * every loop that can take long.
 *
 *   SIGTERM SIGINT SIGUSR1 SIGHUP   first: finish the step, save, exit SNUG_STOPPED (75)
 *                                   the same one again, a second or more after the first: abandon the save, exit
 *                                   128 + its number; sooner it counts as one, since launchers signal a process and
 *                                   its group
 *   SIGPIPE SIGXFSZ                 ignored: a closed pipe or a file-size limit becomes an error of write
 *
 * A SIGHUP that is ignored when the program starts (nohup) stays ignored. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include "base/err.h"
#include "base/stop.h"

/* What the command returns after a clean stop: 0, SNUG_STOPPED, or 128 + n. */
int stop_exit_code(const struct stop_flag *f);

/* Handlers for this process, which set `f`; it must live until signals_restore, which puts back what was there before.
 * One flag at a time. SNUG_ERR_ENV when the system refuses. */
int signals_install(struct stop_flag *f, struct snug_err *err);
void signals_restore(void);

#endif
