/* vocab.json and merges.txt: the byte-level BPE of GPT-2 and RoBERTa before tokenizer.json. What the two files leave open, the class
 * of transformers decides; it is written here as the tokenizer.json that it would save. */
#include "tokenizer/parts.h"

#include <string.h>

enum { LIMIT = 256 * 1024 * 1024 };

/* Special tokens of a class, where tokenizer_config.json names no others. */
struct defaults {
    const char *const *classes; /* a NULL ends them */
    const char *names[TOKEN_SPECIALS];
    bool roberta; /* "<s> A </s>" round a text */
};

static const char *const gpt2_classes[] = {"GPT2Tokenizer", "GPT2TokenizerFast", NULL};
static const char *const roberta_classes[] = {"RobertaTokenizer",
                                              "RobertaTokenizerFast",
                                              "BartTokenizer",
                                              "BartTokenizerFast",
                                              "LongformerTokenizer",
                                              "LongformerTokenizerFast",
                                              NULL};
static const struct defaults gpt2 = {
    .classes = gpt2_classes,
    .names = {[TOKEN_UNK] = "<|endoftext|>", [TOKEN_BOS] = "<|endoftext|>", [TOKEN_EOS] = "<|endoftext|>"},
};
static const struct defaults roberta = {
    .classes = roberta_classes,
    .names = {[TOKEN_UNK] = "<unk>",
              [TOKEN_SEP] = "</s>",
              [TOKEN_PAD] = "<pad>",
              [TOKEN_CLS] = "<s>",
              [TOKEN_MASK] = "<mask>",
              [TOKEN_BOS] = "<s>",
              [TOKEN_EOS] = "</s>"},
    .roberta = true,
};

static bool has_class(const struct defaults *d, const char *class)
{
    for (size_t i = 0; d->classes[i]; i++)
        if (!strcmp(d->classes[i], class))
            return true;
    return false;
}

/* Old folders name no class; then the vocabulary tells. */
static int choose(const struct tokenizer *t, const struct tokenizer_config *c, json_t *vocab, const struct defaults **d,
                  struct snug_err *err)
{
    if (!c->class)
        *d = json_object_get(vocab, "<s>") && json_object_get(vocab, "</s>") ? &roberta : &gpt2;
    else
        *d = has_class(&gpt2, c->class) ? &gpt2 : has_class(&roberta, c->class) ? &roberta : NULL;
    return *d ? 0
              : err_set(err, SNUG_ERR_INPUT,
                        "%s: tokenizer_class %s is not read from a vocab.json; save the tokenizer again, with a "
                        "tokenizer.json",
                        t->path, c->class);
}

/* The lines of merges.txt; the first one may be "#version: 0.2". */
static json_t *merge_list(char *text)
{
    json_t *list = json_array();
    for (char *line; list && (line = strsep(&text, "\n"));) {
        size_t n = strlen(line);
        if (n && line[n - 1] == '\r')
            line[--n] = 0;
        if (n && strncmp(line, "#version", 8) != 0 && json_array_append_new(list, json_string(line))) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static int special_id(struct tokenizer *t, const struct tokenizer_config *c, const struct defaults *d,
                      enum special_token which, json_t *vocab, const char **name, int *id, struct snug_err *err)
{
    const char *key = special_token_keys[which];
    *name = d->names[which];
    if (json_object_get(c->config, key) || json_object_get(c->map, key))
        TRY(tokenizer_config_special(c, which, name, err));
    json_t *value = *name ? json_object_get(vocab, *name) : NULL;
    *id = json_is_integer(value) ? (int)json_integer_value(value) : -1;
    if (*id < 0 && *name && !json_object_get(c->config, "added_tokens_decoder"))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %s is missing; add it, or name the token that stands for it as %s in "
                       "tokenizer_config.json",
                       t->path, *name, key);
    return 0;
}

static int add_special(json_t *added, const char *name, int id)
{
    json_t *a;
    size_t i;
    json_array_foreach(added, i, a) if (json_integer_value(json_object_get(a, "id")) == id) return 0;
    return json_array_append_new(added, json_pack("{ss si sb sb sb sb sb}", "content", name, "id", id, "single_word", 0,
                                                  "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
}

static int read_class(struct tokenizer *t, const struct tokenizer_config *c, const struct defaults *d, json_t *vocab,
                      json_t *merges, struct snug_err *err)
{
    const char *name[TOKEN_SPECIALS];
    int id[TOKEN_SPECIALS], prefix_space, bos, eos, code = 0;
    TRY(tokenizer_config_flag(c, "add_bos_token", &bos, err));
    TRY(tokenizer_config_flag(c, "add_eos_token", &eos, err));
    TRY(tokenizer_config_flag(c, "add_prefix_space", &prefix_space, err));
    json_t *added = json_array();
    for (int i = 0; i < TOKEN_SPECIALS; i++) {
        TRY_TO(out, special_id(t, c, d, (enum special_token)i, vocab, &name[i], &id[i], err));
        /* One that a file names is added with its flags by tokenizer_config_apply. */
        bool stated =
            json_object_get(c->config, special_token_keys[i]) || json_object_get(c->map, special_token_keys[i]);
        if (!added || (id[i] >= 0 && !stated && add_special(added, name[i], id[i])))
            TRY_TO(out, err_no_memory(err, 1));
    }
    if (d->roberta && (id[TOKEN_SEP] < 0 || id[TOKEN_CLS] < 0))
        TRY_TO(out,
               err_set(err, SNUG_ERR_INPUT, "%s: cls_token or sep_token is not in the vocabulary; add it", t->path));
    json_t *o =
        json_pack("{s{ss sO sO} s{ss sb sb} s{ss sb sb} sO}", "model", "type", "BPE", "vocab", vocab, "merges", merges,
                  "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", prefix_space == 1, "trim_offsets", 1,
                  "decoder", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "added_tokens", added);
    if (o && d->roberta &&
        json_object_set_new(o, "post_processor",
                            json_pack("{ss s[si] s[si] sb sb}", "type", "RobertaProcessing", "sep", name[TOKEN_SEP],
                                      id[TOKEN_SEP], "cls", name[TOKEN_CLS], id[TOKEN_CLS], "trim_offsets", 1,
                                      "add_prefix_space", prefix_space == 1))) {
        json_decref(o);
        o = NULL;
    }
    code = o ? tokenizer_read_object(t, o, err) : err_no_memory(err, 1);
    if (!code && !d->roberta && (bos == 1 || eos == 1))
        code = tokenizer_bos_eos_template(t, bos == 1 ? id[TOKEN_BOS] : -1, eos == 1 ? id[TOKEN_EOS] : -1, err);
    json_decref(o);
    for (int i = 0; !code && i < TOKEN_SPECIALS; i++)
        t->special[i] = id[i];
out:
    json_decref(added);
    return code;
}

int tokenizer_read_vocab_json(struct tokenizer *t, const struct io *io, const char *merges_path,
                              const struct tokenizer_config *c, struct snug_err *err)
{
    json_t *vocab;
    const struct defaults *d;
    char *text = NULL;
    size_t bytes;
    TRY(json_read_object(io, t->path, LIMIT, &vocab, err));
    int code = choose(t, c, vocab, &d, err);
    if (!code)
        code = io_read_file(io, merges_path, LIMIT, &text, &bytes, err);
    json_t *merges = NULL;
    if (!code && !(merges = merge_list(text)))
        code = err_set(err, SNUG_ERR_INPUT, "%s: holds a line that is not UTF-8; convert it", merges_path);
    if (!code)
        code = read_class(t, c, d, vocab, merges, err);
    mem_free(text);
    json_decref(merges);
    json_decref(vocab);
    return code;
}
