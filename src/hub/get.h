/* get.h: one repository of the hub, and the paths of what an option needs of it. */
#ifndef HUB_GET_H
#define HUB_GET_H

#include "base/io.h"
#include "hub/hub.h"
#include "hub/name.h"

/* What is needed of a repository. Rows are those of a dataset repository, the rest is in models. */
enum hub_part {
    HUB_MODEL,      /* configuration, tokenizer, weights; with a FILE: a GGUF file */
    HUB_SETTINGS,   /* the same without weights */
    HUB_ADAPTER,    /* PEFT's two files, and those of a tokenizer */
    HUB_TRAIN_ROWS, /* with a FILE, that; else the files whose names say so */
    HUB_EVAL_ROWS,  /* for validation, else for tests */
    HUB_TEST_ROWS,  /* for tests, else for validation, else whatever there is */
};

struct hub_wish {
    struct hub_name name;
    const char *text; /* as it was typed */
    enum hub_part part;
};

static inline bool hub_wants_rows(const struct hub_wish *w)
{
    return w->part >= HUB_TRAIN_ROWS;
}

/* Brings what is not in the cache yet. *paths: of the snapshot's folder, or of files in it; (*n > 0), in memory of `a`. Errors as
 * hub_options. */
int hub_get(const struct hub_wish *w, const struct io *io, const struct hub_events *events, struct arena *a,
            const char *const **paths, size_t *n, struct snug_err *err);

#endif
