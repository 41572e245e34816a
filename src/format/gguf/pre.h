/* pre.h: tokenizer.ggml.pre, a name for how a byte-level BPE splits text into words before it merges. */
#ifndef FORMAT_GGUF_PRE_H
#define FORMAT_GGUF_PRE_H

#include <jansson.h>
#include <stdbool.h>

struct gguf_pre {
    const char *name;
    const char *pre_tokenizer; /* the section of tokenizer.json, as JSON */
    bool ignore_merges;        /* a word that is a token needs no merges */
    bool nfc;                  /* normalised first */
    bool adds_bos;             /* where tokenizer.ggml.add_bos_token does not say */
};

/* NULL: not known. Several names may stand for the same. */
const struct gguf_pre *gguf_pre(const char *name);

/* The row of a tokenizer.json's pre_tokenizer; NULL: there is none. */
const struct gguf_pre *gguf_pre_of(const json_t *pre_tokenizer);

/* "default, gpt-2, …" for messages. */
const char *gguf_pre_list(char text[256]);

#endif
