#include "cpu/optimizer/blocks.h"
#include "cpu/optimizer/codes.h"
#include "cpu/optimizer/stored.h"

#include <float.h>

enum { BLOCKS = 16 /* done by a thread at a time */ };

struct buffers {
    float p[MAP_BLOCK], g[MAP_BLOCK], state[BLOCK_STATES][MAP_BLOCK];
};

/* The maps of the codes; made only where a state is in codes. */
struct maps {
    struct magnitudes positive, negative_too;
};

static bool in_codes(const struct block_state *s)
{
    return s->tensor && s->tensor->data && s->tensor->dtype == DT_U8;
}

/* Elements from `from` on where they are or, of less than a block or in bf16, in the buffer, whose rest is made zeros. */
SIMD float *bring(float *buffer, const struct tensor *t, int64_t from, int64_t n)
{
    if (n == MAP_BLOCK && t->dtype == DT_F32)
        return (float *)t->data + from;
    for
        BLOCK_VECTORS(i)
    vf_store(buffer + i, i < n ? vf_get_upto(t->data, from + i, n - i, t->dtype == DT_BF16) : vf_set1(0));
    return buffer;
}

/* Back from the buffer; bf16 is rounded stochastically. */
SIMD void take_back(const struct block_update *u, const struct tensor *t, enum rounding_part part, int64_t from,
                    int64_t n, const float *buffer)
{
    if (t->dtype == DT_F32) {
        memcpy((float *)t->data + from, buffer, sizeof *buffer * (size_t)n);
        return;
    }
    struct stored s = stored_of(t, u->step->data, u->noise, part);
    for (int64_t i = 0; i < n; i += VF_LANES)
        stored_put(&s, from + i, vf_load(buffer + i), n - i, true);
}

SIMD void decode(const struct block_state *s, const struct maps *maps, int64_t from, int64_t n, float *x)
{
    uint8_t rest[MAP_BLOCK];
    const uint8_t *code = (const uint8_t *)s->tensor->data + from;
    vf most = vf_set1(((const float *)s->absmax->data)[from / MAP_BLOCK]);
    if (n < MAP_BLOCK) {
        memset(rest, s->is_signed ? MAP_SIGNED_ZERO : 0, sizeof rest);
        memcpy(rest, code, (size_t)n);
        code = rest;
    }
    for
        BLOCK_VECTORS(i)
    vf_store(x + i, most * (s->is_signed ? decode_signed(&maps->negative_too, code + i)
                                         : decode_unsigned(&maps->positive, code + i)));
}

SIMD void encode(const struct block_state *s, const struct maps *maps, int64_t from, int64_t n, const float *x)
{
    uint8_t code[MAP_BLOCK];
    vf most = {0};
    for
        BLOCK_VECTORS(i)
    most = vf_max(vf_abs(vf_load(x + i)), most);
    float absmax = vf_hmax(most);
    vf to = vf_set1(1 / fmaxf(absmax, FLT_MIN));
    ((float *)s->absmax->data)[from / MAP_BLOCK] = absmax;
    for
        BLOCK_VECTORS(i)
        {
            vf v = vf_load(x + i);
            put_codes(code + i, s->is_signed ? encode_signed(&maps->negative_too, v, to)
                                             : encode_unsigned(&maps->positive, v, to));
        }
    memcpy((uint8_t *)s->tensor->data + from, code, (size_t)n);
}

SIMD void update_block(const struct block_update *u, block_rule *rule, const void *factors, float coef,
                       const struct maps *maps, int64_t from, int64_t n)
{
    struct buffers b;
    float *p = bring(b.p, u->p, from, n), *s[BLOCK_STATES] = {NULL};
    bool narrow = u->g->dtype == DT_BF16, narrow_copy = u->copy->dtype == DT_BF16;
    for
        BLOCK_VECTORS(i)
    vf_store(b.g + i, i < n ? vf_get_upto(u->g->data, from + i, n - i, narrow) * coef : vf_set1(0));
    for (int k = 0; k < BLOCK_STATES; k++) {
        const struct block_state *state = &u->state[k];
        if (in_codes(state))
            decode(state, maps, from, n, s[k] = b.state[k]);
        else if (state->tensor && state->tensor->data)
            s[k] = bring(b.state[k], state->tensor, from, n);
    }
    rule(p, b.g, s, factors);
    if (p == b.p)
        take_back(u, u->p, ROUND_WEIGHT, from, n, p);
    for (int64_t i = 0; u->copy->data && i < n; i += VF_LANES)
        vf_put_upto(u->copy->data, from + i, vf_load(p + i), n - i, narrow_copy);
    for (int k = 0; k < BLOCK_STATES; k++) {
        if (in_codes(&u->state[k]))
            encode(&u->state[k], maps, from, n, s[k]);
        else if (s[k] == b.state[k])
            take_back(u, u->state[k].tensor, ROUND_STATE1 + (enum rounding_part)k, from, n, s[k]);
    }
}

void ISA(cpu_update_blocks)(const struct block_update *u, block_rule *rule, const void *factors, int threads)
{
    int64_t n = tensor_elements(u->p);
    float coef = u->coef->data ? *(const float *)u->coef->data : 1;
    struct maps maps = {0};
    bool codes = false;
    if (coef < 0)
        return;
    for (int k = 0; k < BLOCK_STATES; k++)
        codes |= in_codes(&u->state[k]);
    if (codes) {
        make_magnitudes(&maps.negative_too, MAP_SIGNED_LAST);
        make_magnitudes(&maps.positive, MAP_UNSIGNED_LAST);
    }
#pragma omp parallel for schedule(static) num_threads(n <= PARALLEL_FROM ? 1 : threads)
    for (int64_t start = 0; start < n; start += BLOCKS * MAP_BLOCK)
        for (int64_t i = start; i < start + BLOCKS * MAP_BLOCK && i < n; i += MAP_BLOCK)
            update_block(u, rule, factors, coef, &maps, i, n - i < MAP_BLOCK ? n - i : MAP_BLOCK);
}
