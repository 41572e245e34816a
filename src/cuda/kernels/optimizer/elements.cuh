/* elements.cuh: updates of single elements by a rule, with states of the weight's type (cuda/kernels/optimizer/stored.cuh) or, in
 * blocks of MAP_BLOCK, in codes of 8 bits (codes.cuh). A rule is a struct with the members
 *
 *     static constexpr int states                          at most; a state that is not there is given as 0
 *     Rule(head)                                           the factors of a step, on the device; head is what a launch is given
 *     void operator()(float &p, float g, float (&s)[states], float weight_decay)     a weight's element and its states; g is clipped
 *
 * A block of threads does a block of MAP_BLOCK elements, a thread one of them. Bound by bytes. The largest magnitudes of a
 * block are the same in any order. */
#ifndef CUDA_ELEMENTS_CUH
#define CUDA_ELEMENTS_CUH

#include "cuda/kernels/optimizer/codes.cuh"
#include "cuda/kernels/optimizer/update.cuh"

#include <float.h>

enum { CODES_NONE, CODES_SIGNED, CODES_UNSIGNED };

struct element_state {
    void *data;    /* of the type of p or, with codes, uint8_t; NULL: there is none */
    float *absmax; /* of each block of codes */
    uint8_t codes;
};

template <int STATES> struct element_row {
    struct updated u;
    struct element_state state[STATES];
};

/* Every head has it, as its member e. */
struct element_head {
    const double *step; /* enum step_scalar */
    /* (1): what gradients are multiplied with; NULL: 1. Below 0: the step is skipped, nothing is written. */
    const float *coef;
};

template <class Args> static inline struct element_head element_head_of(const Args *a)
{
    return {(const double *)a->step.data, (const float *)a->coef.data};
}

/* The largest of the block, in all threads. */
__device__ static inline float block_largest(float *warp, float x)
{
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warp[threadIdx.x / 32] = x;
    __syncthreads();
    for (int k = 0; k < MAP_BLOCK / 32; k++)
        x = fmaxf(x, warp[k]);
    return x;
}

/* What the threads of a block share where states are in codes. */
struct element_shared {
    struct code_tables codes;
    float largest[MAP_BLOCK / 32]; /* of each warp */
};

template <class Head, class Rule> using element_table = many<Head, struct element_row<Rule::states>>;

template <class Head, class Rule, class G, class P>
__device__ static inline void update_elements(const struct element_row<Rule::states> &r, struct element_shared &shared,
                                              const Rule &rule, const struct rounding &rounding, float coef,
                                              int64_t block)
{
    int64_t i = block * MAP_BLOCK + threadIdx.x;
    bool there = i < r.u.n;
    float p = there ? to_float(((const P *)r.u.p)[i]) : 0, g = there ? to_float(((const G *)r.u.g)[i]) * coef : 0,
          s[Rule::states];
    for (int k = 0; k < Rule::states; k++) {
        const struct element_state &state = r.state[k];
        s[k] = 0;
        if (there && state.codes)
            s[k] = code_value(shared.codes, state.codes == CODES_SIGNED, ((const uint8_t *)state.data)[i]) *
                   state.absmax[block];
        else if (there && state.data)
            s[k] = to_float(((const P *)state.data)[i]);
    }
    if (there)
        rule(p, g, s, (float)r.u.weight_decay);
    for (int k = 0; k < Rule::states; k++) {
        const struct element_state &state = r.state[k];
        if (state.codes) { /* the same in all threads */
            float most = block_largest(shared.largest, there ? fabsf(s[k]) : 0);
            if (threadIdx.x == 0)
                state.absmax[block] = most;
            if (there)
                ((uint8_t *)state.data)[i] =
                    (uint8_t)nearest_code(shared.codes, state.codes == CODES_SIGNED, s[k] / fmaxf(most, FLT_MIN));
        } else if (there && state.data)
            store_stored<1>((P *)state.data, i, {s[k]}, rounding, (enum rounding_part)(ROUND_STATE1 + k));
    }
    if (there) {
        store_stored<1>((P *)r.u.p, i, {p}, rounding, ROUND_WEIGHT);
        store_as<1>(r.u.copy_type, r.u.copy, i, {p});
    }
}

template <class Head, class Rule>
__global__ static void __launch_bounds__(MAP_BLOCK) elements_kernel(const __grid_constant__ element_table<Head, Rule> t)
{
    __shared__ struct element_shared shared;
    int row = find_row(t, (int)blockIdx.x);
    const struct element_row<Rule::states> &r = t.row[row];
    float coef = t.head.e.coef ? *t.head.e.coef : 1;
    if (coef < 0)
        return;
    if (r.state[0].codes) {
        code_tables_init(shared.codes);
        __syncthreads();
    }
    Rule rule(t.head);
    struct rounding rounding = rounding_of(t.head.e.step, r.u.noise, r.u.first);
    int64_t block = (int)blockIdx.x - t.first[row];
    WITH_FLOAT_TYPE(
        r.u.type, G,
        WITH_STORED_TYPE(r.u.pure, P, update_elements<Head, Rule, G, P>(r, shared, rule, rounding, coef, block)));
}

/* All n tensors. states(row, args) fills in the states of a row; head.e is what all heads have. */
template <class Rule, class Head, class Args, class States>
static inline int launch_elements(const Head &head, const Args *const *a, int n, const struct cuda_call *c,
                                  const char *op, States states)
{
    element_table<Head, Rule> all;
    all.head = head;
    launch_many(
        &all, a, n,
        [=](struct element_row<Rule::states> *r, const Args *x) {
            *r = {updated_of(x, false), {}};
            states(r->state, x);
            return chunks_of(r->u.n, MAP_BLOCK);
        },
        [=](const element_table<Head, Rule> &t) {
            elements_kernel<Head, Rule><<<t.chunks, MAP_BLOCK, 0, c->stream>>>(t);
        });
    return cuda_launched(c, op);
}

#endif
