/* profile.h: what was measured on a kind of device, kept from run to run in a JSON file
 *     DIR/device-<name>-<compute capability>-cublaslt-<version>.json
 * with what the device has, the chosen algorithms of matrix products (cuda/products/products.h) and the times of steps
 * (train/forecast/forecast.h). The file is a cache: it may be removed, and is written whole or not at all. A copy of it is enough
 * to plan for the device where that is not. */
#ifndef CUDA_PROFILE_H
#define CUDA_PROFILE_H

#include "base/io.h"

#include <jansson.h>

struct cuda_profile;

/* What a plan for a device depends on. */
struct cuda_profile_device {
    const char *name;
    int arch;           /* compute capability, times ten */
    int sms;            /* multiprocessors */
    int64_t free_bytes; /* that an arena may have, when no other program uses the device */
    int64_t cublaslt;   /* the library's version */
};

/* Reads the profile of that device in `dir`; NULL: $XDG_CACHE_HOME/snug or ~/.cache/snug; "": none is kept. A file that
 * does not exist or is of no use gives an empty profile. The most that was ever free is what is kept. */
int cuda_profile_open(const struct io *io, const char *dir, const struct cuda_profile_device *device,
                      struct cuda_profile **out, struct snug_err *err);

/* Reads a profile for planning, of the device that it says: *device points into it. SNUG_ERR_INPUT: it is none. */
int cuda_profile_read(const struct io *io, const char *path, struct cuda_profile_device *device,
                      struct cuda_profile **out, struct snug_err *err);
void cuda_profile_close(struct cuda_profile *p); /* does not save; NULL is fine */

const char *cuda_profile_path(const struct cuda_profile *p); /* "": none is kept */

/* The array that cuda_products_export made; NULL: nothing was measured. Belongs to the profile. */
json_t *cuda_profile_products(const struct cuda_profile *p);
int cuda_profile_set_products(struct cuda_profile *p, json_t *choices, struct snug_err *err);

/* Microseconds by a key of the caller's, such as of the programs of a step; -1: not measured. */
double cuda_profile_time(const struct cuda_profile *p, const char *key);
void cuda_profile_times(const struct cuda_profile *p, void (*see)(void *ctx, const char *key, double us), void *ctx);
int cuda_profile_set_time(struct cuda_profile *p, const char *key, double us, struct snug_err *err);

/* Writes the file, and its folder where that is missing. Nothing where none is kept. What other processes have written
 * since it was read stays: their times, and their products by `merge`, which adds `news` to the profile's. (Two that
 * write in the same moment lose the news of one.) */
typedef int cuda_profile_merge(json_t *products, json_t *news, struct snug_err *err);
int cuda_profile_save(const struct io *io, struct cuda_profile *p, cuda_profile_merge *merge, struct snug_err *err);

#endif
