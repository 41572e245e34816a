/* step.h: what a step is given and what it gives; for the files of the tokenizer only.
 *
 * A step's state is read once from its object in tokenizer.json, lives in the tokenizer's arena and is never written to again, so
 * threads share it. What a step needs while it runs is in struct scratch, one per thread. */
#ifndef TOKENIZER_STEP_H
#define TOKENIZER_STEP_H

#include "tokenizer/parts.h"
#include "tokenizer/steps/steps.h"

/* One call of tokenizer_encode. */
struct encoder {
    const struct tokenizer *t;
    struct token_buf *out;
    struct scratch *s; /* out->scratch */
    struct snug_err *err;
    bool begins;   /* the stretch that is at work begins the user's text */
    bool apart;    /* the text is a word by itself, which a blank stood before */
    bool placed;   /* the places of tokens are asked for: texts have `from` */
    bool target;   /* the text is one to be written */
    size_t n_next; /* words that the running step has added */
};

struct text {
    const char *s; /* valid UTF-8 */
    size_t n;
    const struct text_place *from; /* (n) where the character that a byte was made from stands; NULL: nobody asks */
};
static inline struct text text_part(struct text t, size_t start, size_t end)
{
    return (struct text){t.s + start, end - start, t.from ? t.from + start : NULL};
}

/* A text that grows. A step that changes a text says what it appends stands for, with text_from, or takes bytes as they are, with
 * text_copy. Both cost next to nothing where nobody asks. */
struct text_buf {
    char *s;
    size_t n, cap;
    bool placed;
    struct text_place *from; /* (n_placed) */
    size_t n_placed, from_cap;
    struct text_place place; /* of bytes n_placed to n */
};
int text_room(struct text_buf *b, size_t more, struct snug_err *err); /* for `more` bytes behind b->n */
int text_append(struct text_buf *b, const char *s, size_t n, struct snug_err *err);
/* Bytes start to end of `in` with the places that they have. */
int text_copy(struct text_buf *b, struct text in, size_t start, size_t end, struct snug_err *err);
/* `prefix`, which stands for the first character of `in`. */
int text_before(struct text_buf *b, struct text in, const char *prefix, struct snug_err *err);
void text_set_place(struct text_buf *b, struct text in, size_t start, size_t end);
/* What is appended from here on stands for bytes start to end of `in`; for none of them: the start of the text. */
static inline void text_from(struct text_buf *b, struct text in, size_t start, size_t end)
{
    if (b->placed)
        text_set_place(b, in, start, end);
}
void text_start(struct text_buf *b, bool placed); /* empties it */
struct text text_done(struct text_buf *b);        /* what is in it, until it is written again */

/* A word: bytes start to end of the text. */
struct span {
    size_t start, end;
    bool begins; /* begins the user's text */
};

/* The words of a text between two pre-tokenizers, or its tokens between two decoders. Both the text and the list of words have
 * two buffers in scratch, used in turn: a step reads one and writes the other. */
struct words {
    struct text text;
    struct span *spans; /* (n) */
    size_t n;
    unsigned text_turn, span_turn;
};

/* The best way to get to a place in the word: by the token `id` that starts at `from`. */
struct lattice_node {
    double score;
    size_t from; /* SIZE_MAX: no way yet */
    int32_t id;
};

/* Working memory of the steps; of one thread. Freed by token_buf_free. */
struct scratch {
    struct text_buf normal[2], pre[2]; /* normalised text; what pre-tokenizers or decoders make of it */
    struct text_buf given;             /* only its `from`: places of the text as it came */
    struct span *spans[2];
    size_t spans_cap[2];
    uint32_t *chars;                /* (n_chars) a text in code points, class << 24 | code point */
    struct text_place *char_places; /* (n_chars) where places are asked for */
    size_t n_chars, chars_cap, char_places_cap;
    struct symbol *symbols; /* of BPE */
    size_t symbols_cap;
    struct merge *heap;
    size_t heap_cap;
    struct lattice_node *lattice; /* of Unigram */
    size_t lattice_cap;
    struct word_cache *words;
    struct regex_match *match;
};
int scratch_get(struct token_buf *out, struct snug_err *err); /* sees to it that out->scratch is there */

typedef int step_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err);
typedef int normalizer_run(const void *state, struct encoder *e, struct text in, struct text_buf *out); /* out: empty */
typedef int pre_tokenizer_run(const void *state, struct encoder *e, struct words *w);
typedef int model_run(const void *state, struct encoder *e, struct text word); /* gives its ids to push_token */
typedef void model_hash(const void *state,
                        struct hash_state *h); /* settings and merges; the vocabulary is hashed apart */
typedef int decoder_run(const void *state, struct encoder *e, struct words *w);

/* A row of steps.h. */
struct step_type {
    const char *name;
    step_read *read;
    normalizer_run *normalize; /* of its kind, one of these four is set, or for a post-processor none */
    pre_tokenizer_run *split;
    model_run *encode;
    decoder_run *decode;
    model_hash *hash;          /* of a model */
    void (*free)(void *state); /* of what does not lie in the arena; NULL: nothing */
};

#define STEP(x, T)                                                                                                     \
    step_read normalizer_##T##_read;                                                                                   \
    normalizer_run normalizer_##T##_run;
NORMALIZERS(STEP, )
#undef STEP
#define STEP(x, T)                                                                                                     \
    step_read pre_tokenizer_##T##_read;                                                                                \
    pre_tokenizer_run pre_tokenizer_##T##_run;
PRE_TOKENIZERS(STEP, )
#undef STEP
#define STEP(x, T)                                                                                                     \
    step_read model_##T##_read;                                                                                        \
    model_run model_##T##_run;                                                                                         \
    model_hash model_##T##_hash;
MODELS(STEP, )
#undef STEP
#define STEP(x, T) step_read post_processor_##T##_read;
POST_PROCESSORS(STEP, )
#undef STEP
#define STEP(x, T)                                                                                                     \
    step_read decoder_##T##_read;                                                                                      \
    decoder_run decoder_##T##_run;
DECODERS(STEP, )
#undef STEP

/* Reading: json.c. Keys that are not listed (a NULL ends them) are refused; `what` names the object in messages. */
int step_only_keys(struct tokenizer *t, json_t *o, const char *what, const char *const *known, struct snug_err *err);
#define ONLY_KEYS_OF(t, o, what, err, ...) step_only_keys(t, o, what, (const char *const[]){__VA_ARGS__, NULL}, err)
#define ONLY_KEYS(t, o, what, err, ...) ONLY_KEYS_OF(t, o, what, err, "type", __VA_ARGS__)
int step_not_supported(struct tokenizer *t, const char *what, json_t *value, const char *supported,
                       struct snug_err *err);
/* A string kept in the arena; what is absent or null keeps *out where it is not required. */
int step_get_string(struct tokenizer *t, json_t *o, const char *key, bool required, const char **out,
                    struct snug_err *err);
void *step_state(struct tokenizer *t, size_t bytes, void **state, struct snug_err *err); /* zeroed; NULL: err is set */

/* Running: words.c, tokenizer.c */

int tokenizer_normalize(struct encoder *e, struct text in, struct text *out); /* out: in scratch, or what came in */

/* The buffer that the next step writes: the text, and the list of words. Both are empty. */
struct text_buf *words_next_text(struct encoder *e, struct words *w);
void words_took_text(struct words *w, struct text_buf *b); /* makes it the current one */
void words_begin(struct encoder *e, struct words *w);
int words_add(struct encoder *e, struct words *w, struct span span);
void words_end(struct encoder *e, struct words *w);
static inline struct text word_text(const struct words *w, size_t i)
{
    return text_part(w->text, w->spans[i].start, w->spans[i].end);
}

int token_placed(struct encoder *e, struct text word, size_t start, size_t end);
/* Appends an id to out->pieces: of bytes start to end of the word, or of a text with an added token in it. */
static inline int push_token(struct encoder *e, int32_t id, struct text word, size_t start, size_t end)
{
    if (e->placed)
        TRY(token_placed(e, word, start, end));
    return push_piece(e->out, id, e->err);
}

/* The tokens <0x00> to <0xFF> of a vocabulary, -1 for none; all -1 without byte fallback. bpe.c */
void step_byte_tokens(const struct tokenizer *t, bool fallback, int32_t bytes[256]);

/* Splitting as the tokenizers library does: what matches, what lies between, and what becomes of both. */
/* ORDER split_behavior */
enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
};
/* The next match in text[at, n): [*start, *end). False where there is none; *code is set if that is for an error. */
typedef bool split_matcher(const void *state, struct encoder *e, struct text text, size_t at, size_t *start,
                           size_t *end, int *code);
/* One match after the other, as the library finds them. */
struct matches {
    size_t start, end; /* of the match */
    size_t at, last_end;
    bool any;
};
bool matches_next(struct matches *m, split_matcher *match, const void *state, struct encoder *e, struct text text,
                  int *code);

int words_split(struct encoder *e, struct words *w, split_matcher *match, const void *state, enum split_behavior b,
                bool invert);
int step_get_behavior(struct tokenizer *t, json_t *o, const char *what, bool required, enum split_behavior *b,
                      struct snug_err *err);

/* {"String": "x"} or {"Regex": "x"}, at `key` of an object: replace.c. */
struct pattern {
    const char *literal; /* (n) or NULL: a regular expression */
    size_t n;
    const struct regex *regex;
};
int pattern_read(struct tokenizer *t, json_t *o, const char *key, struct pattern *p, struct snug_err *err);
int step_regex(struct tokenizer *t, const char *pattern, const struct regex **out, struct snug_err *err);
split_matcher regex_matcher; /* state: struct regex */
split_matcher pattern_next;  /* state: struct pattern; matches follow one another as in the library, also empty ones */
/* Appends `in` with every match replaced. */
int pattern_replace(const struct pattern *p, struct encoder *e, struct text in, const char *content,
                    struct text_buf *out);

#endif
