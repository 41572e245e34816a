/* attention.cuh: attention's launchers for different GPUs, among which attention.cu chooses. Each enqueues its kernels for a node that
 * attention.cu has checked, with T > 0: a head fits, nothing is limited and dropped at once, scale >= 0. They write o and lse, or
 * dqkv, whole. What is returned is the launch's error (cuda_check). */
#ifndef CUDA_ATTENTION_CUH
#define CUDA_ATTENTION_CUH

#include "cuda/attention/attention_tile.cuh"

/* The function PASS_DTYPE for any GPU. */
#define FOR_DTYPE(pass, dtype, c)                                                                                      \
    (dtype == DT_BF16 ? pass##_bf16 : dtype == DT_F16 ? pass##_fp16 : c->tf32 ? pass##_tf32 : pass##_fp32)

/* run<E, DP>(p, c) with the smallest size of tiles that holds a head. */
#define WITH_HEAD_SIZE(p, run, E, ...)                                                                                 \
    (p->D <= 32   ? run<E, 32>(__VA_ARGS__)                                                                            \
     : p->D <= 64 ? run<E, 64>(__VA_ARGS__)                                                                            \
     : p->D <= 96 ? run<E, 96>(__VA_ARGS__)                                                                            \
                  : run<E, 128>(__VA_ARGS__))

/* Likewise for the largest heads, which 16-bit types have. */
#define WITH_ANY_HEAD_SIZE(p, run, E, ...)                                                                             \
    (p->D > 128 ? run<E, 256>(__VA_ARGS__) : WITH_HEAD_SIZE(p, run, E, __VA_ARGS__))

/* Any GPU's, by dtype: attention_bf16.cu and so on. Heads of at most 256 elements in 16 bits, of 128 in 32. */
int attention_forward_bf16(const struct attention_params *p, const struct cuda_call *c);
int attention_forward_fp16(const struct attention_params *p, const struct cuda_call *c);
int attention_forward_tf32(const struct attention_params *p, const struct cuda_call *c);
int attention_forward_fp32(const struct attention_params *p, const struct cuda_call *c);
int attention_backward_bf16(const struct attention_params *p, const struct cuda_call *c);
int attention_backward_fp16(const struct attention_params *p, const struct cuda_call *c);
int attention_backward_tf32(const struct attention_params *p, const struct cuda_call *c);
int attention_backward_fp32(const struct attention_params *p, const struct cuda_call *c);

/* Likewise attention_general's, where attention_general_fits. */
int general_forward_bf16(const struct attention_params *p, const struct cuda_call *c);
int general_forward_fp16(const struct attention_params *p, const struct cuda_call *c);
int general_forward_tf32(const struct attention_params *p, const struct cuda_call *c);
int general_forward_fp32(const struct attention_params *p, const struct cuda_call *c);
int general_backward_bf16(const struct attention_params *p, const struct cuda_call *c);
int general_backward_fp16(const struct attention_params *p, const struct cuda_call *c);
int general_backward_tf32(const struct attention_params *p, const struct cuda_call *c);
int general_backward_fp32(const struct attention_params *p, const struct cuda_call *c);

/* Whether they take it: what a block keeps of biases must fit beside its tiles, on the smaller GPUs too. */
static inline bool attention_general_fits(const struct attention_params *p, enum dtype dtype)
{
    return p->D % 8 == 0 && p->D <= (dtype == DT_F32 ? 64 : 128) && p->scale >= 0 &&
           (!p->buckets || p->furthest <= 256);
}

/* Likewise attention_disentangled's, so many heads from p->first_head on, where attention_biased_fits. */
int biased_forward_bf16(const struct attention_params *p, int heads, const struct cuda_call *c);
int biased_forward_fp16(const struct attention_params *p, int heads, const struct cuda_call *c);
int biased_forward_tf32(const struct attention_params *p, int heads, const struct cuda_call *c);
int biased_forward_fp32(const struct attention_params *p, int heads, const struct cuda_call *c);
int biased_backward_bf16(const struct attention_params *p, int heads, const struct cuda_call *c);
int biased_backward_fp16(const struct attention_params *p, int heads, const struct cuda_call *c);
int biased_backward_tf32(const struct attention_params *p, int heads, const struct cuda_call *c);
int biased_backward_fp32(const struct attention_params *p, int heads, const struct cuda_call *c);

/* For 16-bit dtypes and heads of at most 64 elements; attention_biased_sm90.cu. */
int biased_forward_sm90(const struct attention_params *p, int heads, enum dtype dtype, const struct cuda_call *c);
int biased_backward_sm90(const struct attention_params *p, int heads, enum dtype dtype, const struct cuda_call *c);

static inline bool attention_biased_fits(int64_t D, double scale, enum dtype dtype)
{
    return D % 8 == 0 && D <= (dtype == DT_F32 ? 64 : 128) && scale >= 0;
}

/* For 16-bit dtypes, heads of at most 128 elements; a window may be there, no softcap. attention_sm90.cu. */
int attention_forward_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c);
int attention_backward_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c);

/* Whether attention_wide_sm90.cu takes it, for 16-bit dtypes; a window may be there. */
bool attention_is_wide(const struct attention_params *p);
int attention_forward_wide_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c);
int attention_backward_wide_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c);

/* Whether attention_short_sm90.cu takes it, on so many multiprocessors: no sequence over 512, not too few, and most of
 * them not so short that a block spends its time on starting. */
bool attention_is_short(const struct attention_params *p, int sms);
/* Rows of attention_params.sums: parts of sequences that are added up by themselves, at most two a sequence. The kernel writes them
 * all where `sums` is not NULL, and is the only one that does. */
int64_t attention_short_parts(const struct attention_params *p, int sms);
int attention_backward_short_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c);

#endif
