/* Oniguruma's syntax (the Ruby one, which the tokenizers library uses) written as PCRE2's: classes of characters are spelled out
 * where the two have other members, because PCRE2 has the Unicode of its own version. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include "base/mem.h"
#include "base/str.h"
#include "tokenizer/char_class.h"

#include <pcre2.h>
#include <string.h>

enum { MATCH_LIMIT = 10000000, STACK_FIRST = 32 * 1024, STACK_MOST = 16 * 1024 * 1024 };

struct regex {
    pcre2_code *code;
};
struct regex_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static void *allocate(size_t bytes, void *ctx)
{
    (void)ctx;
    return mem_alloc(bytes);
}

static void release(void *p, void *ctx)
{
    (void)ctx;
    mem_free(p);
}

/* 25 characters; PCRE2's own \s has U+180E too. */
static const char space[] =
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";
static const char non_space[] = "\\x{0}-\\x{8}\\x{E}-\\x{1F}!-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{"
                                "1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}"
                                "\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{D7FF}\\x{E000}-\\x{10FFFF}";

/* What \w has beside letters, marks, digits, letter-like numbers and connecting punctuation. */
static const char more_words[] = "\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}";

struct translation {
    const char *path, *pattern, *at;
    struct str out;
    struct snug_err *err;
};

static int refuse(struct translation *t, const char *what)
{
    return err_set(t->err, SNUG_ERR_INPUT, "%s: the regular expression \"%s\" has %s, which is not supported", t->path,
                   t->pattern, what);
}

static void put_category(struct translation *t, const char *category)
{
    const struct char_range *r;
    str_printf(&t->out, "\\p{%s}", category);
    for (size_t k = 0; (r = char_newer(category, k)); k++)
        str_printf(&t->out, "\\x{%X}-\\x{%X}", r->first, r->last);
}

static void put_class(struct translation *t, bool in_class, bool negated, const char *const *categories,
                      const char *more)
{
    if (!in_class)
        str_append(&t->out, negated ? "[^" : "[");
    for (; *categories; categories++)
        put_category(t, *categories);
    str_append(&t->out, more);
    if (!in_class && *more) /* superscripts and fractions of Latin-1 are \w outside of classes only */
        str_append(&t->out, "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}");
    if (!in_class)
        str_append(&t->out, "]");
}

/* \p{Name}, \P{Name}, \p{^Name}: general categories by their short names; scripts and the like are PCRE2's. */
static int property(struct translation *t, bool in_class)
{
    char name[32];
    bool negated = t->at[1] == 'P';
    const char *s = t->at + 2, *end = *s == '{' ? strchr(s, '}') : NULL;
    if (!end)
        return refuse(t, "\\p without braces");
    s++;
    if (*s == '^') {
        negated = !negated;
        s++;
    }
    size_t n = (size_t)(end - s);
    if (n == 0 || n >= sizeof name)
        return refuse(t, "an unknown property");
    memcpy(name, s, n);
    name[n] = 0;
    t->at = end + 1;
    if (n > 2) {
        str_printf(&t->out, negated ? "\\P{%s}" : "\\p{%s}", name);
        return 0;
    }
    if (negated && in_class && char_newer(name, 0))
        return refuse(t, "a negated category inside a class");
    put_class(t, in_class, negated, (const char *const[]){name, NULL}, "");
    return 0;
}

static int escape(struct translation *t, bool in_class)
{
    static const char *const word[] = {"L", "M", "Nd", "Nl", "Pc", NULL}, *const digit[] = {"Nd", NULL};
    char c = t->at[1];
    if (c == 'p' || c == 'P')
        return property(t, in_class);
    if (!c || strchr("hHRXKGgkyYNOCuZ", c))
        return refuse(t, "an escape that the library reads differently");
    t->at += 2;
    if (c == 's')
        str_printf(&t->out, in_class ? "%s" : "[%s]", space);
    else if (c == 'S')
        str_printf(&t->out, in_class ? "%s" : "[^%s]", in_class ? non_space : space);
    else if ((c == 'W' || c == 'D') && in_class)
        return refuse(t, "\\W or \\D inside a class");
    else if (c == 'w' || c == 'W')
        put_class(t, in_class, c == 'W', word, more_words);
    else if (c == 'd' || c == 'D')
        put_class(t, in_class, c == 'D', digit, "");
    else
        str_append_n(&t->out, t->at - 2, 2);
    return 0;
}

/* [...]; a class within a class adds its members. */
static int class(struct translation *t)
{
    int depth = 0;
    do {
        char c = *t->at;
        if (!c)
            return refuse(t, "a class without an end");
        if (c == '\\') {
            TRY(escape(t, true));
            continue;
        }
        if (t->at[0] == '&' && t->at[1] == '&')
            return refuse(t, "&&");
        if (c == '[' && t->at[1] == ':')
            return refuse(t, "[:name:]");
        t->at++;
        if (c == '[') {
            if (depth++ == 0)
                str_append(&t->out, "[");
            if (*t->at == '^' && depth > 1)
                return refuse(t, "a negated class inside a class");
            if (*t->at == '^') {
                str_append(&t->out, "^");
                t->at++;
            }
        } else if (c == ']') {
            if (--depth == 0)
                str_append(&t->out, "]");
        } else {
            str_append_n(&t->out, &c, 1);
        }
    } while (depth);
    return 0;
}

/* (?i), (?i: and (?-i: mean the same in both; (?m) is a dot for all in one and lines in the other. */
static int group(struct translation *t)
{
    size_t n = 1;
    if (t->at[1] == '?' && t->at[2] && !strchr(":=!<>#", t->at[2])) {
        n = 2 + strspn(t->at + 2, "i-");
        if (t->at[n] != ')' && t->at[n] != ':')
            return refuse(t, "an option other than (?i)");
    }
    str_append_n(&t->out, t->at, n);
    t->at += n;
    return 0;
}

static int translate(struct translation *t)
{
    while (*t->at) {
        if (*t->at == '\\') {
            TRY(escape(t, false));
        } else if (*t->at == '[') {
            TRY(class(t));
        } else if (*t->at == '(') {
            TRY(group(t));
        } else if (t->at[0] == '}' && t->at[1] == '+') {
            return refuse(t, "{n,m}+");
        } else {
            str_append_n(&t->out, t->at++, 1);
        }
    }
    return str_check(&t->out, t->err);
}

static int compile(struct regex *r, const struct translation *t, pcre2_general_context *memory)
{
    int fault;
    PCRE2_SIZE where;
    pcre2_compile_context *c = pcre2_compile_context_create(memory);
    if (!c)
        return err_no_memory(t->err, 1);
    pcre2_set_newline(c, PCRE2_NEWLINE_LF);
    r->code = pcre2_compile((PCRE2_SPTR)str_text(&t->out), t->out.n,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &fault, &where, c);
    pcre2_compile_context_free(c);
    if (!r->code && fault == PCRE2_ERROR_HEAP_FAILED)
        return err_no_memory(t->err, 1);
    if (!r->code) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(fault, text, sizeof text);
        return err_set(t->err, SNUG_ERR_INPUT, "%s: the regular expression \"%s\" is wrong: %s", t->path, t->pattern,
                       (const char *)text);
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* where it cannot, matching interprets */
    return 0;
}

int regex_new(const char *pattern, const char *path, struct regex **out, struct snug_err *err)
{
    struct translation t = {.path = path, .pattern = pattern, .at = pattern, .err = err};
    struct regex *r = mem_alloc(sizeof *r);
    pcre2_general_context *memory = r ? pcre2_general_context_create(allocate, release, NULL) : NULL;
    int code = memory ? translate(&t) : err_no_memory(err, sizeof *r);
    if (!code)
        code = compile(r, &t, memory);
    pcre2_general_context_free(memory);
    str_free(&t.out);
    if (code) {
        regex_free(r);
        r = NULL;
    }
    *out = r;
    return code;
}

void regex_free(struct regex *r)
{
    if (r)
        pcre2_code_free(r->code);
    mem_free(r);
}

struct regex_match *regex_match_new(void)
{
    struct regex_match *m = mem_alloc(sizeof *m);
    pcre2_general_context *memory = m ? pcre2_general_context_create(allocate, release, NULL) : NULL;
    if (memory) {
        m->data = pcre2_match_data_create(1, memory);
        m->context = pcre2_match_context_create(memory);
        m->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, memory);
    }
    pcre2_general_context_free(memory);
    if (!m || !m->data || !m->context) {
        regex_match_free(m);
        return NULL;
    }
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    if (m->stack) /* NULL where there is no compiler for this processor */
        pcre2_jit_stack_assign(m->context, NULL, m->stack);
    return m;
}

void regex_match_free(struct regex_match *m)
{
    if (m) {
        pcre2_match_data_free(m->data);
        pcre2_match_context_free(m->context);
        pcre2_jit_stack_free(m->stack);
    }
    mem_free(m);
}

int regex_next(const struct regex *r, struct regex_match *m, const char *text, size_t n, size_t at, bool *found,
               size_t *start, size_t *end, struct snug_err *err)
{
    int got = pcre2_match(r->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, m->data, m->context);
    *found = got >= 0;
    if (got >= 0) {
        const PCRE2_SIZE *where = pcre2_get_ovector_pointer(m->data);
        *start = where[0];
        *end = where[1];
        return 0;
    }
    if (got == PCRE2_ERROR_NOMATCH)
        return 0;
    if (got == PCRE2_ERROR_NOMEMORY || got == PCRE2_ERROR_HEAPLIMIT)
        return err_no_memory(err, n);
    return err_set(
        err, SNUG_ERR_INPUT,
        "byte %zu of a text makes the tokenizer's regular expression try too much (PCRE2 error %d); split the text", at,
        got);
}
