/* Inputs of a case: random numbers from Philox, and whatever must agree with each other (sequence boundaries,
 * statistics of the forward pass) made here. */
#include "base/mem.h"
#include "base/philox.h"
#include "cases.h"
#include "op/clip.h"
#include "op/optimizer/dynamic_map.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define OP(name, slots, attrs, diff, text)                                                                             \
    static void run_##name(const union args_any *a, const struct call *c)                                              \
    {                                                                                                                  \
        ref_##name(&a->name, c);                                                                                       \
    }
#include "graph/ops.h"
#undef OP

void (*const reference_kernels[OP_COUNT])(const union args_any *, const struct call *) = {
#define OP(name, slots, attrs, diff, text) [OP_##name] = run_##name,
#include "graph/ops.h"
#undef OP
};

/* Uniform in (0, 1). */
double random_uniform(uint32_t stream, uint32_t slot, uint32_t i)
{
    struct philox r = philox4x32((struct philox){{i, slot, stream, 0}}, 0x736E7567, 1);
    return ((double)r.w[0] + 0.5) / 4294967296.0;
}

uint32_t case_stream(const struct op_case *c)
{
    return c->stream ? c->stream : (uint32_t)(c - op_cases);
}

double random_normal(uint32_t stream, uint32_t slot, uint32_t i)
{
    struct philox r = philox4x32((struct philox){{i, slot, stream, 1}}, 0x736E7567, 1);
    double u = ((double)r.w[0] + 0.5) / 4294967296.0, v = ((double)r.w[1] + 0.5) / 4294967296.0;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

bool is_float(enum dtype t)
{
    return t == DT_F32 || t == DT_BF16 || t == DT_F16;
}

bool case_has_narrow(const struct op_case *c)
{
    for (int i = 0; i < op_table[c->op].n_slots; i++)
        if (c->args.slot[i].ndim && c->args.slot[i].dtype == DT_BF16)
            return true;
    return false;
}

int case_slot(const struct op_case *c, const char *name)
{
    for (int i = 0; i < op_table[c->op].n_slots; i++)
        if (!strcmp(op_table[c->op].slots[i].name, name))
            return i;
    return -1;
}

static int64_t first_row(const struct op_case *c, int sequence)
{
    int64_t row = 0;
    for (int b = 0; b < sequence; b++)
        row += c->lengths[b];
    return row;
}

static int64_t rows_of_experts(const struct op_case *c)
{
    return c->op == OP_expert_use ? c->args.expert_use.places.shape[0] : c->args.slot[0].shape[0];
}

static int32_t place_in_caches(const struct args_attention_cached *a, int64_t i)
{
    int64_t B = a->keys.shape[0], L = a->keys.shape[1], b = a->kv.ndim ? i : i / L, j = a->kv.ndim ? 1 : i % L;
    return (int32_t)((b + j) % B * L + (a->kv.ndim ? 0 : j));
}

/* Of convolutions that share rows all are as far; else the first has had none, and others fewer than W and more. */
static int32_t past_of_convolution(const struct op_case *c, int64_t b, double u)
{
    const struct args_short_conv_cached *a = &c->args.short_conv_cached;
    return a->at.ndim ? (int32_t)a->at.shape[1] / 2 : b ? 1 + (int32_t)(2 * u * (double)a->w.shape[2]) : 0;
}

static int32_t place_of_convolution(const struct args_short_conv_cached *a, int64_t i)
{
    int64_t B = a->at.shape[0], L = a->at.shape[1];
    return (int32_t)((i / L + i % L) % B * L + i % L);
}

static void fill_integers(const struct op_case *c, int slot, struct slot_data *s)
{
    const char *name = op_table[c->op].slots[slot].name;
    int32_t *x = s->data;
    int64_t classes = 1;
    if (!strncmp(name, "ids", 3)) /* rows of the table in the next slot, or of dtable; of mask_dropout few */
        classes = c->op == OP_embed_bwd ? c->args.embed_bwd.dtable.shape[0] : c->args.slot[slot + 1].shape[0];
    else if (!strcmp(name, "labels"))
        classes = c->op == OP_linear_cross_entropy ? c->args.linear_cross_entropy.w.shape[0]
                                                   : c->args.cross_entropy.logits.shape[1];
    for (int64_t i = 0; i < s->elements; i++) {
        double u = random_uniform(case_stream(c), (uint32_t)slot, (uint32_t)i);
        if (!strcmp(name, "cu"))
            x[i] = (int32_t)first_row(c, (int)i);
        else if (!strcmp(name, "kv_cu"))
            x[i] = i ? x[i - 1] + c->key_lengths[i - 1] : 0;
        else if (!strcmp(name, "rng"))
            x[i] = i < 3 ? (int32_t[]){-1234567, 42, 1001}[i] : 0;
        else if (!strcmp(name, "coords"))
            x[i] = 0;
        else if (!strcmp(name, "past") && c->op == OP_short_conv_cached)
            x[i] = past_of_convolution(c, i, u);
        else if (!strcmp(name, "at") &&
                 c->op == OP_short_conv_cached) /* row j of sequence b is in b + j, counted round */
            x[i] = place_of_convolution(&c->args.short_conv_cached, i);
        else if (!strcmp(name, "past") && c->args.attention_cached.kv.ndim) /* the first knows what is new */
            x[i] = i && !c->key_lengths[i] ? (int32_t)((double)c->args.attention_cached.keys.shape[1] * (1 - u / 2))
                                           : c->key_lengths[i];
        else if (!strcmp(name, "past")) /* an empty cache, then from half full to as full as it may be */
            x[i] = i ? (int32_t)(((double)c->args.attention_cached.keys.shape[1] - c->lengths[i]) * (1 - u / 2)) : 0;
        else if (!strcmp(name, "at")) /* row j of sequence b is in the cache b + j, counted round */
            x[i] = place_in_caches(&c->args.attention_cached, i);
        else if (!strcmp(name, "rows")) /* of a table, in order: each several times, or not all of them */
            x[i] =
                (int32_t)((double)i / (double)s->elements * (double)c->args.attention_disentangled.relative.shape[0]);
        else if (!strcmp(name, "spans"))
            x[i] = 0;
        else if (!strcmp(name, "offsets")) /* of experts, of which every other one has no rows, and later ones more */
            x[i] =
                i == s->elements - 1
                    ? (int32_t)rows_of_experts(c)
                    : (int32_t)((double)rows_of_experts(c) * pow((double)(i / 2 * 2) / (double)(s->elements - 1), 2));
        else if (!strcmp(name, "counts") || !strcmp(name, "counted"))
            x[i] = (int32_t)(u * 50);
        else if (!strcmp(name, "places")) /* a permutation, below */
            x[i] = (int32_t)i;
        else if (!strcmp(name, "positions"))
            x[i] = (int32_t)(u * 4000);
        else
            x[i] = !strcmp(name, "labels") && i % 4 == 2 ? -100 : (int32_t)(u * (double)classes);
    }
    for (int b = 0; !strcmp(name, "spans") && b < c->n_sequences; b++) { /* of sequence 1 only the end is known */
        int n = c->lengths[b], start = n * (b % 3) / 4, end = n - 1 - b % 2 * (n > 1);
        x[first_row(c, b) + (start < end ? start : end)] |= b == 1 ? 0 : 1;
        x[first_row(c, b) + end] |= 2;
        x[first_row(c, b) + n - 1] = n > 1 && b % 2 ? -100 : x[first_row(c, b) + n - 1];
    }
    for (int64_t i = s->elements - 1; !strcmp(name, "places") && i > 0; i--) {
        int64_t other = (int64_t)(random_uniform(case_stream(c), (uint32_t)slot, (uint32_t)i) * (double)(i + 1));
        int32_t kept = x[i];
        x[i] = x[other];
        x[other] = kept;
    }
    if (!strcmp(name, "coords") && c->n_sequences) /* rows of sequence b: sample 7 + b, position */
        for (int b = 0, n = 0; b < c->n_sequences; b++)
            for (int i = 0; i < c->lengths[b]; i++, n++) {
                x[2 * n] = 7 + b;
                x[2 * n + 1] = i;
            }
    else if (!strcmp(name, "coords")) /* rows that are samples */
        for (int64_t n = 0; n < s->elements / 2; n++)
            x[2 * n] = (int32_t)n;
}

/* Any; of the second moment that is in signed codes only those of what is not negative. */
static void fill_codes(const struct op_case *c, int slot, struct slot_data *s)
{
    const char *name = op_table[c->op].slots[slot].name;
    bool first_moment = !strcmp(name, "m") || !strcmp(name, "slow");
    int least = c->op == OP_rmsprop8bit ? MAP_SIGNED_ZERO : 0;
    for (int64_t i = 0; i < s->elements; i++)
        ((uint8_t *)s->data)[i] =
            first_moment && case_falls_below_zero(c, i)
                ? MAP_SIGNED_ZERO
                : (uint8_t)(least + (256 - least) * random_uniform(case_stream(c), (uint32_t)slot, (uint32_t)i));
}

/* The typed copy, and F64 again what was rounded there. */
static void round_to_type(struct slot_data *s)
{
    dtype_convert(s->data, s->shape.dtype, s->ref, DT_F64, s->elements);
    dtype_convert(s->ref, DT_F64, s->data, s->shape.dtype, s->elements);
}

/* A slot as the reference sees it. */
static struct tensor wide(const struct op_inputs *in, const char *name)
{
    int i = case_slot(in->c, name);
    struct tensor t = i < 0 ? (struct tensor){0} : in->slot[i].shape;
    if (i >= 0 && in->slot[i].present) {
        t.data = in->slot[i].ref ? (void *)in->slot[i].ref : in->slot[i].data;
        t.dtype = in->slot[i].ref ? DT_F64 : t.dtype;
    }
    return t;
}

/* Of rows of H elements, which lie `pitch` apart: 1/sqrt(mean of squares + eps) of each, `stride` apart in rstd. */
static void make_rstd(const double *h, int64_t rows, int64_t H, int64_t pitch, double *rstd, int64_t stride)
{
    for (int64_t n = 0; n < rows; n++) {
        double squares = 0;
        for (int64_t i = 0; i < H; i++)
            squares += h[n * pitch + i] * h[n * pitch + i] / (double)H;
        rstd[n * stride] = 1 / sqrt(squares + 1e-6);
    }
}

/* Statistics that the forward op would have left for a backward op. */
static void make_statistics(struct op_inputs *in)
{
    const struct op_case *c = in->c;
    const struct call call = {0};
    double unused = 0;
    struct tensor nowhere = {.data = &unused};
    if (c->op == OP_attention_bwd) {
        struct args_attention f = {.qkv = wide(in, "qkv"),
                                   .cu = wide(in, "cu"),
                                   .coords = wide(in, "coords"),
                                   .rng = wide(in, "rng"),
                                   .o = wide(in, "o"),
                                   .lse = wide(in, "lse"),
                                   .heads = c->args.attention_bwd.heads,
                                   .kv_heads = c->args.attention_bwd.kv_heads,
                                   .causal = c->args.attention_bwd.causal,
                                   .scale = c->args.attention_bwd.scale,
                                   .p = c->args.attention_bwd.p,
                                   .site = c->args.attention_bwd.site,
                                   .queries = c->args.attention_bwd.queries,
                                   .window = c->args.attention_bwd.window,
                                   .softcap = c->args.attention_bwd.softcap};
        ref_attention(&f, &call);
    } else if (c->op == OP_attention_general_bwd) {
        const struct args_attention_general_bwd *of = &c->args.attention_general_bwd;
        struct args_attention_general f = {.q = wide(in, "q"),
                                           .kv = wide(in, "kv"),
                                           .table = wide(in, "table"),
                                           .cu = wide(in, "cu"),
                                           .kv_cu = wide(in, "kv_cu"),
                                           .coords = wide(in, "coords"),
                                           .rng = wide(in, "rng"),
                                           .o = wide(in, "o"),
                                           .lse = wide(in, "lse"),
                                           .heads = of->heads,
                                           .furthest = of->furthest,
                                           .causal = of->causal,
                                           .scale = of->scale,
                                           .p = of->p,
                                           .site = of->site};
        ref_attention_general(&f, &call);
    } else if (c->op == OP_attention_disentangled_bwd) {
        struct args_attention_disentangled f = {.qkv = wide(in, "qkv"),
                                                .relative = wide(in, "relative"),
                                                .rows = wide(in, "rows"),
                                                .cu = wide(in, "cu"),
                                                .coords = wide(in, "coords"),
                                                .rng = wide(in, "rng"),
                                                .o = wide(in, "o"),
                                                .lse = wide(in, "lse"),
                                                .heads = c->args.attention_disentangled_bwd.heads,
                                                .queries = c->args.attention_disentangled_bwd.queries,
                                                .keys = c->args.attention_disentangled_bwd.keys,
                                                .scale = c->args.attention_disentangled_bwd.scale,
                                                .p = c->args.attention_disentangled_bwd.p,
                                                .site = c->args.attention_disentangled_bwd.site};
        ref_attention_disentangled(&f, &call);
    } else if (c->op == OP_norm_bwd) {
        struct tensor h = wide(in, "h"), mean = wide(in, "mean"), rstd = wide(in, "rstd");
        for (int64_t n = 0; n < h.shape[0]; n++) {
            double sum = 0, squares = 0;
            for (int64_t i = 0; i < h.shape[1]; i++)
                sum += ((double *)h.data)[n * h.shape[1] + i] / (double)h.shape[1];
            for (int64_t i = 0; i < h.shape[1]; i++)
                squares += pow(((double *)h.data)[n * h.shape[1] + i] - sum, 2) / (double)h.shape[1];
            ((double *)mean.data)[n] = sum;
            ((double *)rstd.data)[n] = 1 / sqrt(squares + 1e-12);
        }
    } else if (c->op == OP_rms_norm_bwd) {
        struct tensor h = wide(in, "h"), rstd = wide(in, "rstd");
        make_rstd(h.data, h.shape[0], h.shape[1], h.shape[1], rstd.data, 1);
    } else if (c->op == OP_rotary_bwd && c->args.rotary_bwd.rstd.ndim) {
        struct tensor x = wide(in, "qkv"), rstd = wide(in, "rstd");
        int64_t A = c->args.rotary_bwd.heads, K = c->args.rotary_bwd.kv_heads, D = x.shape[1] / (A + 2 * K);
        for (int64_t h = 0; h < A + K && rstd.shape[1] == A + K; h++)
            make_rstd((double *)x.data + h * D, x.shape[0], D, x.shape[1], (double *)rstd.data + h, A + K);
        for (int part = 0; part < 2 && rstd.shape[1] == 2 && A + K > 2; part++)
            make_rstd((double *)x.data + part * A * D, x.shape[0], (part ? K : A) * D, x.shape[1],
                      (double *)rstd.data + part, 2);
    } else if (c->op == OP_cross_entropy_bwd) {
        struct args_cross_entropy f = {.logits = wide(in, "logits"),
                                       .labels = wide(in, "labels"),
                                       .step = wide(in, "step"),
                                       .loss = nowhere,
                                       .lse = wide(in, "lse")};
        ref_cross_entropy(&f, &call);
    } else if (c->op == OP_span_loss_bwd) {
        struct args_span_loss f = {.logits = wide(in, "logits"),
                                   .spans = wide(in, "spans"),
                                   .cu = wide(in, "cu"),
                                   .step = wide(in, "step"),
                                   .loss = nowhere,
                                   .lse = wide(in, "lse")};
        ref_span_loss(&f, &call);
    } else if (c->op == OP_route_bwd) {
        struct tensor gates = wide(in, "dgates");
        struct args_route f = {.logits = wide(in, "logits"),
                               .gates = gates,
                               .places = wide(in, "places"),
                               .offsets = wide(in, "offsets"),
                               .k = gates.shape[1]};
        f.gates.data = mem_alloc((size_t)tensor_elements(&gates) * sizeof(double) + 1);
        assert(f.gates.data);
        ref_route(&f, &call);
        mem_free(f.gates.data);
    } else
        return;
    for (int i = 0; i < op_table[c->op].n_slots; i++)
        if (in->slot[i].present && in->slot[i].ref)
            round_to_type(&in->slot[i]);
}

void inputs_make(struct op_inputs *in, const struct op_case *c, enum dtype narrow)
{
    *in = (struct op_inputs){.c = c};
    for (int i = 0; i < op_table[c->op].n_slots; i++) {
        struct slot_data *s = &in->slot[i];
        s->shape = c->args.slot[i];
        s->present = s->shape.ndim > 0;
        if (!s->present)
            continue;
        if (s->shape.dtype == DT_BF16)
            s->shape.dtype = narrow;
        s->elements = 1;
        for (int d = 0; d < s->shape.ndim; d++)
            s->elements *= s->shape.shape[d];
        s->bytes = dtype_bytes(s->shape.dtype, s->elements);
        s->data = mem_alloc((size_t)s->bytes + 1);
        assert(s->data);
        if (s->shape.dtype == DT_I32) {
            fill_integers(c, i, s);
            continue;
        }
        if (s->shape.dtype == DT_F4) { /* any two in a byte */
            for (int64_t k = 0; k < s->bytes; k++)
                ((uint8_t *)s->data)[k] = (uint8_t)(256 * random_uniform(case_stream(c), (uint32_t)i, (uint32_t)k));
            continue;
        }
        if (s->shape.dtype == DT_F8_E4M3) { /* from -2 to 2, subnormal ones among them */
            for (int64_t k = 0; k < s->elements; k++)
                ((uint8_t *)s->data)[k] = (uint8_t)(65 * random_uniform(case_stream(c), (uint32_t)i, (uint32_t)k)) |
                                          (uint8_t)(k * 7 % 3 == 0 ? 0x80 : 0);
            continue;
        }
        if (s->shape.dtype == DT_U8) {
            fill_codes(c, i, s);
            continue;
        }
        s->ref = mem_alloc((size_t)s->elements * sizeof(double) + 1);
        assert(s->ref);
        fill_floats(c, i, s);
        round_to_type(s);
    }
    make_statistics(in);
}

void inputs_free(struct op_inputs *in)
{
    for (int i = 0; i < OP_MAX_SLOTS; i++) {
        mem_free(in->slot[i].data);
        mem_free(in->slot[i].ref);
    }
}
