#include "metrics/squad.h"

#include "base/mem.h"
#include "base/str.h"
#include "metrics/space.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* \w of Python's re; the underscore is punctuation and gone. */
static bool is_word(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
           (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

static bool is_punctuation(utf8proc_int32_t c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

static void put(struct str *s, utf8proc_int32_t c)
{
    utf8proc_uint8_t bytes[4];
    str_append_n(s, (const char *)bytes, (size_t)utf8proc_encode_char(c, bytes));
}

/* In lower case and without punctuation; what is no UTF-8 is left out. */
static void fold(const char *text, size_t bytes, struct str *to)
{
    for (size_t i = 0; i < bytes;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(bytes - i), &c);
        i += n > 0 ? (size_t)n : 1;
        if (n <= 0 || is_punctuation(c))
            continue;
        if (c == 0x130) /* İ, the only one of two characters */
            str_append(to, "i\xCC\x87");
        else
            put(to, utf8proc_tolower(c));
    }
}

static bool is_article(const char *s, size_t n)
{
    return (n == 1 && *s == 'a') || (n == 2 && !memcmp(s, "an", 2)) || (n == 3 && !memcmp(s, "the", 3));
}

/* Runs of word characters that are articles become blanks; then words are separated by one blank each. */
static void separate(const char *s, size_t bytes, struct str *to)
{
    bool waits = false; /* a blank, for the next word */
    for (size_t i = 0; i < bytes;) {
        utf8proc_int32_t c;
        size_t end = i;
        const utf8proc_uint8_t *u = (const utf8proc_uint8_t *)s;
        for (utf8proc_ssize_t n; end < bytes && (n = utf8proc_iterate(u + end, -1, &c)) > 0 && is_word(c);)
            end += (size_t)n;
        bool word = end > i, blank = false;
        if (!word) {
            end += (size_t)utf8proc_iterate(u + end, -1, &c);
            blank = is_python_space(c);
        }
        blank |= word && is_article(s + i, end - i);
        if (!blank && waits && to->n)
            str_append(to, " ");
        if (!blank)
            str_append_n(to, s + i, end - i);
        waits = blank;
        i = end;
    }
}

static void normalize(const char *text, size_t bytes, struct str *to)
{
    struct str folded = {0};
    fold(text, bytes, &folded);
    separate(str_text(&folded), folded.n, to);
    to->failed |= folded.failed;
    str_free(&folded);
}

/* ---- words ---- */

struct words {
    const char **list; /* (n) sorted; they end at a blank */
    size_t n, cap;
};

static int compare_words(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    while (*x && *x != ' ' && *x == *y)
        x++, y++;
    unsigned char left = *x == ' ' ? 0 : (unsigned char)*x, right = *y == ' ' ? 0 : (unsigned char)*y;
    return (left > right) - (left < right);
}

static int find_words(const char *s, struct words *w, struct snug_err *err)
{
    w->n = 0;
    for (; *s; s += strcspn(s, " "), s += *s == ' ') {
        if (!MEM_GROW(w->list, w->cap, w->n + 1))
            return err_no_memory(err, (w->n + 1) * sizeof *w->list);
        w->list[w->n++] = s;
    }
    if (w->n)
        qsort(w->list, w->n, sizeof *w->list, compare_words);
    return SNUG_OK;
}

static double f1(const struct words *a, const struct words *b)
{
    size_t same = 0;
    if (!a->n || !b->n)
        return a->n == b->n;
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        int order = compare_words(&a->list[i], &b->list[k]);
        same += order == 0;
        i += order <= 0;
        k += order >= 0;
    }
    return 2 * (double)same / (double)(a->n + b->n);
}

/* ---- scores ---- */

struct compared {
    struct str answer, right;
    struct words answer_words, right_words;
};

static int compare_with(struct compared *c, const char *right, struct squad_score *best, bool *any,
                        struct snug_err *err)
{
    str_free(&c->right);
    normalize(right, strlen(right), &c->right);
    TRY(str_check(&c->right, err));
    if (*right && !c->right.n) /* no answer, once it is normalised */
        return SNUG_OK;
    TRY(find_words(str_text(&c->right), &c->right_words, err));
    *any = true;
    double words = f1(&c->answer_words, &c->right_words);
    best->f1 = words > best->f1 ? words : best->f1;
    if (!strcmp(str_text(&c->answer), str_text(&c->right)))
        best->exact = 1;
    return SNUG_OK;
}

int squad_score(const char *answer, size_t bytes, const char *const *right, size_t n, struct squad_score *score,
                struct snug_err *err)
{
    struct compared c = {0};
    bool any = false;
    *score = (struct squad_score){0};
    normalize(answer, bytes, &c.answer);
    int code = str_check(&c.answer, err);
    if (!code)
        code = find_words(str_text(&c.answer), &c.answer_words, err);
    for (size_t i = 0; i < n && !code; i++)
        code = compare_with(&c, right[i], score, &any, err);
    if (!code && !any)
        code = compare_with(&c, "", score, &any, err);
    str_free(&c.answer);
    str_free(&c.right);
    mem_free(c.answer_words.list);
    mem_free(c.right_words.list);
    return code;
}
