/* Without libcurl's headers at build time. */
#include "hub/get.h"

int hub_get(const struct hub_wish *w, const struct io *io, const struct hub_events *events, struct arena *a,
            const char *const **paths, size_t *n, struct snug_err *err)
{
    (void)io, (void)events, (void)a, (void)paths, (void)n;
    return err_set(err, SNUG_ERR_ENV,
                   "%s: no such path here, and this build cannot download; build it with libcurl, or give a path",
                   w->text);
}
