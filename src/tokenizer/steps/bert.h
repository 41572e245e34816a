/* bert.h: BertNormalizer and BertPreTokenizer of tokenizer.json: what happens to a text before WordPiece. */
#ifndef TOKENIZER_BERT_H
#define TOKENIZER_BERT_H

#include "tokenizer/steps/step.h"

struct bert_normalizer {
    bool clean_text;           /* drop control characters, make every white space a blank */
    bool handle_chinese_chars; /* blanks around ideographs */
    bool strip_accents;        /* decompose (NFD), drop nonspacing marks */
    bool lowercase;
    int stated_accents;       /* 0, 1, or FLAG_NULL for what lowercase is: decides strip_accents */
    unsigned char ascii[128]; /* what becomes of an ASCII byte; ASCII_DROP */
};

enum { ASCII_DROP = 0xFF };

/* Fills `ascii`, and strip_accents, from the options. */
void bert_normalizer_init(struct bert_normalizer *n, const uint8_t *flags);

/* Puts the normalised text in *to, which is empty. `text` is valid UTF-8, `flags` of char_flags_new. Linear time. */
int bert_normalize(const struct bert_normalizer *n, const uint8_t *flags, struct text in, struct scratch *s,
                   struct text_buf *to, struct snug_err *err);

/* The next word of `text` from *at on: what stands between white space and punctuation, or one punctuation character.
 * Returns its bytes and moves *at to its start; 0 at the end. */
size_t bert_next_word(const uint8_t *flags, const char *text, size_t bytes, size_t *at);

#endif
