#include "metrics/texts.h"

#include "base/mem.h"
#include "base/str.h"
#include "metrics/space.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The character at *at, behind which *at is then; -1: bytes that are none. */
static int32_t next_character(const char *text, size_t bytes, size_t *at)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + *at, (utf8proc_ssize_t)(bytes - *at), &c);
    *at += n > 0 ? (size_t)n : 1;
    return n > 0 ? c : -1;
}

/* ---- ROUGE-L ---- */

struct word {
    size_t at, n; /* bytes of the folded text */
};

struct words {
    struct str folded; /* a-z, 0-9, and a blank for anything else */
    struct word *list;
    size_t n, cap;
};

/* Two characters beyond ASCII have such a letter in lower case: İ, which becomes i and a dot, and the sign of kelvin. */
static char folded_character(int32_t c)
{
    if (c == 0x130)
        return 'i';
    if (c == 0x212A)
        return 'k';
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? (char)c : ' ';
}

static int find_words(const char *text, size_t bytes, struct words *w, struct snug_err *err)
{
    for (size_t i = 0; i < bytes;) {
        int32_t c = next_character(text, bytes, &i);
        char folded[2] = {folded_character(c), ' '};
        str_append_n(&w->folded, folded, c == 0x130 ? 2 : 1);
    }
    TRY(str_check(&w->folded, err));
    const char *s = str_text(&w->folded);
    for (size_t i = 0; i < w->folded.n;) {
        size_t n = strcspn(s + i, " ");
        if (n && !MEM_GROW(w->list, w->cap, w->n + 1))
            return err_no_memory(err, (w->n + 1) * sizeof *w->list);
        if (n)
            w->list[w->n++] = (struct word){.at = i, .n = n};
        i += n + 1;
    }
    return SNUG_OK;
}

static void free_words(struct words *w)
{
    str_free(&w->folded);
    mem_free(w->list);
}

static bool same_word(const struct words *a, size_t i, const struct words *b, size_t k)
{
    struct word x = a->list[i], y = b->list[k];
    return x.n == y.n && !memcmp(str_text(&a->folded) + x.at, str_text(&b->folded) + y.at, x.n);
}

/* Words of the longest common subsequence. row (b->n + 1): of the words of a so far and the first k of b. */
static int64_t common_words(const struct words *a, const struct words *b, int64_t *row)
{
    memset(row, 0, (b->n + 1) * sizeof *row);
    for (size_t i = 0; i < a->n; i++) {
        int64_t before = 0; /* what row[k] was */
        for (size_t k = 0; k < b->n; k++) {
            int64_t above = row[k + 1], left = row[k];
            row[k + 1] = same_word(a, i, b, k) ? before + 1 : above > left ? above : left;
            before = above;
        }
    }
    return row[b->n];
}

static int rouge(const struct words *text, const struct words *expected, double *score, struct snug_err *err)
{
    *score = 0;
    if (!text->n || !expected->n)
        return SNUG_OK;
    int64_t *row = mem_alloc((expected->n + 1) * sizeof *row);
    if (!row)
        return err_no_memory(err, (expected->n + 1) * sizeof *row);
    double common = (double)common_words(text, expected, row);
    double precision = common / (double)text->n, recall = common / (double)expected->n;
    if (precision + recall > 0)
        *score = 2 * precision * recall / (precision + recall);
    mem_free(row);
    return SNUG_OK;
}

/* ---- chrF ---- */

/* The CHRF_ORDER characters from a place on, 21 bits each, one more than the code point; 0 behind the end. Places in the order of
 * these are also in the order of any number of their first characters. */
struct run {
    uint64_t first, second;
};

static int compare_runs(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->second > y->second) - (x->second < y->second);
}

/* Characters `from` to from + 2. */
static uint64_t pack(const uint32_t *characters, size_t n, size_t from)
{
    uint64_t packed = 0;
    for (size_t i = from; i < from + 3; i++)
        packed = packed << 21 | (i < n ? characters[i] + 1 : 0);
    return packed;
}

/* *runs: mem_free's by the caller. */
static int find_runs(const char *text, size_t bytes, struct run **runs, size_t *n, struct snug_err *err)
{
    uint32_t *characters = mem_alloc((bytes + 1) * sizeof *characters);
    *n = 0;
    *runs = mem_alloc((bytes + 1) * sizeof **runs);
    if (!characters || !*runs) {
        mem_free(characters);
        return err_no_memory(err, (bytes + 1) * sizeof **runs);
    }
    for (size_t i = 0; i < bytes;) {
        int32_t c = next_character(text, bytes, &i);
        if (c >= 0 && !is_python_space(c))
            characters[(*n)++] = (uint32_t)c;
    }
    for (size_t i = 0; i < *n; i++)
        (*runs)[i] = (struct run){pack(characters, *n, i), pack(characters, *n, i + 3)};
    mem_free(characters);
    qsort(*runs, *n, sizeof **runs, compare_runs);
    return SNUG_OK;
}

/* Its first `order` characters. */
static struct run cut(const struct run *r, int order)
{
    uint64_t all = UINT64_MAX;
    return order < 3 ? (struct run){r->first & all << 21 * (3 - order), 0}
                     : (struct run){r->first, order == 3 ? 0 : r->second & all << 21 * (6 - order)};
}

static int64_t common_runs(const struct run *a, size_t a_n, const struct run *b, size_t b_n, int order)
{
    int64_t both = 0;
    for (size_t i = 0, k = 0; i < a_n && k < b_n;) {
        struct run x = cut(&a[i], order), y = cut(&b[k], order);
        int way = compare_runs(&x, &y);
        uint64_t last = order <= 3 ? x.first >> 21 * (3 - order) : x.second >> 21 * (6 - order);
        both += way == 0 && last & 0x1FFFFF; /* not one that the text's end cuts short */
        i += way <= 0;
        k += way >= 0;
    }
    return both;
}

static void add_runs(struct text_sums *s, const struct run *a, size_t a_n, const struct run *b, size_t b_n)
{
    for (int order = 1; order <= CHRF_ORDER; order++) {
        size_t less = (size_t)order - 1;
        s->runs[less].both += common_runs(a, a_n, b, b_n, order);
        s->runs[less].expected += b_n > less ? (int64_t)(b_n - less) : 0;
        s->runs[less].text += b_n > less && a_n > less ? (int64_t)(a_n - less) : 0;
    }
}

double texts_chrf(const struct text_sums *s)
{
    double precision = 0, recall = 0;
    const double recall_weight = 4; /* beta 2, squared */
    int orders = 0;
    for (int i = 0; i < CHRF_ORDER; i++) {
        if (!s->runs[i].text || !s->runs[i].expected)
            continue;
        precision += (double)s->runs[i].both / (double)s->runs[i].text;
        recall += (double)s->runs[i].both / (double)s->runs[i].expected;
        orders++;
    }
    if (!orders || precision + recall == 0)
        return 0;
    precision /= orders;
    recall /= orders;
    return (1 + recall_weight) * precision * recall / (recall_weight * precision + recall);
}

/* ---- a row ---- */

static int add_chrf(struct text_sums *s, const char *text, size_t bytes, const char *expected, size_t expected_bytes,
                    struct snug_err *err)
{
    struct run *a = NULL, *b = NULL;
    size_t a_n, b_n;
    int code = find_runs(text, bytes, &a, &a_n, err);
    if (!code)
        code = find_runs(expected, expected_bytes, &b, &b_n, err);
    if (!code)
        add_runs(s, a, a_n, b, b_n);
    mem_free(a);
    mem_free(b);
    return code;
}

int texts_add(struct text_sums *s, const char *text, size_t bytes, const char *expected, size_t expected_bytes,
              struct snug_err *err)
{
    struct words a = {0}, b = {0};
    double score = 0;
    int code = find_words(text, bytes, &a, err);
    if (!code)
        code = find_words(expected, expected_bytes, &b, err);
    if (!code)
        code = rouge(&a, &b, &score, err);
    free_words(&a);
    free_words(&b);
    TRY(code);
    TRY(add_chrf(s, text, bytes, expected, expected_bytes, err));
    s->rows++;
    s->rouge += score;
    s->exact += bytes == expected_bytes && !memcmp(text, expected, bytes);
    return SNUG_OK;
}
