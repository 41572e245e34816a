/* model.h: a model file of SentencePiece (sentencepiece_model.proto): its pieces, and what decides how text is cut into them. */
#ifndef TOKENIZER_SPM_MODEL_H
#define TOKENIZER_SPM_MODEL_H

#include "base/io.h"

/* As the file numbers them. */
enum spm_type { SPM_NORMAL = 1, SPM_UNKNOWN, SPM_CONTROL, SPM_USER_DEFINED, SPM_UNUSED, SPM_BYTE };

struct spm_piece {
    const char *text;
    double score;
    enum spm_type type;
};

struct spm {
    struct spm_piece *pieces; /* (n) by id */
    size_t n, cap;
    bool bpe; /* else Unigram */
    int64_t unk_id;
    const char *charsmap; /* rules of normalization, compiled, in base64; NULL: none */

    /* What decides where sentencepiece's own library runs the model (native.h). */
    bool byte_fallback;      /* what is unknown is its bytes */
    bool blanks_behind;      /* "▁" stands behind a word */
    bool dummy_prefix;       /* a text begins as a word does */
    bool removes_blanks;     /* those before and behind a text, and all but one of several */
    bool escapes_blanks;     /* as "▁" */
    bool denormalizes;       /* decoded text has rules, too */
    const char *unk_surface; /* the unknown piece in a decoded text */
};

/* In memory of `a`, but for the list of pieces: spm_free. SNUG_ERR_INPUT: not such a file, a piece that is no text, or
 * a kind of model (words, characters) that has no tokenizer.json. */
int spm_read(const struct io *io, const char *path, struct arena *a, struct spm *m, struct snug_err *err);
void spm_free(struct spm *m);

#endif
