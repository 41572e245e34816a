/* attention.cu: attention on any GPU from sm_80 on; see op/attention.c for the definition, attention_engine.cuh for
 * the kernels. Here are three engines for their products: mma.m16n8k16 for 16-bit types, mma.m16n8k8 with tf32 factors,
 * and plain float. Each has one warp make 16 rows of a product. */
#include "cuda/attention/attention.cuh"
#include "cuda/attention/attention_backward.cuh"
#include "cuda/attention/attention_forward.cuh"
#include "cuda/attention/attention_half.cuh"
#include "cuda/kernels/columns.cuh"

/* What engines share that finish a product before they go on. */
struct engine_in_step {
    static constexpr int ROW_UNIT = 16;
    static constexpr bool KEEPS_MASK = false, LIMITS = true;

    __device__ static inline void arrived(void)
    {
    }
    template <int N, int M> __device__ static inline void wait(float (&)[M][4])
    {
    }
    __device__ static inline int column(int j)
    {
        return 8 * j + (int)threadIdx.x % 4 * 2;
    }
};

template <int N> __device__ static inline void clear(float (&s)[N][4])
{
#pragma unroll
    for (int j = 0; j < N; j++)
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
}

/* ---- 16-bit types ---- */

#define MMA_16(NAME, TYPE)                                                                                             \
    __device__ static inline void mma_16(float(&d)[4], const uint32_t(&a)[4], uint32_t b0, uint32_t b1, TYPE)          \
    {                                                                                                                  \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME                                            \
                     ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "                                                       \
                     "{%8, %9}, {%0, %1, %2, %3};"                                                                     \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                  \
    }
MMA_16("bf16", __nv_bfloat16)
MMA_16("f16", __half)

template <class T> struct half_engine : engine_in_step {
    using type = T;
    using fragments = struct half_fragments;

    /* s = rows row0... of tile a times the rows of tile b. */
    template <int ROWS, int DP> __device__ static inline void scores(float (&s)[8][4], uint32_t a, int row0, uint32_t b)
    {
        int lane = (int)threadIdx.x % 32;
        uint32_t a_row = row_start(a, row0 + lane % 16) ^ (uint32_t)(lane / 16 * 16);
        uint32_t b_row = row_start(b, lane / 16 * 8 + lane % 8) ^ (uint32_t)(lane / 8 % 2 * 16);
        clear(s);
#pragma unroll
        for (int k = 0; k < DP / 16; k++) {
            uint32_t left[4];
            load_matrices(left, chunk_at<ROWS>(a_row, 2 * k));
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                uint32_t right[4];
                load_matrices(right, chunk_at<TILE>(b_row, 2 * k) + (uint32_t)j * 1024);
                mma_16(s[j], left, right[0], right[1], T());
                mma_16(s[j + 1], left, right[2], right[3], T());
            }
        }
    }

    template <int DP> __device__ static inline void add_product(float (&x)[DP / 8][4], const fragments &f, uint32_t b)
    {
        int lane = (int)threadIdx.x % 32;
        uint32_t row = row_start(b, lane % 16) ^ (uint32_t)(lane / 16 * 16);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int j = 0; j < DP / 8; j += 2) {
                uint32_t right[4];
                load_matrices_transposed(right, chunk_at<TILE>(row, j) + (uint32_t)k * 2048);
                mma_16(x[j], f.r[k], right[0], right[1], T());
                mma_16(x[j + 1], f.r[k], right[2], right[3], T());
            }
    }

    __device__ static inline void make(fragments &f, const float (&s)[8][4])
    {
        half_make<T>(f, s);
    }
    __device__ static inline void make_masked(fragments &f, const float (&s)[8][4], const uint32_t (&flags)[2][4])
    {
        half_make_masked<T>(f, s, flags);
    }
};

/* ---- float ---- */

/* Their left factors are the scores as they are. */
struct float_engine : engine_in_step {
    using type = float;
    struct fragments {
        float s[8][4];
    };

    __device__ static inline void make(fragments &f, const float (&s)[8][4])
    {
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                f.s[j][k] = s[j][k];
    }
    __device__ static inline void make_masked(fragments &f, const float (&s)[8][4], const uint32_t (&flags)[2][4])
    {
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                f.s[j][k] = mask_float(s[j][k], flags[k / 2][j / 2], j % 2 * 2 + k % 2);
    }
};

__device__ static inline float load_float(uint32_t address)
{
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address));
    return x;
}

__device__ static inline uint32_t to_tf32(float x)
{
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

__device__ static inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct tf32_engine : float_engine {
    template <int ROWS, int DP> __device__ static inline void scores(float (&s)[8][4], uint32_t a, int row0, uint32_t b)
    {
        int g = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
        uint32_t a_row = row_start(a, row0 + g) + 4 * (uint32_t)c, b_row = row_start(b, g) + 4 * (uint32_t)c;
        clear(s);
#pragma unroll
        for (int k = 0; k < DP / 8; k++) {
            uint32_t left[4], b0 = chunk_at<TILE>(b_row, 2 * k), b1 = chunk_at<TILE>(b_row, 2 * k + 1);
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                left[i] = to_tf32(load_float(chunk_at<ROWS>(a_row, 2 * k + (int)i / 2) + i % 2 * 1024));
#pragma unroll
            for (uint32_t j = 0; j < 8; j++)
                mma_tf32(s[j], left, to_tf32(load_float(b0 + j * 1024)), to_tf32(load_float(b1 + j * 1024)));
        }
    }

    /* Column c of a product of depth 8 is taken to be row 2c of b, column c + 4 row 2c + 1: so the lane has it. */
    template <int DP> __device__ static inline void add_product(float (&x)[DP / 8][4], const fragments &f, uint32_t b)
    {
        int g = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
        uint32_t row0 = (row_start(b, 2 * c) ^ (uint32_t)(g / 4 * 16)) + (uint32_t)(g % 4 * 4);
        uint32_t row1 = (row_start(b, 2 * c + 1) ^ (uint32_t)(g / 4 * 16)) + (uint32_t)(g % 4 * 4);
#pragma unroll
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t left[4] = {to_tf32(f.s[k][0]), to_tf32(f.s[k][2]), to_tf32(f.s[k][1]), to_tf32(f.s[k][3])};
#pragma unroll
            for (int j = 0; j < DP / 8; j++)
                mma_tf32(x[j], left, to_tf32(load_float(chunk_at<TILE>(row0, 2 * j) + k * 1024)),
                         to_tf32(load_float(chunk_at<TILE>(row1, 2 * j) + k * 1024)));
        }
    }
};

__device__ static inline float4 load_float4(uint32_t address)
{
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(address));
    return x;
}

__device__ static inline float dot(float4 a, float4 b, float sum)
{
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

struct plain_engine : float_engine {
    /* Four neighbours for each lane, to be loaded together. */
    __device__ static inline int column(int j)
    {
        return j / 2 * 16 + (int)threadIdx.x % 4 * 4 + j % 2 * 2;
    }

    template <int ROWS, int DP> __device__ static inline void scores(float (&s)[8][4], uint32_t a, int row0, uint32_t b)
    {
        int g = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
        uint32_t a_row = row_start(a, row0 + g), b_row[2] = {row_start(b, 2 * c), row_start(b, 2 * c + 1)};
        clear(s);
#pragma unroll 2
        for (int k = 0; k < DP / 4; k++) {
            float4 left0 = load_float4(chunk_at<ROWS>(a_row, k)), left1 = load_float4(chunk_at<ROWS>(a_row, k) + 1024);
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float4 right = load_float4(chunk_at<TILE>(b_row[e], k) + (uint32_t)j * 1024);
                    s[j][e] = dot(left0, right, s[j][e]);
                    s[j][2 + e] = dot(left1, right, s[j][2 + e]);
                }
        }
    }

    template <int DP> __device__ static inline void add_product(float (&x)[DP / 8][4], const fragments &f, uint32_t b)
    {
        uint32_t start = b + threadIdx.x % 4 * 16;
#pragma unroll
        for (int k = 0; k < TILE; k++) {
            int owner = k % 8 / 2; /* of the quad: has column k of the fragments */
            float left0 = __shfl_sync(0xFFFFFFFFu, f.s[k / 8][k % 2], owner, 4);
            float left1 = __shfl_sync(0xFFFFFFFFu, f.s[k / 8][2 + k % 2], owner, 4);
#pragma unroll
            for (int j = 0; j < DP / 8; j += 2) {
                float4 right = load_float4(chunk_at<TILE>(start ^ (uint32_t)(k % 8 * 16), 2 * j) + (uint32_t)k * 128);
                x[j][0] = fmaf(left0, right.x, x[j][0]);
                x[j][1] = fmaf(left0, right.y, x[j][1]);
                x[j + 1][0] = fmaf(left0, right.z, x[j + 1][0]);
                x[j + 1][1] = fmaf(left0, right.w, x[j + 1][1]);
                x[j][2] = fmaf(left1, right.x, x[j][2]);
                x[j][3] = fmaf(left1, right.y, x[j][3]);
                x[j + 1][2] = fmaf(left1, right.z, x[j + 1][2]);
                x[j + 1][3] = fmaf(left1, right.w, x[j + 1][3]);
            }
        }
    }
};

/* ---- launchers ---- */

/* At most 99 KB of shared memory for any, what the smaller GPUs have. Floats of large heads take smaller tiles. */
template <class T, int DP> struct cuts {
    using forward = cut<4, 2, DP <= 64 ? 3 : 2>;
    using dq = forward;
    using dkdv = forward;
};

/* One tile of keys and values fills what there is. The sums of dk and dv do not fit in registers. */
template <class T> struct cuts<T, 256> {
    using forward = cut<4, 1, 1>;
    using dq = cut<2, 1, 1>;
    using dkdv = dq;
};

template <int DP> struct cuts<float, DP> {
    using forward = cut<4, DP <= 64 ? 2 : 1, 1>;
    using dq = cut<DP <= 96 ? 4 : 2, DP <= 64 ? 2 : 1, 1>;
    using dkdv = dq;
};

template <class E, int DP> static int forward(const struct attention_params *p, const struct cuda_call *c)
{
    return launch_forward<E, DP, typename cuts<typename E::type, DP>::forward>(p, c);
}

template <class E, int DP> static int backward(const struct attention_params *p, const struct cuda_call *c)
{
    using C = cuts<typename E::type, DP>;
    return launch_backward<E, DP, typename C::dq, typename C::dkdv>(p, c);
}

#define WITH_ENGINE(p, dtype, c, run)                                                                                  \
    (dtype == DT_BF16  ? WITH_ANY_HEAD_SIZE(p, run, half_engine<__nv_bfloat16>, p, c)                                  \
     : dtype == DT_F16 ? WITH_ANY_HEAD_SIZE(p, run, half_engine<__half>, p, c)                                         \
     : c->tf32         ? WITH_HEAD_SIZE(p, run, tf32_engine, p, c)                                                     \
                       : WITH_HEAD_SIZE(p, run, plain_engine, p, c))

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
    return c->sm90 && dtype != DT_F32 && p->D <= 128 && !scores_limited(p);
}

extern "C" int cuda_attention(const struct args_attention *a, const struct cuda_call *c)
{
    struct attention_params p = ATTENTION_PARAMS(a);
    p.o = a->o.data;
    TRY(check(&a->qkv, &p, "attention", c->err));
    if (p.T == 0)
        return SNUG_OK;
    if (is_for_sm90(&p, a->qkv.dtype, c))
        return attention_forward_sm90(&p, a->qkv.dtype, c);
    return WITH_ENGINE((&p), a->qkv.dtype, c, forward);
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
        TRY(WITH_ENGINE((&p), a->qkv.dtype, c, backward));
    if (summed) {
        struct column_sums sums = {p.sums, attention_short_parts(&p, c->sms), a->qkv.shape[1], 1};
        column_sums_set(&sums, 0, &a->dbias);
        column_sums_launch(&sums, c);
    } else if (a->dbias.data)
        cuda_column_sums(&a->dqkv, &a->dbias, c);
    return cuda_launched(c, "attention_bwd");
}
