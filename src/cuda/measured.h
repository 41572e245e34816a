/* measured.h: what was measured on a device, and what follows from it. Algorithms and the times of steps go to the device's
 * profile, and the algorithms of a run into its checkpoints. */
#ifndef CUDA_MEASURED_H
#define CUDA_MEASURED_H

#include "backend/backend.h"
#include "cuda/profile.h"

#include <jansson.h>

struct cuda;

struct cuda_measured {
    struct cuda_profile *profile; /* what was measured on this kind of device */
    json_t *recorded;             /* the algorithms of a checkpoint, or NULL */
    char kernels[128];
};

/* Of a device that is open, with its products: takes what the profile in cache_dir knows. free_bytes: that an arena may have. */
int cuda_measured_open(struct cuda *d, const char *cache_dir, int64_t free_bytes, struct snug_err *err);
/* Reads the profile of a device that is not there; its products are to be opened then, and taken. */
int cuda_measured_read(struct cuda *d, const char *path, struct cuda_profile_device *device, struct snug_err *err);
void cuda_measured_close(struct cuda *d);

/* The products of the profile; `where` is its file, for messages. */
int cuda_measured_take(struct cuda *d, const char *where, struct snug_err *err);
int cuda_measured_take_kept(struct cuda *d, struct snug_err *err); /* as of a cache: none where one cannot be read */

const char *cuda_measured_kernels(const struct backend *b);
extern const struct backend_profile cuda_profile_here, cuda_profile_absent; /* of a device that is there, and is not */
extern const struct backend_record cuda_record;

#endif
