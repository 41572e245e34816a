/* cache_dir.h: the folder of what can be made again: tokens, and what was measured of a GPU. */
#ifndef BASE_CACHE_DIR_H
#define BASE_CACHE_DIR_H

#include "base/str.h"

/* Appends `asked`, or $XDG_CACHE_HOME/snug, or ~/.cache/snug. Nothing: no cache (asked is "", or HOME is not set). */
int cache_dir(const char *asked, struct str *dir, struct snug_err *err);

#endif
