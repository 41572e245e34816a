/* A letter, a file, a NUL, a text: the file is tokenizer.json ('j'), vocab.txt ('v'), or tokenizer_config.json beside a
 * vocab.txt ('c') or a tokenizer.json ('d'). */
#include "tokenizer/tokenizer.h"
#include "../memory_io.h"
#include "fuzz.h"

static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##a\nab\n\xc3\xa9\n";
static const char json[] =
    "{\"added_tokens\":[],\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":"
    "true,"
    "\"strip_accents\":null,\"lowercase\":false},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":"
    "\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":5,"
    "\"vocab\":{"
    "\"[UNK]\":0,\"[PAD]\":1,\"a\":2,\"##a\":3,\"A\":4}}}";

static void check_ids(const struct tokenizer *t, const struct token_buf *b)
{
    for (size_t i = 0; i < b->n; i++)
        MUST(b->ids[i] >= 0 && b->ids[i] < tokenizer_vocab_size(t) && b->type_ids[i] >= 0);
}

/* A Unigram model may have a piece twice, of which one is found. */
static bool is_called(const struct tokenizer *t, int32_t id, const char *token)
{
    return id >= 0 && !strcmp(tokenizer_token(t, id), token);
}

static void encode(const struct tokenizer *t, const char *text, size_t bytes)
{
    struct token_buf whole = {0}, cut = {0};
    struct snug_err err = {0};
    int code = tokenizer_encode(t, text, bytes, NULL, 0, 0, &whole, &err);
    MUST(code == SNUG_OK || code == SNUG_ERR_INPUT);
    if (!code) {
        int room = tokenizer_template_tokens(t, false) + 2;
        check_ids(t, &whole);
        struct str decoded = {0};
        MUST(!tokenizer_decode(t, whole.ids, whole.n, false, &decoded, &err));
        MUST(!tokenizer_decode(t, whole.ids, whole.n, true, &decoded, &err));
        str_free(&decoded);
        MUST(!tokenizer_encode(t, text, bytes, NULL, 0, room, &cut, &err));
        check_ids(t, &cut);
        MUST(cut.n <= whole.n && cut.truncated == (cut.n < whole.n));
        MUST(!tokenizer_encode(t, text, bytes / 2, text, bytes, 0, &cut, NULL) || bytes);
    }
    token_buf_free(&whole);
    token_buf_free(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    if (!nul)
        return 0;
    size_t bytes = (size_t)(nul - data) - 1;
    const void *file = data + 1;
    struct memory_file files[2] = {{"m/tokenizer.json", file, bytes}};
    size_t n_files = 1;
    if (data[0] == 'v')
        files[0].path = "m/vocab.txt";
    if (data[0] == 'c' || data[0] == 'd') {
        files[0].path = "m/tokenizer_config.json";
        files[n_files++] = data[0] == 'c' ? (struct memory_file){"m/vocab.txt", vocab, sizeof vocab - 1}
                                          : (struct memory_file){"m/tokenizer.json", json, sizeof json - 1};
    }
    if (data[0] == 0)
        return 0;
    struct memory_io m;
    struct tokenizer *t;
    struct snug_err err = {0};
    memory_io_init(&m, files, n_files);
    int code = tokenizer_open(&m.io, "m", &t, &err);
    MUST((code == SNUG_OK || code == SNUG_ERR_INPUT) && m.open_files == 0);
    if (code) {
        MUST(!t && strlen(err.text) > 3 && strlen(err.text) < sizeof err.text);
        return 0;
    }
    MUST(tokenizer_vocab_size(t) > 0);
    for (int32_t id = 0; id < tokenizer_vocab_size(t); id++) {
        const char *token = tokenizer_token(t, id);
        MUST(token && (!*token || is_called(t, tokenizer_id(t, token), token)));
    }
    encode(t, (const char *)nul + 1, size - bytes - 2);
    tokenizer_close(t);
    return 0;
}
