/* kernels.h: the launchers of the cuda backend, and what they get. Included by C and by kernel files. */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include "cuda/errors.h"
#include "graph/op.h"

struct CUstream_st;
struct cuda_products;
struct cuda_peers;
struct cuda_pages;

/* What a kernel may use besides its tensors. */
struct cuda_call {
    struct CUstream_st *stream;     /* all work goes here */
    void *workspace;                /* as many bytes as cuda_NAME_workspace said; aligned to 256 */
    int sms;                        /* multiprocessors of the device */
    bool sm90;                      /* kernels of NAME_sm90.cu may be used */
    bool tf32;                      /* products of F32 tensors may round their factors to tf32 */
    struct cuda_products *products; /* matrix products: cuBLASLt and its chosen algorithms (cuda/products/products.h) */
    const struct cuda_peers *peers; /* the other ranks (cuda/peers/peers.h); NULL: there is only one */
    struct cuda_pages *pages;       /* copies to and from files (cuda/pages.h) */
    struct snug_err *err;
};

/* Fills in what a call says of a device, sms and sm90. A cudaError_t. */
int cuda_call_device(struct cuda_call *c, int device);

/* A launcher for every row of ops.h: see kernel.cuh. */
#define OP(name, slots, attrs, diff, text) int cuda_##name(const struct args_##name *a, const struct cuda_call *c);
#include "graph/ops.h"
#undef OP

/* The ops whose kernels want a workspace: bytes of it at these shapes (data pointers NULL). Not less at larger T and B:
 * a plan is made for the largest. */
#define CUDA_WORKSPACES(ROW)                                                                                           \
    ROW(act_bwd)                                                                                                       \
    ROW(adafactor)                                                                                                     \
    ROW(adafactor_sums)                                                                                                \
    ROW(attention_general_bwd)                                                                                         \
    ROW(attention_bwd)                                                                                                 \
    ROW(attention_disentangled)                                                                                        \
    ROW(attention_disentangled_bwd)                                                                                    \
    ROW(attention_sinks_bwd)                                                                                           \
    ROW(cross_entropy)                                                                                                 \
    ROW(dora_bwd)                                                                                                      \
    ROW(embed_bwd)                                                                                                     \
    ROW(expert_use)                                                                                                    \
    ROW(linear)                                                                                                        \
    ROW(linear_fp8)                                                                                                    \
    ROW(linear_cross_entropy)                                                                                          \
    ROW(linear_dx)                                                                                                     \
    ROW(linear_dx_act)                                                                                                 \
    ROW(linear_dw)                                                                                                     \
    ROW(norm_bwd)                                                                                                      \
    ROW(rms_norm_bwd)                                                                                                  \
    ROW(rotary_bwd)                                                                                                    \
    ROW(route)                                                                                                         \
    ROW(short_conv_bwd)                                                                                                \
    ROW(span_loss)                                                                                                     \
    ROW(stable_adamw)

#define ROW(name) int64_t cuda_##name##_workspace(const struct args_##name *a, const struct cuda_call *c);
CUDA_WORKSPACES(ROW)
#undef ROW

/* rows (N) = the losses of the rows of logits (N,V), times their number; a->loss is not looked at. */
void cuda_cross_entropy_rows(const struct args_cross_entropy *a, double *rows, const struct cuda_call *c);
/* loss = `more` (NULL, or absent: 0) + 1/N of the step times the sum of n such rows. */
void cuda_mean_loss(const double *rows, int64_t n, const struct tensor *step, const struct tensor *more,
                    const struct tensor *loss, const struct cuda_call *c);

/* A window that is as long as any sequence is none: 0. Where `longest` is not known, none has 2^30 rows. */
static inline int64_t cuda_attention_window(int64_t window, int64_t longest)
{
    return window >= (longest > 0 ? longest : (int64_t)1 << 30) ? 0 : window;
}

/* Whether attention_bwd on heads of D elements of 16 bits may read, on sm_90, the mask that attention has kept: where it is the
 * kernel for short sequences (attention_short_sm90.cu) at the sizes that there then are. */
bool cuda_attention_reads_mask(const struct op_attention_bwd *n, int64_t D);

enum { SHORT_CONV_TAPS = 4 }; /* rows that a convolution may be over: they are in registers */

/* SNUG_ERR_USAGE, with what to do, for what no kernel here takes: a head of D elements; such a head, with a table of so many buckets;
 * one in a kernel that goes row by row; dropout of scores that a window or a soft cap limits; rows of H features; k experts a
 * token; a convolution over W rows; a node with these shapes. */
int cuda_check_head(int64_t D, enum dtype type, const char *op, struct snug_err *err);
int cuda_check_general(int64_t D, int64_t buckets, const char *op, struct snug_err *err);
int cuda_check_row_head(int64_t D, const char *op, struct snug_err *err);
int cuda_check_scores(bool limited, bool dropped, const char *op, struct snug_err *err);
int cuda_check_features(int64_t H, const char *op, struct snug_err *err);
int cuda_check_experts(int64_t k, const char *op, struct snug_err *err);
int cuda_check_taps(int64_t W, const char *op, struct snug_err *err);
int cuda_takes(enum op op, const union args_any *args, struct snug_err *err);

/* Ops of which a step has hundreds, on tensors of all sizes: one launch does many that run at the same time (`joins`; they
 * have the same attributes but for weight_decay and at; `a` has n entries, n >= 1). Where such an op has a workspace
 * (adafactor, adafactor_sums, stable_adamw), it is that of all of them, of as many bytes as they want together. */
#define CUDA_BATCHED(ROW)                                                                                              \
    ROW(all_reduce)                                                                                                    \
    ROW(broadcast)                                                                                                     \
    ROW(pull)                                                                                                          \
    ROW(cast)                                                                                                          \
    ROW(sumsq)                                                                                                         \
    ROW(adamw)                                                                                                         \
    ROW(sgd)                                                                                                           \
    ROW(adafactor)                                                                                                     \
    ROW(adafactor_sums)                                                                                                \
    ROW(adafactor_squares)                                                                                             \
    ROW(adafactor_apply)                                                                                               \
    ROW(adamw8bit)                                                                                                     \
    ROW(adagrad)                                                                                                       \
    ROW(ademamix)                                                                                                      \
    ROW(ademamix8bit)                                                                                                  \
    ROW(lion)                                                                                                          \
    ROW(lion8bit)                                                                                                      \
    ROW(rmsprop)                                                                                                       \
    ROW(rmsprop8bit)                                                                                                   \
    ROW(schedule_free_adamw)                                                                                           \
    ROW(schedule_free_sgd)                                                                                             \
    ROW(stable_adamw)

#define ROW(name) int cuda_##name##_many(const struct args_##name *const *a, int n, const struct cuda_call *c);
CUDA_BATCHED(ROW)
#undef ROW

#endif
