/* hub.h: models, adapters and data of the Hugging Face hub. An option that has OWNER/NAME[@REVISION][:FILE] where no such path
 * exists means a repository there: what is needed of it is brought into huggingface_hub's own cache, and the option then has
 * the path of the snapshot. Environment: HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE, as huggingface_hub has them. */
#ifndef HUB_HUB_H
#define HUB_HUB_H

#include "base/stop.h"
#include "options/options.h"

struct hub_progress {
    const char *repository; /* OWNER/NAME */
    const char *file;       /* that is on its way */
    int64_t done, total;    /* bytes of all files of this download; `done` has what an earlier one left */
    int64_t came;           /* bytes, since it began */
    double seconds;         /* since it began */
    bool last;              /* nothing follows */
};

/* Each may be NULL. */
struct hub_events {
    void (*note)(void *ctx, const char *line);
    void (*progress)(void *ctx, const struct hub_progress *p);
    void *ctx;
    const struct stop_flag *stop;
    double pause; /* seconds, before a request that failed is made once more, doubled each time; 0: one */
};

/* Replaces such options of the command. Where there are none nothing is asked of any network. Errors, in one line:
 *   SNUG_ERR_USAGE   the environment has a value that means nothing
 *   SNUG_ERR_INPUT   no such repository, revision or file; nothing in it that is read; offline, and not in the cache; a file
 *                    that is not what the hub says it is
 *   SNUG_ERR_IO      no access; the hub cannot be reached, or fails; disk
 *   SNUG_ERR_ENV     this build, or this machine, has no libcurl
 *   SNUG_STOPPED     what came so far is in the cache, and the next download goes on from there */
int hub_options(struct options *o, const struct io *io, const struct hub_events *events, struct snug_err *err);

/* Whether there are any. */
bool hub_is_asked(const struct options *o, const struct io *io);

/* The same of a model that is an argument of the command, with its weights. */
int hub_model(struct options *o, const char **path, const struct io *io, const struct hub_events *events,
              struct snug_err *err);
bool hub_model_is_asked(const char *path, const struct io *io);

#endif
