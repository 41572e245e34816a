#include "chat/lexer.h"

#include "chat/text.h"

#include <string.h>

struct lexer {
    const char *name, *s;
    size_t n, i;
    int line;
    bool line_starts; /* what was read last ends with a newline, or nothing was */
    struct arena *arena;
    struct chat_token *tokens;
    size_t n_tokens, cap;
    struct snug_err *err;
};

static int refuse(const struct lexer *l, const char *what, const char *rest)
{
    return err_set(l->err, SNUG_ERR_INPUT, "%s: line %d: %s%s", l->name, l->line, what, rest);
}

static bool at(const struct lexer *l, const char *s)
{
    size_t n = strlen(s);
    return l->n - l->i >= n && memcmp(l->s + l->i, s, n) == 0;
}

/* Goes on by `n` bytes. */
static void pass(struct lexer *l, size_t n)
{
    for (size_t k = 0; k < n; k++)
        l->line += l->s[l->i + k] == '\n';
    l->i += n;
}

static int add(struct lexer *l, enum chat_token_kind kind, const char *s, size_t n)
{
    if (l->n_tokens == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        struct chat_token *tokens = arena_alloc(l->arena, cap * sizeof *tokens);
        if (!tokens)
            return err_no_memory(l->err, cap * sizeof *tokens);
        if (l->n_tokens)
            memcpy(tokens, l->tokens, l->n_tokens * sizeof *tokens);
        l->tokens = tokens;
        l->cap = cap;
    }
    bool copied = kind == CHAT_NAME || kind == CHAT_INTEGER || kind == CHAT_FLOAT || kind == CHAT_OPERATOR;
    if (copied && !(s = arena_strndup(l->arena, s, n)))
        return err_no_memory(l->err, n);
    l->tokens[l->n_tokens++] = (struct chat_token){.kind = kind, .line = l->line, .s = s, .n = n};
    return SNUG_OK;
}

/* ---- strings ---- */

static int hex_digits(const struct lexer *l, size_t from, int n, uint32_t *c)
{
    *c = 0;
    for (int k = 0; k < n; k++) {
        char d = from + (size_t)k < l->n ? l->s[from + (size_t)k] : 0;
        int x = d >= '0' && d <= '9'   ? d - '0'
                : d >= 'a' && d <= 'f' ? d - 'a' + 10
                : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                       : -1;
        if (x < 0)
            return refuse(l, "a string's escape needs hexadecimal digits", "");
        *c = *c << 4 | (uint32_t)x;
    }
    return SNUG_OK;
}

static int append_point(const struct lexer *l, uint32_t c, struct str *out)
{
    char s[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (!c || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return refuse(l, "a string's escape stands for no character that snug takes", "");
    for (size_t k = n - 1; k; k--, c >>= 6)
        s[k] = (char)(0x80 | (c & 0x3f));
    s[0] = (char)(n == 1 ? c : ((0xf00u >> n) & 0xff) | c);
    str_append_n(out, s, n);
    return SNUG_OK;
}

/* As Python's unicode_escape: the escape behind a backslash at *i, which is moved behind it. */
static int unescape(const struct lexer *l, size_t *i, struct str *out)
{
    static const char letters[] = "nt\\'\"rabfv", meanings[] = "\n\t\\'\"\r\a\b\f\v";
    char e = l->s[(*i)++];
    const char *known = strchr(letters, e);
    if (e == '\n')
        return SNUG_OK;
    if (known) {
        str_append_n(out, &meanings[known - letters], 1);
        return SNUG_OK;
    }
    if (e == 'N' || (e >= '0' && e <= '7'))
        return refuse(l, "a string's escape is not known to snug: write the character, or \\u and its number", "");
    int digits = e == 'x' ? 2 : e == 'u' ? 4 : e == 'U' ? 8 : 0;
    if (!digits) {
        str_append_n(out, "\\", 1);
        str_append_n(out, &e, 1);
        return SNUG_OK;
    }
    uint32_t c;
    TRY(hex_digits(l, *i, digits, &c));
    *i += (size_t)digits;
    return append_point(l, c, out);
}

static int lex_string(struct lexer *l)
{
    char quote = l->s[l->i];
    struct str out = {0};
    size_t i = l->i + 1;
    int code = SNUG_OK;
    while (i < l->n && l->s[i] != quote && !code) {
        if (l->s[i] == '\\' && i + 1 < l->n) {
            i++;
            code = unescape(l, &i, &out);
        } else {
            str_append_n(&out, l->s + i++, 1);
        }
    }
    if (!code && i >= l->n)
        code = refuse(l, "a string without an end", "");
    if (!code)
        code = str_check(&out, l->err);
    char *copy = code ? NULL : arena_strndup(l->arena, str_text(&out), out.n);
    if (!code)
        code = copy ? add(l, CHAT_STRING, copy, out.n) : err_no_memory(l->err, out.n);
    str_free(&out);
    if (!code)
        pass(l, i + 1 - l->i);
    return code;
}

/* ---- what stands in a tag ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t digits_at(const struct lexer *l, size_t i)
{
    size_t n = 0;
    while (i + n < l->n && is_digit(l->s[i + n]))
        n++;
    return n;
}

/* Bytes of ".5" and of "e-7" behind the `n` digits of a number. */
static size_t fraction_at(const struct lexer *l, size_t n)
{
    size_t digits, whole = n, i = l->i;
    if (i + n < l->n && l->s[i + n] == '.' && (digits = digits_at(l, i + n + 1)))
        n += 1 + digits;
    if (i + n < l->n && (l->s[i + n] == 'e' || l->s[i + n] == 'E')) {
        size_t sign = i + n + 1 < l->n && strchr("+-", l->s[i + n + 1]) ? 1 : 0;
        if ((digits = digits_at(l, i + n + 1 + sign)))
            n += 1 + sign + digits;
    }
    return n - whole;
}

static int lex_number(struct lexer *l)
{
    bool is_part = l->i && l->s[l->i - 1] == '.'; /* a.0.1 has two numbers */
    size_t n = digits_at(l, l->i), more = is_part ? 0 : fraction_at(l, n);
    TRY(add(l, more ? CHAT_FLOAT : CHAT_INTEGER, l->s + l->i, n + more));
    pass(l, n + more);
    return SNUG_OK;
}

static int lex_operator(struct lexer *l, int *open)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    char c = l->s[l->i];
    size_t n = strchr("+-/*%~[](){}<>=.:|,", c) ? 1 : 0;
    for (size_t k = 0; k < sizeof two / sizeof *two; k++)
        n = at(l, two[k]) ? 2 : n;
    if (!n) {
        char shown[8] = {'\'', c, '\'', 0};
        return refuse(l, "a character that has no place here: ", c > ' ' && c < 127 ? shown : "it is no ASCII");
    }
    *open += n == 1 && strchr("[({", c) ? 1 : n == 1 && strchr("])}", c) ? -1 : 0;
    TRY(add(l, CHAT_OPERATOR, l->s + l->i, n));
    pass(l, n);
    return SNUG_OK;
}

/* The tag's end, if it is here: its kind of token is added. */
static int lex_end(struct lexer *l, bool block, bool *ended)
{
    const char *close = block ? "%}" : "}}";
    bool minus = at(l, "-") && l->n - l->i > 2 && memcmp(l->s + l->i + 1, close, 2) == 0;
    bool plus = block && at(l, "+%}");
    *ended = minus || plus || at(l, close);
    if (!*ended)
        return SNUG_OK;
    TRY(add(l, block ? CHAT_BLOCK_END : CHAT_PRINT_END, close, 2));
    size_t from = l->i;
    pass(l, minus || plus ? 3 : 2);
    if (minus)
        pass(l, chat_skip_spaces(l->s + l->i, l->n - l->i));
    else if (block && !plus && at(l, "\n"))
        pass(l, 1);
    l->line_starts = l->i > from && l->s[l->i - 1] == '\n';
    return SNUG_OK;
}

static int lex_tag(struct lexer *l, bool block)
{
    int open = 0;
    for (bool ended = false;;) {
        pass(l, chat_skip_spaces(l->s + l->i, l->n - l->i));
        if (l->i >= l->n)
            return refuse(l, "a tag without an end", "");
        if (open <= 0)
            TRY(lex_end(l, block, &ended));
        if (ended)
            return SNUG_OK;
        char c = l->s[l->i];
        if (c == '\'' || c == '"') {
            TRY(lex_string(l));
        } else if (is_digit(c)) {
            TRY(lex_number(l));
        } else if (is_letter(c)) {
            size_t n = 1;
            while (l->i + n < l->n && (is_letter(l->s[l->i + n]) || is_digit(l->s[l->i + n])))
                n++;
            TRY(add(l, CHAT_NAME, l->s + l->i, n));
            pass(l, n);
        } else {
            TRY(lex_operator(l, &open));
        }
    }
}

/* ---- what stands outside ---- */

static int lex_comment(struct lexer *l)
{
    const char *end = memmem(l->s + l->i, l->n - l->i, "#}", 2);
    if (!end)
        return refuse(l, "a comment without an end", "");
    size_t n = (size_t)(end - (l->s + l->i));
    char sign = n ? end[-1] : 0;
    pass(l, n + 2);
    if (sign == '-')
        pass(l, chat_skip_spaces(l->s + l->i, l->n - l->i));
    else if (sign != '+' && at(l, "\n"))
        pass(l, 1);
    l->line_starts = l->s[l->i - 1] == '\n';
    return SNUG_OK;
}

/* Text up to the next tag, whose begin is passed. */
static int lex_data(struct lexer *l, char *tag)
{
    size_t end = l->i;
    while (end < l->n && !(l->s[end] == '{' && end + 1 < l->n && strchr("{%#", l->s[end + 1])))
        end++;
    const char *text = l->s + l->i;
    size_t whole = end - l->i, n = whole;
    *tag = end < l->n ? l->s[end + 1] : 0;
    char sign = *tag && end + 2 < l->n ? l->s[end + 2] : 0;
    if (*tag && sign == '-') {
        n = chat_until_spaces(text, n);
    } else if (*tag && sign != '+' && *tag != '{') { /* lstrip_blocks */
        size_t line = n;
        while (line && text[line - 1] != '\n')
            line--;
        if ((line || l->line_starts) && chat_skip_spaces(text + line, n - line) == n - line)
            n = line;
    }
    if (n)
        TRY(add(l, CHAT_DATA, text, n));
    pass(l, whole + (*tag ? 2 : 0));
    if (*tag && (sign == '-' || sign == '+'))
        pass(l, 1);
    return SNUG_OK;
}

int chat_lex(const char *name, const char *text, size_t bytes, struct arena *arena, struct chat_token **tokens,
             size_t *n, struct snug_err *err)
{
    struct lexer l = {.name = name, .s = text, .n = bytes, .line = 1, .line_starts = true, .arena = arena, .err = err};
    while (l.i < l.n) {
        char tag;
        TRY(lex_data(&l, &tag));
        if (tag == '#')
            TRY(lex_comment(&l));
        else if (tag)
            TRY(add(&l, tag == '%' ? CHAT_BLOCK_BEGIN : CHAT_PRINT_BEGIN, "{", 1));
        if (tag == '%' || tag == '{')
            TRY(lex_tag(&l, tag == '%'));
    }
    TRY(add(&l, CHAT_END, "the end", 7));
    *tokens = l.tokens;
    *n = l.n_tokens;
    return SNUG_OK;
}
