/* The matrix product. Bound by multiply-adds: 95 % of what the processor can do is reached as follows.
 *
 * A register tile of C, MR rows by NR columns, is summed over k: per step, NR values of B are loaded and MR values of A
 * broadcast. For that both lie in panels: MR rows of A (NR columns of B) together, k after k. In a panel a step is one
 * 32-bit word per row: a float, or two consecutive bf16 where the processor multiplies pairs of them; elsewhere bf16 is
 * widened while it is packed.
 *
 * B is packed first, by all threads (a chunk of its columns when it is large). A task is then a block of rows of C
 * times a group of panels of B: its thread packs these rows of A, unless its task before had them, and goes through the
 * panels. K is cut into runs of
 * RUN steps, short enough that a panel's run stays in the first-level cache; the strip (rows of the block, NR) collects
 * the sums of the runs. */
#include "cpu/product.h"

#include "cpu/act.h"

#include <omp.h>

enum {
#if defined __AVX512F__
    MR = 12,
#elif defined __AVX2__
    MR = 6,
#else
    MR = 4,
#endif
    NR = 2 * VF_LANES,
    RUN = 512,
    PACK_PANELS = 4,       /* of B, packed at a time by one thread */
    STEPS_AHEAD = 16,      /* that packing prefetches */
    TASKS = 32,            /* a thread, at least: what is lost at the end is part of one */
    BLOCK_TILES = 20,      /* most tiles of a task, and the height of the strip */
    A_BYTES = 256 << 10,   /* of packed A a task aims at: part of the second-level cache */
    B_BYTES = 8 << 20,     /* of packed B at a time */
    SMALL_FLOPS = 1 << 17, /* below, waking other threads costs more than they help */
};

/* What a word of a panel holds. */
enum words { WORDS_F32, WORDS_PAIRS, WORDS_WIDENED };

static enum words words_of(enum dtype in)
{
#if defined __AVX512BF16__
    return in == DT_BF16 ? WORDS_PAIRS : WORDS_F32;
#else
    return in == DT_BF16 ? WORDS_WIDENED : WORDS_F32;
#endif
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t steps_of(const struct product *p)
{
    return words_of(p->in) == WORDS_PAIRS ? ceil_div(p->K, 2) : p->K;
}

/* ---- packing ---- */

SIMD vu vu_load(const uint32_t *p)
{
    vu v;
    memcpy(&v, p, sizeof v);
    return v;
}

SIMD void vu_store(uint32_t *p, vu v)
{
    memcpy(p, &v, sizeof v);
}

/* Rows become columns: log2(VF_LANES) rounds of merging the first half of the vectors with the second. */
SIMD void transpose(vu t[VF_LANES])
{
    for (int width = 1; width < VF_LANES; width *= 2) {
        vu next[VF_LANES];
        for (int i = 0; i < VF_LANES / 2; i++) {
            next[2 * i] = VU_ZIP_LOW(t[i], t[i + VF_LANES / 2]);
            next[2 * i + 1] = VU_ZIP_HIGH(t[i], t[i + VF_LANES / 2]);
        }
        memcpy(t, next, sizeof next);
    }
}

/* VF_LANES words from step s on of a row whose values lie one after another; 0 beyond K. */
SIMD vu words_along(const char *row, int64_t s, int64_t K, enum words words)
{
    if (words == WORDS_PAIRS) {
        int64_t left = K - 2 * s;
        if (left >= 2 * VF_LANES)
            return vu_load((const uint32_t *)(const void *)(row + 4 * s));
        vu v = {0};
        memcpy(&v, row + 4 * s, 2 * (size_t)left);
        return v;
    }
    return (vu)vf_get_upto(row, s, K - s, words == WORDS_WIDENED);
}

/* VF_LANES words of step s from values that lie a row per k: columns `at` on, `left` of them there (0 or less: none).
 */
SIMD vu words_across(const char *base, int64_t stride, int64_t s, int64_t K, int64_t at, int64_t left, enum words words)
{
    if (left <= 0)
        return (vu){0};
    if (words == WORDS_PAIRS) {
        const uint16_t *even = (const uint16_t *)(const void *)base + 2 * s * stride + at, *odd = even + stride;
        int n = left < VF_LANES ? (int)left : VF_LANES;
        vh zero = {0};
        if (n == VF_LANES)
            return vu_pair(vh_load(even), 2 * s + 1 < K ? vh_load(odd) : zero);
        return vu_pair(vh_load_n(even, n), 2 * s + 1 < K ? vh_load_n(odd, n) : zero);
    }
    return (vu)vf_get_upto(base, s * stride + at, left, words == WORDS_WIDENED);
}

/* One step of a panel; of a vector wider than the panel only what belongs to it. */
SIMD void put_words(uint32_t *to, vu v, int width)
{
    if (width < VF_LANES)
        vf_store_n((float *)to, (vf)v, width);
    else
        vu_store(to, v);
}

/* Packs rows (of A; columns of B) from number `first` on into `panels` panels (steps, width), one behind the other. The
 * source has `rows` of them in all; panels are filled up with 0. Bound by the latency of memory: the processor does not
 * see what comes next, since reads jump from row to row. */
SIMD void pack_panels(uint32_t *to, int width, int64_t panels, const void *from, bool by_k, int64_t first, int64_t rows,
                      int64_t K, enum words words)
{
    const char *base = from;
    int64_t bytes = words == WORDS_F32 ? 4 : 2, steps = words == WORDS_PAIRS ? (K + 1) / 2 : K;
    if (!by_k) { /* step by step across all panels: reads run along the source's rows */
        for (int64_t s = 0; s < steps; s++)
            for (int64_t q = 0; q < panels; q++)
                for (int g = 0; g < width; g += VF_LANES) {
                    int64_t at = first + q * width + g;
                    if (at < rows) {
                        const char *ahead =
                            base + ((s + STEPS_AHEAD) * (words == WORDS_PAIRS ? 2 : 1) * rows + at) * bytes;
                        __builtin_prefetch(ahead, 0, 2);
                        if (words == WORDS_PAIRS)
                            __builtin_prefetch(ahead + rows * bytes, 0, 2);
                    }
                    put_words(to + (q * steps + s) * width + g, words_across(base, rows, s, K, at, rows - at, words),
                              width);
                }
        return;
    }
    for (int64_t q = 0; q < panels; q++, first += width, to += steps * width)
        for (int64_t s = 0; s < steps; s += VF_LANES) {
            int64_t n = smaller(VF_LANES, steps - s);
            for (int g = 0; g < width; g += VF_LANES) {
                vu t[VF_LANES];
                for (int r = g; r < g + VF_LANES; r++) {
                    bool there = r < width && first + r < rows;
                    const char *row = base + (first + r) * K * bytes;
                    if (there) /* the same of the next panel */
                        __builtin_prefetch(row + width * K * bytes + 4 * s, 0, 2);
                    t[r - g] = there ? words_along(row, s, K, words) : (vu){0};
                }
                transpose(t);
                for (int64_t i = 0; i < n; i++)
                    put_words(to + (s + i) * width + g, t[i], width);
            }
        }
}

/* The same with what is constant made so. */
static void pack(uint32_t *to, bool is_a, int64_t panels, const struct product *p, int64_t first)
{
    const void *from = is_a ? p->a : p->b;
    bool by_k = is_a ? p->a_by_k : p->b_by_k;
    int64_t rows = is_a ? p->M : p->N;
    enum words narrow = words_of(DT_BF16);
#define PACK(width, words)                                                                                             \
    do {                                                                                                               \
        if (by_k)                                                                                                      \
            pack_panels(to, width, panels, from, true, first, rows, p->K, words);                                      \
        else                                                                                                           \
            pack_panels(to, width, panels, from, false, first, rows, p->K, words);                                     \
    } while (0)
    if (is_a && p->in == DT_BF16)
        PACK(MR, narrow);
    else if (is_a)
        PACK(MR, WORDS_F32);
    else if (p->in == DT_BF16)
        PACK(NR, narrow);
    else
        PACK(NR, WORDS_F32);
#undef PACK
}

/* ---- the register tile ---- */

/* The sums stay in registers only when these loops are unrolled. */
#if defined __SANITIZE_ADDRESS__
#define UNROLL /* with the checks the code would take minutes to compile */
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* sum (MR,NR) += a (steps,MR) times b (steps,NR); the first run sets. */
SIMD void tile(float *sum, const uint32_t *a, const uint32_t *b, int64_t steps, bool first, bool pairs)
{
    vf t[MR][2];
    UNROLL for (int r = 0; r < MR; r++)
    {
        t[r][0] = first ? vf_set1(0) : vf_load(sum + r * NR);
        t[r][1] = first ? vf_set1(0) : vf_load(sum + r * NR + VF_LANES);
    }
    for (int64_t s = 0; s < steps; s++) {
        vu b0 = vu_load(b + s * NR), b1 = vu_load(b + s * NR + VF_LANES);
        UNROLL for (int r = 0; r < MR; r++)
        {
            vu ar = vu_set1(a[s * MR + r]);
            t[r][0] = pairs ? vf_dot_pairs(t[r][0], ar, b0) : vf_fma((vf)ar, (vf)b0, t[r][0]);
            t[r][1] = pairs ? vf_dot_pairs(t[r][1], ar, b1) : vf_fma((vf)ar, (vf)b1, t[r][1]);
        }
    }
    UNROLL for (int r = 0; r < MR; r++)
    {
        vf_store(sum + r * NR, t[r][0]);
        vf_store(sum + r * NR + VF_LANES, t[r][1]);
    }
}

static void tile_f32(float *sum, const uint32_t *a, const uint32_t *b, int64_t steps, bool first)
{
    tile(sum, a, b, steps, first, false);
}

#if defined __AVX512BF16__
static void tile_pairs(float *sum, const uint32_t *a, const uint32_t *b, int64_t steps, bool first)
{
    tile(sum, a, b, steps, first, true);
}
#else
#define tile_pairs tile_f32
#endif

/* ---- what becomes of the sums ---- */

/* Rows i… of C, `rows` of them, columns j…: a whole panel, or what is left of the last one. */
SIMD void finish_rows(const struct product *p, enum act act, bool whole, const float *strip, int64_t i, int64_t rows,
                      int64_t j)
{
    bool narrow = p->out == DT_BF16;
    vf bias[2] = {{0}};
    for (int h = 0; h < 2 && p->bias && j + h * VF_LANES < p->N; h++)
        bias[h] = vf_get_upto(p->bias, j + h * VF_LANES, p->N - j - h * VF_LANES, false);
    for (int64_t r = 0; r < rows; r++)
        for (int h = 0; h < 2; h++) {
            int64_t column = j + h * VF_LANES, left = whole ? VF_LANES : p->N - column, at = (i + r) * p->N + column;
            if (left <= 0)
                break;
            vf v = vf_load(strip + r * NR + h * VF_LANES) + bias[h];
            if (p->add)
                v = v + vf_get_upto(p->c, at, left, narrow);
            if (act) {
                vf u = v;
                v = vf_act(act, u);
                if (p->slope)
                    vf_put_upto(p->slope, at, vf_act_slope(act, u), left, narrow);
            }
            vf_put_upto(p->c, at, v, left, narrow);
        }
}

static void finish(const struct product *p, const float *strip, int64_t i, int64_t rows, int64_t j)
{
    bool whole = j + NR <= p->N;
    switch (p->act) {
#define ACT_ROW(name)                                                                                                  \
    case ACT_##name:                                                                                                   \
        if (whole)                                                                                                     \
            finish_rows(p, ACT_##name, true, strip, i, rows, j);                                                       \
        else                                                                                                           \
            finish_rows(p, ACT_##name, false, strip, i, rows, j);                                                      \
        break;
        ACTS(ACT_ROW)
#undef ACT_ROW
    default:
        break;
    }
}

/* ---- blocks and tasks ---- */

struct blocks {
    int64_t steps;
    int64_t tiles;       /* of C in a column of it */
    int64_t blocks;      /* that they are dealt out to */
    int64_t panels;      /* of B in a chunk */
    int64_t groups;      /* that they are dealt out to; a task is a block times a group */
    int64_t a_bytes;     /* of a thread's packed A */
    int64_t strip_bytes; /* of its strip */
    int64_t b_bytes;     /* of the packed chunk of B */
};

static int64_t round_up(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static struct blocks blocks_of(const struct product *p, int threads)
{
    struct blocks k = {.steps = steps_of(p), .tiles = ceil_div(p->M, MR)};
    int64_t row_bytes = larger(4 * k.steps, 4), panels = ceil_div(p->N, NR);
    /* The bytes are those of the largest blocks, whatever the blocks below, so that they only grow with the sizes. */
    k.a_bytes = round_up(smaller(k.tiles * MR * row_bytes, larger(A_BYTES, MR * row_bytes)));
    k.b_bytes = round_up(smaller(panels * NR * row_bytes, larger(B_BYTES, NR * row_bytes)));
    k.strip_bytes = 4 * BLOCK_TILES * MR * NR;
    k.panels = smaller(panels, larger(B_BYTES / (NR * row_bytes), 1));
    /* As many blocks as keep packed A small, or four a thread if more: blocks of 4 tiles and up. A multiple of the
     * threads, so that all end together. */
    int64_t most = smaller(BLOCK_TILES, larger(A_BYTES / (MR * row_bytes), 1)), each = threads > 1 ? 4 * threads : 1;
    k.blocks = larger(ceil_div(k.tiles, most), smaller(each, larger(k.tiles / 4, 1)));
    if (k.blocks > threads)
        k.blocks = smaller(ceil_div(k.blocks, threads) * threads, k.tiles);
    k.groups = threads > 1 ? smaller(larger(ceil_div(TASKS * threads, larger(k.blocks, 1)), 1), k.panels) : 1;
    return k;
}

int64_t ISA(product_workspace)(const struct product *p, int threads)
{
    struct blocks k = blocks_of(p, threads);
    return k.b_bytes + threads * (k.a_bytes + k.strip_bytes);
}

/* Tasks, numbered block by block, are handed out in runs that get shorter: a part of what is left, of whole blocks
 * while it is that much. So a thread packs few blocks of A, and all end together. The first task of a run; `tasks` from
 * the last run on. */
static int64_t run_start(int64_t run, int64_t tasks, int64_t groups, int threads)
{
    int64_t left = tasks;
    for (; run > 0 && left > 0; run--) {
        int64_t n = larger(left / (2 * threads), 1);
        left -= n > groups ? n / groups * groups : n;
    }
    return tasks - left;
}

/* `tiles` tiles of C from row i on times `panels` panels of the packed B, which start at column j. */
static void run_task(const struct product *p, int64_t steps, int64_t i, int64_t tiles, int64_t j, int64_t panels,
                     const uint32_t *b, const uint32_t *a, float *strip)
{
    bool pairs = words_of(p->in) == WORDS_PAIRS;
    for (int64_t q = 0; q < panels; q++) {
        for (int64_t s = 0; s < steps || s == 0; s += RUN) {
            int64_t run = smaller(RUN, steps - s);
            const uint32_t *bs = b + (q * steps + s) * NR;
            for (int64_t t = 0; t < tiles; t++) {
                const uint32_t *as = a + (t * steps + s) * MR;
                if (pairs)
                    tile_pairs(strip + t * MR * NR, as, bs, run, s == 0);
                else
                    tile_f32(strip + t * MR * NR, as, bs, run, s == 0);
            }
        }
        finish(p, strip, i, smaller(tiles * MR, p->M - i), j + q * NR);
    }
}

void ISA(product_run)(const struct product *p, void *workspace, int threads)
{
    if (p->M == 0 || p->N == 0)
        return;
    struct blocks k = blocks_of(p, threads);
    uint32_t *b = workspace;
    char *own = (char *)workspace + k.b_bytes;
    int64_t panels = ceil_div(p->N, NR), unit = smaller(PACK_PANELS, larger(k.panels / (2 * threads), 1));
    int64_t tasks = k.blocks * k.groups, runs = 0;
    while (run_start(runs, tasks, k.groups, threads) < tasks)
        runs++;
    bool small = 2.0 * (double)p->M * (double)p->N * (double)p->K < SMALL_FLOPS;
#pragma omp parallel num_threads(small ? 1 : threads)
    {
        int me = omp_get_thread_num();
        uint32_t *a = (uint32_t *)(void *)(own + me * (k.a_bytes + k.strip_bytes));
        float *strip = (float *)(void *)((char *)a + k.a_bytes);
        for (int64_t first = 0; first < panels; first += k.panels) {
            int64_t n = smaller(k.panels, panels - first);
#pragma omp for schedule(static)
            for (int64_t q = 0; q < n; q += unit)
                pack(b + q * NR * k.steps, false, smaller(unit, n - q), p, (first + q) * NR);
#pragma omp for schedule(dynamic)
            for (int64_t run = 0; run < runs; run++) {
                int64_t end = run_start(run + 1, tasks, k.groups, threads), packed = -1;
                for (int64_t task = run_start(run, tasks, k.groups, threads); task < end; task++) {
                    int64_t block = task / k.groups, group = task % k.groups;
                    int64_t t = k.tiles * block / k.blocks, t_end = k.tiles * (block + 1) / k.blocks;
                    int64_t q = n * group / k.groups, q_end = n * (group + 1) / k.groups;
                    if (block != packed)
                        pack(a, true, t_end - t, p, t * MR);
                    packed = block;
                    run_task(p, k.steps, t * MR, t_end - t, (first + q) * NR, q_end - q, b + q * NR * k.steps, a,
                             strip);
                }
            }
        }
    }
}
