/* Gated short convolutions, a row at a time; what is before it in its sequence is read again from bcx. Bound by memory: a few rows of bcx
 * stay in the cache. The weight's taps lie apart (H,1,W), and are laid out one behind the other first.
 *
 * Order of sums: over taps in their order; over rows as columns.h says. */
#include "cpu/columns.h"
#include "cpu/kernels.h"
#include "cpu/sequences/bounds.h"

/* The operands of a row's convolution. */
struct conv {
    const void *bcx;
    const float *taps; /* (W, row_floats(H)), the last of a row is 0 behind H */
    const float *bias; /* NULL: none */
    int64_t H, W;
};

static int64_t taps_bytes(const struct tensor *w)
{
    return 4 * w->shape[2] * row_floats(w->shape[0]);
}

/* The weight's taps, into `taps`. */
static void lay_taps(const struct tensor *w, float *taps)
{
    int64_t H = w->shape[0], W = w->shape[2], floats = row_floats(H);
    memset(taps, 0, (size_t)taps_bytes(w));
    for (int64_t h = 0; h < H; h++)
        for (int64_t k = 0; k < W; k++)
            taps[k * floats + h] = ((const float *)w->data)[h * W + k];
}

static struct conv conv_of(const struct tensor *bcx, const struct tensor *w, const struct tensor *b, float *taps)
{
    lay_taps(w, taps);
    return (struct conv){.bcx = bcx->data, .taps = taps, .bias = b->data, .H = w->shape[0], .W = w->shape[2]};
}

/* Columns from h of part 0, 1 or 2 (B, C or x) of a row. */
SIMD vf part(const struct conv *s, int64_t row, int part, int64_t h, bool bf16)
{
    return vf_get_upto(s->bcx, (row * 3 + part) * s->H + h, s->H - h, bf16);
}

SIMD vf gated(const struct conv *s, int64_t row, int64_t h, bool bf16)
{
    return part(s, row, 0, h, bf16) * part(s, row, 2, h, bf16);
}

SIMD vf tap(const struct conv *s, int64_t k, int64_t h)
{
    return vf_load(s->taps + k * row_floats(s->H) + h);
}

SIMD vf bias(const struct conv *s, int64_t h)
{
    return s->bias ? vf_get_upto(s->bias, h, s->H - h, false) : vf_set1(0);
}

SIMD void conv_row(const struct conv *s, const struct args_short_conv *a, int64_t n, bool bf16)
{
    struct bounds rows = bounds_of(&a->cu, n);
    for (int64_t h = 0; h < s->H; h += VF_LANES) {
        vf u = bias(s, h);
        for (int64_t k = 0; k < s->W; k++)
            if (n - (s->W - 1) + k >= rows.from)
                u = vf_fma(tap(s, k, h), gated(s, n - (s->W - 1) + k, h, bf16), u);
        vf y = rows.b < 0 ? vf_set1(0) : u * part(s, n, 1, h, bf16);
        vf_put_upto(a->y.data, n * s->H + h, y, s->H - h, bf16);
    }
}

int64_t ISA(cpu_short_conv_workspace)(const struct args_short_conv *a, int threads)
{
    (void)threads;
    return taps_bytes(&a->w);
}

void ISA(cpu_short_conv)(const struct args_short_conv *a, const struct call *c)
{
    int64_t T = a->bcx.shape[0], H = a->w.shape[0];
    const struct conv s = conv_of(&a->bcx, &a->w, &a->b, c->workspace);
    bool bf16 = a->bcx.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(T *H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < T; n++)
        bf16 ? conv_row(&s, a, n, true) : conv_row(&s, a, n, false);
}

/* Row n of dbcx, 0 in a row that has no sequence; its parts of dw and db are added to the sums, W + 1 rows of floats. */
SIMD void conv_bwd_row(const struct conv *s, const struct args_short_conv_bwd *a, float *sums, int64_t n, bool bf16)
{
    int64_t H = s->H, W = s->W, floats = row_floats(H);
    struct bounds rows = bounds_of(&a->cu, n);
    bool is_there = rows.b >= 0;
    for (int64_t h = 0; h < H; h += VF_LANES) {
        int64_t left = H - h, at = n * 3 * H + h;
        vf dy = is_there ? vf_get_upto(a->dy.data, n * H + h, left, bf16) : vf_set1(0);
        vf g = dy * part(s, n, 1, h, bf16), u = bias(s, h), dz = vf_set1(0);
        for (int64_t k = 0; k < W && is_there; k++) {
            int64_t before = n - (W - 1) + k, behind = n + (W - 1) - k;
            if (before >= rows.from) {
                vf z = gated(s, before, h, bf16);
                u = vf_fma(tap(s, k, h), z, u);
                vf_store(sums + k * floats + h, vf_fma(g, z, vf_load(sums + k * floats + h)));
            }
            if (behind < rows.to)
                dz = vf_fma(tap(s, k, h),
                            vf_get_upto(a->dy.data, behind * H + h, left, bf16) * part(s, behind, 1, h, bf16), dz);
        }
        column_add(sums + W * floats, h, g);
        if (!a->dbcx.data)
            continue;
        put_or_add(&a->dbcx, at, dz * part(s, n, 2, h, bf16), left, bf16);
        put_or_add(&a->dbcx, at + H, dy * u, left, bf16);
        put_or_add(&a->dbcx, at + 2 * H, dz * part(s, n, 0, h, bf16), left, bf16);
    }
}

/* dw (H,1,W) from the sums of the chunks, (W + 1) rows of floats each. */
static void finish_taps(const struct tensor *dw, const float *sums, int64_t chunks)
{
    int64_t H = dw->shape[0], W = dw->shape[2], floats = row_floats(H);
    float *to = dw->data;
    for (int64_t i = 0; to && i < H * W; i++) {
        float sum = dw->add ? to[i] : 0;
        for (int64_t chunk = 0; chunk < chunks; chunk++)
            sum += sums[(chunk * (W + 1) + i % W) * floats + i / W];
        to[i] = sum;
    }
}

int64_t ISA(cpu_short_conv_bwd_workspace)(const struct args_short_conv_bwd *a, int threads)
{
    (void)threads;
    return taps_bytes(&a->w) + 4 * row_chunks(a->dy.shape[0]) * (a->w.shape[2] + 1) * row_floats(a->w.shape[0]);
}

void ISA(cpu_short_conv_bwd)(const struct args_short_conv_bwd *a, const struct call *c)
{
    int64_t T = a->dy.shape[0], H = a->w.shape[0], W = a->w.shape[2], chunks = row_chunks(T), floats = row_floats(H);
    const struct conv s = conv_of(&a->bcx, &a->w, &a->b, c->workspace);
    float *sums = (float *)c->workspace + W * floats;
    bool bf16 = a->dy.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(T *H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t i = 0; i < chunks; i++) {
        float *own = sums + i * (W + 1) * floats;
        memset(own, 0, 4 * (size_t)((W + 1) * floats));
        for (int64_t n = i * T / chunks; n < (i + 1) * T / chunks; n++)
            bf16 ? conv_bwd_row(&s, a, own, n, true) : conv_bwd_row(&s, a, own, n, false);
    }
    if (a->dw.data)
        finish_taps(&a->dw, sums, chunks);
    columns_finish(&a->db, sums + W * floats, chunks, (W + 1) * floats, H);
}

/* Where z of row j of sequence b is kept. */
static float *kept(const struct args_short_conv_cached *a, int64_t b, int64_t j)
{
    int64_t H = a->w.shape[0], W = a->w.shape[2];
    const int32_t *at = a->at.data;
    int64_t owner = at ? at[b * a->at.shape[1] + j] / a->at.shape[1] : b;
    return (float *)a->rows.data + (owner * W + j % W) * H;
}

SIMD void conv_cached_row(const struct conv *s, const struct args_short_conv_cached *a, int64_t n, bool bf16)
{
    struct bounds rows = bounds_of(&a->cu, n);
    int64_t first = rows.b < 0 ? 0 : ((const int32_t *)a->past.data)[rows.b] - rows.from; /* j of row 0 */
    for (int64_t h = 0; h < s->H; h += VF_LANES) {
        vf u = bias(s, h);
        for (int64_t k = 0; k < s->W && rows.b >= 0; k++) {
            int64_t row = n - (s->W - 1) + k;
            if (first + row < 0)
                continue;
            vf z = row >= rows.from ? gated(s, row, h, bf16)
                                    : vf_get_upto(kept(a, rows.b, first + row), h, s->H - h, false);
            u = vf_fma(tap(s, k, h), z, u);
        }
        vf y = rows.b < 0 ? vf_set1(0) : u * part(s, n, 1, h, bf16);
        vf_put_upto(a->y.data, n * s->H + h, y, s->H - h, bf16);
    }
}

/* z of the last W of the new rows of sequence b, to where they are kept. */
SIMD void keep_rows(const struct conv *s, const struct args_short_conv_cached *a, int64_t b, bool bf16)
{
    const int32_t *cu = a->cu.data;
    int64_t past = ((const int32_t *)a->past.data)[b], end = cu[b + 1];
    for (int64_t n = end - cu[b] > s->W ? end - s->W : cu[b]; n < end; n++) {
        float *to = kept(a, b, past + n - cu[b]);
        for (int64_t h = 0; h < s->H; h += VF_LANES)
            vf_put_upto(to, h, gated(s, n, h, bf16), s->H - h, false);
    }
}

int64_t ISA(cpu_short_conv_cached_workspace)(const struct args_short_conv_cached *a, int threads)
{
    (void)threads;
    return taps_bytes(&a->w);
}

void ISA(cpu_short_conv_cached)(const struct args_short_conv_cached *a, const struct call *c)
{
    int64_t T = a->bcx.shape[0], H = a->w.shape[0], B = a->cu.shape[0] - 1;
    const struct conv s = conv_of(&a->bcx, &a->w, &a->b, c->workspace);
    bool bf16 = a->bcx.dtype == DT_BF16;
#pragma omp parallel for schedule(static) num_threads(T *H < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < T; n++)
        bf16 ? conv_cached_row(&s, a, n, true) : conv_cached_row(&s, a, n, false);
    for (int64_t b = 0; b < B; b++) /* when all have read */
        bf16 ? keep_rows(&s, a, b, true) : keep_rows(&s, a, b, false);
}
