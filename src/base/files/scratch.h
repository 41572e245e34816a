/* scratch.h: a file without a name: what is too large for memory is written there, from front to back, and then mapped; or it is mapped to
 * be written to. However the process ends, the file is gone with it.
 *     scratch_open ; scratch_append ... ; scratch_map      or scratch_drop, where something went wrong */
#ifndef BASE_FILES_SCRATCH_H
#define BASE_FILES_SCRATCH_H

#include "base/io.h"
#include "base/str.h"

struct scratch {
    const struct io *io; /* NULL: not open */
    const char *dir;     /* the caller's, for messages */
    int fd;
    int64_t bytes;
};

/* What a file mapped into memory takes there. Its pages come when they are read, and may go again. */
struct mapping {
    void *p; /* NULL: none */
    size_t bytes;
    bool written; /* pages that were written to lie in memory alone (IO_MAP_PRIVATE) */
};

/* Makes the folder, where it is not there. */
int scratch_open(const struct io *io, const char *dir, struct scratch *s, struct snug_err *err);
int scratch_append(struct scratch *s, const void *data, size_t bytes, struct snug_err *err);
/* Zeros, of which the file has no blocks. Something must follow. */
void scratch_skip(struct scratch *s, int64_t bytes);
/* So many bytes behind what there is: zeros, for which the disk has room from now on. */
int scratch_reserve(struct scratch *s, int64_t bytes, struct snug_err *err);
/* All of it, which is at least a byte, and closes *s. */
int scratch_map(struct scratch *s, enum io_map how, struct mapping *m, struct snug_err *err);
void scratch_drop(struct scratch *s); /* does nothing to a zeroed one, or after scratch_map */

/* Lets the pages go that are as in the file. */
void mapping_release(const struct mapping *m);
void mapping_close(struct mapping *m);

/* A name beside `path` that no other process has, on any machine: PATH SCRATCH_MARK HOST-PID-RANDOM. */
#define SCRATCH_MARK ".tmp-"
void scratch_name(struct str *name, const char *path);

#endif
