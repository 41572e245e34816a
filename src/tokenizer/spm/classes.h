/* classes.h: the tokenizer classes of transformers that have a model of SentencePiece, and what each adds to it. */
#ifndef TOKENIZER_SPM_CLASSES_H
#define TOKENIZER_SPM_CLASSES_H

#include "tokenizer/parts.h"
#include "tokenizer/spm/model.h"

struct spm_making;

struct spm_class {
    const char *name;
    const char
        *models[5]; /* "model_type" of config.json, where tokenizer_config.json names no class; a NULL ends them */
    bool bpe;
    const char *names[TOKEN_SPECIALS]; /* special tokens, where tokenizer_config.json names no others; NULL: none */
    enum special_token unk;            /* unk_id: this token's; TOKEN_SPECIALS: the model's */
    int skipped;                       /* pieces that `first` stand for */
    struct {
        const char *text; /* NULL: the special token `which` */
        enum special_token which;
        double score;
        bool special; /* of `text`: an added token, too */
    } first[5];       /* the vocabulary begins with these */
    int n_first;
    int unknowns; /* then come "<unk_2>" to "<unk_102>"; tokenizer_config.json may have another number as "offset" */
    const char *languages; /* the model's pieces; behind them these, with a blank between two; NULL: none */
    bool mask_last;        /* and the mask */
    bool mask_lstrip;      /* which takes the blanks before it, where no file says its flags */
    int extra_ids; /* then come "<extra_id_99>" to "<extra_id_0>"; tokenizer_config.json may have another number */
    /* The sections of tokenizer.json; NULL: the file has null. post NULL: bos and eos, as tokenizer_config.json says. */
    json_t *(*normalizer)(const struct spm_making *m), *(*pre_tokenizer)(const struct spm_making *m),
        *(*decoder)(const struct spm_making *m), *(*post)(const struct spm_making *m);
};

struct spm_making {
    struct tokenizer *t;
    const struct tokenizer_config *config;
    const struct spm_class *class;
    struct spm spm;
    const char *names[TOKEN_SPECIALS];
    struct added_token special[TOKEN_SPECIALS]; /* the same with their flags */
    json_t *ids;                                /* of the model's tokens: {"a": 0, …} */
    json_t *added;                              /* the same of added tokens, special ones among them */
    bool legacy, prefix_space, lower, keep_accents, split_punctuation;
    int64_t extra_ids, unknowns;
    json_int_t next_id; /* of a token that the model does not have */
};

/* Sets m->class, by its stated name or the model's type. SNUG_ERR_INPUT: there is no such class here. */
int spm_class_choose(struct spm_making *m, struct snug_err *err);

#endif
