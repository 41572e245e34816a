/* handles.h: what the public handles of snug.h are. (Those of options: options/options.h.) */
#ifndef API_HANDLES_H
#define API_HANDLES_H

#include "base/signals.h"

struct snug_stop {
    struct stop_flag flag;
    bool installed;
};

#endif
