/* masking.h: hiding tokens for masked language models (Devlin et al., "BERT", section 3.1), made anew for every epoch.
 * Of the tokens that are not special, `probability` become targets. Of these 80 % are replaced by mask_id, 10 % by a
 * random id, and 10 % stay as they are. */
#ifndef DATA_MASKING_H
#define DATA_MASKING_H

#include "data/dataset.h"

/* What the tokenizer knows. */
struct masking {
    float probability; /* 0: 0.15 */
    int32_t mask_id, vocab_size;
    const int32_t *special_ids; /* (n_special): [CLS], [SEP], [PAD] …, never hidden */
    int32_t n_special;
};

/* The same, checked and made quick. */
struct masker {
    uint64_t below; /* probability * 2^32 */
    int32_t mask_id, vocab_size;
    uint32_t key[2];
    uint8_t *special; /* (vocab_size): not 0 for special ids; NULL: the dataset needs no masking */
};

/* SNUG_ERR_USAGE for numbers out of range; SNUG_ERR_INPUT when the data have ids outside the vocabulary. */
int masking_open(struct masker *m, const struct dataset *d, const struct masking *o, uint64_t seed,
                 struct snug_err *err);
void masking_close(struct masker *m);

/* Hides tokens of row `row`, ids (n), and writes their targets (n). The choice is keyed by (seed, epoch, row, position
 * in the row), so the batch in which the row stands does not matter. */
void masking_apply(const struct masker *m, int64_t epoch, int64_t row, int32_t *ids, int32_t *targets, int32_t n);

#endif
