/* Text that is told while tokens come is what decoding all of them gives, and few tokens are decoded at a time. The
 * tokenizers are of bytes, of words with bytes for what they lack, and of other kinds; the tokens are those of texts,
 * or any in any order. */
#include "train/generate/telling.h"

#include "base/mem.h"
#include "base/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tokenizer *family(const char *name)
{
    struct tokenizer *t;
    struct snug_err err;
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/families/%s", getenv("SNUG_SOURCE"), name);
    if (tokenizer_open(&io_posix, path, &t, &err))
        fail_msg("%s", err.text);
    return t;
}

/* The text behind that of the prompt. */
static struct str whole(const struct tokenizer *t, const int32_t *ids, int64_t n_prompt, int64_t n)
{
    struct str prompt = {0}, all = {0}, rest = {0};
    assert_int_equal(tokenizer_decode(t, ids, (size_t)n_prompt, true, &prompt, NULL), SNUG_OK);
    assert_int_equal(tokenizer_decode(t, ids, (size_t)n, true, &all, NULL), SNUG_OK);
    if (all.n > prompt.n)
        str_append_n(&rest, str_text(&all) + prompt.n, all.n - prompt.n);
    str_free(&prompt);
    str_free(&all);
    return rest;
}

/* Tells the tokens one after another; gives the sum of the tokens that were decoded. */
static int64_t tell(const struct tokenizer *t, const int32_t *ids, int64_t n_prompt, int64_t n)
{
    struct telling telling = {0};
    struct str told = {0}, want = whole(t, ids, n_prompt, n);
    int64_t decoded = 0;
    for (int64_t k = n_prompt + 1; k <= n; k++) {
        const char *piece;
        size_t bytes;
        bool waits = k < telling.retry;
        assert_int_equal(telling_next(&telling, t, ids, n_prompt, k, k == n, &piece, &bytes, NULL), SNUG_OK);
        str_append_n(&told, piece, bytes);
        decoded += telling.open || waits ? 0 : k - telling.from;
    }
    if (told.n != want.n || memcmp(str_text(&told), str_text(&want), told.n))
        fail_msg("told \"%s\", the text is \"%s\"", str_text(&told), str_text(&want));
    telling_free(&telling);
    str_free(&told);
    str_free(&want);
    return decoded;
}

static const char *const families[] = {"gpt2",        "llama3",          "smollm2",         "llama2",      "gemma",
                                       "mistral",     "metaspace_first", "metaspace_never", "bert_cased",  "bpe_suffix",
                                       "xlm_roberta", "unigram_bytes",   "word_level",      "added_tokens"};
enum { N_FAMILIES = sizeof families / sizeof *families, TOKENS = 400 };

/* Tokens in any order: broken characters, special tokens, blanks before and behind. Tokenizers with bytes take one often. */
static void any_tokens_become_their_text(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < N_FAMILIES; f++) {
        struct tokenizer *t = family(families[f]);
        uint32_t V = (uint32_t)tokenizer_vocab_size(t);
        for (uint32_t row = 0; row < 40; row++) {
            int32_t ids[TOKENS];
            for (uint32_t i = 0; i < TOKENS; i++) {
                struct philox r = philox4x32((struct philox){{i, row, f, 0}}, 1, 2);
                char byte[8];
                snprintf(byte, sizeof byte, "<0x%02X>", r.w[1] % 4 ? r.w[2] % 64 + 128 : r.w[2] % 256);
                int32_t id = row % 2 ? tokenizer_id(t, byte) : -1;
                ids[i] = id >= 0 && r.w[3] % 3 ? id : (int32_t)(r.w[0] % V);
            }
            tell(t, ids, row % 7, row < 20 ? 20 : TOKENS);
        }
        tokenizer_close(t);
    }
}

static const char text[] = "Where is my card? \xC3\xA4\xC3\xB6\xC3\xBC \xE4\xBD\xA0\xE5\xA5\xBD, "
                           "\xF0\x9F\x98\x80\xF0\x9F\x91\x8D it's 3.14  !\n"
                           " \xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA\xE0\xB8\x94\xE0\xB8\xB5 ";

/* A long text takes a few tokens at a time, and one that never is a whole character no square of its length. */
static void a_long_text_is_not_decoded_again_and_again(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < N_FAMILIES; f++) {
        struct tokenizer *t = family(families[f]);
        struct token_buf buf = {0};
        struct str long_text = {0};
        for (int i = 0; i < 60; i++)
            str_append(&long_text, text);
        assert_int_equal(tokenizer_encode(t, str_text(&long_text), long_text.n, NULL, 0, 0, &buf, NULL), SNUG_OK);
        int64_t n = (int64_t)buf.n, decoded = tell(t, buf.ids, 3, n);
        if (decoded > 40 * n)
            fail_msg("%s: %lld tokens were decoded for %lld", families[f], (long long)decoded, (long long)n);
        int32_t broken = tokenizer_id(t, "\xC4\xA2"); /* how GPT-2 writes the byte 0x80 */
        for (int64_t i = 3; broken >= 0 && i < n; i++)
            buf.ids[i] = broken;
        assert_true(tell(t, buf.ids, 3, n) <= 40 * n);
        token_buf_free(&buf);
        str_free(&long_text);
        tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_tokens_become_their_text),
                                       cmocka_unit_test(a_long_text_is_not_decoded_again_and_again)};
    return cmocka_run_group_tests_name("telling", tests, NULL, NULL);
}
