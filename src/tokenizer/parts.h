/* parts.h: what a tokenizer is made of; for the files of the tokenizer only. Loading fills it, encoding reads
 * it. Strings and small arrays live in the tokenizer's arena. */
#ifndef TOKENIZER_PARTS_H
#define TOKENIZER_PARTS_H

#include "format/json.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/trie.h"

/* A token that is looked for in the text itself, before the model sees it. */
struct added_token {
    const char *content;
    const char *decoded; /* as decoding shows it: its normalised form where it is normalised */
    int32_t id;
    bool single_word;    /* only where no \w stands beside it */
    bool lstrip, rstrip; /* takes white space on this side with it */
    bool normalized;     /* is normalised itself, and looked for in normalised text */
    bool special;        /* does not change ids */
};

/* One set for the text as it is, one for normalised text. */
struct added_set {
    struct trie trie; /* value: index into `tokens` */
    bool starts[256]; /* bytes that some token begins with */
    const struct added_token *tokens;
};

/* Walks over the added tokens of a text from left to right; of those that start at one place the longest counts. */
struct added_scan {
    const struct added_set *set;
    const uint8_t *flags;
    const char *text;
    size_t bytes, at; /* matches end before `at` */
    size_t taken;     /* the last one with its white space ends here */
    size_t space_end; /* white space goes on up to here: known from the last rstrip */
};
/* A token that consists of white space can lie within what the one before it took: then start is behind that, and the
 * match is nothing when start >= end. */
struct added_match {
    size_t start, end;
    int32_t id;
};
/* Looks for `pattern` from now on: that of set->tokens[index]. Its bytes are copied. SNUG_ERR_ENV: no memory. */
int added_set_add(struct added_set *set, const char *pattern, size_t bytes, size_t index, struct snug_err *err);
/* The next match; false: there is none. The scan's set, flags, text and bytes are the caller's to set, the rest is 0 at first. */
bool added_next(struct added_scan *s, struct added_match *m);

/* One part of "[CLS] A [SEP] B [SEP]". */
struct template_part {
    enum { PART_A, PART_B, PART_SPECIAL } kind;
    int32_t type_id;
    const int32_t *ids; /* (n_ids) of PART_SPECIAL */
    size_t n_ids;
};
struct template
{
    struct template_part *parts;
    size_t n_parts;
    int added; /* sum of n_ids */
};

struct step_type; /* steps/step.h */
struct step {
    const struct step_type *type;
    void *state; /* in the tokenizer's arena */
};
struct steps {
    struct step *list; /* (n) in the order in which they run */
    size_t n, cap;
};
enum step_kind { STEP_NORMALIZER, STEP_PRE_TOKENIZER, STEP_MODEL, STEP_POST_PROCESSOR, STEP_DECODER, STEP_KINDS };

struct tokenizer_config;

struct tokenizer {
    struct arena arena;
    const char *path; /* of tokenizer.json or vocab.txt, for messages */

    const char **tokens; /* (n_tokens) by id: the model's n_vocab, then added ones that are not among them */
    size_t n_tokens, tokens_cap, n_vocab;
    struct trie vocab;     /* the model's tokens */
    struct trie added_ids; /* added tokens, value: index into `added` */
    struct added_token *added;
    size_t n_added, added_cap;
    struct added_set raw, normal;

    struct steps steps[STEP_KINDS]; /* one model; the post-processors' result is `single` and `pair` */
    struct regex **regexes;         /* (n_regexes) of all steps, to be freed */
    size_t n_regexes, regexes_cap;
    char *settings; /* what is left of the hash: NULL, or normalizers, pre-tokenizers as text */

    struct template single, pair;
    struct template target; /* of what is to be written, where its language is known */
    bool has_template;      /* a post-processor set them */
    int32_t
        first_language; /* of n_languages tokens "__af__" …, which are named "af" …; 0: languages are added tokens */
    int32_t n_languages;
    bool truncate_left;
    bool trims_places;  /* a blank that a token begins or ends with is not counted among its place */
    bool trims_but_one; /* but for one that the step ByteLevel has put before the text */
    int64_t max_length;
    int32_t special[TOKEN_SPECIALS];
    uint8_t *flags; /* of char_flags_new */
    struct hash128 hash;
    const char *unused; /* tokenizer_unused */
    const char **notes;
    size_t n_notes, notes_cap;
};

/* Appends an id to out->pieces. */
static inline int push_piece(struct token_buf *out, int32_t id, struct snug_err *err)
{
    if (out->n_pieces == out->pieces_cap && !MEM_GROW(out->pieces, out->pieces_cap, out->n_pieces + 1))
        return err_no_memory(err, (out->n_pieces + 1) * sizeof *out->pieces);
    out->pieces[out->n_pieces++] = id;
    return 0;
}

/* build.c */

/* An empty vocabulary for ids 0 to n-1; then each token once. The text is copied. */
int tokenizer_start_vocab(struct tokenizer *t, size_t n, struct snug_err *err);
int tokenizer_set_token(struct tokenizer *t, size_t id, const char *content, struct snug_err *err);
/* Adds an added token, or changes the flags of one. want_id -1: the next free one, or that of the vocabulary. `path` is
 * the file that says so. The content is copied. */
int tokenizer_add_token(struct tokenizer *t, struct added_token token, int64_t want_id, const char *path,
                        struct snug_err *err);
int tokenizer_add_note(struct tokenizer *t, struct snug_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether there is one; SNUG_ERR_IO when that cannot be known, so that no other file is read in its place. */
int tokenizer_has_file(const struct io *io, const char *path, bool *has, struct snug_err *err);
/* Makes what encoding needs from what was loaded. */
int tokenizer_finish(struct tokenizer *t, struct snug_err *err);
int tokenizer_rehash(struct tokenizer *t, struct snug_err *err);
/* The BertNormalizer of a tokenizer that has no other normalizer beside it; NULL otherwise. */
struct bert_normalizer *tokenizer_bert_normalizer(const struct tokenizer *t);

/* json.c: tokenizer.json at t->path, or what another file means written as one. */
int tokenizer_read_json(struct tokenizer *t, const struct io *io, struct snug_err *err);
int tokenizer_read_object(struct tokenizer *t, json_t *o, struct snug_err *err);
/* {"a": 0, …} of a model: every id from 0 to n-1 once. */
int tokenizer_read_ids(struct tokenizer *t, json_t *vocab, struct snug_err *err);
/* *section: the object at `key`, NULL when it is null or absent. */
int tokenizer_section(struct tokenizer *t, json_t *o, const char *key, json_t **section, struct snug_err *err);

/* languages.c: as tokenizer_set_languages, before there is a hash. */
int tokenizer_apply_languages(struct tokenizer *t, const char *source, const char *target, struct snug_err *err);

/* templates.c: without special tokens, where no post-processor has set one. */
int tokenizer_default_template(struct tokenizer *t, struct snug_err *err);
/* "<bos> A <eos>" and "<bos> A <eos><bos> B <eos>", the second text and its bos and eos of type 1; -1: without it. */
int tokenizer_bos_eos_template(struct tokenizer *t, int32_t bos, int32_t eos, struct snug_err *err);

/* pipeline.c: the steps of a section of tokenizer.json, which may be a Sequence. */
int tokenizer_read_steps(struct tokenizer *t, enum step_kind kind, json_t *section, struct snug_err *err);
int tokenizer_add_step(struct tokenizer *t, enum step_kind kind, const char *name, json_t *o, struct snug_err *err);
/* One that no tokenizer.json names. */
int tokenizer_push_step(struct tokenizer *t, enum step_kind kind, struct step step, struct snug_err *err);
/* Whether the steps of a kind are just this one. */
bool tokenizer_only_step(const struct tokenizer *t, enum step_kind kind, const char *name);

/* vocab_txt.c: vocab.txt at t->path, for BERT or ESM; the rest of such a tokenizer is the class's, from the options in
 * tokenizer_config.json. is_berts: special tokens that this does not name have the names that BERT's have. */
int tokenizer_read_vocab(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c, bool *is_berts,
                         struct snug_err *err);

/* vocab_json.c: vocab.json at t->path and merges.txt, for GPT-2 and RoBERTa. */
int tokenizer_read_vocab_json(struct tokenizer *t, const struct io *io, const char *merges_path,
                              const struct tokenizer_config *c, struct snug_err *err);

/* spm/build.c: a model of SentencePiece at t->path, for the classes that transformers has for it. */
int tokenizer_read_sentencepiece(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c,
                                 struct snug_err *err);

/* refused.c: a class without a tokenizer.json that is not read, by its name and with what to do. */
int tokenizer_refuse_class(const struct io *io, struct tokenizer *t, const struct tokenizer_config *c,
                           struct snug_err *err);

/* spm/vocab_folder.c: models of SentencePiece and a vocab.json, for Marian and M2M-100, where those files are in c->dir and
 * neither a "tokenizer_class" nor the model's type speaks against it: then *is_one, and they are read. *lacks: which of the
 * class's files is missing. */
int tokenizer_read_translator(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c, bool *is_one,
                              const char **lacks, struct snug_err *err);

/* config.c: tokenizer_config.json, and special_tokens_map.json for what it leaves out; the model's config.json, which may name the class.
 * All may be absent. */
struct tokenizer_config {
    const char *dir;
    json_t *config, *map, *model; /* NULL: no such file */
    const char *path, *map_path, *model_path;
    const char *class; /* "tokenizer_class", of the tokenizer's file or else of the model's; NULL when not stated */
    const char *model_type; /* NULL when not stated */
};
enum { FLAG_ABSENT = -2, FLAG_NULL = -1 }; /* or 0 or 1 */
int tokenizer_config_read(struct tokenizer_config *c, const struct io *io, struct tokenizer *t, struct snug_err *err);
int tokenizer_config_flag(const struct tokenizer_config *c, const char *key, int *flag, struct snug_err *err);
/* *path: the file that states it, NULL when none does. content NULL: it is stated to be null, or has no default. */
int tokenizer_config_token(const struct tokenizer_config *c, enum special_token which, struct added_token *token,
                           const char **path, struct snug_err *err);
/* *name: of a special token as stated, or BERT's; NULL when stated to be null. */
int tokenizer_config_special(const struct tokenizer_config *c, enum special_token which, const char **name,
                             struct snug_err *err);
/* What it says about any tokenizer: added and special tokens, the side to truncate, contradictions. `from_json`: t was
 * read from tokenizer.json. */
int tokenizer_config_apply(const struct tokenizer_config *c, const struct io *io, struct tokenizer *t, bool from_json,
                           struct snug_err *err);
void tokenizer_config_free(struct tokenizer_config *c);

extern const char *const special_token_keys[TOKEN_SPECIALS]; /* "unk_token" … */

#endif
