/* A letter, and the bytes of a model of SentencePiece: the letter says of which class ('a': the first model_type). What is accepted gives
 * ids of its vocabulary, and text for each of them. */
#include "../memory_io.h"
#include "fuzz.h"
#include "tokenizer/tokenizer.h"

static const char *const configs[] = {
    "{\"model_type\":\"llama\"}",       "{\"model_type\":\"gemma2\"}", "{\"model_type\":\"t5\"}",
    "{\"model_type\":\"xlm-roberta\"}", "{\"model_type\":\"albert\"}", "{\"model_type\":\"deberta-v2\"}",
};
enum { CONFIGS = sizeof configs / sizeof *configs };

static void encode(const struct tokenizer *t)
{
    static const char text[] = "a  b\tc <s> \xEF\xAC\x81 \xE2\x96\x81 e\xCC\x81 \xF0\x9F\x98\x80<extra_id_0>[MASK]";
    struct token_buf b = {0};
    struct str decoded = {0};
    struct snug_err err = {0};
    int code = tokenizer_encode(t, text, sizeof text - 1, NULL, 0, 0, &b, &err);
    MUST(code == SNUG_OK || code == SNUG_ERR_INPUT);
    for (size_t i = 0; i < b.n && !code; i++)
        MUST(b.ids[i] >= 0 && b.ids[i] < tokenizer_vocab_size(t));
    if (!code)
        MUST(!tokenizer_decode(t, b.ids, b.n, false, &decoded, &err));
    str_free(&decoded);
    token_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const char *config = configs[(unsigned)(data[0] - 'a') % CONFIGS];
    const struct memory_file files[] = {{"m/spm.model", data + 1, size - 1}, {"m/config.json", config, strlen(config)}};
    struct memory_io m;
    struct tokenizer *t;
    struct snug_err err = {0};
    memory_io_init(&m, files, 2);
    int code = tokenizer_open(&m.io, "m", &t, &err);
    MUST(m.open_files == 0);
    if (code) {
        MUST(code == SNUG_ERR_INPUT && strlen(err.text) > 3);
        return 0;
    }
    encode(t);
    tokenizer_close(t);
    return 0;
}
