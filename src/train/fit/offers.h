/* offers.h: what a run would take that is not quite the one that was asked for: with another precision, another optimizer, an
 * adapter, without clipping or without checkpoints; or with weights that each rank keeps a part of. */
#ifndef TRAIN_FIT_OFFERS_H
#define TRAIN_FIT_OFFERS_H

#include "train/session/session.h"

/* Such a run in the way that fits and is fastest; if none fits, in the smallest. */
struct offer {
    char options[112];
    bool fits;
    int64_t rows, times, bytes, besides_bytes; /* as in struct way; besides: as in needs_bytes, without the arena */
    double seconds;
};

enum { OFFERS_MOST = 14 };

struct offers {
    struct offer of[OFFERS_MOST];
    int n;
};

/* What is shown beside ways that fit: another precision of weights, another optimizer, an adapter. `asked`: the choices that the
 * options leave. */
int offers_find(const struct session *s, const struct choices *asked, int64_t limit, struct offers *o,
                struct snug_err *err);
/* Where no way fits: all there is; and several together where none is enough by itself. */
int offers_find_all(const struct session *s, const struct choices *asked, int64_t limit, struct offers *o,
                    struct snug_err *err);

#endif
