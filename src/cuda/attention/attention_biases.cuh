/* attention_biases.cuh: the biases of BIASED scores, which lie in memory for each query and key, and the gradients of scores, which take
 * their place there. A lane works on the same elements for both, and nobody else on these. */
#ifndef CUDA_ATTENTION_BIASES_CUH
#define CUDA_ATTENTION_BIASES_CUH

#include "cuda/attention/attention_engine.cuh"

/* What biases are stored as where gradients are T. Of 16 bits those with the longer fraction, since biases have a known range: scores far
 * below the largest F16 decide a softmax. */
template <class T> struct bias_type {
    using type = __half;
};

template <> struct bias_type<float> {
    using type = float;
};

template <class T> using bias_t = typename bias_type<T>::type;

constexpr float MOST_BIAS = 65504;

/* A lane's two rows of biases; NULL: that row is past the sequence. */
template <class T> struct bias_rows {
    T *of[2];
};

/* Of the block's rows, which begin at `row` and of which there are `left`. */
template <class T>
__device__ static inline struct bias_rows<T> bias_rows_of(const struct attention_params &p, void *biases, int row,
                                                          struct place at, int left) {
    T *first = (T *)biases + ((int64_t)blockIdx.y * p.T + row + at.row0 + at.g) * p.bias_pitch;
    int r = at.row0 + at.g;
    return {{r < left ? first : NULL, r + 8 < left ? first + 8 * (int64_t)p.bias_pitch : NULL}};
}

/* ---- where rows are queries: a lane has 16 neighbouring keys of each (hide_keys) ---- */

template <class T>
constexpr int run_width = 16 / (int)sizeof(T); /* elements of a load */

template <class T> struct bias_runs {
    pack<bias_t<T>, run_width<T>> of[2][16 / run_width<T>];
};

/* From `key` on. */
template <class T>
__device__ static inline void bias_runs_load(struct bias_runs<T> &runs, const struct bias_rows<T> &rows, int key)
{
    constexpr int WIDTH = run_width<T>;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 16 / WIDTH; i++) {
            runs.of[h][i] = {};
            if (rows.of[h])
                runs.of[h][i] = *(const pack<bias_t<T>, WIDTH> *)(rows.of[h] + key + i * WIDTH);
        }
}

/* Scores become s scale + bias. */
template <class T>
__device__ static inline void bias_runs_add(float (&s)[8][4], float scale, const struct bias_runs<T> &runs)
{
    constexpr int WIDTH = run_width<T>;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int n = 0; n < 16; n++)
            s[n / 2][2 * h + n % 2] =
                fmaf(s[n / 2][2 * h + n % 2], scale, to_float(runs.of[h][n / WIDTH].v[n % WIDTH]));
}

template <class T>
__device__ static inline void bias_runs_store(const struct bias_rows<T> &rows, const float (&ds)[8][4], float by,
                                              int key)
{
    constexpr int WIDTH = run_width<T>;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 16 / WIDTH; i++) {
            pack<T, WIDTH> run;
#pragma unroll
            for (int k = 0; k < WIDTH; k++) {
                int n = i * WIDTH + k;
                run.v[k] = from_float<T>(ds[n / 2][2 * h + n % 2] * by);
            }
            if (rows.of[h])
                *(pack<T, WIDTH> *)(rows.of[h] + key + i * WIDTH) = run;
        }
}

/* ---- where rows are keys: a lane has pairs of queries, eight apart ---- */

/* From `query` on. */
template <class T>
__device__ static inline void bias_pairs_load(pack<bias_t<T>, 2> (&pairs)[2][8], const struct bias_rows<T> &rows,
                                              int query)
{
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < 8; j++) {
            pairs[h][j] = {};
            if (rows.of[h])
                pairs[h][j] = *(const pack<bias_t<T>, 2> *)(rows.of[h] + query + 8 * j);
        }
}

template <class B>
__device__ static inline void bias_pairs_add(float (&s)[8][4], float scale, const pack<B, 2> (&pairs)[2][8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            s[j][k] = fmaf(s[j][k], scale, to_float(pairs[k / 2][j].v[k % 2]));
}

template <class T>
__device__ static inline void bias_pairs_store(const struct bias_rows<T> &rows, const float (&ds)[8][4], float by,
                                               int query)
{
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < 8; j++) {
            pack<T, 2> pair = {{from_float<T>(ds[j][2 * h] * by), from_float<T>(ds[j][2 * h + 1] * by)}};
            if (rows.of[h])
                *(pack<T, 2> *)(rows.of[h] + query + 8 * j) = pair;
        }
}

#endif
