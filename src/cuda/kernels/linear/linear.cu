/* linear, linear_dx, linear_dw and linear_dx_act (op/linear.c), and linear_fp8 (op/codes/fp8.c), as products of cuBLASLt
 * (products/products.h), or of our own where that was measured to be faster (linear_sm90.cu).
 *
 * What runs besides the products, all bound by bytes:
 * - the activation, where cuBLASLt has none that is ours: y is read once, y and its slope written once;
 * - the bias rounded to y's type, where the epilogue takes no other: O elements;
 * - what is added to the product and has rows of another pitch, brought to where the product will be: y is written once more;
 * - db, the sums of dy's columns (columns.cu).
 * linear_dx_act is one kernel of our own, or linear_dx and act_bwd one behind the other, in place: whichever was measured to
 * be faster.
 * No rows: nothing to write but gradients, which are 0. */
#include "cuda/kernels/act.cuh"
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/linear/linear_sm90.h"
#include "cuda/kernels/vector.cuh"

extern "C" {
#include "cuda/products/nodes.h"
#include "cuda/products/products.h"
#include "op/dx_act.h"
}

/* ---- bias ---- */

/* Workspaces lie one behind the other. */
static int64_t padded(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

template <class To, class From> __global__ static void convert(To *to, const From *from, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from_float<To>(to_float(from[i]));
}

static void round_bias(void *to, enum dtype type, const struct tensor *b, cudaStream_t s)
{
    int64_t n = tensor_room(b);
    WITH_FLOAT_TYPE(type, To, WITH_FLOAT_TYPE(b->dtype, From, {
                        convert<To, From>
                            <<<(unsigned)((n + 255) / 256), 256, 0, s>>>((To *)to, (const From *)b->data, n);
                    }));
}

/* The bias as the product takes it, perhaps rounded behind its workspace. */
static const void *bias_for(const struct cuda_product *p, const struct tensor *b, const struct cuda_call *c)
{
    if (!b->data || (p->bias == b->dtype && (uintptr_t)b->data % 16 == 0))
        return b->data;
    void *rounded = (char *)c->workspace + padded(cuda_products_workspace(c->products, p));
    round_bias(rounded, p->bias, b, c->stream);
    return rounded;
}

/* ---- launchers ---- */

static bool present(const struct tensor *t)
{
    return t->data || t->ndim;
}

extern "C" int64_t cuda_linear_workspace(const struct args_linear *a, const struct cuda_call *c)
{
    if (a->x.shape[0] == 0)
        return 0;
    union args_any any;
    any.linear = *a;
    struct cuda_product p = cuda_product_of(c->products, OP_linear, &any, c->tf32);
    return padded(cuda_products_workspace(c->products, &p)) + padded(a->w.shape[a->in_out ? 1 : 0] * 4);
}

static void activate(const struct args_linear *a, const struct cuda_call *c)
{
    struct act_params p = {};
    p.y = a->y.data;
    p.slope = a->slope.data;
    p.N = a->y.shape[0];
    p.O = a->y.shape[1];
    p.pitch = tensor_pitch(&a->y);
    p.dtype = a->y.dtype;
    p.act = (enum act)a->act;
    cuda_act(&p, c);
}

/* What the product is added to: where it is, or where the result will be, if cuBLASLt has to find the result's layout. */
static const void *addend(const struct tensor *add, const struct tensor *y, cudaStream_t s)
{
    if (!add->data || tensor_pitch(add) == tensor_pitch(y))
        return add->data;
    size_t element = (size_t)dtype_bytes(y->dtype, 1);
    cudaMemcpy2DAsync(y->data, element * (size_t)tensor_pitch(y), add->data, element * (size_t)tensor_pitch(add),
                      element * (size_t)y->shape[1], (size_t)y->shape[0], cudaMemcpyDeviceToDevice, s);
    return y->data;
}

/* Whether the node is to be run by a kernel of our own in place of its plain product. */
static bool runs_own(enum op op, const union args_any *any, const struct cuda_product *p, const struct cuda_call *c)
{
    struct cuda_product own;
    return cuda_product_own(op, any, p, c, &own) && cuda_products_chosen(c->products, &own);
}

extern "C" int cuda_linear(const struct args_linear *a, const struct cuda_call *c)
{
    if (a->x.shape[0] == 0)
        return SNUG_OK;
    union args_any any;
    any.linear = *a;
    struct cuda_product p = cuda_product_of(c->products, OP_linear, &any, c->tf32);
    struct product_data data = {.rows = a->x.data, .factor = a->w.data, .result = a->y.data, .workspace = c->workspace};
    if (runs_own(OP_linear, &any, &p, c))
        return cuda_linear_sm90(a, c);
    data.bias = bias_for(&p, &a->b, c);
    data.addend = addend(&a->add, &a->y, c->stream);
    TRY(cuda_products_run(c->products, &p, &data, c->stream, c->err));
    if (a->act != ACT_none)
        activate(a, c);
    return cuda_launched(c, "linear");
}

static struct cuda_product product_of_fp8(const struct args_linear_fp8 *a, const struct cuda_call *c)
{
    union args_any any;
    any.linear_fp8 = *a;
    return cuda_product_of(c->products, OP_linear_fp8, &any, c->tf32);
}

/* Sums of codes that no scale has met, for a result in T. */
struct sums {
    const void *sums;
    int64_t sums_pitch;
    const float *row_scale, *column_scale;
    const float *bias; /* NULL: none, or it is in T: */
    const void *t_bias;
    const void *add;
    int64_t add_pitch;
    void *y;
    int64_t O, y_pitch;
    bool to_y; /* y is added to */
};

template <class T, int N> __device__ static inline void plus(float (&v)[N], const T *p)
{
    float more[N];
    load<T, N>(more, p);
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] += more[i];
}

/* A block a row. Scales are powers of 2: what the sums are rounded to is what the product would be. */
template <class T, int N> __global__ static void scale_sums(const struct sums p)
{
    int64_t n = blockIdx.x;
    const T *sums = (const T *)p.sums + n * p.sums_pitch, *add = (const T *)p.add + n * p.add_pitch;
    T *y = (T *)p.y + n * p.y_pitch;
    float row = p.row_scale[n];
    for (int64_t o = threadIdx.x * N; o < p.O; o += blockDim.x * N) {
        float v[N], column[N];
        load<T, N>(v, sums + o);
        load<float, N>(column, p.column_scale + o);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] *= row * column[i];
        if (p.bias)
            plus<float, N>(v, p.bias + o);
        if (p.t_bias)
            plus<T, N>(v, (const T *)p.t_bias + o);
        if (p.add)
            plus<T, N>(v, add + o);
        if (p.to_y)
            plus<T, N>(v, y + o);
        store<T, N>(y + o, v);
    }
}

static int scale_rows(const struct args_linear_fp8 *a, const void *sums, int64_t pitch, const struct cuda_call *c)
{
    enum { THREADS = 256 };
    bool wide = a->b.dtype == DT_F32;
    struct sums p = {.sums = sums,
                     .sums_pitch = pitch,
                     .row_scale = (const float *)a->x_scale.data,
                     .column_scale = (const float *)a->w_scale.data,
                     .bias = wide ? (const float *)a->b.data : NULL,
                     .t_bias = wide ? NULL : a->b.data,
                     .add = a->add.data,
                     .add_pitch = a->add.data ? tensor_pitch(&a->add) : 0,
                     .y = a->y.data,
                     .O = a->y.shape[1],
                     .y_pitch = tensor_pitch(&a->y),
                     .to_y = a->y.add};
    bool packed = packs_fit(&a->y) && packs_fit(&a->w_scale) && packs_fit(&a->b) && packs_fit(&a->add) &&
                  (uintptr_t)sums % 16 == 0 && (p.sums_pitch | p.y_pitch | p.add_pitch) % 8 == 0;
    unsigned rows = (unsigned)a->y.shape[0];
    WITH_FLOAT_TYPE(a->y.dtype, T, if (packed) scale_sums<T, pack_width<T>><<<rows, THREADS, 0, c->stream>>>(p);
                    else scale_sums<T, 1><<<rows, THREADS, 0, c->stream>>>(p))
    return cuda_launched(c, "linear_fp8");
}

/* Behind the product's: the bias rounded, or the sums. */
extern "C" int64_t cuda_linear_fp8_workspace(const struct args_linear_fp8 *a, const struct cuda_call *c)
{
    if (a->x.shape[0] == 0)
        return 0;
    struct cuda_product p = product_of_fp8(a, c);
    int64_t sums = a->y.add ? dtype_bytes(a->y.dtype, a->y.shape[0] * a->y.shape[1]) : 0;
    return padded(cuda_products_workspace(c->products, &p)) +
           padded(cuda_products_scale_rows(c->products) ? a->w.shape[0] * 4 : sums);
}

static int multiply_codes(const struct args_linear_fp8 *a, const struct cuda_product *p, const struct cuda_call *c)
{
    struct product_data data = {.rows = a->x.data, .factor = a->w.data, .result = a->y.data, .workspace = c->workspace};
    int64_t pitch = tensor_pitch(&a->y);
    if (a->y.add) {
        data.result = (char *)c->workspace + padded(cuda_products_workspace(c->products, p));
        pitch = a->y.shape[1];
    }
    TRY(cuda_products_run(c->products, p, &data, c->stream, c->err));
    return scale_rows(a, data.result, pitch, c);
}

extern "C" int cuda_linear_fp8(const struct args_linear_fp8 *a, const struct cuda_call *c)
{
    if (a->x.shape[0] == 0)
        return SNUG_OK;
    struct cuda_product p = product_of_fp8(a, c);
    if (!cuda_products_scale_rows(c->products))
        return multiply_codes(a, &p, c);
    struct product_data data = {.rows = a->x.data,
                                .factor = a->w.data,
                                .result = a->y.data,
                                .addend = addend(&a->add, &a->y, c->stream),
                                .bias = bias_for(&p, &a->b, c),
                                .rows_scale = (const float *)a->x_scale.data,
                                .factor_scale = (const float *)a->w_scale.data,
                                .workspace = c->workspace};
    TRY(cuda_products_run(c->products, &p, &data, c->stream, c->err));
    return cuda_launched(c, "linear_fp8");
}

extern "C" int64_t cuda_linear_dx_workspace(const struct args_linear_dx *a, const struct cuda_call *c)
{
    if (a->dy.shape[0] == 0)
        return 0;
    union args_any any;
    any.linear_dx = *a;
    struct cuda_product p = cuda_product_of(c->products, OP_linear_dx, &any, c->tf32);
    return cuda_products_workspace(c->products, &p);
}

extern "C" int cuda_linear_dx(const struct args_linear_dx *a, const struct cuda_call *c)
{
    if (a->dy.shape[0] == 0)
        return SNUG_OK;
    union args_any any;
    any.linear_dx = *a;
    struct cuda_product p = cuda_product_of(c->products, OP_linear_dx, &any, c->tf32);
    struct product_data data = {
        .rows = a->dy.data, .factor = a->w.data, .result = a->dx.data, .workspace = c->workspace};
    TRY(cuda_products_run(c->products, &p, &data, c->stream, c->err));
    return cuda_launched(c, "linear_dx");
}

extern "C" int64_t cuda_linear_dx_act_workspace(const struct args_linear_dx_act *a, const struct cuda_call *c)
{
    struct args_linear_dx dx = dx_act_product(a);
    struct args_act_bwd act = dx_act_slope(a);
    int64_t product = cuda_linear_dx_workspace(&dx, c), sums = cuda_act_bwd_workspace(&act, c);
    int64_t own = cuda_linear_dx_act_sm90_fits(a, c) ? cuda_linear_dx_act_sm90_workspace(a) : 0;
    int64_t most = product > sums ? product : sums;
    return most > own ? most : own;
}

extern "C" int cuda_linear_dx_act(const struct args_linear_dx_act *a, const struct cuda_call *c)
{
    struct args_linear_dx dx = dx_act_product(a);
    struct args_act_bwd act = dx_act_slope(a);
    if (a->dy.shape[0] > 0) {
        union args_any any;
        any.linear_dx_act = *a;
        struct cuda_product p = cuda_product_of(c->products, OP_linear_dx_act, &any, c->tf32);
        if (runs_own(OP_linear_dx_act, &any, &p, c))
            return cuda_linear_dx_act_sm90(a, c);
        TRY(cuda_linear_dx(&dx, c));
    }
    return cuda_act_bwd(&act, c);
}

/* The product and the sums of columns take turns in one workspace. */
extern "C" int64_t cuda_linear_dw_workspace(const struct args_linear_dw *a, const struct cuda_call *c)
{
    union args_any any;
    any.linear_dw = *a;
    int64_t N = a->dy.shape[0], product = 0, sums = 0;
    if (N > 0 && present(&a->dw)) {
        struct cuda_product p = cuda_product_of(c->products, OP_linear_dw, &any, c->tf32);
        product = cuda_products_workspace(c->products, &p);
    }
    if (present(&a->db))
        sums = cuda_column_sums_workspace(&a->dy);
    return product > sums ? product : sums;
}

static void clear(const struct tensor *t, cudaStream_t s)
{
    if (t->data && !t->add)
        cudaMemsetAsync(t->data, 0, (size_t)dtype_bytes(t->dtype, tensor_elements(t)), s);
}

extern "C" int cuda_linear_dw(const struct args_linear_dw *a, const struct cuda_call *c)
{
    if (a->dy.shape[0] == 0) {
        clear(&a->dw, c->stream);
        clear(&a->db, c->stream);
        return cuda_launched(c, "linear_dw");
    }
    if (a->dw.data) {
        union args_any any;
        any.linear_dw = *a;
        struct cuda_product p = cuda_product_of(c->products, OP_linear_dw, &any, c->tf32);
        struct product_data data = {
            .rows = a->dy.data, .factor = a->x.data, .result = a->dw.data, .workspace = c->workspace};
        TRY(cuda_products_run(c->products, &p, &data, c->stream, c->err));
    }
    if (a->db.data)
        cuda_column_sums(&a->dy, &a->db, c);
    return cuda_launched(c, "linear_dw");
}
