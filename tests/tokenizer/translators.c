/* Damaged folders of translators: each of 3,000 mutations of the recorded ones is refused with one line, or gives ids of its vocabulary,
 * and text for them. */
#include "../folder.h"
#include "../memory_io.h"
#include "base/str.h"
#include "tokenizer/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MUTATIONS = 3000, FILES = 4, ROOM = 64 };

static const char *const folders[][FILES + 1] = {
    {"marian_bpe", "source.spm", "target.spm", "vocab.json", "tokenizer_config.json"},
    {"marian_bytes", "source.spm", "target.spm", "vocab.json", "tokenizer_config.json"},
    {"m2m100_wmt21", "sentencepiece.bpe.model", "vocab.json", "tokenizer_config.json", "config.json"},
};
enum { FOLDERS = sizeof folders / sizeof *folders };

static uint32_t seed = 1;

static size_t below(size_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (size_t)((uint64_t)seed * n >> 32);
}

/* In `s`, which has ROOM bytes more than n; the new n. */
static size_t mutate(char *s, size_t n)
{
    size_t at = below(n), more = 1 + below(ROOM - 1);
    more = more < n - at ? more : n - at;
    switch (below(5)) {
    case 0:
        s[at] = (char)below(256);
        return n;
    case 1:
        s[at] ^= (char)(1 << below(8));
        return n;
    case 2: /* gone */
        memmove(s + at, s + at + more, n - at - more);
        return n - more;
    case 3: /* twice */
        memmove(s + at + more, s + at, n - at);
        return n + more;
    default:
        return at;
    }
}

static bool gives_ids(const struct tokenizer *t)
{
    static const char text[] =
        ">>fr<< a  b\tc <s> \xEF\xAC\x81 \xE2\x96\x81 e\xCC\x81 \xF0\x9F\x98\x80 (-(- ab</s> __en__";
    struct token_buf b = {0};
    struct str decoded = {0};
    struct snug_err e;
    for (int target = 0; target < 2; target++) {
        assert_int_equal(target ? tokenizer_encode_target(t, text, sizeof text - 1, 0, &b, &e)
                                : tokenizer_encode(t, text, sizeof text - 1, NULL, 0, 0, &b, &e),
                         0);
        for (size_t i = 0; i < b.n; i++)
            assert_in_range(b.ids[i], 0, tokenizer_vocab_size(t) - 1);
        assert_int_equal(tokenizer_decode(t, b.ids, b.n, false, &decoded, &e), 0);
        assert_int_equal(utf8_prefix(str_text(&decoded), decoded.n), decoded.n);
    }
    str_free(&decoded);
    token_buf_free(&b);
    return true;
}

/* Whether the folder is a tokenizer. */
static bool opens(const struct memory_file *files)
{
    struct memory_io m;
    struct tokenizer *t;
    struct snug_err e = {0};
    memory_io_init(&m, files, FILES);
    int code = tokenizer_open(&m.io, "m", &t, &e);
    assert_int_equal(m.open_files, 0);
    if (code) {
        assert_int_equal(code, SNUG_ERR_INPUT);
        assert_true(!strncmp(e.text, "m", 1) && !strchr(e.text, '\n'));
        return false;
    }
    gives_ids(t);
    tokenizer_close(t);
    return true;
}

static void damaged_folders(void **state)
{
    char *texts[FOLDERS][FILES], path[4096], name[FILES][64];
    size_t n[FOLDERS][FILES];
    int opened = 0;
    (void)state;
    for (int f = 0; f < FOLDERS; f++)
        for (int i = 0; i < FILES; i++) {
            snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/translators/%s/%s", getenv("SNUG_SOURCE"),
                     folders[f][0], folders[f][i + 1]);
            texts[f][i] = read_text(path, &n[f][i]);
        }
    for (int k = 0; k < MUTATIONS; k++) {
        int f = k % FOLDERS, which = (int)below(FILES);
        char *changed = malloc(n[f][which] + ROOM);
        struct memory_file files[FILES];
        assert_non_null(changed);
        memcpy(changed, texts[f][which], n[f][which]);
        size_t bytes = mutate(changed, n[f][which]);
        for (int i = 0; i < FILES; i++) {
            snprintf(name[i], sizeof name[i], "m/%s", folders[f][i + 1]);
            files[i] = (struct memory_file){name[i], i == which ? changed : texts[f][i], i == which ? bytes : n[f][i]};
        }
        opened += opens(files);
        free(changed);
    }
    assert_in_range(opened, MUTATIONS / 10, MUTATIONS * 9 / 10); /* both happen */
    for (int f = 0; f < FOLDERS; f++)
        for (int i = 0; i < FILES; i++)
            free(texts[f][i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_folders)};
    return cmocka_run_group_tests_name("translators", tests, NULL, NULL);
}
