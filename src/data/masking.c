#include "data/masking.h"

#include "base/mem.h"
#include "data/random.h"

int masking_open(struct masker *m, const struct dataset *d, const struct masking *o, uint64_t seed,
                 struct snug_err *err)
{
    *m = (struct masker){.mask_id = o->mask_id, .vocab_size = o->vocab_size};
    if (d->task != TASK_MASKED_LM || d->targets)
        return SNUG_OK;
    double p = o->probability == 0 ? 0.15 : (double)o->probability;
    if (!(p > 0 && p <= 1))
        return err_set(err, SNUG_ERR_USAGE, "mlm_probability: %g is not in (0, 1]", p);
    if (o->mask_id < 0)
        return err_set(err, SNUG_ERR_INPUT,
                       "tokenizer: masked-lm needs a mask token, and there is none; save the tokenizer with the model");
    if (o->mask_id >= o->vocab_size)
        return err_set(err, SNUG_ERR_INPUT, "tokenizer: the mask token's id %d is not in the vocabulary of %d",
                       (int)o->mask_id, (int)o->vocab_size);
    if (d->max_id >= o->vocab_size)
        return err_set(err, SNUG_ERR_INPUT, "data: token id %d is not in the vocabulary of %d", (int)d->max_id,
                       (int)o->vocab_size);
    m->special = mem_alloc((size_t)o->vocab_size);
    if (!m->special)
        return err_no_memory(err, (unsigned long long)o->vocab_size);
    for (int32_t i = 0; i < o->n_special; i++)
        if (o->special_ids[i] >= 0 && o->special_ids[i] < o->vocab_size)
            m->special[o->special_ids[i]] = 1;
    m->below = (uint64_t)(p * 4294967296.0);
    data_key(seed, FOR_MASKING, m->key);
    return SNUG_OK;
}

void masking_close(struct masker *m)
{
    mem_free(m->special);
    m->special = NULL;
}

void masking_apply(const struct masker *m, int64_t epoch, int64_t row, int32_t *ids, int32_t *targets, int32_t n)
{
    const uint32_t to_mask = 3435973837u, to_random = 3865470567u; /* 0.8 and 0.9 times 2^32 */
    for (int32_t i = 0; i < n; i++) {
        struct philox c = {{(uint32_t)i, (uint32_t)row, (uint32_t)(row >> 32), (uint32_t)epoch}};
        struct philox r = philox4x32(c, m->key[0], m->key[1]);
        targets[i] = IGNORE_INDEX;
        if (m->special[ids[i]] || r.w[0] >= m->below)
            continue;
        targets[i] = ids[i];
        if (r.w[1] < to_mask)
            ids[i] = m->mask_id;
        else if (r.w[1] < to_random)
            ids[i] = data_below(r.w[2], m->vocab_size);
    }
}
