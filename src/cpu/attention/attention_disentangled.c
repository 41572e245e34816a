/* Disentangled attention: attention.c's and attention_bwd.c's with the scores of relative positions (relative.h).
 *
 * A task is a head of some sequences that follow each other. Relative positions are packed once for all of these. Of their gradients each
 * task has sums of its own, a row of `relative` for a row: those of a sequence by distance, then these by row, in the order of
 * sequences; at the end those of the tasks in order. How sequences are grouped follows from the shapes and lengths alone.
 *
 * The workspace has the gradients of relative once for each group, in F32, and what a thread has packed: 128 distances for each 64
 * that a sequence may have. */
#include "cpu/attention/relative.h"

enum { TASKS = 32, MOST_GROUPS = 4 }; /* at least so many tasks keep threads busy, if there are as many sequences */

/* A node. Term 0 is the query's content and the positions' keys, term 1 the key's content and the positions' queries. */
struct node {
    struct problem p;
    const void *relative;
    const int32_t *rows;                 /* of relative, by distance from -furthest on */
    int64_t R, pitch, furthest, longest; /* rows of relative, elements of one; distances are less than furthest + 1 */
    int64_t part[2];                     /* of relative, from 0; -1: that term is left out */
    int64_t groups, first_row, end_row;  /* of relative: the rows that the batch has */
    float *sums;                         /* (groups, 2, heads, R, D) the gradients of relative; NULL: not wanted */
    bool backward;
};

/* Of either op's arguments, which have what it wants under the same names. */
#define NODE(a)                                                                                                        \
    {                                                                                                                  \
        .p = {COMMON_OF_PROBLEM(a), ROWS_OF_PROBLEM(a, (a)->qkv, (a)->heads)}, .relative = (a)->relative.data,         \
        .rows = (a)->rows.data, .R = (a)->relative.shape[0], .pitch = (a)->relative.shape[1],                          \
        .furthest = (a)->rows.shape[0] / 2, .longest = smaller((a)->rows.shape[0] / 2 + 1, (a)->o.shape[0]),           \
        .part = {(a)->keys - 1, (a)->queries - 1},                                                                     \
        .groups = smaller(smaller(blocks(TASKS, (a)->heads), MOST_GROUPS), (a)->cu.shape[0] - 1)                       \
    }

/* Of relative, at a distance. */
static int64_t row_of(const struct node *n, int64_t distance)
{
    return n->rows[n->furthest + distance];
}

/* Elements of relative, and of its gradient, where a term's head begins. */
static int64_t relative_at(const struct node *n, int term, int64_t head)
{
    return (n->part[term] * n->p.heads + head) * n->p.D;
}

static int64_t relative_sums(const struct node *n)
{
    return n->groups * 2 * n->p.heads * n->R * n->p.D;
}

/* ---- the relative positions of a head ---- */

static int64_t carve_relative(struct relative *r, void *base, const struct node *n, bool wants_sums)
{
    struct carver c = {.base = base};
    int64_t width = tile_pad(TILE_PAIRS, n->p.D), diagonals = 2 * blocks(n->longest, KEYS); /* or one less */
    int64_t packed = diagonals * DISTANCES * width;
    *r = (struct relative){0};
    r->stage = carve(&c, DISTANCES * width);
    r->rows = carve(&c, DISTANCES * width);
    if (n->part[0] >= 0) {
        r->keys = carve(&c, packed);
        r->a = carve(&c, DISTANCES * QUERIES);
        r->keys_t = n->backward ? carve(&c, packed) : NULL;
        r->da = n->backward ? carve(&c, DISTANCES * QUERIES) : NULL;
        r->dkeys = n->backward && wants_sums ? carve(&c, (diagonals + 1) * KEYS * width) : NULL;
    }
    if (n->part[1] >= 0) {
        r->queries = carve(&c, packed);
        r->c = carve(&c, KEYS * DISTANCES);
        r->queries_sum = n->backward ? carve(&c, packed) : NULL;
        r->dc = n->backward ? carve(&c, KEYS * DISTANCES) : NULL;
        r->dqueries = n->backward && wants_sums ? carve(&c, packed) : NULL;
    }
    return c.used;
}

/* Distances of a diagonal that a sequence of `length` rows has, as a block's products take them. */
static struct range range_of(bool pair, int64_t length)
{
    return length > KEYS ? (struct range){0, DISTANCES} : distances_of(pair, length, length);
}

/* How far apart the first of a diagonal's distances is. */
static int64_t first_distance(const struct relative *r, int64_t diagonal)
{
    return (diagonal - r->middle) * KEYS - KEYS + 1;
}

/* What a term's rows of a head are at the distances of a diagonal. A distance that no sequence may have gets the nearest row: its
 * products are not used. */
static void gather_rows(const struct node *n, const struct relative *r, int term, int64_t head, int64_t diagonal,
                        struct range range)
{
    int64_t element = n->p.bf16 ? 2 : 4, bytes = n->p.D * element, from = relative_at(n, term, head);
    for (int64_t x = 0; x < range.n; x++) {
        int64_t d = first_distance(r, diagonal) + range.from + x;
        d = d < -n->furthest ? -n->furthest : d > n->furthest ? n->furthest : d;
        memcpy(r->rows + x * bytes, (const char *)n->relative + (row_of(n, d) * n->pitch + from) * element,
               (size_t)bytes);
    }
}

/* Packs a head for sequences of at most `length` rows. */
static void pack_relative(const struct node *n, struct relative *r, int64_t head, int64_t length)
{
    bool bf16 = n->p.bf16, pair = TILE_PAIRS && bf16;
    int64_t D = n->p.D, width = tile_pad(pair, D), ld = units(pair, width);
    struct range d = range_of(pair, length);
    r->middle = blocks(length, KEYS) - 1;
    for (int64_t i = 0; i <= 2 * r->middle; i++) {
        int64_t at = i * DISTANCES;
        if (r->keys) {
            gather_rows(n, r, 0, head, i, d);
            tile_pack_rows(pair, bf16, r->keys + (at + d.from) * ld, ld, r->rows, 0, D, d.n, D);
        }
        if (r->keys_t) {
            tile_pack_sum_rows(pair, bf16, r->stage, r->rows, 0, D, d.n, D);
            tile_transpose(r->keys_t + at * width + units(pair, d.from), DISTANCES, r->stage, width, units(pair, d.n),
                           width);
        }
        if (r->queries) {
            gather_rows(n, r, 1, head, i, d);
            tile_pack_rows(pair, bf16, r->stage, ld, r->rows, 0, D, d.n, D);
            tile_transpose(r->queries + at * ld + d.from, DISTANCES, r->stage, ld, d.n, ld);
        }
        if (r->queries_sum)
            tile_pack_sum_rows(pair, bf16, r->queries_sum + at * width + units(pair, d.from) * width, r->rows, 0, D,
                               d.n, D);
    }
}

/* ---- the gradients of relative positions ---- */

static void clear_sums(const struct node *n, const struct relative *r, int64_t length)
{
    bool pair = TILE_PAIRS && n->p.bf16;
    int64_t width = tile_pad(pair, n->p.D), half = blocks(length, KEYS) - 1;
    struct range d = range_of(pair, length);
    for (int64_t i = r->middle - half; i <= r->middle + half; i++) {
        if (r->dkeys)
            memset(r->dkeys + (i * KEYS + d.from) * width, 0, 4 * (size_t)(d.n * width));
        for (int64_t k = 0; r->dqueries && k < width; k++)
            memset(r->dqueries + (i * width + k) * DISTANCES + d.from, 0, 4 * (size_t)d.n);
    }
}

/* Rows of sums by distance, the first at distance `first`, added to those by row, as far as a sequence of `length` rows has them. */
static void add_by_row(const struct node *n, float *to, const float *from, int64_t width, int64_t first, int64_t rows,
                       int64_t length)
{
    vf scale = vf_set1(n->p.scale * n->p.keep_scale);
    int64_t D = n->p.D;
    for (int64_t x = 0; x < rows; x++) {
        if (first + x <= -length || first + x >= length)
            continue;
        float *row = to + row_of(n, first + x) * D;
        for (int64_t d = 0; d < D; d += VF_LANES)
            vf_put_upto(row, d, vf_fma(vf_load(from + x * width + d), scale, vf_get_upto(row, d, D - d, false)), D - d,
                        false);
    }
}

/* What a sequence adds to a task's sums, (2, R, D) of a head: those of term 1 are `term` floats behind. */
static void add_sums(const struct node *n, const struct relative *r, float *sums, int64_t term, int64_t length)
{
    bool pair = TILE_PAIRS && n->p.bf16;
    int64_t width = tile_pad(pair, n->p.D), half = blocks(length, KEYS) - 1, least = r->middle - half;
    struct range d = range_of(pair, length);
    if (r->dkeys)
        add_by_row(n, sums, r->dkeys + (least * KEYS + d.from) * width, width, first_distance(r, least) + d.from,
                   2 * half * KEYS + d.n, length);
    for (int64_t i = least; r->dqueries && i <= r->middle + half; i++) {
        tile_transpose(r->stage, width, (const uint32_t *)r->dqueries + i * width * DISTANCES + d.from, DISTANCES,
                       width, d.n);
        add_by_row(n, sums + term, (const float *)r->stage, width, first_distance(r, i) + d.from, d.n, length);
    }
}

/* Which rows of relative the batch has. */
static void find_rows(struct node *n)
{
    int64_t longest = 0;
    for (int64_t b = 0; b < n->p.B; b++)
        longest = asked(&n->p, b) > longest ? asked(&n->p, b) : longest;
    n->first_row = longest ? n->R : 0, n->end_row = 0;
    for (int64_t d = 1 - longest; d < longest; d++) {
        int64_t row = row_of(n, d);
        n->first_row = smaller(n->first_row, row);
        n->end_row = row >= n->end_row ? row + 1 : n->end_row;
    }
}

/* A row of a part of relative: the sums of all groups, or nothing. */
static void put_relative_row(const struct node *n, const struct tensor *to, int64_t row, int64_t part)
{
    int64_t heads = n->p.heads, D = n->p.D, group = 2 * heads * n->R * D;
    int term = part == n->part[0] ? 0 : part == n->part[1] ? 1 : -1;
    int64_t groups = term >= 0 && row >= n->first_row && row < n->end_row ? n->groups : 0;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t d = 0; d < D; d += VF_LANES) {
            const float *from = n->sums + ((term * heads + h) * n->R + row) * D;
            vf sum = {0};
            for (int64_t g = 0; g < groups; g++)
                sum += vf_get_upto(from, g * group + d, D - d, false);
            put_or_add(to, row * n->pitch + (part * heads + h) * D + d, sum, D - d, to->dtype == DT_BF16);
        }
}

static void put_relative(const struct node *n, const struct tensor *to, int threads)
{
    int64_t parts = n->pitch / (n->p.heads * n->p.D);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < n->R; row++)
        for (int64_t part = 0; part < parts; part++)
            put_relative_row(n, to, row, part);
}

/* ---- tasks ---- */

/* The first sequence of a group: groups have about as many rows each. */
static int64_t first_of_group(const struct node *n, int64_t group)
{
    int64_t b = 0, rows = n->p.cu[n->p.B];
    while (b < n->p.B && n->p.cu[b] * n->groups < group * rows)
        b++;
    return b;
}

static int64_t bytes_of_thread(const struct node *n, bool wants_sums)
{
    struct relative r;
    return carve_relative(&r, NULL, n, wants_sums) +
           (n->backward ? ISA(attention_backward_bytes)(&n->p, n->longest) : ISA(attention_forward_bytes)(&n->p));
}

static void forward_sequence(const struct node *n, const struct relative *r, void *memory, int64_t b, int64_t head)
{
    for (int64_t query = 0; query < asking(&n->p, b); query += CHUNK)
        ISA(attention_forward_task)(&n->p, r, memory, (struct part){(int32_t)b, (int32_t)query}, head);
}

static void backward_sequence(const struct node *n, const struct relative *r, void *memory, int64_t b, int64_t head,
                              float *sums)
{
    if (sums)
        clear_sums(n, r, asking(&n->p, b));
    ISA(attention_backward_task)(&n->p, r, memory, n->longest, b, head);
    if (sums)
        add_sums(n, r, sums, n->p.heads * n->R * n->p.D, asking(&n->p, b));
}

static void run_task(const struct node *n, char *memory, int64_t group, int64_t head)
{
    struct relative r;
    char *own = memory + carve_relative(&r, memory, n, n->sums);
    int64_t from = first_of_group(n, group), end = first_of_group(n, group + 1), longest = 0;
    int64_t of_head = n->R * n->p.D, term = n->p.heads * of_head, rows = n->end_row - n->first_row;
    float *sums = n->sums ? n->sums + (group * 2 * n->p.heads + head) * of_head : NULL;
    for (int i = 0; sums && i < 2; i++)
        memset(sums + i * term + n->first_row * n->p.D, 0, 4 * (size_t)(rows * n->p.D));
    for (int64_t b = from; b < end; b++)
        longest = asked(&n->p, b) > longest ? asked(&n->p, b) : longest;
    if (longest)
        pack_relative(n, &r, head, longest);
    for (int64_t b = from; b < end; b++)
        if (!asking(&n->p, b))
            continue;
        else if (n->backward)
            backward_sequence(n, &r, own, b, head, sums);
        else
            forward_sequence(n, &r, own, b, head);
}

static void run_tasks(const struct node *n, char *workspace, int max_threads)
{
    int64_t tasks = n->groups * n->p.heads, bytes = bytes_of_thread(n, n->sums);
    int threads = tasks > 1 ? (int)smaller(max_threads, tasks) : 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        if (AMX && n->p.bf16)
            amx_begin();
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < tasks; i++)
            run_task(n, workspace + omp_get_thread_num() * bytes, i / n->p.heads, i % n->p.heads);
        if (AMX && n->p.bf16)
            amx_end();
    }
}

/* ---- the ops ---- */

int64_t ISA(cpu_attention_disentangled_workspace)(const struct args_attention_disentangled *a, int threads)
{
    struct node n = NODE(a);
    return smaller(threads, n.groups * n.p.heads) * bytes_of_thread(&n, false);
}

void ISA(cpu_attention_disentangled)(const struct args_attention_disentangled *a, const struct call *c)
{
    struct node n = NODE(a);
    run_tasks(&n, c->workspace, c->threads);
    ISA(attention_forward_clear)(&n.p);
}

int64_t ISA(cpu_attention_disentangled_bwd_workspace)(const struct args_attention_disentangled_bwd *a, int threads)
{
    struct node n = NODE(a);
    struct carver c = {0};
    n.backward = true;
    carve(&c, a->drelative.ndim ? relative_sums(&n) : 0);
    return c.used + smaller(threads, n.groups * n.p.heads) * bytes_of_thread(&n, a->drelative.ndim > 0);
}

void ISA(cpu_attention_disentangled_bwd)(const struct args_attention_disentangled_bwd *a, const struct call *c)
{
    struct node n = NODE(a);
    struct carver carver = {.base = c->workspace};
    n.backward = true, n.p.dout = a->dout.data, n.p.dq = n.p.dkv = a->dqkv.data;
    n.sums = a->drelative.data ? carve(&carver, relative_sums(&n)) : NULL;
    find_rows(&n);
    run_tasks(&n, carver.base + carver.used, c->threads);
    if (n.sums)
        put_relative(&n, &a->drelative, c->threads);
    ISA(attention_backward_clear)(&n.p);
}
