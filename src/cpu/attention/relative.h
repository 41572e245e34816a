/* relative.h: what relative positions add to the scores of a block, and their gradients (attention_disentangled.c). For query j and key i
 * of a block, d = offset + j - i apart, with K and Q the keys and queries of relative positions:
 *     S^T[i,j] += A[d,j] + C[i,d] ;  A = K Q_content^T, C = K_content Q^T
 * Distances d are as keys of their own, DISTANCES for a block: A and C are products of blocks, as S^T is. What is slanted in A (its rows
 * are distances, S^T's are keys) is moved lane by lane; in C only the first lane of a row is elsewhere. Going back, with dA and dC
 * made of dS^T in the same way:
 *     dQ_content^T += K^T dA ;  dK += dA Q_content ;  dK_content += dC Q ;  dQ^T += K_content^T dC
 * Bound by multiply-adds: a block has about twice as many distances as keys. */
#ifndef CPU_ATTENTION_RELATIVE_H
#define CPU_ATTENTION_RELATIVE_H

#include "cpu/attention/attention.h"

enum { DISTANCES = KEYS + QUERIES }; /* of a block, from the furthest key in front on; the last one is not used */

/* The relative positions of a head, block by block along a diagonal of the scores; of one thread. Sizes in units for the larger
 * case, floats. A term that is not there has NULL. */
struct relative {
    uint32_t *keys;        /* (diagonals, DISTANCES, D) K */
    uint32_t *queries;     /* (diagonals, D, DISTANCES) Q^T */
    uint32_t *keys_t;      /* (diagonals, D, DISTANCES) K^T for sums over distances; backward, as all below */
    uint32_t *queries_sum; /* (diagonals, DISTANCES, D) Q for sums over distances */
    float *a;              /* (DISTANCES, QUERIES) A, dA; forward too */
    float *c;              /* (KEYS, DISTANCES) C, dC; forward too */
    uint32_t *da, *dc;     /* pairs of them, for sums over their rows */
    float *dkeys;          /* (diagonals + 1, KEYS, D) dK by distance, of a sequence; NULL: not wanted */
    float *dqueries;       /* (diagonals, D, DISTANCES) dQ^T */
    uint32_t *stage;       /* (DISTANCES, D) */
    char *rows;            /* (DISTANCES, D) elements */
    int64_t middle;        /* the diagonal on which queries are their own keys; as many on both sides */
};

/* Distances of a block that its products need. */
struct range {
    int64_t from, n;
};

SIMD struct range distances_of(bool pair, int64_t n_keys, int64_t n_queries)
{
    int64_t from = (KEYS - n_keys) / tile_pad(pair, 1) * tile_pad(pair, 1);
    return (struct range){from, tile_pad(pair, tile_pad(pair, n_queries) + KEYS - 1 - from)};
}

/* Lane l of row r becomes that of row r + l; n rows, of n + VF_LANES - 1. */
SIMD void slant_up(vf *rows, int n)
{
    for (int by = VF_LANES / 2; by; by /= 2) {
        vi moves = (vi_iota() & by) != 0;
        for (int r = 0; r < n + by - 1; r++)
            rows[r] = vf_select(moves, rows[r + by], rows[r]);
    }
}

/* Lane l of row r becomes that of row r - l; the first VF_LANES of n rows are 0. */
SIMD void slant_down(vf *rows, int n)
{
    for (int by = VF_LANES / 2; by; by /= 2) {
        vi moves = (vi_iota() & by) != 0;
        for (int r = n - 1; r >= by; r--)
            rows[r] = vf_select(moves, rows[r - by], rows[r]);
    }
}

enum { SLANTED = 16 }; /* rows of scores at a time */

/* S^T += A, slanted. */
SIMD void add_a(const struct relative *r, float *scores, int64_t n_keys, int64_t n_queries)
{
    for (int64_t j = 0; j < n_queries; j += VF_LANES)
        for (int64_t i0 = 0; i0 < n_keys; i0 += SLANTED) {
            vf rows[SLANTED + VF_LANES - 1];
            const float *a = r->a + (j - i0 + KEYS - SLANTED) * QUERIES + j; /* of the last key and the first query */
            for (int i = 0; i < SLANTED + VF_LANES - 1; i++)
                rows[i] = vf_load(a + i * QUERIES);
            slant_up(rows, SLANTED);
            float *s = scores + i0 * QUERIES + j;
            for (int i = 0; i < smaller(SLANTED, n_keys - i0); i++)
                vf_store(s + i * QUERIES, vf_load(s + i * QUERIES) + rows[SLANTED - 1 - i]);
        }
}

/* S^T += C */
SIMD void add_c(const struct relative *r, float *scores, int64_t n_keys, int64_t n_queries)
{
    for (int64_t i = 0; i < n_keys; i++)
        for (int64_t j = 0; j < n_queries; j += VF_LANES) {
            float *s = scores + i * QUERIES + j;
            vf_store(s, vf_load(s) + vf_load(r->c + i * DISTANCES + KEYS - 1 - i + j));
        }
}

/* To the products of contents; the first query is `offset` behind the first key. keys: (KEYS, D); q: (D, QUERIES). */
TILE_OUT_OF_LINE add_relative_scores(const struct relative *r, bool pair, int64_t D, float *scores,
                                     const uint32_t *keys, const uint32_t *q, int64_t n_keys, int64_t n_queries,
                                     int64_t offset)
{
    int64_t ld = units(pair, tile_pad(pair, D)), at = (r->middle + offset / KEYS) * DISTANCES;
    int64_t columns = tile_pad(pair, n_queries);
    struct range d = distances_of(pair, n_keys, n_queries);
    if (r->keys) {
        tile_product(pair, TILE_ZERO, d.n, columns, units(pair, D), r->keys + (at + d.from) * ld, ld, q,
                     r->a + d.from * QUERIES, QUERIES, NULL);
        add_a(r, scores, n_keys, n_queries);
    }
    if (r->queries) {
        tile_product(pair, TILE_ZERO, n_keys, d.n, units(pair, D), keys, ld, r->queries + at * ld + d.from,
                     r->c + d.from, DISTANCES, NULL);
        add_c(r, scores, n_keys, n_queries);
    }
}

/* dA of dS^T: rows for sums over queries, and pairs for sums over distances. */
SIMD void make_da(const struct relative *r, bool pair, const float *slopes, int64_t n_keys, int64_t n_queries,
                  struct range d)
{
    enum { ROWS = KEYS + 2 * VF_LANES };
    int64_t first = KEYS - n_keys; /* all before are 0, too */
    vf rows[ROWS], zero = {0};
    for (int64_t j = 0; j < tile_pad(pair, n_queries); j += VF_LANES) {
        for (int64_t i = first; i < ROWS; i++) { /* the last key first */
            int64_t key = VF_LANES + KEYS - 1 - i;
            rows[i] = key >= 0 && key < n_keys ? vf_load(slopes + key * QUERIES + j) : zero;
        }
        slant_down(rows + first, (int)(ROWS - first));
        for (int64_t x = d.from; x < d.from + d.n; x += 2) {
            int64_t at = VF_LANES + x - j; /* in `rows` */
            vf even = at >= first && at < ROWS ? rows[at] : zero;
            vf odd = at + 1 >= first && at + 1 < ROWS ? rows[at + 1] : zero;
            vf_put(r->a + x * QUERIES, j, even, pair);
            vf_put(r->a + (x + 1) * QUERIES, j, odd, pair);
            if (pair)
                vu_store(r->da + x / 2 * QUERIES + j, vu_pair_round(even, odd));
        }
    }
}

/* dC of dS^T: rows for sums over distances, and pairs for sums over keys. */
SIMD void make_dc(const struct relative *r, bool pair, const float *slopes, int64_t n_keys, int64_t n_queries,
                  struct range d)
{
    for (int64_t i = 0; i < n_keys; i++) {
        float *c = r->c + i * DISTANCES;
        for (int64_t x = d.from; x < d.from + d.n; x += VF_LANES)
            vf_store(c + x, (vf){0});
        for (int64_t j = 0; j < n_queries; j += VF_LANES)
            vf_store(c + KEYS - 1 - i + j, vf_load(slopes + i * QUERIES + j));
    }
    for (int64_t i = 0; pair && i < n_keys; i += 2)
        for (int64_t x = d.from; x < d.from + d.n; x += VF_LANES) {
            float *c = r->c + i * DISTANCES;
            vf even = vf_load(c + x), odd = i + 1 < n_keys ? vf_load(c + DISTANCES + x) : (vf){0};
            vf_put(c, x, even, true);
            vf_put(c + DISTANCES, x, odd, true);
            vu_store(r->dc + i / 2 * DISTANCES + x, vu_pair_round(even, odd));
        }
    for (int64_t x = d.from; x < d.from + d.n; x += VF_LANES)
        zero_rows(pair, r->dc, DISTANCES, x, n_keys);
}

/* What dS^T of a block adds to the gradients of its contents and of relative positions. slopes: dS^T, (KEYS, QUERIES); kt: K^T of
 * contents for sums over keys; q: contents for sums over queries; dk (KEYS, D), dq (D, QUERIES). */
TILE_OUT_OF_LINE add_relative_gradients(const struct relative *r, bool pair, int64_t D, const float *slopes,
                                        const uint32_t *kt, const uint32_t *q, float *dk, float *dq, int64_t n_keys,
                                        int64_t n_queries, int64_t offset)
{
    int64_t width = tile_pad(pair, D), diagonal = r->middle + offset / KEYS, at = diagonal * DISTANCES * width;
    int64_t columns = tile_pad(pair, n_queries);
    struct range d = distances_of(pair, n_keys, n_queries);
    if (r->keys) {
        const uint32_t *da = pair ? r->da : (const uint32_t *)r->a;
        make_da(r, pair, slopes, n_keys, n_queries, d);
        tile_product(pair, TILE_ADD, D, columns, units(pair, d.n), r->keys_t + at + units(pair, d.from), DISTANCES,
                     da + units(pair, d.from) * QUERIES, dq, QUERIES, NULL);
        if (r->dkeys)
            tile_product(pair, TILE_ADD, d.n, width, units(pair, n_queries), (const uint32_t *)r->a + d.from * QUERIES,
                         QUERIES, q, r->dkeys + (diagonal * KEYS + d.from) * width, width, NULL);
    }
    if (r->queries) {
        const uint32_t *dc = pair ? r->dc : (const uint32_t *)r->c;
        make_dc(r, pair, slopes, n_keys, n_queries, d);
        tile_product(pair, TILE_ADD, n_keys, width, units(pair, d.n), (const uint32_t *)r->c + units(pair, d.from),
                     DISTANCES, r->queries_sum + at + units(pair, d.from) * width, dk, width, NULL);
        if (r->dqueries)
            tile_product(pair, TILE_ADD, D, d.n, units(pair, n_keys), kt, KEYS, dc + d.from, r->dqueries + at + d.from,
                         DISTANCES, NULL);
    }
}

#endif
