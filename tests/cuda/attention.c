/* Attention on short sequences on Hopper (attention_short_sm90.cu): it and its gradient against the reference in double, and the
 * dropout mask that the forward pass keeps for it: the decisions of op/mask.h, where attention_tile.cuh says, which change
 * no bit of any result. Needs compute capability 9.0: skipped elsewhere. */
#include "base/mem.h"
#include "base/philox.h"
#include "cuda/kernels.h"
#include "op/mask.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { B = 7, HEADS = 6, LONGEST = 512, SITE = 3, PADDING = 5, GUARD = 256 };

static const int32_t lengths[B] = {512, 1, 300, 449, 64, 130, 15}, rng[4] = {12345, -678, 9, 0};
static const double P = 0.1;
static struct cuda_call call;

/* A tensor on the device, and its guarded copy here. */
struct slot {
    int64_t bytes;
    uint8_t *host, *device;
};

static struct slot slot_make(int64_t bytes, const void *content)
{
    struct slot s = {.bytes = bytes, .host = mem_alloc((size_t)bytes + GUARD)};
    assert_non_null(s.host);
    memset(s.host, 0xA5, (size_t)bytes + GUARD);
    if (content)
        memcpy(s.host, content, (size_t)bytes);
    assert_int_equal(cudaMalloc((void **)&s.device, (size_t)bytes + GUARD), 0);
    assert_int_equal(cudaMemcpy(s.device, s.host, (size_t)bytes + GUARD, cudaMemcpyHostToDevice), 0);
    return s;
}

/* What is there now; nothing behind it has changed. */
static void slot_fetch(struct slot *s)
{
    assert_int_equal(cudaMemcpy(s->host, s->device, (size_t)s->bytes + GUARD, cudaMemcpyDeviceToHost), 0);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(s->host[s->bytes + i], 0xA5);
}

static void slot_free(struct slot *s)
{
    cudaFree(s->device);
    mem_free(s->host);
}

static double normal(uint32_t stream, uint32_t i)
{
    struct philox r = philox4x32((struct philox){{i, stream, 0, 0}}, 1, 2);
    double u = (r.w[0] + 0.5) * 0x1p-32, v = (r.w[1] + 0.5) * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Random numbers as `type` has them, in double and on the device. */
static struct slot random_slot(int64_t n, enum dtype type, uint32_t stream, double **ref)
{
    *ref = mem_alloc((size_t)n * sizeof **ref);
    void *narrow = mem_alloc((size_t)dtype_bytes(type, n));
    assert_true(*ref && narrow);
    for (int64_t i = 0; i < n; i++)
        (*ref)[i] = normal(stream, (uint32_t)i);
    dtype_convert(narrow, type, *ref, DT_F64, n);
    dtype_convert(*ref, DT_F64, narrow, type, n);
    struct slot s = slot_make(dtype_bytes(type, n), narrow);
    mem_free(narrow);
    return s;
}

struct problem {
    enum dtype type;
    int64_t D, causal, T, queries;
    int32_t cu[B + 1], *coords;
    double *qkv_ref, *dout_ref;
    struct slot qkv, dout, cu_there, coords_there, rng_there;
};

static void problem_make(struct problem *p, enum dtype type, int64_t D, int64_t causal)
{
    *p = (struct problem){.type = type, .D = D, .causal = causal};
    for (int b = 0; b < B; b++)
        p->cu[b + 1] = p->cu[b] + lengths[b];
    p->T = p->cu[B] + PADDING;
    p->coords = mem_alloc(2 * (size_t)p->T * sizeof *p->coords);
    for (int b = 0; b < B; b++)
        for (int i = 0; i < lengths[b]; i++) {
            p->coords[2 * (p->cu[b] + i)] = 40 + 3 * b;
            p->coords[2 * (p->cu[b] + i) + 1] = i;
        }
    p->qkv = random_slot(p->T * 3 * HEADS * D, type, 1, &p->qkv_ref);
    p->dout = random_slot(p->T * HEADS * D, type, 2, &p->dout_ref);
    p->cu_there = slot_make(sizeof p->cu, p->cu);
    p->coords_there = slot_make(2 * p->T * (int64_t)sizeof *p->coords, p->coords);
    p->rng_there = slot_make(sizeof rng, rng);
}

static void problem_free(struct problem *p)
{
    struct slot *all[] = {&p->qkv, &p->dout, &p->cu_there, &p->coords_there, &p->rng_there};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        slot_free(all[i]);
    mem_free(p->coords);
    mem_free(p->qkv_ref);
    mem_free(p->dout_ref);
}

#define TENSOR(p, type_, ...)                                                                                          \
    (struct tensor)                                                                                                    \
    {                                                                                                                  \
        .data = p, .dtype = type_, .shape = {__VA_ARGS__}, .ndim = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)  \
    }

static int64_t mask_bytes(const struct problem *p)
{
    return (p->T + 15 * B) * HEADS * (LONGEST / 64) * 8;
}

static struct args_attention forward_args(const struct problem *p, void *o, void *lse, void *mask)
{
    return (struct args_attention){.qkv = TENSOR(p->qkv.device, p->type, p->T, 3 * HEADS * p->D),
                                   .cu = TENSOR(p->cu_there.device, DT_I32, B + 1),
                                   .coords = TENSOR(p->coords_there.device, DT_I32, p->T, 2),
                                   .rng = TENSOR(p->rng_there.device, DT_I32, 4),
                                   .o = TENSOR(o, p->type, p->T, HEADS * p->D),
                                   .lse = TENSOR(lse, DT_F32, HEADS, p->T),
                                   .mask = TENSOR(mask, DT_U8, p->T + 15 * B, HEADS * LONGEST / 8),
                                   .heads = HEADS,
                                   .kv_heads = HEADS,
                                   .causal = p->causal,
                                   .scale = 1 / sqrt((double)p->D),
                                   .p = P,
                                   .site = SITE,
                                   .longest = LONGEST,
                                   .queries = p->queries};
}

static struct args_attention_bwd backward_args(const struct args_attention *f, void *dout, void *dqkv, void *dbias,
                                               enum dtype wide)
{
    struct args_attention_bwd b = {.qkv = f->qkv,
                                   .o = f->o,
                                   .lse = f->lse,
                                   .dout = f->o,
                                   .cu = f->cu,
                                   .coords = f->coords,
                                   .rng = f->rng,
                                   .mask = f->mask,
                                   .dqkv = f->qkv,
                                   .heads = f->heads,
                                   .kv_heads = f->kv_heads,
                                   .causal = f->causal,
                                   .scale = f->scale,
                                   .p = f->p,
                                   .site = f->site,
                                   .longest = f->longest,
                                   .queries = f->queries};
    b.dout.data = dout;
    b.dqkv.data = dqkv;
    b.dbias = TENSOR(dbias, wide, f->qkv.shape[1]);
    return b;
}

/* The results, with the mask kept in `mask` (NULL: not kept); `blank` clears it between the two passes. */
struct results {
    struct slot o, lse, dqkv, dbias;
};

static struct results results_of(const struct problem *p, struct slot *mask, bool blank)
{
    struct results r = {.o = slot_make(dtype_bytes(p->type, p->T * HEADS * p->D), NULL),
                        .lse = slot_make(4 * HEADS * p->T, NULL),
                        .dqkv = slot_make(p->qkv.bytes, NULL),
                        .dbias = slot_make(4 * 3 * HEADS * p->D, NULL)};
    struct args_attention f = forward_args(p, r.o.device, r.lse.device, mask ? mask->device : NULL);
    struct args_attention_bwd b = backward_args(&f, p->dout.device, r.dqkv.device, r.dbias.device, DT_F32);
    assert_int_equal(cudaMalloc(&call.workspace, (size_t)cuda_attention_bwd_workspace(&b, &call)), 0);
    if (cuda_attention(&f, &call))
        fail_msg("%s", call.err->text);
    assert_int_equal(cudaDeviceSynchronize(), 0);
    if (mask)
        slot_fetch(mask);
    if (blank)
        assert_int_equal(cudaMemset(mask->device, 0, (size_t)mask->bytes), 0);
    if (cuda_attention_bwd(&b, &call))
        fail_msg("%s", call.err->text);
    assert_int_equal(cudaDeviceSynchronize(), 0);
    cudaFree(call.workspace);
    slot_fetch(&r.o);
    slot_fetch(&r.lse);
    slot_fetch(&r.dqkv);
    slot_fetch(&r.dbias);
    return r;
}

static void results_free(struct results *r)
{
    slot_free(&r->o);
    slot_free(&r->lse);
    slot_free(&r->dqkv);
    slot_free(&r->dbias);
}

static bool kept(const struct problem *p, const struct slot *mask, int b, int64_t head, int64_t query, int64_t key)
{
    const int64_t tiles = LONGEST / 64, group = (p->cu[b] + 15 * b) / 16 + query / 16;
    const int64_t word = ((group * HEADS + head) * tiles + key / 64) * 32 + query % 8 * 4 + key % 64 / 16;
    return ((const uint32_t *)mask->host)[word] >> (key % 4 * 8 + query % 16 / 8 * 4 + key % 16 / 4) & 1;
}

static void must_be_the_decisions(const struct problem *p, const struct slot *mask)
{
    for (int b = 0; b < B; b++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < lengths[b]; i++)
                for (int64_t j = 0; j < (p->causal ? i + 1 : lengths[b]); j++) {
                    struct philox bits = mask_attention_bits(rng, SITE, p->coords[2 * p->cu[b]], h, i, j);
                    if (kept(p, mask, b, h, i, j) != mask_keeps_key(bits, j, mask_threshold8(P)))
                        fail_msg("sequence %d, head %d, query %d, key %d: not the decision of op/mask.h", b, (int)h,
                                 (int)i, (int)j);
                }
}

/* Relative to the norm, as bf16 has it. */
static void must_be_near(const double *got, const double *want, int64_t n)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
    }
    assert_true(sqrt(difference / norm) < 0.012);
}

static void must_be_near_the_reference(const struct problem *p, const struct results *r)
{
    int64_t width = 3 * HEADS * p->D, n = p->T * width;
    double *o = mem_alloc((size_t)n * 8), *lse = mem_alloc((size_t)(HEADS * p->T) * 8),
           *dqkv = mem_alloc((size_t)n * 8), *dbias = mem_alloc((size_t)width * 8), *got = mem_alloc((size_t)n * 8);
    assert_true(o && lse && dqkv && dbias && got);
    struct args_attention f = forward_args(p, o, lse, NULL);
    f.qkv.data = p->qkv_ref;
    f.cu.data = (void *)p->cu;
    f.coords.data = p->coords;
    f.rng.data = (void *)rng;
    struct args_attention_bwd b = backward_args(&f, p->dout_ref, dqkv, dbias, DT_F64);
    ref_attention(&f, &(struct call){0});
    ref_attention_bwd(&b, &(struct call){0});
    dtype_convert(got, DT_F64, r->o.host, p->type, n / 3);
    must_be_near(got, o, n / 3);
    dtype_convert(got, DT_F64, r->dqkv.host, p->type, n);
    must_be_near(got, dqkv, n);
    dtype_convert(got, DT_F64, r->dbias.host, DT_F32, width); /* of keys it is 0 but for rounding */
    must_be_near(got, dbias, width);
    mem_free(dbias);
    mem_free(o);
    mem_free(lse);
    mem_free(dqkv);
    mem_free(got);
}

static void must_be_equal(const struct slot *a, const struct slot *b)
{
    assert_memory_equal(a->host, b->host, (size_t)a->bytes);
}

static void check(enum dtype type, int64_t D, int64_t causal)
{
    struct problem p;
    problem_make(&p, type, D, causal);
    struct slot mask = slot_make(mask_bytes(&p), NULL);
    struct results made = results_of(&p, NULL, false), from_kept = results_of(&p, &mask, false);
    must_be_the_decisions(&p, &mask);
    must_be_equal(&made.o, &from_kept.o);
    must_be_equal(&made.lse, &from_kept.lse);
    must_be_equal(&made.dqkv, &from_kept.dqkv);
    must_be_equal(&made.dbias, &from_kept.dbias);
    must_be_near_the_reference(&p, &made);
    struct results dropped = results_of(&p, &mask, true); /* it is read: without a key that is kept, dv is 0 */
    double *dqkv = mem_alloc((size_t)(p.T * 3 * HEADS * D) * 8);
    assert_non_null(dqkv);
    dtype_convert(dqkv, DT_F64, dropped.dqkv.host, type, p.T * 3 * HEADS * D);
    for (int64_t t = 0; t < p.T; t++)
        for (int64_t i = 0; i < HEADS * D; i++)
            assert_true(dqkv[(t * 3 + 2) * HEADS * D + i] == 0);
    mem_free(dqkv);
    results_free(&made);
    results_free(&from_kept);
    results_free(&dropped);
    slot_free(&mask);
    problem_free(&p);
}

static void a_kept_mask_changes_nothing(void **state)
{
    (void)state;
    check(DT_BF16, 64, 0);
    check(DT_BF16, 40, 1);
    check(DT_F16, 64, 1);
}

/* Where the backward pass is another kernel, the forward pass leaves the room as it is. */
static void nothing_is_kept_for_others(void **state)
{
    (void)state;
    struct problem p;
    problem_make(&p, DT_BF16, 96, 0);
    struct slot mask = slot_make(mask_bytes(&p), NULL);
    struct results made = results_of(&p, NULL, false), r = results_of(&p, &mask, true);
    for (int64_t i = 0; i < mask.bytes; i++)
        assert_int_equal(mask.host[i], 0xA5);
    must_be_equal(&made.dqkv, &r.dqkv);
    results_free(&made);
    results_free(&r);
    slot_free(&mask);
    problem_free(&p);
}

/* By the kernel for short sequences, and by the others. */
static void some_rows_ask(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct problem p;
        problem_make(&p, i % 2 ? DT_F16 : DT_BF16, i < 2 ? 64 : 96, 0);
        p.queries = i % 2 ? 70 : 1;
        struct results r = results_of(&p, NULL, false);
        must_be_near_the_reference(&p, &r);
        results_free(&r);
        problem_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_kept_mask_changes_nothing),
                                       cmocka_unit_test(nothing_is_kept_for_others), cmocka_unit_test(some_rows_ask)};
    struct snug_err err = {0};
    if (cuda_call_device(&call, 0) || !call.sm90) {
        printf("skipped: no GPU of compute capability 9.0 here, or no kernels for it\n");
        return 77;
    }
    call.err = &err;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
