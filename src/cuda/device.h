/* device.h: the cuda backend's own state, for cuda.c, which runs programs, arch.c and choices.c. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include "backend/backend.h"
#include "cuda/kernels.h"

#include <cuda_runtime.h>
#include <jansson.h>

enum { STAGING = 2 };

/* A sequence of nodes that was given at least once; from the second time on it is a CUDA graph. */
struct recording {
    struct sequence of;
    cudaGraphExec_t graph; /* NULL: given once so far */
};

struct cuda {
    struct backend base;
    struct cuda_call call; /* but for workspace and err */
    cudaStream_t copies;   /* of inputs */
    cudaEvent_t fetched[BACKEND_TURNS];
    char kernels[128];
    struct cuda_profile *profile; /* what was measured on this kind of device */
    json_t *recorded;             /* the choices of a checkpoint, or NULL */

    int device;         /* ordinal */
    int arch;           /* its compute capability, times ten */
    int64_t free_bytes; /* of a device that is not there */
    struct nvml *nvml;  /* NULL: there is no such library */
    struct backend_memory memory;

    int64_t inputs_bytes;
    /* The inputs' way: image (pinned host memory) -> staging in the arena -> the inputs. Two of each, used in turn. */
    char *image[STAGING];
    cudaEvent_t copied[STAGING]; /* image -> staging is over: the image may be written */
    cudaEvent_t placed[STAGING]; /* staging -> inputs is over: staging may be written */
    int turn;

    struct recording *recordings;
    size_t n_recordings, cap_recordings;
    int forget;    /* where the next place of a sequence that was given once is looked for */
    int capturing; /* index + 1 of the recording that `run` shall make, 0 for none */
    bool no_more;  /* recordings, since the device had no memory for one */
};

/* A backend is const to its users; what it keeps for itself is not. */
static inline struct cuda *own(const struct backend *b)
{
    return (struct cuda *)b;
}

#define CUDA(what, call) TRY(cuda_check((int)(call), what, err))

/* While the device is opened nothing is lost yet: SNUG_ERR_ENV whatever fails, such as that another program has the
 * device to itself. */
int cuda_check_opening(int code, int device, struct snug_err *err);
#define OPENING(device, call) TRY(cuda_check_opening((int)(call), device, err))

/* ---- arch.c: for which devices there are kernels; capabilities are times ten ---- */

int cuda_arch_read(int device, int *arch);           /* a cudaError_t */
int cuda_arch_code(int arch);                        /* whose code such a device runs; 0: none that was built */
bool cuda_arch_sm90(int arch);                       /* whether kernels of NAME_sm90.cu may be used */
int cuda_arch_check(int arch, struct snug_err *err); /* that it is not too old, and has code */

/* ---- choices.c: what is measured, and what is chosen by it; as in struct backend, but for the first three ---- */

int cuda_choices_open(struct cuda *d, const struct cuda_settings *s, struct snug_err *err); /* from the profile */
int cuda_choices_take_products(struct cuda *d, const char *where, struct snug_err *err);    /* of the open profile */
int cuda_choices_take_kept(struct cuda *d, struct snug_err *err); /* as of a cache: none where one cannot be read */
const char *cuda_choices_kernels(const struct backend *b);
int cuda_choices_tune(const struct backend *b, const struct work *nodes, int n, void (*begins)(void *ctx), void *ctx,
                      bool *changed, struct snug_err *err);
int cuda_choices_record(const struct backend *b, char **text, struct snug_err *err);
int cuda_choices_take(const struct backend *b, const char *text, struct snug_err *refused, struct snug_err *err);
double cuda_choices_recall(const struct backend *b, const char *key);
int cuda_choices_keep(const struct backend *b, const char *key, double seconds, struct snug_err *err);

#endif
