/* sheet.h: GPUs as their data sheets say they are, for plans in every build, without any GPU. */
#ifndef CUDA_SHEET_H
#define CUDA_SHEET_H

#include "backend/backend.h"
#include "base/io.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu_sheet {
    const char *name;          /* of --gpu */
    const char *words;         /* that are among those of the driver's name */
    int arch;                  /* compute capability, times ten */
    int64_t memory_mib;        /* in all, as the driver says it */
    double gigabytes;          /* of memory bandwidth, a second */
    double host_gigabytes;     /* each way by PCIe, likewise */
    double link_gigabytes;     /* each way to another GPU of its kind, likewise: NVLink, or else PCIe */
    double narrow, tf32, wide; /* TFLOPS of products without sparsity: of 16 bits with sums in F32, of TF32, of F32 */
};

/* The i-th, in the order of names; NULL: no more. */
const struct gpu_sheet *gpu_sheet_at(int i);

/* By name; case, blanks and dashes do not matter, nor do the words NVIDIA and GeForce. SNUG_ERR_USAGE: there is none. */
int gpu_sheet_find(const char *name, const struct gpu_sheet **out, struct snug_err *err);

/* The path of a profile that was measured on such a GPU (cuda/profile.h), in `dir`, as cache_dir has it; "": there is none. */
int gpu_sheet_profile(const struct io *io, const struct gpu_sheet *s, const char *dir, struct str *path,
                      struct snug_err *err);

/* What the data sheet says of a GPU whose name the driver gives so; all 0: there is none. tf32: products of F32 tensors are in it. */
struct backend_rates gpu_sheet_rates(const char *name, bool tf32);

/* A backend that only plans, one of so many ranks. tf32: products of F32 tensors are in it. */
int gpu_sheet_open(const struct gpu_sheet *s, bool tf32, int ranks, const struct backend **out, struct snug_err *err);

#endif
