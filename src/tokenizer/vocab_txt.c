/* vocab.txt: a token a line, its number the id. Read as the tokenizers library does: a line ends in \n, and white space
 * before that, such as a \r, is not part of the token. */
#include "base/str.h"
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"

#include <string.h>

enum { LIMIT = 256 * 1024 * 1024, MAX_CHARS_PER_WORD = 100 };

/* The classes of transformers whose vocab.txt means just what it means for BERT. */
static int check_class(const struct tokenizer *t, const struct tokenizer_config *c, struct snug_err *err)
{
    static const char *const classes[] = {"Bert",     "DistilBert", "Electra", "MobileBert",
                                          "ConvBert", "LayoutLM",   "Lxmert",  "RetriBert"};
    if (!c->class)
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

static int special_id(struct tokenizer *t, const struct tokenizer_config *c, enum special_token which, int32_t *id,
                      struct snug_err *err)
{
    const char *name;
    TRY(tokenizer_config_special(c, which, &name, err));
    *id = name ? trie_find(&t->vocab, name, strlen(name)) : -1;
    if (*id < 0)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %s is missing; add it, or name the token that stands for it as %s in tokenizer_config.json",
                       t->path, name ? name : "one token", special_token_keys[which]);
    return 0;
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

int tokenizer_read_vocab(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c,
                         struct snug_err *err)
{
    char *text;
    size_t bytes;
    TRY(check_class(t, c, err));
    TRY(io_read_file(io, t->path, LIMIT, &text, &bytes, err));
    int code = read_lines(t, text, bytes, err);
    mem_free(text);
    return code ? code : bert_from_vocab(t, c, err);
}
