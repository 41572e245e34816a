/* Attention of one set of sequences to another, with a bias by distance: attention.c's and attention_bwd.c's, which read the biases of a
 * block as rows that begin a lane earlier from key to key. The buckets of distances are looked up once.
 *
 * Order of sums: as there; gradients of biases over the blocks of a task, of a table's entry over distances, then over sequences, in
 * order. */
#include "cpu/attention/attention.h"
#include "op/attention/bias_bucket.h"

/* Of either op's arguments, which have what it wants under the same names. */
#define PROBLEM(a)                                                                                                     \
    to_others((struct problem){COMMON_OF_PROBLEM(a), ROWS_OF_PROBLEM(a, (a)->q, (a)->heads), .causal = (a)->causal},   \
              &(a)->kv, &(a)->kv_cu)

static struct problem to_others(struct problem p, const struct tensor *kv, const struct tensor *kv_cu)
{
    if (kv->ndim) {
        p.kv = kv->data, p.kv_cu = kv_cu->data, p.S = kv->shape[0], p.kv_pitch = kv->shape[1];
        p.k_at = 0, p.v_at = kv->shape[1] / 2;
    }
    return p;
}

/* What there is of biases, in a workspace: (heads, span) of them, their entries of the table. */
static void carve_bias(struct problem *p, const struct tensor *table, struct carver *c)
{
    if (!table->ndim)
        return;
    p->bias.zero = p->S, p->bias.span = p->S + p->T + QUERIES, p->bias.size = table->shape[0];
    p->bias.of_distances = carve(c, p->heads * p->bias.span);
    p->bias.entries = carve(c, p->bias.span);
}

/* As far as the sequences of a batch need them; a block of queries may read beyond: what is there is finite. */
static void fill_bias(const struct problem *p, const struct tensor *table, int64_t furthest)
{
    int64_t queries = 0, keys = 0;
    for (int64_t b = 0; b < p->B; b++) {
        queries = asking(p, b) > queries ? asking(p, b) : queries;
        keys = asked(p, b) > keys ? asked(p, b) : keys;
    }
    int32_t *entries = p->bias.entries + p->bias.zero;
    for (int64_t d = 1 - keys; d < queries + QUERIES; d++)
        entries[d] = d >= queries || !furthest
                         ? 0
                         : bias_bucket(d > 0 ? d : 0, d < 0 ? -d : 0, p->bias.size, furthest, p->causal);
    for (int64_t h = 0; h < p->heads; h++) {
        float *to = p->bias.of_distances + h * p->bias.span + p->bias.zero;
        for (int64_t d = 1 - keys; d < queries + QUERIES; d++)
            to[d] = vf_get_n(table->data, entries[d] * p->heads + h, 1, table->dtype == DT_BF16)[0] *
                    (furthest ? 1 : (float)-d);
    }
}

int64_t ISA(cpu_attention_general_workspace)(const struct args_attention_general *a, int threads)
{
    struct problem p = PROBLEM(a);
    struct carver c = {0};
    carve_bias(&p, &a->table, &c);
    return c.used + ISA(attention_forward_workspace)(&p, threads);
}

void ISA(cpu_attention_general)(const struct args_attention_general *a, const struct call *c)
{
    struct problem p = PROBLEM(a);
    struct carver carver = {.base = c->workspace};
    carve_bias(&p, &a->table, &carver);
    if (a->table.ndim)
        fill_bias(&p, &a->table, a->furthest);
    ISA(attention_forward)(&p, carver.base + carver.used, c->threads);
}

/* ---- backward ---- */

static void carve_bias_bwd(struct problem *p, const struct args_attention_general_bwd *a, struct carver *c)
{
    carve_bias(p, &a->table, c);
    if (a->dtable.ndim)
        p->bias.sums = carve(c, p->B * p->heads * p->bias.size);
}

/* Of each task's gradients of a table's entries. */
static void add_tables(const struct problem *p, const struct tensor *dtable)
{
    for (int64_t h = 0; h < p->heads; h++)
        for (int64_t i = 0; i < p->bias.size; i++) {
            float sum = 0;
            for (int64_t b = 0; b < p->B; b++)
                if (asking(p, b))
                    sum += p->bias.sums[(b * p->heads + h) * p->bias.size + i];
            put_or_add(dtable, i * p->heads + h, vf_set1(sum), 1, dtable->dtype == DT_BF16);
        }
}

int64_t ISA(cpu_attention_general_bwd_workspace)(const struct args_attention_general_bwd *a, int threads)
{
    struct problem p = PROBLEM(a);
    struct carver c = {0};
    carve_bias_bwd(&p, a, &c);
    return c.used + ISA(attention_backward_workspace)(&p, threads);
}

void ISA(cpu_attention_general_bwd)(const struct args_attention_general_bwd *a, const struct call *c)
{
    struct problem p = PROBLEM(a);
    struct carver carver = {.base = c->workspace};
    p.dout = a->dout.data, p.dq = a->dq.data, p.dkv = a->kv.ndim ? a->dkv.data : a->dq.data;
    carve_bias_bwd(&p, a, &carver);
    if (a->table.ndim)
        fill_bias(&p, &a->table, a->furthest);
    ISA(attention_backward)(&p, carver.base + carver.used, c->threads);
    if (a->dtable.data)
        add_tables(&p, &a->dtable);
}
