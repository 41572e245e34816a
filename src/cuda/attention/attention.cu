/* attention.cu: attention's launchers; see op/attention/attention.c for the definition, attention_engine.cuh for the kernels. Which
 * of them: Hopper's own where they take the problem, else those for any GPU, by dtype. Each dtype is compiled by itself,
 * since all together take minutes. */
#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_sinks.cuh"
#include "cuda/kernels/columns.cuh"

static int check(const struct tensor *qkv, const struct attention_params *p, const char *op, struct snug_err *err)
{
    TRY(cuda_check_head(p->D, qkv->dtype, op, err));
    TRY(cuda_check_scores(scores_limited(p), p->threshold > 0, op, err));
    if (p->scale < 0)
        return err_set(err, SNUG_ERR_USAGE, "%s: scale %g; on CUDA it is not below 0", op, (double)p->scale);
    if (qkv->dtype != DT_F32 && qkv->dtype != DT_F16 && qkv->dtype != DT_BF16)
        return err_set(err, SNUG_ERR_USAGE, "%s: dtype %s; on CUDA it is F32, F16 or BF16", op, dtype_name(qkv->dtype));
    return SNUG_OK;
}

/* What both have under the same names. */
#define ATTENTION_PARAMS(a)                                                                                            \
    {                                                                                                                  \
        .qkv = a->qkv.data, .lse = (float *)a->lse.data, .mask = (uint32_t *)a->mask.data,                             \
        .cu = (const int32_t *)a->cu.data, .coords = (const int32_t *)a->coords.data,                                  \
        .rng = (const int32_t *)a->rng.data, .T = (int)a->qkv.shape[0], .B = (int)a->cu.shape[0] - 1,                  \
        .heads = (int)a->heads, .kv_heads = (int)a->kv_heads,                                                          \
        .D = (int)(a->qkv.shape[1] / (a->heads + 2 * a->kv_heads)), .causal = (int)a->causal,                          \
        .longest = (int)a->longest, .queries = (int)a->queries, .scale = (float)a->scale,                              \
        .keep_scale = (float)mask_scale8(a->p), .site = (uint32_t)a->site,                                             \
        .threshold = a->p > 0 && a->coords.data ? mask_threshold8(a->p) : 0,                                           \
        .window = (int)cuda_attention_window(a->window, a->longest), .softcap = (float)a->softcap                      \
    }

/* Whether Hopper's own kernels take it. */
static bool is_for_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c)
{
    return c->sm90 && dtype != DT_F32 && p->D <= 128 && p->softcap <= 0;
}

extern "C" int cuda_attention(const struct args_attention *a, const struct cuda_call *c)
{
    struct attention_params p = ATTENTION_PARAMS(a);
    p.o = a->o.data;
    TRY(check(&a->qkv, &p, "attention", c->err));
    if (p.T == 0)
        return SNUG_OK;
    if (is_for_sm90(&p, a->qkv.dtype, c))
        TRY(attention_forward_sm90(&p, a->qkv.dtype, c));
    else
        TRY(FOR_DTYPE(attention_forward, a->qkv.dtype, c)(&p, c));
    if (!a->sinks.data)
        return SNUG_OK;
    attention_add_sinks(a, c);
    return cuda_launched(c, "attention");
}

/* Whether the kernel for short sequences does it, which adds up columns on the way. */
static bool is_short(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c)
{
    return is_for_sm90(p, dtype, c) && attention_is_short(p, c->sms);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The statistics (A,T), then what sums of columns want, by whichever kernel at fewer rows and sequences. */
extern "C" int64_t cuda_attention_bwd_workspace(const struct args_attention_bwd *a, const struct cuda_call *c)
{
    (void)c;
    int64_t statistics = a->heads * a->qkv.shape[0] * (int64_t)sizeof(float2);
    int64_t parts = 2 * (a->cu.shape[0] - 1) * a->qkv.shape[1] * (int64_t)sizeof(float);
    return a->dbias.ndim ? larger(statistics, larger(parts, cuda_column_sums_workspace(&a->dqkv))) : statistics;
}

extern "C" int cuda_attention_bwd(const struct args_attention_bwd *a, const struct cuda_call *c)
{
    struct attention_params p = ATTENTION_PARAMS(a);
    p.o = a->o.data;
    p.dout = a->dout.data;
    p.dqkv = a->dqkv.data;
    p.statistics = (float2 *)c->workspace;
    TRY(check(&a->qkv, &p, "attention_bwd", c->err));
    bool summed = a->dbias.data && is_short(&p, a->qkv.dtype, c);
    p.sums = summed ? (float *)c->workspace : NULL;
    if (p.T > 0 && is_for_sm90(&p, a->qkv.dtype, c))
        TRY(attention_backward_sm90(&p, a->qkv.dtype, c));
    else if (p.T > 0)
        TRY(FOR_DTYPE(attention_backward, a->qkv.dtype, c)(&p, c));
    if (summed) {
        struct column_sums sums = {p.sums, attention_short_parts(&p, c->sms), a->qkv.shape[1], 1};
        column_sums_set(&sums, 0, &a->dbias);
        column_sums_launch(&sums, c);
    } else if (a->dbias.data)
        cuda_column_sums(&a->dqkv, &a->dbias, c);
    return cuda_launched(c, "attention_bwd");
}
