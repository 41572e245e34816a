/* The matrix product. Bound by multiply-adds: 95 % of what the processor can do is reached as follows.
 *
 * A tile of C is summed over k in registers (register_tile.h). For that operands lie in panels (panels.h), or are read
 * where they lie, if their rows lie along k.
 *
 * K is cut twice. A run is so short that a panel's run of B stays in the first-level cache while the tiles of a block
 * of rows are summed, one after the other. A stretch of many runs is so short that the block's rows of A, packed, stay
 * in the second-level one while panel after panel is multiplied by them. The strip keeps the sums between runs, and
 * between stretches those of many panels. What becomes of a sum (epilogue.h) is done with it when its last run has been
 * added, while it is in the cache.
 *
 * B is packed first, by all threads (a chunk of its columns when it is large). A task is then a block of rows of C times
 * a range of panels of B: its thread packs these rows of A, run by run. With few rows there is nothing to share: each
 * thread packs the panels of B that it multiplies, which then are in its own cache, and all of A is packed first.
 *
 * Read where they lie are: A by the vectors of x86, and by the matrix unit where rows are few, but for the last rows of C; and B
 * by up to as many rows as a vector, but for the last columns. Packing A, again with each task, took a tenth of a product of 512
 * rows, and packing B half of one of 16. */
#include "cpu/product/product.h"

#include "cpu/product/epilogue.h"
#include "cpu/product/register_tile.h"

#include <omp.h>

enum {
    PACK_PANELS = 4,       /* of B, packed at a time by one thread */
    TASKS = 32,            /* a thread, at least: what is lost at the end is part of one */
    STRIP_BYTES = 1 << 19, /* of sums that wait for the next stretch */
    B_BYTES = 8 << 20,     /* of packed B at a time */
    BLOCK_TILES = 20,      /* most tiles of a task */
    FEW_ROWS = 48,         /* so many of C are few */
    SOME_ROWS = 1024,      /* so many are, too, when A fits the second-level cache and all threads have panels */
    SMALL_FLOPS = 1 << 17, /* below, waking other threads costs more than they help */
};

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

static int64_t round_up(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* ---- forms ---- */

/* How products of a type are computed. */
struct form {
    enum words words;
    int rows, columns;    /* of a tile of C, and of the panels */
    int across;           /* rows of A, at most, that are multiplied by panels of B where those lie */
    int64_t run, stretch; /* words along k, see above */
    int64_t steps;        /* words along k in all */
    int64_t a_bytes;      /* of packed A a task aims at: part of the second-level cache */
};

/* Runs and blocks of AVX-512 and of the matrix unit are the fastest of those that were tried on Emerald Rapids (48 KiB and
 * 2 MiB of cache). Those of narrower vectors are chosen by the size of the caches, not by measurement. */
static struct form form_of(const struct product *p)
{
    struct form f = {.rows = MR,
                     .columns = NR,
                     .across = VF_LANES,
                     .run = 256,
                     .stretch = 1024,
                     .steps = p->K,
                     .a_bytes = 512 << 10};
    if (p->in != DT_BF16)
        f.words = WORDS_F32;
    else if (AMX)
        f = (struct form){.words = WORDS_TILES,
                          .rows = AMX_ROWS,
                          .columns = AMX_COLUMNS,
                          .across = AMX_ACROSS,
                          .run = 128,
                          .stretch = 1024,
                          .steps = ceil_div(p->K, 2 * AMX_WORDS) * AMX_WORDS,
                          .a_bytes = 1 << 20};
    else if (BFMMLA) {
        f.words = WORDS_QUADS;
        f.steps = ceil_div(p->K, 2 * QUAD) * QUAD;
    } else if (BF16_PAIRS) {
        f.words = WORDS_PAIRS;
        f.steps = ceil_div(p->K, 2);
    } else
        f.words = WORDS_WIDENED;
    if (f.words == WORDS_TILES && f.steps <= 192) /* as in MiniLM: sums need not be kept from run to run */
        f.run = 192;
    return f;
}

/* Whether rows of an operand that lie along k can be read where they lie. */
static bool rows_lie(const struct product *p, const struct form *f)
{
    return f->words == WORDS_TILES
               ? p->K % (2 * AMX_WORDS) == 0
               : X86_VECTORS && (f->words == WORDS_F32 || (f->words == WORDS_PAIRS && p->K % 2 == 0));
}

/* Of the tiles in a column of C the first ones whose rows of A are read so: whole ones. */
static int64_t tiles_that_lie(const struct product *p, const struct form *f)
{
    return p->a_by_k && rows_lie(p, f) ? p->M / f->rows : 0;
}

/* Of the panels of B the first ones that so few rows are multiplied by where they lie: whole ones. */
static int64_t panels_that_lie(const struct product *p, const struct form *f)
{
    return p->b_by_k && !p->goes_on && p->M <= f->across && rows_lie(p, f) ? p->N / f->columns : 0;
}

/* Tile t of C, one of them, from word s of A's rows on. */
static void tile_where_it_lies(const struct product *p, const struct form *f, float *sum, const uint32_t *b, int64_t t,
                               int64_t s, int64_t steps, bool add, struct amx_beside beside)
{
    int64_t pitch = p->a_pitch * (f->words == WORDS_F32 ? 4 : 2);
    tile_lying(f->words, sum, (const char *)p->a + t * f->rows * pitch + 4 * s, pitch, b, steps, add, beside);
}

/* ---- tiles that are summed ---- */

/* A tile whose sums are ready, and what becomes of them not yet. With the matrix unit that is done beside the next tile's products:
 * a GELU with its slope would take as long as these, and even rounding is a tenth. */
struct ready {
    const struct product *p;
    const float *sum;
    int64_t i, j;
    int64_t rows, done, part; /* in all; so far; at a time */
    int columns;
};

static void ready_part(void *of)
{
    struct ready *x = of;
    int64_t n = smaller(x->part, x->rows - x->done);
    if (n <= 0)
        return;
    epilogue(x->p, x->sum + x->done * x->columns, x->columns, x->i + x->done, n, x->j);
    x->done += n;
}

static struct amx_beside ready_parts(struct ready *x)
{
    return x->rows > x->done ? (struct amx_beside){ready_part, x} : (struct amx_beside){0};
}

static void ready_end(struct ready *x)
{
    x->part = x->rows;
    ready_part(x);
}

/* After the last run of words along k, of so many. */
static void ready_begin(struct ready *x, const struct product *p, const struct form *f, const float *sum, int64_t i,
                        int64_t j, int64_t run)
{
    *x = (struct ready){.p = p, .sum = sum, .i = i, .j = j, .rows = f->rows, .columns = f->columns};
    x->part = ceil_div(f->rows, larger(run / AMX_WORDS, 1));
    if (f->words != WORDS_TILES)
        ready_end(x);
}

/* ---- packing ---- */

/* The same as pack_panels with what is constant made so. */
static void pack_any(uint32_t *to, int width, int64_t panels, const struct source *o, int64_t first, int64_t s0,
                     int64_t steps, enum words words)
{
#define PACK(w, words_)                                                                                                \
    do {                                                                                                               \
        if (o->by_k)                                                                                                   \
            pack_panels(to, w, panels, o, true, first, s0, steps, words_);                                             \
        else                                                                                                           \
            pack_panels(to, w, panels, o, false, first, s0, steps, words_);                                            \
    } while (0)
#define PACK_WIDTHS(words_)                                                                                            \
    do {                                                                                                               \
        if (width == MR)                                                                                               \
            PACK(MR, words_);                                                                                          \
        else                                                                                                           \
            PACK(NR, words_);                                                                                          \
    } while (0)
    if (words == WORDS_F32)
        PACK_WIDTHS(WORDS_F32);
    else if (AMX && words == WORDS_TILES)
        PACK(AMX_COLUMNS, WORDS_TILES);
    else if (BFMMLA && width == MR)
        pack_quads(to, MR, panels, o, o->by_k, first, s0, steps);
    else if (BFMMLA)
        pack_quads(to, NR, panels, o, o->by_k, first, s0, steps);
    else if (BF16_PAIRS)
        PACK_WIDTHS(WORDS_PAIRS);
    else
        PACK_WIDTHS(WORDS_WIDENED);
#undef PACK
#undef PACK_WIDTHS
}

/* Steps [s, s + steps) of `panels` panels of A from row `first` on. */
static void pack_a(uint32_t *to, const struct product *p, const struct form *f, int64_t panels, int64_t first,
                   int64_t s, int64_t steps)
{
    struct source o = {.base = p->a, .by_k = p->a_by_k, .pitch = p->a_pitch, .rows = p->M, .K = p->K};
    if (!AMX || f->words != WORDS_TILES)
        pack_any(to, MR, panels, &o, first, s, steps, f->words);
    else if (o.by_k)
        pack_tiles(to, panels, &o, true, first, s, steps);
    else
        pack_tiles(to, panels, &o, false, first, s, steps);
}

static void pack_b(uint32_t *to, const struct product *p, const struct form *f, int64_t panels, int64_t first,
                   int64_t s, int64_t steps)
{
    struct source o = {.base = p->b, .by_k = p->b_by_k, .pitch = p->b_pitch, .rows = p->N, .K = p->K};
    pack_any(to, f->columns, panels, &o, first, s, steps, f->words);
}

/* ---- blocks and tasks ---- */

struct blocks {
    int64_t tiles;        /* of C in a column of it */
    int64_t lie;          /* of these, the first ones whose rows of A are read where they lie */
    int64_t blocks;       /* that they are dealt out to */
    int64_t panels;       /* of B in a chunk */
    int64_t groups;       /* that they are dealt out to; a task is a block times a group */
    int64_t strip_panels; /* of B whose sums the strip has room for */
    int64_t a_bytes;      /* of a thread's packed A */
    int64_t strip_bytes;  /* of its strip */
    int64_t b_bytes;      /* of the packed chunk of B */
};

static struct blocks blocks_of(const struct product *p, const struct form *f, int threads)
{
    struct blocks k = {.tiles = ceil_div(p->M, f->rows)};
    int64_t row_bytes = larger(4 * f->steps, 4), stretch_bytes = smaller(row_bytes, 4 * f->stretch);
    int64_t panels = ceil_div(p->N, f->columns), tile_bytes = 4 * f->rows * f->columns;
    int64_t most = smaller(larger(f->a_bytes / (f->rows * stretch_bytes), 1), BLOCK_TILES);
    /* The bytes are those of the largest blocks, whatever the blocks below, so that they only grow with the sizes. */
    k.a_bytes = round_up(smaller(k.tiles * f->rows * stretch_bytes, larger(f->a_bytes, f->rows * stretch_bytes)));
    k.b_bytes = round_up(smaller(panels * f->columns * row_bytes, larger(B_BYTES, f->columns * row_bytes)));
    k.strip_bytes = smaller(k.tiles * panels * tile_bytes, larger(STRIP_BYTES, BLOCK_TILES * tile_bytes));
    k.panels = smaller(panels, larger(B_BYTES / (f->columns * row_bytes), 1));
    /* As many blocks as keep packed A small, or four a thread if more: blocks of 4 tiles and up. A multiple of the
     * threads, so that all end together. */
    int64_t each = threads > 1 ? 4 * threads : 1;
    k.blocks = larger(ceil_div(k.tiles, most), smaller(each, larger(k.tiles / 4, 1)));
    if (k.blocks > threads)
        k.blocks = smaller(ceil_div(k.blocks, threads) * threads, k.tiles);
    k.groups = threads > 1 ? smaller(larger(ceil_div(TASKS * threads, larger(k.blocks, 1)), 1), k.panels) : 1;
    if (f->words != WORDS_TILES)
        k.lie = tiles_that_lie(p, f);
    k.strip_panels = larger(k.strip_bytes / (larger(ceil_div(k.tiles, larger(k.blocks, 1)), 1) * tile_bytes), 1);
    return k;
}

/* What a product with few rows needs: what is packed of A for all threads; a run of a panel and its sums for each. */
struct few {
    int64_t tiles, lie; /* of C in a column; of these, the first ones whose rows of A are read where they lie */
    int64_t a_bytes, b_bytes, strip_bytes;
};

/* Bytes of A that most of the second-level cache holds. */
static int64_t few_bytes(const struct form *f)
{
    return 2 * f->a_bytes;
}

static bool is_few(const struct product *p, const struct form *f, int threads)
{
    int64_t a_bytes = 4 * ceil_div(p->M, f->rows) * f->rows * f->steps;
    return p->M <= FEW_ROWS ||
           (p->M <= SOME_ROWS && a_bytes <= few_bytes(f) && ceil_div(p->N, f->columns) >= 2 * threads);
}

/* Whether there are few depends on the sizes; the bytes only grow with them. */
static struct few few_of(const struct product *p, const struct form *f)
{
    struct few k = {.tiles = ceil_div(smaller(p->M, SOME_ROWS), f->rows)};
    int64_t tile_bytes = 4 * f->rows * f->steps, least = ceil_div(smaller(p->M, FEW_ROWS), f->rows) * tile_bytes;
    least = larger(least, 4 * f->across * f->steps); /* for pack_across */
    k.a_bytes = round_up(larger(smaller(k.tiles * tile_bytes, few_bytes(f)), least));
    k.b_bytes = round_up(4 * smaller(f->run, f->steps) * f->columns);
    k.strip_bytes = 4 * larger(k.tiles * f->rows, f->across) * f->columns;
    k.lie = tiles_that_lie(p, f);
    return k;
}

int64_t ISA(product_workspace)(const struct product *p, int threads)
{
    struct form f = form_of(p);
    struct blocks k = blocks_of(p, &f, threads);
    struct few w = few_of(p, &f);
    return larger(k.b_bytes + threads * (k.a_bytes + k.strip_bytes), w.a_bytes + threads * (w.b_bytes + w.strip_bytes));
}

/* Tasks, numbered block by block, are handed out in runs that get shorter: a part of what is left, of whole blocks
 * while there is one for each thread. So a thread packs few blocks of A, and all end together. The first task of a run;
 * `tasks` from the last run on. */
static int64_t run_start(int64_t run, int64_t tasks, int64_t groups, int threads)
{
    int64_t left = tasks;
    for (; run > 0 && left > 0; run--) {
        int64_t n = larger(left / (2 * threads), 1);
        left -= left >= threads * groups ? larger(n / groups, 1) * groups : n;
    }
    return tasks - left;
}

/* The part of 1 / parts, number `part`, of what is read next goes to the second-level cache. */
static void prefetch_part(const uint32_t *words, int64_t n, int64_t part, int64_t parts)
{
    enum { LINE = 16 };
    for (int64_t i = n / LINE * part / parts * LINE; i < n / LINE * (part + 1) / parts * LINE; i += LINE)
        __builtin_prefetch(words + i, 0, 2);
}

/* Rows of C from i on, with what of A is packed: behind the tiles that lie, `steps` words along k from word s on. */
struct block {
    int64_t i, tiles, lie, s, steps;
    uint32_t *a;
    bool packed; /* all that will be: a task before left it */
};

static void block_tile(const struct product *p, const struct form *f, const struct block *k, float *sum,
                       const uint32_t *b, int64_t t, int64_t s, int64_t run, bool add, struct amx_beside beside)
{
    int64_t i = k->i + t * f->rows;
    if (t < k->lie)
        tile_where_it_lies(p, f, sum, b, i / f->rows, s, run, add, beside);
    else
        tile(f->words, sum, p->M - i, k->a + ((t - k->lie) * k->steps + s - k->s) * f->rows, b, run, add, beside);
}

/* From word s on, a run of the panel of B at column j times the tiles of a block, of which `sums` has the sums. */
static void run_tiles(const struct product *p, const struct form *f, const struct block *k, float *sums,
                      const uint32_t *b, int64_t s, int64_t run, int64_t j)
{
    bool add = s > 0 || p->goes_on, last = s + run >= f->steps, one = f->steps <= f->run;
    struct ready before = {0};
    for (int64_t t = 0; t < k->tiles; t++) {
        float *sum = sums + (one ? t % 2 : t) * f->rows * f->columns; /* two in turns stay in the first-level cache */
        int64_t i = k->i + t * f->rows;
        if (f->words == WORDS_TILES)
            prefetch_part(b + run * f->columns, f->run * f->columns, t, k->tiles);
        if (last && f->words != WORDS_TILES)
            epilogue_prefetch(p, f->columns, i, f->rows, j);
        if (s == 0 && p->goes_on)
            epilogue_begin(p, sum, f->columns, i, f->rows, j);
        block_tile(p, f, k, sum, b, t, s, run, add, ready_parts(&before));
        ready_end(&before);
        if (last)
            ready_begin(&before, p, f, sum, i, j, run);
    }
    ready_end(&before);
}

/* A block of C times `panels` panels of the packed B, which start at column j. */
static void run_task(const struct product *p, const struct form *f, const struct blocks *of, struct block k, int64_t j,
                     int64_t panels, const uint32_t *b, float *strip)
{
    bool one = f->steps <= f->stretch; /* a panel's sums are finished before the next's begin */
    int64_t width = one ? panels : of->strip_panels, tiles = k.tiles - k.lie;
    for (int64_t q0 = 0; q0 < panels; q0 += width)
        for (k.s = 0; k.s < f->steps || k.s == 0; k.s += f->stretch) {
            k.steps = smaller(f->stretch, f->steps - k.s);
            if (tiles && !k.packed)
                pack_a(k.a, p, f, tiles, k.i + k.lie * f->rows, k.s, k.steps);
            for (int64_t q = q0; q < smaller(q0 + width, panels); q++)
                for (int64_t s = k.s; s < k.s + k.steps || s == 0; s += f->run)
                    run_tiles(p, f, &k, strip + (one ? 0 : q - q0) * k.tiles * f->rows * f->columns,
                              b + (q * f->steps + s) * f->columns, s, smaller(f->run, k.s + k.steps - s),
                              j + q * f->columns);
        }
}

/* One thread's part of a product with many rows. */
static void run_blocks(const struct product *p, const struct form *f, const struct blocks *k, void *workspace,
                       int threads)
{
    int me = omp_get_thread_num();
    uint32_t *b = workspace,
             *a = (uint32_t *)(void *)((char *)workspace + k->b_bytes + me * (k->a_bytes + k->strip_bytes));
    float *strip = (float *)(void *)((char *)a + k->a_bytes);
    int64_t panels = ceil_div(p->N, f->columns), unit = smaller(PACK_PANELS, larger(k->panels / (2 * threads), 1));
    int64_t tasks = k->blocks * k->groups, runs = 0, last = -1;
    while (run_start(runs, tasks, k->groups, threads) < tasks)
        runs++;
    for (int64_t first = 0; first < panels; first += k->panels) {
        int64_t n = smaller(k->panels, panels - first);
#pragma omp for schedule(static)
        for (int64_t q = 0; q < n; q += unit)
            pack_b(b + q * f->columns * f->steps, p, f, smaller(unit, n - q), (first + q) * f->columns, 0, f->steps);
#pragma omp for schedule(dynamic)
        for (int64_t run = 0; run < runs; run++) {
            int64_t end = run_start(run + 1, tasks, k->groups, threads);
            for (int64_t task = run_start(run, tasks, k->groups, threads), next; task < end; task = next) {
                int64_t block = task / k->groups; /* its tasks of this run are one */
                next = smaller(end, (block + 1) * k->groups);
                int64_t t = k->tiles * block / k->blocks, n_tiles = k->tiles * (block + 1) / k->blocks - t;
                bool again = block == last && f->steps <= f->stretch;
                struct block rows = {.i = t * f->rows, .tiles = n_tiles, .a = a, .packed = again};
                last = block;
                rows.lie = smaller(n_tiles, larger(k->lie - t, 0));
                int64_t q = n * (task - block * k->groups) / k->groups,
                        q_end = n * (next - block * k->groups) / k->groups;
                run_task(p, f, k, rows, (first + q) * f->columns, q_end - q, b + q * f->columns * f->steps, strip);
            }
        }
    }
}

/* All threads pack what few rows of A do not lie as they are needed: run after run, each with all of its panels. */
static void pack_few(const struct product *p, const struct form *f, const struct few *k, uint32_t *a)
{
    int64_t panels = k->tiles - k->lie, groups = ceil_div(panels, PACK_PANELS);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < ceil_div(f->steps, f->run) * groups; i++) {
        int64_t s = i / groups * f->run, run = smaller(f->run, f->steps - s), q = i % groups * PACK_PANELS;
        pack_a(a + (s * panels + q * run) * f->rows, p, f, smaller(PACK_PANELS, panels - q), (k->lie + q) * f->rows, s,
               run);
    }
}

/* The sums of tile t of few rows, from word s of A on, times a run of a panel of B. */
static void few_tile(const struct product *p, const struct form *f, const struct few *k, float *sum, const uint32_t *a,
                     const uint32_t *b, int64_t t, int64_t s, int64_t run, bool add, struct amx_beside beside)
{
    if (t < k->lie)
        tile_where_it_lies(p, f, sum, b, t, s, run, add, beside);
    else
        tile(f->words, sum, p->M - t * f->rows, a + (s * (k->tiles - k->lie) + (t - k->lie) * run) * f->rows, b, run,
             add, beside);
}

/* A panel of C with few rows, column j on. */
static void few_panel(const struct product *p, const struct form *f, const struct few *k, const uint32_t *a,
                      uint32_t *b, float *strip, int64_t j)
{
    bool one = f->steps <= f->run;
    struct ready before = {0};
    for (int64_t s = 0; s < f->steps || s == 0; s += f->run) {
        int64_t run = smaller(f->run, f->steps - s);
        pack_b(b, p, f, 1, j, s, run);
        for (int64_t t = 0; t < k->tiles; t++) {
            float *sum = strip + (one ? t % 2 : t) * f->rows * f->columns; /* as in run_tiles */
            if (s == 0 && p->goes_on)
                epilogue_begin(p, sum, f->columns, t * f->rows, f->rows, j);
            if (f->words == WORDS_TILES && s + run >= f->steps && !p->slope)
                epilogue_prefetch(p, f->columns, t * f->rows, f->rows, j);
            few_tile(p, f, k, sum, a, b, t, s, run, s > 0 || p->goes_on, ready_parts(&before));
            ready_end(&before);
            if (s + run >= f->steps)
                ready_begin(&before, p, f, sum, t * f->rows, j, run);
        }
    }
    ready_end(&before);
}

/* The same with B where it lies. */
static void across_panel(const struct product *p, const struct form *f, const uint32_t *x, float *sum, int64_t j)
{
    int64_t pitch = p->b_pitch * (f->words == WORDS_F32 ? 4 : 2);
    tile_across(f->words, sum, x, (const char *)p->b + j * pitch, pitch, f->steps);
    epilogue(p, sum, f->columns, 0, f->across, j);
}

/* All threads pack the few rows of A as vectors. */
static void pack_across(const struct product *p, const struct form *f, uint32_t *x)
{
    struct source o = {.base = p->a, .by_k = p->a_by_k, .pitch = p->a_pitch, .rows = p->M, .K = p->K};
#pragma omp for schedule(static)
    for (int64_t s = 0; s < f->steps; s += f->run) {
        int64_t run = smaller(f->run, f->steps - s);
        uint32_t *to = x + s * f->across;
        if (f->words == WORDS_F32)
            pack_panels(to, VF_LANES, 1, &o, o.by_k, 0, s, run, WORDS_F32);
        else if (f->words == WORDS_TILES)
            pack_panels(to, AMX_ACROSS, 1, &o, o.by_k, 0, s, run, WORDS_PAIRS);
        else
            pack_panels(to, VF_LANES, 1, &o, o.by_k, 0, s, run, WORDS_PAIRS);
    }
}

/* One thread's part of a product with few rows. Bound by reading B, or A from the second-level cache. */
static void run_few(const struct product *p, const struct form *f, const struct few *k, void *workspace)
{
    uint32_t *a = workspace, *b = (uint32_t *)(void *)((char *)workspace + k->a_bytes +
                                                       omp_get_thread_num() * (k->b_bytes + k->strip_bytes));
    float *strip = (float *)(void *)((char *)b + k->b_bytes);
    int64_t panels = ceil_div(p->N, f->columns), whole = panels_that_lie(p, f);
    if (whole) {
        pack_across(p, f, a);
#pragma omp for schedule(dynamic)
        for (int64_t q = 0; q < whole; q++)
            across_panel(p, f, a, strip, q * f->columns);
    }
    if (whole == panels)
        return;
    if (k->lie < k->tiles)
        pack_few(p, f, k, a);
#pragma omp for schedule(dynamic)
    for (int64_t q = whole; q < panels; q++)
        few_panel(p, f, k, a, b, strip, q * f->columns);
}

void ISA(product_run)(const struct product *product, void *workspace, int threads)
{
    struct product with_pitches = *product;
    const struct product *p = &with_pitches;
    if (p->M == 0 || p->N == 0)
        return;
    with_pitches.a_pitch = p->a_pitch ? p->a_pitch : p->a_by_k ? p->K : p->M;
    with_pitches.b_pitch = p->b_pitch ? p->b_pitch : p->b_by_k ? p->K : p->N;
    with_pitches.c_pitch = p->c_pitch ? p->c_pitch : p->N;
    with_pitches.addend_pitch = p->addend_pitch ? p->addend_pitch : p->N;
    struct form f = form_of(p);
    struct blocks k = blocks_of(p, &f, threads);
    struct few few = few_of(p, &f);
    bool small = 2.0 * (double)p->M * (double)p->N * (double)p->K < SMALL_FLOPS;
#pragma omp parallel num_threads(small ? 1 : threads)
    {
        if (f.words == WORDS_TILES)
            amx_begin();
        if (is_few(p, &f, threads))
            run_few(p, &f, &few, workspace);
        else
            run_blocks(p, &f, &k, workspace, threads);
        if (f.words == WORDS_TILES)
            amx_end();
    }
}
