/* limits.c: sizes that no kernel here takes. Known when a run is planned, and asked again by the launchers. */
#include "cuda/kernels.h"

#include "base/err.h"

enum {
    MAX_HEAD = 256,
    MAX_HEAD_F32 = 128,
    MAX_FEATURES = 8192,
    MAX_CHOSEN = 32
}; /* what registers and shared memory hold */

int cuda_check_head(int64_t D, enum dtype type, const char *op, struct snug_err *err)
{
    int most = type == DT_F32 ? MAX_HEAD_F32 : MAX_HEAD;
    if (D % 8 == 0 && D <= most)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: a head of %lld elements in %s; on CUDA it has 8, 16, ... or %d: use %s",
                   op, (long long)D, dtype_name(type), most,
                   D % 8 == 0 && D <= MAX_HEAD ? "--dtype bf16" : "--device cpu");
}

int cuda_check_general(int64_t D, int64_t buckets, const char *op, struct snug_err *err)
{
    if (D <= MAX_HEAD && buckets <= MAX_HEAD)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE,
                   "%s: a head of %lld elements and %lld buckets; on CUDA both are at most %d: use --device cpu", op,
                   (long long)D, (long long)buckets, MAX_HEAD);
}

int cuda_check_row_head(int64_t D, const char *op, struct snug_err *err)
{
    if (D <= MAX_HEAD)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: a head of %lld elements; on CUDA it has at most %d: use --device cpu", op,
                   (long long)D, MAX_HEAD);
}

int cuda_check_scores(bool limited, bool dropped, const char *op, struct snug_err *err)
{
    if (!limited || !dropped)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE,
                   "%s: dropout together with a window or a softcap has no kernel on CUDA: set attention's dropout in "
                   "config.json to 0, or use --device cpu",
                   op);
}

int cuda_check_features(int64_t H, const char *op, struct snug_err *err)
{
    if (H <= MAX_FEATURES)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: rows of %lld features; on CUDA they have at most %d: use --device cpu", op,
                   (long long)H, MAX_FEATURES);
}

int cuda_check_experts(int64_t k, const char *op, struct snug_err *err)
{
    if (k <= MAX_CHOSEN)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: %lld experts a token; on CUDA they are at most %d: use --device cpu", op,
                   (long long)k, MAX_CHOSEN);
}

int cuda_check_taps(int64_t W, const char *op, struct snug_err *err)
{
    if (W <= SHORT_CONV_TAPS)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: a convolution over %lld rows; on CUDA it has at most %d: use --device cpu",
                   op, (long long)W, SHORT_CONV_TAPS);
}

int cuda_takes(enum op op, const union args_any *args, struct snug_err *err)
{
    const struct args_attention *a = &args->attention;
    const struct args_attention_bwd *b = &args->attention_bwd;
    bool limited;
    switch (op) {
    case OP_attention:
        limited = cuda_attention_window(a->window, a->longest) || a->softcap > 0;
        TRY(cuda_check_scores(limited, a->p > 0, "attention", err));
        return cuda_check_head(a->qkv.shape[1] / (a->heads + 2 * a->kv_heads), a->qkv.dtype, "attention", err);
    case OP_attention_bwd:
        limited = cuda_attention_window(b->window, b->longest) || b->softcap > 0;
        TRY(cuda_check_scores(limited, b->p > 0, "attention_bwd", err));
        return cuda_check_head(b->qkv.shape[1] / (b->heads + 2 * b->kv_heads), b->qkv.dtype, "attention_bwd", err);
    case OP_attention_general:
        return cuda_check_general(args->attention_general.o.shape[1] / args->attention_general.heads,
                                  args->attention_general.table.shape[0], "attention_general", err);
    case OP_attention_general_bwd:
        return cuda_check_general(args->attention_general_bwd.o.shape[1] / args->attention_general_bwd.heads,
                                  args->attention_general_bwd.table.shape[0], "attention_general_bwd", err);
    case OP_attention_disentangled:
        return cuda_check_row_head(args->attention_disentangled.qkv.shape[1] / (3 * args->attention_disentangled.heads),
                                   "attention_disentangled", err);
    case OP_attention_disentangled_bwd:
        return cuda_check_row_head(args->attention_disentangled_bwd.qkv.shape[1] /
                                       (3 * args->attention_disentangled_bwd.heads),
                                   "attention_disentangled_bwd", err);
    case OP_attention_cached:
        return cuda_check_head(args->attention_cached.keys.shape[2] / args->attention_cached.kv_heads,
                               args->attention_cached.qkv.dtype, "attention_cached", err);
    case OP_route:
        return cuda_check_experts(args->route.k, "route", err);
    case OP_route_bwd:
        return cuda_check_experts(args->route_bwd.dgates.shape[1], "route_bwd", err);
    case OP_norm:
        return cuda_check_features(args->norm.x.shape[1], "norm", err);
    case OP_norm_bwd:
        return cuda_check_features(args->norm_bwd.dy.shape[1], "norm_bwd", err);
    case OP_rms_norm:
        return cuda_check_features(args->rms_norm.x.shape[1], "rms_norm", err);
    case OP_rms_norm_bwd:
        return cuda_check_features(args->rms_norm_bwd.dy.shape[1], "rms_norm_bwd", err);
    case OP_short_conv:
        return cuda_check_taps(args->short_conv.w.shape[2], "short_conv", err);
    case OP_short_conv_bwd:
        return cuda_check_taps(args->short_conv_bwd.w.shape[2], "short_conv_bwd", err);
    case OP_short_conv_cached:
        return cuda_check_taps(args->short_conv_cached.w.shape[2], "short_conv_cached", err);
    default:
        return SNUG_OK;
    }
}
