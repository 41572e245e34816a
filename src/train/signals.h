/* signals.h: being asked to stop. The command installs the handlers; the library only looks at a struct stop_flag, in
 * every loop that can take long.
 *
 *   SIGTERM SIGINT SIGUSR1 SIGHUP   first: finish the step, save, exit SNUG_STOPPED (75)
 *                                   the same one again: abandon the save, exit 128 + its number
 *   SIGPIPE SIGXFSZ                 ignored: a closed pipe or a file-size limit becomes an error of write
 *
 * A SIGHUP that is ignored when the program starts (nohup) stays ignored. */
#ifndef TRAIN_SIGNALS_H
#define TRAIN_SIGNALS_H

#include "base/err.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* All zero: nobody asked. Written by the handler, read by any thread. */
struct stop_flag {
    _Atomic sig_atomic_t signal; /* the first signal that came, 0: none */
    _Atomic sig_atomic_t again;  /* the first one that came a second time, 0: none */
};

/* Save and stop at the next step boundary. `f` may be NULL: never. */
static inline bool stop_asked(const struct stop_flag *f)
{
    return f && f->signal;
}

/* Do not even wait for a save. */
static inline bool stop_at_once(const struct stop_flag *f)
{
    return f && f->again;
}

/* What the command returns after a clean stop: 0, SNUG_STOPPED, or 128 + n. */
int stop_exit_code(const struct stop_flag *f);

/* Handlers for this process, which set `f`; it must live until signals_restore, which puts back what was there before.
 * One flag at a time. SNUG_ERR_ENV when the system refuses. */
int signals_install(struct stop_flag *f, struct snug_err *err);
void signals_restore(void);

#endif
