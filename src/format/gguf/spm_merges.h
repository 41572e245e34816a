/* spm_merges.h: the merges that SentencePiece's BPE (Kudo and Richardson, arXiv 1808.06226) makes by its scores, as a list. */
#ifndef FORMAT_GGUF_SPM_MERGES_H
#define FORMAT_GGUF_SPM_MERGES_H

#include "base/err.h"

#include <jansson.h>

/* *merges: [["a", "b"], …], best first, in new memory. Of the first n `tokens` those of type 1 (normal; `types` NULL: all) are made
 * of any two tokens of `vocab`, at the rank of their score. Ties are settled as transformers settles them: the longer first part
 * first, then the longer second one, then the order of ids. */
int spm_merges(json_t *tokens, json_t *types, json_t *scores, size_t n, json_t *vocab, json_t **merges,
               struct snug_err *err);

#endif
