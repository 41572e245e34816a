/* out_file.h: a file that is written from front to back, and that is there only once it is whole: until then its bytes
 * are in PATH.tmp-PID beside it, or where out_file_open_as says.
 *     out_file_open ; out_file_write ... ; out_file_publish      or out_file_drop, where something went wrong */
#ifndef BASE_OUT_FILE_H
#define BASE_OUT_FILE_H

#include "base/io.h"
#include "base/str.h"

struct out_file {
    const struct io *io;
    const char *path;
    bool replace;
    char *tmp; /* NULL: not open */
    int fd;
    int64_t bytes;      /* written to it */
    struct str waiting; /* not yet */
};

/* SNUG_ERR_USAGE where `path` is there already, unless `replace`; a folder, a device or a link is never replaced.
 * SNUG_ERR_IO where it cannot be made. */
int out_file_open(const struct io *io, const char *path, bool replace, struct out_file *f, struct snug_err *err);
/* `name`: where its bytes are meanwhile, in the folder of `path`; one that nobody else has; NULL: PATH.tmp-PID. */
int out_file_open_as(const struct io *io, const char *path, const char *name, bool replace, struct out_file *f,
                     struct snug_err *err);
int out_file_write(struct out_file *f, const char *bytes, size_t n, struct snug_err *err);
/* Writes the rest, syncs, and gives the file its name, as one step. SNUG_ERR_IO where one has appeared meanwhile. */
int out_file_publish(struct out_file *f, struct snug_err *err);
/* Removes what was written. Does nothing after out_file_publish, and on a zeroed one. */
void out_file_drop(struct out_file *f);

#endif
