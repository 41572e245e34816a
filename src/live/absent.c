/* Without libmicrohttpd's header at build time. */
#include "live/live.h"

#include <stddef.h>

int live_open(const struct io *io, const char *dir, int port, struct live **out, struct snug_err *err)
{
    (void)io, (void)dir, (void)port;
    *out = NULL;
    return err_set(err, SNUG_ERR_ENV,
                   "--live: this build cannot serve pages; build it with libmicrohttpd, or look at report.html in the "
                   "output folder");
}

const char *live_address(const struct live *l)
{
    (void)l;
    return "";
}

void live_progress(struct live *l, int64_t step, int64_t steps, double seconds_left)
{
    (void)l, (void)step, (void)steps, (void)seconds_left;
}

void live_close(struct live *l, bool ended)
{
    (void)l, (void)ended;
}
