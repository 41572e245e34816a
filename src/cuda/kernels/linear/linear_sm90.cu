/* On Hopper, products with everything behind them in one kernel, for 16-bit x, dy and W:
 *     forward    u = x W^T + b, y = act(u), slope = act'(u) where it is kept; u stays in F32, and in registers
 *     backward   du = (dy W) * slope, of the layer before; dbias = sum of du over rows
 * Bound by flops: the epilogue of one tile runs under the products of the next.
 *
 * A tile is 160 rows by 128 columns of the result. It is made turned, with W as the left factor: a thread has few columns
 * of many rows, so that b stays in a register and sums over rows need no other warp. In a block one warp loads (TMA,
 * four stages of 64 terms of the sums), and two warpgroups take turns: while one multiplies its tile, the other writes the
 * tile before. A cluster is two blocks with neighbouring columns; rows are loaded once for both, half by each: the L2
 * cache could not feed more. (For the backward pass of BERT-large's GELU on a cool H200 these tiles took 235 us and,
 * now that they are given the slope, take 201. Tiles of 64 by 256, where every row wants all of W's columns in shared
 * memory for itself, take 320.) Which tiles a cluster takes depends on shapes and on the number of multiprocessors,
 * their sums do not: ascending, 16 terms at a time. dbias: a thread's rows ascending, then a tree over the four threads
 * of a column, then columns.cuh adds those of the tiles. */
#include "cuda/kernels/columns.cuh"
#include "cuda/kernels/linear/linear_sm90.h"
#include "cuda/kernels/linear/linear_sm90_kernel.cuh"

template <class T, int A, bool BACK>
static void launch_turned(const struct params *p, bool turned, const struct cuda_call *c)
{
    if (turned)
        launch_linear<T, A, BACK, true, false>(p, c);
    else
        launch_linear<T, A, BACK, false, false>(p, c);
}

template <class T>
static void launch_forward(const struct params *p, int64_t act, bool turned, const struct cuda_call *c)
{
    switch ((enum act)act) {
    case ACT_gelu:
        launch_turned<T, ACT_gelu, false>(p, turned, c);
        break;
    case ACT_gelu_tanh:
        launch_turned<T, ACT_gelu_tanh, false>(p, turned, c);
        break;
    case ACT_silu:
        launch_turned<T, ACT_silu, false>(p, turned, c);
        break;
    default:
        launch_turned<T, ACT_none, false>(p, turned, c);
        break;
    }
}

bool cuda_linear_sm90_fits(const struct args_linear *a, const struct cuda_call *c)
{
    enum dtype t = a->x.dtype;
    bool has_act = a->act == ACT_none || a->act == ACT_gelu || a->act == ACT_gelu_tanh || a->act == ACT_silu;
    return has_kernel(t, c) && has_act && !a->add.ndim && mapped(&a->x, t) && mapped(&a->w, t) && mapped(&a->y, t) &&
           (!a->slope.ndim || mapped(&a->slope, t)) && (!a->b.ndim || a->b.dtype == DT_F32 || a->b.dtype == t);
}

int cuda_linear_sm90(const struct args_linear *a, const struct cuda_call *c)
{
    struct params p = {};
    p.b = a->b.data;
    p.wide_b = a->b.dtype == DT_F32;
    p.keep_slope = a->slope.data != NULL;
    TRY(map_all(&p, &a->x, &a->w, a->in_out, &a->y, &a->slope, c));
    if (a->x.dtype == DT_BF16)
        launch_forward<__nv_bfloat16>(&p, a->act, a->in_out, c);
    else
        launch_forward<__half>(&p, a->act, a->in_out, c);
    return cuda_launched(c, "linear");
}

bool cuda_linear_dx_act_sm90_fits(const struct args_linear_dx_act *a, const struct cuda_call *c)
{
    enum dtype t = a->dy.dtype;
    return has_kernel(t, c) && mapped(&a->dy, t) && mapped(&a->w, t) && mapped(&a->slope, t) && mapped(&a->du, t);
}

static int64_t tiles_of_rows(const struct args_linear_dx_act *a)
{
    return (a->du.shape[0] + ROWS - 1) / ROWS;
}

int64_t cuda_linear_dx_act_sm90_workspace(const struct args_linear_dx_act *a)
{
    return a->dbias.ndim ? tiles_of_rows(a) * a->du.shape[1] * (int64_t)sizeof(float) : 0;
}

int cuda_linear_dx_act_sm90(const struct args_linear_dx_act *a, const struct cuda_call *c)
{
    struct params p = {};
    p.sums = a->dbias.data ? (float *)c->workspace : NULL;
    TRY(map_all(&p, &a->dy, &a->w, !a->in_out, &a->du, &a->slope, c));
    if (a->dy.dtype == DT_BF16)
        launch_turned<__nv_bfloat16, ACT_none, true>(&p, !a->in_out, c);
    else
        launch_turned<__half, ACT_none, true>(&p, !a->in_out, c);
    if (a->dbias.data) {
        struct column_sums sums = {p.sums, tiles_of_rows(a), p.columns, 1};
        column_sums_set(&sums, 0, &a->dbias);
        column_sums_launch(&sums, c);
    }
    return cuda_launched(c, "linear_dx_act");
}
