/* tokenizer.h: text to token ids, exactly as Hugging Face's tokenizers library gives them for the tokenizer files in a
 * model folder: tokenizer.json, or vocab.txt for BERT and ESM, with tokenizer_config.json beside either.
 *
 * What happens to a text, in order; the steps of 2, 4, 5 and 6 are rows of steps/steps.h:
 *   1. added tokens ("[SEP]", "<new>") are cut out of it                                   added_tokens.c
 *   2. the rest goes through the normalizers
 *   3. added tokens that match normalised text are cut out
 *   4. the rest is split into words by the pre-tokenizers
 *   5. the model turns each word into ids
 *   6. one or two texts are cut to the maximum length and put into the post-processor's template "[CLS] A [SEP] B [SEP]"
 *
 * Where tokenizer.json and tokenizer_config.json contradict each other, tokenizer_config.json wins when it states a
 * value, as it does in transformers; what it does not state is not assumed (transformers lower-cases when do_lower_case
 * is absent). Whatever in tokenizer.json is not supported is refused by name; so are ids with holes, ids other than
 * those the library would assign, and added tokens that it would drop or mix up. A special token that the vocabulary
 * lacks is refused, or for [MASK] left out, where transformers gives it a new id. tokenizer_note tells the user. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "base/hash.h"
#include "base/io.h"
#include "base/str.h"

struct tokenizer;

/* SPECIAL(enum name, key in tokenizer_config.json, name in BERT's vocabularies or NULL) */
#define SPECIAL_TOKENS(SPECIAL)                                                                                        \
    SPECIAL(TOKEN_UNK, "unk_token", "[UNK]")                                                                           \
    SPECIAL(TOKEN_SEP, "sep_token", "[SEP]")                                                                           \
    SPECIAL(TOKEN_PAD, "pad_token", "[PAD]")                                                                           \
    SPECIAL(TOKEN_CLS, "cls_token", "[CLS]")                                                                           \
    SPECIAL(TOKEN_MASK, "mask_token", "[MASK]")                                                                        \
    SPECIAL(TOKEN_BOS, "bos_token", NULL)                                                                              \
    SPECIAL(TOKEN_EOS, "eos_token", NULL)

enum special_token {
#define SPECIAL(id, key, bert) id,
    SPECIAL_TOKENS(SPECIAL)
#undef SPECIAL
        TOKEN_SPECIALS
};

/* Where a token stands in the text that it is of: bytes start to end. */
struct text_place {
    size_t start, end;
};

/* Where tokenizer_encode puts its result. Start with {0} and use it for many calls: memory is kept in between. One per
 * thread. */
struct token_buf {
    int32_t *ids;      /* (n), with [CLS] and the like */
    int32_t *type_ids; /* (n), token_type_ids: 0 for the first text and 1 for the second, or what the template says */
    int32_t *words;    /* (n), of tokenizer_encode_words: which word's first token it is; -1: of none */
    size_t n;
    bool truncated; /* max_length cut something off */

    /* working memory */
    size_t ids_cap, type_ids_cap;
    int32_t *pieces; /* (n_pieces), both texts without the template */
    size_t n_pieces, pieces_cap;
    int32_t *piece_words; /* (n_pieces) as `words` */
    size_t words_cap, piece_words_cap;
    struct text_place *piece_places; /* (n_pieces), of tokenizer_encode_whole: each in its own text */
    size_t piece_places_cap;
    struct scratch *scratch; /* of the steps: parts.h */
};
void token_buf_free(struct token_buf *b);

/* Reads the tokenizer of a model folder; tokenizer_close gives it back. A bad or missing file is SNUG_ERR_INPUT. */
int tokenizer_open(const struct io *io, const char *model_dir, struct tokenizer **out, struct snug_err *err);
void tokenizer_close(struct tokenizer *t);

/* Ids of `text`, or of the pair when `pair` is not NULL, in `out`. max_length counts the template's tokens too and cuts
 * the longer text first ("longest_first"); 0 is no limit. The texts may hold any UTF-8, NUL included; they may not be
 * longer than the memory for about six times as many bytes. SNUG_ERR_INPUT: not UTF-8. SNUG_ERR_USAGE: max_length
 * leaves no room beside the template. A tokenizer is never written to, so threads share one. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                     int64_t max_length, struct token_buf *out, struct snug_err *err);

/* The same of a text that is to be written: a translator's tokenizer gives it the language of targets. */
int tokenizer_encode_target(const struct tokenizer *t, const char *text, size_t bytes, int64_t max_length,
                            struct token_buf *out, struct snug_err *err);

/* Whether the template gives a text its language, as mBART's does. Then these languages, as "en_XX", take the place of those that
 * the files say, NULL none; it is for the one who has opened the tokenizer, before others use it. SNUG_ERR_INPUT: there is no such
 * language. A target whose language nobody says has that of the source. */
bool tokenizer_has_languages(const struct tokenizer *t);
int tokenizer_set_languages(struct tokenizer *t, const char *source, const char *target, struct snug_err *err);
/* The targets' language, where it was said, -1 else; *leads: it stands before the text. */
int32_t tokenizer_target_language(const struct tokenizer *t, bool *leads);

/* As tokenizer_encode of a text that somebody has cut into words, as `is_split_into_words` in transformers: each word is tokenized by
 * itself. A tokenizer of bytes, to which a blank belongs to the word behind it, gets each word with a blank, as with
 * add_prefix_space. */
struct token_word {
    const char *text;
    size_t bytes;
};
int tokenizer_encode_words(const struct tokenizer *t, const struct token_word *words, size_t n, int64_t max_length,
                           struct token_buf *out, struct snug_err *err);

/* All tokens of two texts, for texts that are longer than a model takes: out->pieces has *n_first of the first text and then those
 * of the second, out->piece_places the places of both. */
int tokenizer_encode_whole(const struct tokenizer *t, const char *text, size_t bytes, const char *pair,
                           size_t pair_bytes, struct token_buf *out, size_t *n_first, struct snug_err *err);
/* Then, as often as wanted: the first text and tokens [from, to) of the second in the template of a pair, as ids and type_ids.
 * *at: which of the ids is token `from`. */
int tokenizer_window(const struct tokenizer *t, size_t n_first, size_t from, size_t to, struct token_buf *out,
                     size_t *at, struct snug_err *err);

/* The text of `ids` (n), as the tokenizers library's decode gives it: the decoders of the file, or the tokens with blanks between
 * them where it names none. `skip_special` leaves out special tokens. Appends to *out; bytes that are no UTF-8 have become U+FFFD.
 * An id that the vocabulary lacks is left out. */
int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special, struct str *out,
                     struct snug_err *err);

int32_t tokenizer_vocab_size(const struct tokenizer *t);                  /* highest id + 1 */
int32_t tokenizer_id(const struct tokenizer *t, const char *token);       /* -1: not in the vocabulary */
const char *tokenizer_token(const struct tokenizer *t, int32_t id);       /* NULL: no such id */
int32_t tokenizer_special(const struct tokenizer *t, enum special_token); /* -1: it has none */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);         /* whether skip_special leaves it out */
int tokenizer_template_tokens(const struct tokenizer *t, bool pair);      /* how many a text or a pair gets: 2, 3 */
int64_t tokenizer_max_length(const struct tokenizer *t);                  /* "model_max_length", or 0 when not stated */

/* Of everything that decides about ids: tokenizers with equal hashes give every text the same. For caches and
 * checkpoints. */
struct hash128 tokenizer_hash(const struct tokenizer *t);

/* One line each for the user about decisions taken while opening; NULL after the last. */
const char *tokenizer_note(const struct tokenizer *t, size_t i);

/* One line on settings of its file that have no part here, truncation and padding, which transformers does not use either
 * unless a caller asks; NULL: there are none. */
const char *tokenizer_unused(const struct tokenizer *t);

#endif
