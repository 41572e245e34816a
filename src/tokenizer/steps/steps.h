/* steps.h: every step that a tokenizer.json may name, a row each. A row makes the prototypes, the table that reading looks in
 * (pipeline.c) and the list of what is supported in messages; a missing function is a link error. A step's file holds its
 * functions, named after its kind and its "type" in tokenizer.json:
 *
 *     normalizer_TYPE_read, _run          text -> text
 *     pre_tokenizer_TYPE_read, _run       words of a text -> words of the same or a new text
 *     model_TYPE_read, _run, _hash        a word -> ids
 *     post_processor_TYPE_read            settles the templates of a text and of a pair
 *     decoder_TYPE_read, _run             tokens -> tokens, which are joined at the end
 *
 * "Sequence" is no row: it is a list of steps of its kind.
 *
 *     STEP(x, type)                       x is whatever the user of the table gives */
#ifndef TOKENIZER_STEPS_H
#define TOKENIZER_STEPS_H

#define NORMALIZERS(STEP, x)                                                                                           \
    STEP(x, BertNormalizer)                                                                                            \
    STEP(x, NFC)                                                                                                       \
    STEP(x, NFD)                                                                                                       \
    STEP(x, NFKC)                                                                                                      \
    STEP(x, NFKD)                                                                                                      \
    STEP(x, Lowercase)                                                                                                 \
    STEP(x, StripAccents)                                                                                              \
    STEP(x, Strip)                                                                                                     \
    STEP(x, Replace)                                                                                                   \
    STEP(x, Prepend)                                                                                                   \
    STEP(x, Precompiled)                                                                                               \
    STEP(x, Nmt)

#define PRE_TOKENIZERS(STEP, x)                                                                                        \
    STEP(x, BertPreTokenizer)                                                                                          \
    STEP(x, ByteLevel)                                                                                                 \
    STEP(x, Split)                                                                                                     \
    STEP(x, Whitespace)                                                                                                \
    STEP(x, WhitespaceSplit)                                                                                           \
    STEP(x, Punctuation)                                                                                               \
    STEP(x, Digits)                                                                                                    \
    STEP(x, Metaspace)

#define MODELS(STEP, x)                                                                                                \
    STEP(x, WordPiece)                                                                                                 \
    STEP(x, BPE)                                                                                                       \
    STEP(x, Unigram)                                                                                                   \
    STEP(x, WordLevel)

#define POST_PROCESSORS(STEP, x)                                                                                       \
    STEP(x, TemplateProcessing)                                                                                        \
    STEP(x, BertProcessing)                                                                                            \
    STEP(x, RobertaProcessing)                                                                                         \
    STEP(x, ByteLevel)

#define DECODERS(STEP, x)                                                                                              \
    STEP(x, WordPiece)                                                                                                 \
    STEP(x, ByteLevel)                                                                                                 \
    STEP(x, Metaspace)                                                                                                 \
    STEP(x, Replace)                                                                                                   \
    STEP(x, ByteFallback)                                                                                              \
    STEP(x, Fuse)                                                                                                      \
    STEP(x, Strip)                                                                                                     \
    STEP(x, BPEDecoder)

#endif
