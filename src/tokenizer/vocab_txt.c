/* vocab.txt: a token a line, its number the id. Read as the tokenizers library does: a line ends in \n, and white space
 * before that, such as a \r, is not part of the token. What the file leaves open, the class of transformers decides: that of BERT, or
 * ESM's, which finds each line in the text as it stands. */
#include "base/str.h"
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"

#include <string.h>

enum { LIMIT = 256 * 1024 * 1024, MAX_CHARS_PER_WORD = 100 };

/* Without a class the vocabulary tells. */
static bool is_esm(const struct tokenizer *t, const struct tokenizer_config *c)
{
    if (c->class)
        return !strcmp(c->class, "EsmTokenizer");
    return trie_find(&t->vocab, "<cls>", 5) >= 0 && trie_find(&t->vocab, "[CLS]", 5) < 0;
}

/* The classes of transformers whose vocab.txt is read; of these all but one mean what BERT means. */
static int check_class(const struct tokenizer *t, const struct tokenizer_config *c, struct snug_err *err)
{
    static const char *const classes[] = {"Bert",     "DistilBert", "Electra", "MobileBert",
                                          "ConvBert", "LayoutLM",   "Lxmert",  "RetriBert"};
    if (!c->class || is_esm(t, c))
        return 0;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        size_t n = strlen(classes[i]);
        const char *rest = c->class + n;
        if (!strncmp(c->class, classes[i], n) && (!strcmp(rest, "Tokenizer") || !strcmp(rest, "TokenizerFast")))
            return 0;
    }
    return err_set(
        err, SNUG_ERR_INPUT,
        "%s: tokenizer_class %s is not read from a vocab.txt; save the tokenizer again, with a tokenizer.json", t->path,
        c->class);
}

/* Takes the line apart from the white space at its end. */
static size_t trimmed(const struct tokenizer *t, const char *line, size_t bytes)
{
    while (bytes) {
        uint32_t c;
        int n = utf8_back(line, bytes);
        utf8_decode(line + bytes - n, &c);
        if (!(char_flags(t->flags, c) & CHAR_SPACE))
            break;
        bytes -= (size_t)n;
    }
    return bytes;
}

static int check_line(const struct tokenizer *t, const char *line, size_t bytes, size_t number, struct snug_err *err)
{
    for (size_t i = 0; i < bytes;) {
        int n = utf8_sequence(line + i, bytes - i);
        if (!n || !line[i])
            return err_set(err, SNUG_ERR_INPUT, "%s:%zu: the line holds byte 0x%02X, which is not text; is it UTF-8?",
                           t->path, number, (unsigned char)line[i]);
        i += (size_t)n;
    }
    return 0;
}

static int read_lines(struct tokenizer *t, char *text, size_t bytes, struct snug_err *err)
{
    if (bytes >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s:1: begins with a byte order mark, which would be part of the first token; remove it",
                       t->path);
    size_t lines = bytes && text[bytes - 1] != '\n';
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    TRY(tokenizer_start_vocab(t, lines, err));
    char *line = text;
    for (size_t id = 0; id < lines; id++) {
        char *newline = memchr(line, '\n', (size_t)(text + bytes - line)), *end = newline ? newline : text + bytes;
        TRY(check_line(t, line, (size_t)(end - line), id + 1, err));
        size_t n = trimmed(t, line, (size_t)(end - line));
        int32_t twin = trie_find(&t->vocab, line, n);
        if (twin >= 0)
            return err_set(err, SNUG_ERR_INPUT, "%s:%zu: token \"%.*s\" is also on line %d; remove one", t->path,
                           id + 1, (int)n, line, twin + 1);
        line[n] = 0; /* a line end, or the 0 behind the file */
        TRY(tokenizer_set_token(t, id, line, err));
        line = end + 1;
    }
    return 0;
}

static int missing_special(const struct tokenizer *t, enum special_token which, const char *name, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: %s is missing; add it, or name the token that stands for it as %s in tokenizer_config.json",
                   t->path, name ? name : "one token", special_token_keys[which]);
}

static int special_id(struct tokenizer *t, const struct tokenizer_config *c, enum special_token which, int32_t *id,
                      struct snug_err *err)
{
    const char *name;
    TRY(tokenizer_config_special(c, which, &name, err));
    *id = name ? trie_find(&t->vocab, name, strlen(name)) : -1;
    return *id < 0 ? missing_special(t, which, name, err) : 0;
}

static int bert_from_vocab(struct tokenizer *t, const struct tokenizer_config *c, struct snug_err *err)
{
    int32_t id[TOKEN_SPECIALS];
    static const enum special_token needed[] = {TOKEN_UNK, TOKEN_SEP, TOKEN_PAD, TOKEN_CLS};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        TRY(special_id(t, c, needed[i], &id[needed[i]], err));
    int lower, han, accents;
    TRY(tokenizer_config_flag(c, "do_lower_case", &lower, err));
    TRY(tokenizer_config_flag(c, "tokenize_chinese_chars", &han, err));
    TRY(tokenizer_config_flag(c, "strip_accents", &accents, err));
    json_t *o = json_pack(
        "{s{ss ss ss si} s{ss sb sb sb so} s{ss} s{ss s[si] s[si]}}", "model", "type", "WordPiece", "unk_token",
        t->tokens[id[TOKEN_UNK]], "continuing_subword_prefix", "##", "max_input_chars_per_word",
        (int)MAX_CHARS_PER_WORD, "normalizer", "type", "BertNormalizer", "clean_text", 1, "handle_chinese_chars",
        han != 0, "lowercase", lower != 0, "strip_accents", accents < 0 ? json_null() : json_boolean(accents),
        "pre_tokenizer", "type", "BertPreTokenizer", "post_processor", "type", "BertProcessing", "cls",
        t->tokens[id[TOKEN_CLS]], (int)id[TOKEN_CLS], "sep", t->tokens[id[TOKEN_SEP]], (int)id[TOKEN_SEP]);
    if (!o)
        return err_no_memory(err, 1);
    int code = tokenizer_read_object(t, o, err);
    json_decref(o);
    return code;
}

/* ---- ESM ---- */

static const struct {
    enum special_token which;
    const char *name; /* where tokenizer_config.json names no other */
} esm_special[] = {
    {TOKEN_UNK, "<unk>"}, {TOKEN_CLS, "<cls>"}, {TOKEN_PAD, "<pad>"}, {TOKEN_EOS, "<eos>"}, {TOKEN_MASK, "<mask>"}};
enum { ESM_SPECIALS = sizeof esm_special / sizeof *esm_special };

static int esm_special_ids(struct tokenizer *t, const struct tokenizer_config *c, int32_t id[TOKEN_SPECIALS],
                           struct snug_err *err)
{
    for (int i = 0; i < TOKEN_SPECIALS; i++)
        id[i] = -1;
    for (size_t i = 0; i < ESM_SPECIALS; i++) {
        enum special_token which = esm_special[i].which;
        const char *key = special_token_keys[which], *name = esm_special[i].name;
        if (json_object_get(c->config, key) || json_object_get(c->map, key))
            TRY(tokenizer_config_special(c, which, &name, err));
        id[which] = name ? trie_find(&t->vocab, name, strlen(name)) : -1;
        if (id[which] < 0)
            return missing_special(t, which, name, err);
    }
    return 0;
}

/* Every line of the file as a token that is looked for in text before anything else is. */
static json_t *esm_added_tokens(const struct tokenizer *t, const int32_t special[TOKEN_SPECIALS])
{
    json_t *list = json_array();
    for (int32_t id = 0; list && id < (int32_t)t->n_vocab; id++) {
        bool is_special = false;
        for (int i = 0; i < TOKEN_SPECIALS; i++)
            is_special |= special[i] == id;
        if (json_array_append_new(list, json_pack("{ss si sb sb sb sb sb}", "content", t->tokens[id], "id", (int)id,
                                                  "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                                                  "special", is_special))) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* What stands between tokens, up to white space, is one that is not known. */
static int esm_from_vocab(struct tokenizer *t, const struct tokenizer_config *c, struct snug_err *err)
{
    int32_t id[TOKEN_SPECIALS];
    TRY(esm_special_ids(t, c, id, err));
    json_t *added = esm_added_tokens(t, id);
    json_t *o = added
                    ? json_pack("{s{ss ss} s{ss} s{ss s[si] s[si]} so}", "model", "type", "WordLevel", "unk_token",
                                t->tokens[id[TOKEN_UNK]], "pre_tokenizer", "type", "WhitespaceSplit", "post_processor",
                                "type", "BertProcessing", "cls", t->tokens[id[TOKEN_CLS]], (int)id[TOKEN_CLS], "sep",
                                t->tokens[id[TOKEN_EOS]], (int)id[TOKEN_EOS], "added_tokens", added)
                    : NULL;
    if (!o)
        return err_no_memory(err, 1);
    int code = tokenizer_read_object(t, o, err);
    json_decref(o);
    for (int i = 0; !code && i < TOKEN_SPECIALS; i++)
        t->special[i] = id[i];
    return code;
}

int tokenizer_read_vocab(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c, bool *is_berts,
                         struct snug_err *err)
{
    char *text;
    size_t bytes;
    TRY(check_class(t, c, err));
    TRY(io_read_file(io, t->path, LIMIT, &text, &bytes, err));
    int code = read_lines(t, text, bytes, err);
    mem_free(text);
    TRY(code);
    *is_berts = !is_esm(t, c);
    return *is_berts ? bert_from_vocab(t, c, err) : esm_from_vocab(t, c, err);
}
