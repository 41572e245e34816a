/* cache.h: a repository's folder in huggingface_hub's cache:
 *     CACHE/models--OWNER--NAME/refs/REVISION              the commit that a branch or tag was
 *                               blobs/ETAG                 files by what is in them; ETAG.incomplete: on their way
 *                               snapshots/COMMIT/PATH      links to the blobs
 *     CACHE/.locks/models--OWNER--NAME/ETAG.lock           who has it downloads that blob
 * Dataset repositories are in datasets--OWNER--NAME. */
#ifndef HUB_CACHE_H
#define HUB_CACHE_H

#include "base/stop.h"
#include "hub/choose.h"

struct hub_cache {
    const struct io *io;
    struct arena *arena; /* borrowed; every text is in it */
    const char *folder, *locks;
};

enum { COMMIT_MAX = 41 };

int cache_open(struct hub_cache *c, const struct io *io, struct arena *arena, const char *cache,
               const struct hub_wish *w, struct snug_err *err);

/* The commit that `revision` is, or was when it was last asked for; "" where the cache does not know. */
void cache_commit(const struct hub_cache *c, const char *revision, char commit[COMMIT_MAX]);
int cache_set_commit(const struct hub_cache *c, const char *revision, const char *commit, struct snug_err *err);
bool is_commit(const char *text); /* 40 hexadecimal digits */

/* Paths; NULL when memory is out. */
const char *cache_snapshot(const struct hub_cache *c, const char *commit, const char *file); /* NULL: of the folder */
const char *cache_blob(const struct hub_cache *c, const char *etag, bool incomplete);

/* Whether the snapshot has the file, and all of them. */
bool cache_has(const struct hub_cache *c, const char *commit, const char *file);
int cache_list(const struct hub_cache *c, const char *commit, struct file_names *all, struct snug_err *err);

/* Makes the file of a snapshot a link to its blob. */
int cache_link(const struct hub_cache *c, const char *commit, const char *file, const char *etag, struct snug_err *err);

/* Waits until no other process downloads this blob. close(*fd) gives it free. */
int cache_lock(const struct hub_cache *c, const char *etag, const struct hub_events *events, int *fd,
               struct snug_err *err);

#endif
