/* ids against those that Hugging Face's tokenizers library gave (recorded/record.py), and time and
 * memory that hostile texts and failing allocations may cost. */
#include "tokenizer/tokenizer.h"
#include "../failing_memory.h"
#include "tokenizer/steps/bert.h"
#include "tokenizer/unicode.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"uncased", "cased",       "added", "spaces", "unclean",  "lower-only",
                                    "prefix",  "whole-words", "bare",  "left",   "template", NULL};

static char *fixture(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/%s", getenv("SNUG_SOURCE"), name);
    return path;
}

static struct tokenizer *open_fixture(const char *name)
{
    struct snug_err e;
    struct tokenizer *t;
    if (tokenizer_open(&io_posix, fixture(name), &t, &e))
        fail_msg("%s", e.text);
    return t;
}

struct opened {
    struct tokenizer *of[16];
};

static struct tokenizer *named(struct opened *o, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return o->of[i] = o->of[i] ? o->of[i] : open_fixture(name);
    fail_msg("no tokenizer %s", name);
    return NULL;
}

static void close_all(struct opened *o)
{
    for (int i = 0; names[i]; i++)
        tokenizer_close(o->of[i]);
}

static bool equal(json_t *want, const int32_t *got, size_t n)
{
    bool same = json_array_size(want) == n;
    for (size_t i = 0; same && i < n; i++)
        same = json_integer_value(json_array_get(want, i)) == got[i];
    return same;
}

static int recorded_case(struct opened *o, const char *line, struct token_buf *buf)
{
    json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
    assert_non_null(row);
    json_t *text = json_array_get(row, 2), *pair = json_array_get(row, 3), *types = json_array_get(row, 5);
    struct snug_err e;
    int code = tokenizer_encode(named(o, json_string_value(json_array_get(row, 0))), json_string_value(text),
                                json_string_length(text), json_string_value(pair), json_string_length(pair),
                                json_integer_value(json_array_get(row, 1)), buf, &e);
    bool same = !code && equal(json_array_get(row, 4), buf->ids, buf->n);
    for (size_t i = 0; same && !types && i < buf->n; i++)
        same = buf->type_ids[i] == 0;
    if (types)
        same = same && equal(types, buf->type_ids, buf->n);
    if (!same) {
        printf("differs: %s      got", line);
        for (size_t i = 0; i < buf->n; i++)
            printf(" %d/%d", buf->ids[i], buf->type_ids[i]);
        printf("\n");
    }
    json_decref(row);
    return !same;
}

static void recorded_texts_have_the_recorded_ids(void **state)
{
    (void)state;
    FILE *f = fopen(fixture("cases.jsonl"), "r");
    assert_non_null(f);
    struct opened o = {0};
    struct token_buf buf = {0};
    char *line = NULL;
    size_t cap = 0;
    int rows = 0, differ = 0;
    for (; getline(&line, &cap, f) > 0; rows++)
        differ += recorded_case(&o, line, &buf);
    assert_int_equal(rows, 2193);
    assert_int_equal(differ, 0);
    free(line);
    fclose(f);
    token_buf_free(&buf);
    close_all(&o);
}

/* ORDER generator: class Generator in record.py */
struct generator {
    uint64_t state;
    char text[4096];
    size_t n;
};

static uint32_t draw(struct generator *g, uint32_t n)
{
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((g->state >> 33) % n);
}

static void generate(struct generator *g)
{
    static const uint32_t ranges[16][2] = {
        {0x61, 0x7A},       {0x61, 0x7A},       {0x20, 0x20},     {0x20, 0x7E},
        {0xA0, 0x24F},      {0x300, 0x36F},     {0x370, 0x5FF},   {0x600, 0x1FFF},
        {0x2000, 0x2FFF},   {0x3000, 0x9FFF},   {0xA000, 0xD7FF}, {0xE000, 0xFFFF},
        {0x10000, 0x1FFFF}, {0x20000, 0x2FFFF}, {0, 0x1F},        {0xE0000, 0x10FFFF}};
    static const char *const words[16] = {
        "hello",         " ",      "[SEP]",  "<lr>", "word", "new york", "Z\u00fcrich",  "\u4e2d\u6587",
        "e\u0301\u0323", "\u0130", "\ud55c", "un",   "able", ", ",       "\uff21\uff22", "\u3000"};
    g->n = 0;
    for (uint32_t parts = draw(g, 12); parts; parts--) {
        uint32_t kind = draw(g, 32);
        if (kind >= 16) {
            g->n += (size_t)sprintf(g->text + g->n, "%s", words[kind - 16]);
            continue;
        }
        for (uint32_t chars = 1 + draw(g, 4); chars; chars--) {
            uint32_t c = ranges[kind][0] + draw(g, ranges[kind][1] - ranges[kind][0] + 1);
            g->n += (size_t)utf8_encode(c, g->text + g->n);
        }
    }
}

static void generated_texts_have_the_recorded_ids(void **state)
{
    (void)state;
    FILE *f = fopen(fixture("generated.txt"), "r");
    assert_non_null(f);
    struct opened o = {0};
    struct token_buf buf = {0};
    struct snug_err e;
    char name[32], want[33], got[33];
    int block, blocks = 0;
    for (; fscanf(f, "%31s %d %32s", name, &block, want) == 3; blocks++) {
        struct generator g = {.state = (uint64_t)block};
        struct hash_state *h = hash_new();
        for (int i = 0; i < 1000; i++) {
            int32_t end = -1;
            generate(&g);
            assert_int_equal(tokenizer_encode(named(&o, name), g.text, g.n, NULL, 0, 0, &buf, &e), 0);
            hash_add(h, buf.ids, buf.n * sizeof *buf.ids);
            hash_add(h, &end, sizeof end);
        }
        hash_hex(hash_end(h), got);
        if (strcmp(got, want))
            fail_msg("%s, block %d: %s was recorded, this is %s", name, block, want, got);
    }
    assert_int_equal(blocks, 10 * 12);
    fclose(f);
    token_buf_free(&buf);
    close_all(&o);
}

static struct hash128 hash_of_plane(const struct bert_normalizer *n, const uint8_t *flags, uint32_t plane)
{
    struct token_buf buf = {0};
    struct text_buf normal = {0};
    struct snug_err e;
    struct hash_state *h = hash_new();
    assert_int_equal(scratch_get(&buf, &e), 0);
    for (uint32_t c = plane << 16; c < (plane + 1) << 16; c++) {
        char text[24] = "a";
        if (c >= 0xD800 && c < 0xE000)
            continue;
        int at = 1 + utf8_encode(c, text + 1);
        text[at++] = 1;
        at += utf8_encode(0x1D165, text + at);
        at += utf8_encode(c, text + at);
        text[at++] = 'b';
        normal.n = 0;
        assert_int_equal(bert_normalize(n, flags, (struct text){text, (size_t)at, NULL}, buf.scratch, &normal, &e), 0);
        hash_add(h, normal.s, normal.n);
        size_t start = 0, bytes;
        for (; (bytes = bert_next_word(flags, normal.s, normal.n, &start)); start += bytes) {
            hash_add(h, "\x1f", 1);
            hash_add(h, normal.s + start, bytes);
        }
        hash_add(h, "\n", 1);
    }
    token_buf_free(&buf);
    mem_free(normal.s);
    return hash_end(h);
}

static void every_code_point_becomes_what_was_recorded(void **state)
{
    (void)state;
    struct bert_normalizer normals[] = {{0},
                                        {.clean_text = true},
                                        {.handle_chinese_chars = true},
                                        {.stated_accents = true},
                                        {.lowercase = true},
                                        {true, true, true, true, true, {0}}};
    const char *const kinds[] = {"none", "clean", "han", "strip", "lower", "all"};
    FILE *f = fopen(fixture("unicode.txt"), "r");
    assert_non_null(f);
    uint8_t *flags = char_flags_new();
    char name[32], want[33], got[33];
    uint32_t plane;
    int lines = 0;
    for (; fscanf(f, "%31s %u %32s", name, &plane, want) == 3; lines++) {
        size_t k = 0;
        while (strcmp(kinds[k], name))
            k++;
        bert_normalizer_init(&normals[k], flags);
        hash_hex(hash_of_plane(&normals[k], flags, plane), got);
        if (strcmp(got, want))
            fail_msg("%s, plane %u: %s was recorded, this is %s", name, plane, want, got);
    }
    assert_int_equal(lines, 6 * 17);
    mem_free(flags);
    fclose(f);
}

static void vocabulary_and_special_tokens(void **state)
{
    (void)state;
    struct tokenizer *t = open_fixture("added"), *u = open_fixture("uncased");
    assert_int_equal(tokenizer_id(t, "[PAD]"), 0);
    assert_int_equal(tokenizer_id(t, "hello"), 196);
    assert_int_equal(tokenizer_id(t, "no such token"), -1);
    assert_int_equal(tokenizer_id(t, ""), -1);
    assert_string_equal(tokenizer_token(t, 196), "hello");
    assert_null(tokenizer_token(t, -1));
    assert_null(tokenizer_token(t, tokenizer_vocab_size(t)));
    /* "hello" is in the vocabulary; the other 15 added tokens are new, in the order in which they were added. */
    assert_int_equal(tokenizer_vocab_size(t), tokenizer_vocab_size(u) + 15);
    assert_int_equal(tokenizer_id(t, "[NEW]"), tokenizer_vocab_size(u));
    const enum special_token kinds[] = {TOKEN_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK};
    for (int i = 0; i < 5; i++)
        assert_int_equal(tokenizer_special(t, kinds[i]), i);
    assert_int_equal(tokenizer_special(t, TOKEN_BOS), -1);
    assert_int_equal(tokenizer_template_tokens(t, false), 2);
    assert_int_equal(tokenizer_template_tokens(t, true), 3);
    assert_int_equal(tokenizer_max_length(t), 0);
    assert_int_equal(tokenizer_max_length(u), 64);
    assert_null(tokenizer_note(u, 0));
    tokenizer_close(t);
    tokenizer_close(u);
}

static void truncation_is_reported(void **state)
{
    (void)state;
    struct tokenizer *t = open_fixture("uncased");
    struct token_buf b = {0};
    struct snug_err e;
    assert_int_equal(tokenizer_encode(t, "a b c", 5, NULL, 0, 5, &b, &e), 0);
    assert_int_equal(b.n, 5);
    assert_false(b.truncated);
    assert_int_equal(tokenizer_encode(t, "a b c", 5, NULL, 0, 4, &b, &e), 0);
    assert_int_equal(b.n, 4);
    assert_true(b.truncated);
    for (int limit = 1; limit <= 2; limit++) {
        assert_int_equal(tokenizer_encode(t, "a", 1, NULL, 0, limit, &b, &e), SNUG_ERR_USAGE);
        assert_non_null(strstr(e.text, "use at least 3"));
    }
    assert_int_equal(tokenizer_encode(t, "a", 1, NULL, 0, -1, &b, &e), SNUG_ERR_USAGE);
    assert_int_equal(tokenizer_encode(t, "a", 1, "b", 1, 3, &b, &e), SNUG_ERR_USAGE);
    assert_non_null(strstr(e.text, "use at least 4"));
    token_buf_free(&b);
    tokenizer_close(t);
}

static void invalid_utf8_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"\xff",         "ab\x80",           "\xc3",        "\xc0\x80", "\xe0\x80\x80",
                                        "\xed\xa0\x80", "\xf4\x90\x80\x80", "abcdefgh\xe4"};
    struct tokenizer *t = open_fixture("uncased");
    struct token_buf b = {0};
    struct snug_err e;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(tokenizer_encode(t, texts[i], strlen(texts[i]), NULL, 0, 0, &b, &e), SNUG_ERR_INPUT);
        assert_int_equal(tokenizer_encode(t, "fine", 4, texts[i], strlen(texts[i]), 0, &b, &e), SNUG_ERR_INPUT);
        assert_non_null(strstr(e.text, "not UTF-8"));
    }
    assert_non_null(strstr(e.text, "byte 8 is 0xE4"));
    token_buf_free(&b);
    tokenizer_close(t);
}

/* Each takes about 0.1 s; were one of them quadratic, hours. */
static void hostile_texts(const char *name, size_t bytes)
{
    static const char *const units[] = {"a", "\u0301\u0323\u0345", "\u4e2d", " ", "[", "a ", "<l>", "  <lr>", "\u3000"};
    struct tokenizer *t = open_fixture(name);
    struct token_buf b = {0};
    struct snug_err e;
    char *text = mem_alloc(bytes);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t unit = strlen(units[i]);
        for (size_t at = 0; at + unit <= bytes; at += unit)
            memcpy(text + at, units[i], unit);
        text[0] = 'a';
        for (size_t k = 1; k < unit; k++)
            text[k] = ' ';
        assert_int_equal(tokenizer_encode(t, text, bytes - bytes % unit, NULL, 0, 0, &b, &e), 0);
        if (i == 0) { /* one word that is too long */
            assert_int_equal(b.n, 3);
            assert_int_equal(b.ids[1], 1);
        }
    }
    mem_free(text);
    token_buf_free(&b);
    tokenizer_close(t);
}

static void hostile_texts_take_linear_time(void **state)
{
    (void)state;
    hostile_texts("added", 10000000);
    hostile_texts("spaces", 1000000);
}

static void hashes_tell_tokenizers_apart(void **state)
{
    (void)state;
    struct hash128 h[16];
    int n = 0;
    for (; names[n]; n++) {
        struct tokenizer *t = open_fixture(names[n]);
        h[n] = tokenizer_hash(t);
        for (int i = 0; i < n; i++)
            assert_true(h[i].high != h[n].high || h[i].low != h[n].low);
        tokenizer_close(t);
        t = open_fixture(names[n]);
        assert_true(tokenizer_hash(t).high == h[n].high && tokenizer_hash(t).low == h[n].low);
        tokenizer_close(t);
    }
}

/* Token caches and checkpoints of users have these: recorded before tokenizers other than BERT's were there. */
static void hashes_of_bert_tokenizers_stay(void **state)
{
    (void)state;
    static const char *const recorded[][2] = {
        {"added", "60c128fbbdb9e4db7b9ba589801840b5"},       {"bare", "81ec7998d8075e21784d51b15a6b9c28"},
        {"cased", "4dd7d4f6270192eb0e011a17b8f1ee42"},       {"left", "322f7f6ae9b2d7368a5111428722a027"},
        {"lower-only", "8114e41f16a843dcff3bbe27715b776c"},  {"prefix", "1f3777608381d7b1edce64e633b82c2c"},
        {"spaces", "0301b5f6b1f8d41df5a6d8a368aafc5a"},      {"template", "9a8a9dd0e0b8bf9b2bfd993701200c40"},
        {"uncased", "c4ce1e6d6149d9b0495a223086978432"},     {"unclean", "01ec9d14c07866e61bae693677158b57"},
        {"whole-words", "faf0eddbe7128bd407c989fd2eb8caf4"},
    };
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        char hex[33];
        struct tokenizer *t = open_fixture(recorded[i][0]);
        hash_hex(tokenizer_hash(t), hex);
        assert_string_equal(hex, recorded[i][1]);
        tokenizer_close(t);
    }
}

static int open_and_encode(void)
{
    static const char text[] = "Hello\u0301\u0323, w\u00f6rd <lr> \u4e2d[SEP] new york";
    struct tokenizer *t = NULL;
    struct token_buf b = {0};
    struct snug_err e;
    int code = tokenizer_open(&io_posix, fixture("added"), &t, &e);
    if (!code)
        code = tokenizer_encode(t, text, sizeof text - 1, "b", 1, 0, &b, &e);
    token_buf_free(&b);
    tokenizer_close(t);
    return code;
}

/* From the k-th on, for every k. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    int code = SNUG_ERR_ENV;
    long k = 1;
    for (; code; k++) {
        struct failing_memory memory;
        failing_memory_set(&memory, k, true);
        code = open_and_encode();
        mem_set_ops(NULL);
        if (code)
            assert_int_equal(code, SNUG_ERR_ENV);
    }
    assert_true(k > 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_texts_have_the_recorded_ids),
        cmocka_unit_test(generated_texts_have_the_recorded_ids),
        cmocka_unit_test(every_code_point_becomes_what_was_recorded),
        cmocka_unit_test(vocabulary_and_special_tokens),
        cmocka_unit_test(truncation_is_reported),
        cmocka_unit_test(invalid_utf8_is_refused),
        cmocka_unit_test(hostile_texts_take_linear_time),
        cmocka_unit_test(hashes_tell_tokenizers_apart),
        cmocka_unit_test(hashes_of_bert_tokenizers_stay),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
