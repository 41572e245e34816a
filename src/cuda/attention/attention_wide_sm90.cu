/* attention_wide_sm90.cu: attention for heads of 128 elements, without dropout, on Hopper: 16-bit types; compiled for sm_90a only.
 *
 * The kernels do what those of attention_engine.cuh do, for which blocks of a multiprocessor wait for each other less. A block has one
 * place on it and three warpgroups. One warp of the third has the TMA bring tiles, some ahead; each of the other two has 64 of the
 * block's 128 rows, and waits for the tiles that it wants and nothing else. */
#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_wide_backward.cuh"
#include "cuda/attention/attention_wide_forward.cuh"

bool attention_is_wide(const struct attention_params *p)
{
    return p->D == WIDE && !p->threshold && !(p->softcap > 0);
}

static int map_rows(CUtensorMap *map, encode *f, const void *data, enum dtype dtype, int rows, int columns)
{
    struct tensor t = {};
    t.data = (void *)data;
    t.dtype = dtype;
    t.ndim = 2;
    t.shape[0] = rows;
    t.shape[1] = columns;
    return map_matrix(map, f, &t, 64);
}

/* dout: NULL in the forward pass. */
static int wide_params_of(struct wide_params *w, const struct attention_params *p, enum dtype dtype, const char *op,
                          const struct cuda_call *c)
{
    encode *f;
    w->p = *p;
    TRY(find_encode(&f, op, c));
    if (!f || map_rows(&w->qkv, f, p->qkv, dtype, p->T, (p->heads + 2 * p->kv_heads) * WIDE) ||
        (p->dout && map_rows(&w->dout, f, p->dout, dtype, p->T, p->heads * WIDE)))
        return no_tensor_map(op, c);
    return SNUG_OK;
}

typedef void wide_kernel(const struct wide_params);

static int launch(wide_kernel *kernel, const struct wide_params *w, dim3 grid, int bytes, const char *op,
                  const struct cuda_call *c)
{
    TRY(cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), op, c->err));
    kernel<<<grid, WIDE_THREADS, (size_t)bytes, c->stream>>>(*w);
    return cuda_launched(c, op);
}

int attention_forward_wide_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c)
{
    struct wide_params w = {};
    TRY(wide_params_of(&w, p, dtype, "attention", c));
    dim3 grid(block_places(p->T, p->B, WIDE), (unsigned)p->heads);
    return launch(dtype == DT_BF16 ? wide_forward<__nv_bfloat16> : wide_forward<__half>, &w, grid, FORWARD_BYTES,
                  "attention", c);
}

int attention_backward_wide_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c)
{
    const char *op = "attention_bwd";
    bool bf16 = dtype == DT_BF16;
    struct wide_params w = {};
    TRY(wide_params_of(&w, p, dtype, op, c));
    unsigned places = block_places(p->T, p->B, WIDE);
    dim3 of_queries(places, (unsigned)p->heads), of_keys((unsigned)p->kv_heads, places);
    TRY(launch(bf16 ? wide_dq<__nv_bfloat16> : wide_dq<__half>, &w, of_queries, BACKWARD_BYTES, op, c));
    return launch(bf16 ? wide_dkdv<__nv_bfloat16> : wide_dkdv<__half>, &w, of_keys, BACKWARD_BYTES, op, c);
}
