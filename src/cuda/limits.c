/* limits.c: sizes that no kernel here takes. Known when a run is planned, and asked again by the launchers. */
#include "cuda/kernels.h"

#include "base/err.h"

enum { MAX_HEAD = 128, MAX_FEATURES = 8192 }; /* what the kernels hold in registers */

int cuda_check_head(int64_t D, const char *op, struct snug_err *err)
{
    if (D % 8 == 0 && D <= MAX_HEAD)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE,
                   "%s: a head of %lld elements; on CUDA it has 8, 16, ... or %d: use --device cpu", op, (long long)D,
                   MAX_HEAD);
}

int cuda_check_features(int64_t H, const char *op, struct snug_err *err)
{
    if (H <= MAX_FEATURES)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: rows of %lld features; on CUDA they have at most %d: use --device cpu", op,
                   (long long)H, MAX_FEATURES);
}

static int check_scores(int64_t window, double softcap, const char *op, struct snug_err *err)
{
    if (window == 0 && softcap <= 0)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: a %s; there is no kernel for it on CUDA: use --device cpu", op,
                   window ? "window" : "softcap");
}

int cuda_takes(enum op op, const union args_any *args, struct snug_err *err)
{
    const struct args_attention *a = &args->attention;
    const struct args_attention_bwd *b = &args->attention_bwd;
    switch (op) {
    case OP_attention:
        TRY(check_scores(a->window, a->softcap, "attention", err));
        return cuda_check_head(a->qkv.shape[1] / (a->heads + 2 * a->kv_heads), "attention", err);
    case OP_attention_bwd:
        TRY(check_scores(b->window, b->softcap, "attention_bwd", err));
        return cuda_check_head(b->qkv.shape[1] / (b->heads + 2 * b->kv_heads), "attention_bwd", err);
    case OP_norm:
        return cuda_check_features(args->norm.x.shape[1], "norm", err);
    case OP_norm_bwd:
        return cuda_check_features(args->norm_bwd.dy.shape[1], "norm_bwd", err);
    case OP_rms_norm:
        return cuda_check_features(args->rms_norm.x.shape[1], "rms_norm", err);
    case OP_rms_norm_bwd:
        return cuda_check_features(args->rms_norm_bwd.dy.shape[1], "rms_norm_bwd", err);
    default:
        return SNUG_OK;
    }
}
