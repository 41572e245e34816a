/* native.h: a model of SentencePiece as its own library runs it, where transformers has no tokenizer.json for a class (Marian, M2M-100):
 * a text is normalised and cut as a whole, and what comes out are pieces, whose ids another file gives. The tokenizers library, which
 * steps/ follows, splits texts before it cuts them, and looks for rules in another way. */
#ifndef TOKENIZER_SPM_NATIVE_H
#define TOKENIZER_SPM_NATIVE_H

#include "tokenizer/charsmap.h"
#include "tokenizer/spm/model.h"
#include "tokenizer/steps/step.h"

#define SPM_BLANK "\xE2\x96\x81" /* "▁" */
enum { SPM_BLANK_BYTES = 3 };

struct spm_native {
    struct spm spm;
    struct trie pieces;           /* value: which of spm.pieces */
    struct trie users;            /* those that a user has defined: neither normalised nor cut */
    int32_t *ids;                 /* (spm.n) in the tokenizer's vocabulary, of what it lacks unk_id */
    int32_t *ranks;               /* (spm.n) of BPE: 0 for the highest score; pieces of one score have one rank */
    int32_t unk;                  /* the piece that is unknown */
    int32_t unk_id;               /* its id */
    float lowest;                 /* score of a normal piece */
    const struct charsmap *rules; /* NULL: none */
};

/* Reads the model at `path`, for the vocabulary that t has. *n is all zero before; spm_native_free gives it back, also after an error.
 * SNUG_ERR_INPUT: not such a file, or one that the library does not load or that has what is not supported. */
int spm_native_open(const struct io *io, const char *path, struct tokenizer *t, int32_t unk_id, struct spm_native *n,
                    struct snug_err *err);
void spm_native_free(struct spm_native *n);
void spm_native_hash(const struct spm_native *n, struct hash_state *h);

/* native_text.c: appends `in`, normalised. */
int spm_native_normalize(const struct spm_native *n, struct encoder *e, struct text in, struct text_buf *out);
/* Bytes of the longest piece of a user that begins s[at, bytes); 0: none. */
size_t spm_native_user(const struct spm_native *n, struct text s, size_t at);

/* native_cut.c: the ids of a normalised text, to push_token. */
int spm_native_cut(const struct spm_native *n, struct encoder *e, struct text text);
/* The id of a piece, or of what is one in the vocabulary alone. */
int32_t spm_native_id(const struct spm_native *n, const struct tokenizer *t, const char *piece, size_t bytes);

/* native_join.c: appends the text of w's tokens [from, to). */
int spm_native_join(const struct spm_native *n, struct encoder *e, const struct words *w, size_t from, size_t to,
                    struct text_buf *out);

#endif
