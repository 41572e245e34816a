/* attention_short_sm90.cu: the backward pass of attention in one kernel, for sequences of at most 512 tokens and heads of
 * 40 to 64 elements in 16 bits, on sm_90a. S, dP and the dropout mask are made once, for five products instead of the
 * seven of attention_backward.cuh.
 *
 * One head of one sequence is the work of a cluster of SPLIT blocks. A group of four warps takes 64 keys at a time: their
 * K and V are left factors in its registers, and dK and dV add up there, while it goes over all query tiles:
 *
 *     S^T = K Q^T ;  dP^T = V dO^T ;  dV += P^T dO ;  dK += dS^T Q ;  dQ^T = K^T dS^T
 *
 * Each block adds its dQ^T of all queries in shared memory, the two groups in turns; in the end the blocks' sums are
 * added. Order of sums: dK, dV over query tiles upwards. dQ within a block over passes, in each over groups; then over
 * the blocks of the cluster. For a bias, the columns of dK and dV over a warp's rows (a tree), its passes and the warps, those
 * of dQ over queries upwards and the groups; then columns.cuh adds the blocks'.
 *
 * The block's two groups go their own ways, so that one computes while the other multiplies. A third, with few registers,
 * loads tiles ahead of them into a ring and makes what else a tile needs: the flags of dropout, do . o of its queries.
 * All of them wait for each other by barriers that count arrivals. Bound by latency: a multiprocessor holds one block, so
 * each of its schedulers has two warps that compute, and of a tile's five products only some run while its weights are
 * made. */
#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_short_add.cuh"
#include "cuda/attention/attention_short_load.cuh"

template <class T, int SPLIT, enum mask_from MASK>
__global__ __cluster_dims__(SPLIT, 1, 1)
    __launch_bounds__(THREADS, 1) void attention_backward_short(const __grid_constant__ struct attention_params p)
{
    extern __shared__ __align__(1024) char shared[];
    uint32_t base = shared_address(shared);
    int sequence = (int)blockIdx.x / SPLIT / p.heads;
    struct work<SPLIT> w = {
        (int)blockIdx.x % SPLIT, (int)blockIdx.x / SPLIT % p.heads, sequence, p.cu[sequence]
    };
    w.length = (sequence < p.B ? p.cu[sequence + 1] : p.T) - w.first;
    w.tiles = (w.length + TILE - 1) / TILE;
    w.queries = sequence < p.B ? rows_asking(p, w.length) : 0;
    w.query_tiles = (w.queries + TILE - 1) / TILE;
    w.causal = p.causal;
    for (int i = 0; i < (sequence < p.B ? 1 : 3) && w.rank == 0; i++) /* of the padding dk and dv, too */
        rows_clear((T *)p.dqkv + ((int64_t)w.first * 3 + i) * p.heads * p.D + w.head * p.D, 3 * p.heads * p.D,
                   w.queries, w.length, p.D);
    if (sequence == p.B)
        return;
    struct columns *columns = (struct columns *)(shared + AT_COLUMNS);
    for (int i = (int)threadIdx.x; p.sums && i < (int)(sizeof *columns / sizeof(float)); i += THREADS)
        ((float *)columns)[i] = 0;
    if (w.length == 0) {
        __syncthreads();
        if (p.sums && threadIdx.x < GROUPS * 128)
            write_columns(p, w, *columns, 0, 0, (int)threadIdx.x);
        return;
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(base + AT_FULL + 8 * i, 4);
            barrier_init(base + AT_EMPTY + 8 * i, GROUPS * 4);
        }
        for (int i = 0; i < GROUPS * (LONGEST / TILE); i++)
            barrier_init(base + AT_ADDED + 8 * i, 4);
    }
    __syncthreads();
    if (threadIdx.x >= GROUPS * 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        fill_ring<T, SPLIT, MASK>(p, w, shared, (int)threadIdx.x - GROUPS * 128);
        if (SPLIT > 1) {
            cluster_arrive();
            cluster_wait();
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        add_up<T, SPLIT, MASK != NO_MASK>(p, w, shared);
    }
    if (SPLIT > 1)
        cluster_left();
}

template <class T, int SPLIT> static int launch(const struct attention_params *p, const struct cuda_call *c)
{
    attention_kernel *kernel = !p->threshold ? attention_backward_short<T, SPLIT, NO_MASK>
                               : p->mask     ? attention_backward_short<T, SPLIT, KEPT>
                                             : attention_backward_short<T, SPLIT, MADE>;
    TRY(cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES),
                   "attention_bwd", c->err));
    kernel<<<(unsigned)(SPLIT * p->heads * (p->B + 1)), THREADS, SHARED_BYTES, c->stream>>>(*p);
    return cuda_launched(c, "attention_bwd");
}

/* One head's work for one block is too much where there are few. A block of a pair takes 0.6 of the time. */
static bool in_one_block(const struct attention_params *p, int sms)
{
    int64_t heads = (int64_t)p->B * p->heads;
    return 10 * ((heads + sms - 1) / sms) <= 6 * ((2 * heads + sms - 1) / sms);
}

enum { MEAN_LENGTH = 128 }; /* from here on it gains */

extern "C" bool cuda_attention_reads_mask(const struct op_attention_bwd *n, int64_t D)
{
    bool limited = cuda_attention_window(n->window, n->longest) || n->softcap > 0;
    return !limited && n->longest >= MEAN_LENGTH && n->longest <= LONGEST && n->heads == n->kv_heads && D > 32 &&
           D <= 64;
}

bool attention_is_short(const struct attention_params *p, int sms)
{
    struct op_attention_bwd n = {};
    n.heads = p->heads, n.kv_heads = p->kv_heads, n.longest = p->longest;
    n.window = p->window, n.softcap = p->softcap;
    return cuda_attention_reads_mask(&n, p->D) && p->T >= MEAN_LENGTH * (int64_t)p->B &&
           4 * (int64_t)p->B * p->heads >= sms;
}

int64_t attention_short_parts(const struct attention_params *p, int sms)
{
    return p->B * (in_one_block(p, sms) ? 1 : 2);
}

int attention_backward_short_sm90(const struct attention_params *p, enum dtype dtype, const struct cuda_call *c)
{
    if (in_one_block(p, c->sms))
        return dtype == DT_BF16 ? launch<__nv_bfloat16, 1>(p, c) : launch<__half, 1>(p, c);
    return dtype == DT_BF16 ? launch<__nv_bfloat16, 2>(p, c) : launch<__half, 2>(p, c);
}
