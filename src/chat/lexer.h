/* lexer.h: a template as tokens. White space beside tags is gone by the rules of trim_blocks and lstrip_blocks and by the
 * signs of {%- and -%}; so are comments. */
#ifndef CHAT_LEXER_H
#define CHAT_LEXER_H

#include "base/mem.h"
#include "base/str.h"

enum chat_token_kind {
    CHAT_DATA,        /* text outside of tags */
    CHAT_PRINT_BEGIN, /* {{ */
    CHAT_PRINT_END,
    CHAT_BLOCK_BEGIN, /* {% */
    CHAT_BLOCK_END,
    CHAT_NAME,
    CHAT_STRING, /* its escapes are resolved */
    CHAT_INTEGER,
    CHAT_FLOAT,
    CHAT_OPERATOR,
    CHAT_END,
};

struct chat_token {
    enum chat_token_kind kind;
    int line;
    const char *s; /* (n); a 0 byte follows where it is a name, a number or an operator */
    size_t n;
};

/* Tokens in `arena`, the last of them CHAT_END. `text` is UTF-8 without NUL, and must outlive them. */
int chat_lex(const char *name, const char *text, size_t bytes, struct arena *arena, struct chat_token **tokens,
             size_t *n, struct snug_err *err);

#endif
