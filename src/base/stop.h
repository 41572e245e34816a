/* stop.h: being asked to stop, as whoever may take long sees it: a flag to look at between pieces of work. Who sets it
 * (a signal handler, another thread) is elsewhere: base/signals.h. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* All zero: nobody asked. Written by the handler, read by any thread. */
struct stop_flag {
    _Atomic sig_atomic_t signal; /* the first signal that came, 0: none */
    _Atomic sig_atomic_t again;  /* the first one that was repeated, 0: none */
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

#endif
