/* prefixes.h: what each layer does, so that a step takes the least time and no moment of it more than a limit of bytes. */
#ifndef SEARCH_PREFIXES_H
#define SEARCH_PREFIXES_H

#include "search/options.h"

/* The options of all layers and segments of a program. */
struct menu {
    struct layers layers;
    struct option_list *of; /* of the segment of n layers that begins at layer i: of[i * SEGMENT_MOST + n - 1] */
    struct prefixes *known; /* what the last choice found for the first layers */
};
enum { SEGMENT_MOST = 8 };

/* Opens the layers; their options are what takes time. */
int menu_open(struct menu *m, const struct plan *p, const struct program *g, struct snug_err *err);
int menu_list(struct menu *m, const struct rates *r, struct snug_err *err);
void menu_close(struct menu *m); /* also after a failure */

/* What a choice may take: transient bytes at any moment, and of them those that all layers hold together when the head runs. */
struct limits {
    int64_t live, held;
};

struct chosen {
    bool fits;      /* else no way is known that needs so little, and sets and the rest are as they were */
    int64_t held;   /* as in struct limits */
    int64_t live;   /* likewise. Exact where no layers are joined; where some are, it may be somewhat too much */
    bool joins;     /* some are */
    double seconds; /* of what is computed again in one micro-step */
};

/* Chooses what takes the least time within the limits, into sets[0 … layers.n + 1]. What lives where two layers meet may be a little
 * more than is reckoned. */
int menu_choose(struct menu *m, struct limits limits, struct recompute_set *sets, struct chosen *chosen,
                struct snug_err *err);

/* Seconds of a micro-step to compute all layers again. */
double menu_all_seconds(const struct menu *m);

#endif
