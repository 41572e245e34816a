#include "base/cache_dir.h"

#include <stdlib.h>

int cache_dir(const char *asked, struct str *dir, struct snug_err *err)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (asked)
        str_append(dir, asked);
    else if (xdg && *xdg == '/') /* the XDG specification: relative paths are to be ignored */
        str_printf(dir, "%s/snug", xdg);
    else if (home && *home == '/')
        str_printf(dir, "%s/.cache/snug", home);
    return str_check(dir, err);
}
