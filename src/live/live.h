/* live.h: the report of a run in the browser while the run goes on, at an address of this machine that only who is told it knows.
 * It is only looked at: requests carry nothing that is read but the address. The page is made when it is asked for, and asks for itself
 * again. libmicrohttpd is opened for it, at run time. */
#ifndef LIVE_LIVE_H
#define LIVE_LIVE_H

#include "base/io.h"

struct live;

/* Listens on 127.0.0.1; port 0: one that is free. `dir`: the run's output folder; it and `io` outlive the result.
 * SNUG_ERR_ENV: the library is missing; SNUG_ERR_USAGE: the port is taken. */
int live_open(const struct io *io, const char *dir, int port, struct live **out, struct snug_err *err);

const char *live_address(const struct live *l); /* the page's, as a browser takes it */

/* Where the run stands, after each step; before the first the page says that the run begins. */
void live_progress(struct live *l, int64_t step, int64_t steps, double seconds_left);

/* `ended`: the run came to its end. A page that is open then gets its last state first, which takes a few seconds. NULL is closed. */
void live_close(struct live *l, bool ended);

#endif
