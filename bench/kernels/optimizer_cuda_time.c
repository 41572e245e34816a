#include "optimizer_cuda.h"

#include "op/optimizer/dynamic_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BERT-large's tensors, query, key and value of a layer one after another as in a run. */
static int bert_large(int64_t (*shape)[2])
{
    int n = 0;
#define ADD(r, c) (shape[n][0] = (r), shape[n++][1] = (c))
    ADD(30522, 1024), ADD(512, 1024), ADD(2, 1024), ADD(1024, 0), ADD(1024, 0);
    for (int l = 0; l < 24; l++) {
        for (int k = 0; k < 4; k++)
            ADD(1024, 1024), ADD(1024, 0);
        ADD(1024, 0), ADD(1024, 0), ADD(4096, 1024), ADD(4096, 0), ADD(1024, 4096), ADD(1024, 0), ADD(1024, 0),
            ADD(1024, 0);
    }
    ADD(1024, 1024), ADD(1024, 0), ADD(2, 1024), ADD(2, 0);
#undef ADD
    return n;
}

/* Device memory full of small normal numbers (no kernel here makes them: a block of them is repeated). */
static char *noise(int64_t bytes, enum dtype type, double size, bool positive)
{
    enum { BLOCK = 1 << 20 };
    char *device, *host = mem_alloc(8 * BLOCK);
    for (uint32_t i = 0; i < BLOCK; i++) {
        double x = size * random_normal(7, 1, i);
        x = positive ? x * x : x;
        dtype_convert(host + dtype_bytes(type, i), type, &x, DT_F64, 1);
    }
    require(cudaMalloc((void **)&device, (size_t)bytes), "cudaMalloc");
    int64_t piece = dtype_bytes(type, BLOCK);
    for (int64_t at = 0; at < bytes; at += piece)
        require(
            cudaMemcpy(device + at, host, (size_t)(bytes - at < piece ? bytes - at : piece), cudaMemcpyHostToDevice),
            "upload");
    mem_free(host);
    return device;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_launch(const char *what, launcher *launch, const union args_any *const *list, int n, double bytes,
                        int repetitions)
{
    cudaEvent_t from, to;
    double ms[1000];
    require(cudaEventCreate(&from) || cudaEventCreate(&to), "cudaEventCreate");
    for (int r = -3; r < repetitions; r++) {
        float t;
        cudaEventRecord(from, call.stream);
        require(launch(list, n), what);
        cudaEventRecord(to, call.stream);
        require(cudaEventSynchronize(to), what);
        cudaEventElapsedTime(&t, from, to);
        if (r >= 0)
            ms[r] = t;
    }
    qsort(ms, (size_t)repetitions, sizeof *ms, compare_doubles);
    double median = ms[repetitions / 2];
    printf("%-28s median %.3f ms, best %.3f; %.2f TB/s\n", what, median, ms[0], bytes / median * 1e-9);
}

static int64_t round_up(int64_t n)
{
    return (n + 31) / 32 * 32; /* the plan starts values at multiples of 64 bytes */
}

/* BERT-large's tensors, and device memory for what an optimizer has of each. All of a kind lie one behind the other. */
static struct timed {
    int n;
    int64_t shape[MAX_TENSORS][2]; /* of a vector the second is 0 */
    int64_t real, all, chunks;     /* parameters; with the room between tensors; of sumsq */
    int64_t blocks;                /* room for largest magnitudes of 8-bit states, of each of both moments */
    char *p, *m, *v, *g, *g16, *copy, *codes, *absmax, *factors;
    struct tensor step, coef, partials;
} timed;

/* A tensor of the list, and where its part of each kind of memory begins, in elements. */
struct spot {
    int i;
    int64_t elements, at, chunk, block, factor;
    bool narrow; /* its gradient has 16 bits, and a copy is written */
};

static int64_t elements_of(int i)
{
    return timed.shape[i][0] * (timed.shape[i][1] ? timed.shape[i][1] : 1);
}

static struct tensor piece(const struct spot *s, enum dtype type, char *base)
{
    struct tensor t = tensor(type, s->elements);
    t.data = base + dtype_bytes(type, s->at);
    return t;
}

static struct tensor gradient(const struct spot *s)
{
    return s->narrow ? piece(s, DT_BF16, timed.g16) : piece(s, DT_F32, timed.g);
}

typedef void describer(union args_any *a, struct spot *s);

static void describe_sumsq(union args_any *a, struct spot *s)
{
    a->sumsq = (struct args_sumsq){.g = gradient(s), .partials = timed.partials, .at = s->chunk};
}

static void describe_adamw(union args_any *a, struct spot *s)
{
    a->adamw = (struct args_adamw){.p = piece(s, DT_F32, timed.p),
                                   .m = piece(s, DT_F32, timed.m),
                                   .v = piece(s, DT_F32, timed.v),
                                   .g = gradient(s),
                                   .step = timed.step,
                                   .coef = timed.coef,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .eps = 1e-8,
                                   .weight_decay = 0.01};
    if (s->narrow)
        a->adamw.copy = piece(s, DT_BF16, timed.copy);
}

static void describe_sgd(union args_any *a, struct spot *s)
{
    a->sgd = (struct args_sgd){.p = piece(s, DT_F32, timed.p),
                               .buf = piece(s, DT_F32, timed.m),
                               .g = gradient(s),
                               .step = timed.step,
                               .coef = timed.coef,
                               .momentum = 0.9};
}

static void describe_adamw8bit(union args_any *a, struct spot *s)
{
    int64_t blocks = (s->elements + MAP_BLOCK - 1) / MAP_BLOCK;
    struct tensor absmax_m = tensor(DT_F32, blocks), absmax_v = absmax_m;
    absmax_m.data = timed.absmax + 4 * s->block;
    absmax_v.data = timed.absmax + 4 * (timed.blocks + s->block);
    a->adamw8bit = (struct args_adamw8bit){.p = piece(s, DT_F32, timed.p),
                                           .m = piece(s, DT_U8, timed.codes),
                                           .v = piece(s, DT_U8, timed.codes + timed.all),
                                           .absmax_m = absmax_m,
                                           .absmax_v = absmax_v,
                                           .g = gradient(s),
                                           .step = timed.step,
                                           .coef = timed.coef,
                                           .beta1 = 0.9,
                                           .beta2 = 0.999,
                                           .eps = 1e-8};
    if (s->narrow)
        a->adamw8bit.copy = piece(s, DT_BF16, timed.copy);
    s->block += round_up(blocks);
}

static void describe_adafactor(union args_any *a, struct spot *s)
{
    const int64_t *shape = timed.shape[s->i];
    struct args_adafactor *f = &a->adafactor;
    *f = (struct args_adafactor){.p = piece(s, DT_F32, timed.p),
                                 .g = gradient(s),
                                 .step = timed.step,
                                 .coef = timed.coef,
                                 .eps1 = 1e-30,
                                 .clip_threshold = 1,
                                 .decay_rate = -0.8,
                                 .beta1 = -1};
    if (!shape[1]) {
        f->v = piece(s, DT_F32, timed.v);
        return;
    }
    struct tensor *states[] = {&f->row, &f->col};
    f->p.ndim = f->g.ndim = 2;
    for (int k = 0; k < 2; k++) {
        f->p.shape[k] = f->g.shape[k] = shape[k];
        *states[k] = tensor(DT_F32, shape[k]);
        states[k]->data = timed.factors + 4 * s->factor;
        s->factor += round_up(shape[k]);
    }
}

static char *filled(int64_t bytes, int byte)
{
    char *p;
    require(cudaMalloc((void **)&p, (size_t)bytes), "cudaMalloc");
    require(cudaMemset(p, byte, (size_t)bytes), "cudaMemset");
    return p;
}

static void make_timed(void)
{
    struct timed *t = &timed;
    const double step[STEP_SCALARS] = {[STEP_LR] = 1e-5, [STEP_UPDATE] = 10};
    const float coef = 0.5f;
    t->n = bert_large(t->shape);
    for (int i = 0; i < t->n; i++) {
        t->real += elements_of(i);
        t->all += round_up(elements_of(i));
        t->chunks += (elements_of(i) + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
    }
    t->blocks = t->all / MAP_BLOCK + MAX_TENSORS * 32;
    t->p = noise(4 * t->all, DT_F32, 0.02, false), t->m = noise(4 * t->all, DT_F32, 1e-3, false);
    t->v = noise(4 * t->all, DT_F32, 1e-3, true), t->g = noise(4 * t->all, DT_F32, 1e-3, false);
    t->g16 = noise(2 * t->all, DT_BF16, 1e-3, false), t->copy = noise(2 * t->all, DT_BF16, 0.02, false);
    t->codes = filled(2 * t->all, 100), t->absmax = filled(2 * 4 * t->blocks, 0x30),
    t->factors = filled(64 << 20, 0x30);
    t->step = on_device(DT_F64, STEP_SCALARS), t->coef = on_device(DT_F32, 1);
    t->partials = on_device(DT_F64, t->chunks);
    require(cudaMemcpy(t->step.data, step, sizeof step, cudaMemcpyHostToDevice), "upload");
    require(cudaMemcpy(t->coef.data, &coef, sizeof coef, cudaMemcpyHostToDevice), "upload");
    printf("BERT-large: %d tensors, %lld parameters\n", t->n, (long long)t->real);
}

/* What a copy on the device reaches, to hold the others against. */
static void time_copy(void)
{
    cudaEvent_t from, to;
    float ms;
    require(cudaEventCreate(&from) || cudaEventCreate(&to), "cudaEventCreate");
    for (int r = 0; r < 12; r++) {
        if (r == 2)
            cudaEventRecord(from, call.stream);
        cudaMemcpyAsync(timed.m, timed.p, (size_t)(4 * timed.all), cudaMemcpyDeviceToDevice, call.stream);
    }
    cudaEventRecord(to, call.stream);
    require(cudaEventSynchronize(to), "copy");
    cudaEventElapsedTime(&ms, from, to);
    printf("%-28s %.2f TB/s\n", "device copy", 10 * 8.0 * (double)timed.all / ms * 1e-9);
}

void time_all(int repetitions)
{
    static const struct {
        const char *what;
        enum op op; /* that has a workspace, else OP_none */
        launcher *launch;
        describer *describe;
        bool narrow;  /* matrices have gradients of 16 bits */
        double bytes; /* a parameter, read and written */
    } rows[] = {{"sumsq fp32", OP_none, launch_sumsq, describe_sumsq, false, 4},
                {"sumsq bf16", OP_none, launch_sumsq, describe_sumsq, true, 2},
                {"adamw fp32", OP_none, launch_adamw, describe_adamw, false, 28},
                {"adamw bf16 g and copy", OP_none, launch_adamw, describe_adamw, true, 28},
                {"sgd momentum fp32", OP_none, launch_sgd, describe_sgd, false, 20},
                {"adamw8bit fp32", OP_none, launch_adamw8bit, describe_adamw8bit, false, 16},
                {"adamw8bit bf16 g and copy", OP_none, launch_adamw8bit, describe_adamw8bit, true, 16},
                {"adafactor fp32", OP_adafactor, launch_adafactor, describe_adafactor, false, 20}};
    static union args_any args[MAX_TENSORS];
    const union args_any *list[MAX_TENSORS];
    make_timed();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct spot s = {0};
        memset(args, 0, sizeof args);
        for (s.i = 0; s.i < timed.n; s.i++) {
            s.elements = elements_of(s.i);
            s.narrow = rows[r].narrow && timed.shape[s.i][1];
            rows[r].describe(&args[s.i], &s);
            list[s.i] = &args[s.i];
            s.chunk += (s.elements + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
            s.at += round_up(s.elements);
        }
        int64_t bytes = workspace_bytes(rows[r].op, args, timed.n);
        require(cudaMalloc(&call.workspace, (size_t)bytes), "cudaMalloc");
        if (rows[r].op)
            printf("%s: %.1f MB of workspace\n", rows[r].what, 1e-6 * (double)bytes);
        time_launch(rows[r].what, rows[r].launch, list, timed.n, rows[r].bytes * (double)timed.real, repetitions);
        require(cudaFree(call.workspace), "cudaFree");
    }
    time_copy();
}
