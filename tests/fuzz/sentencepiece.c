/* A letter, and the bytes of a model of SentencePiece: the letter says of which class ('a': the first row). What is accepted gives
 * ids of its vocabulary, and text for each of them. */
#include "../memory_io.h"
#include "fuzz.h"
#include "tokenizer/tokenizer.h"

static const struct {
    const char *file, *config, *vocab;
} classes[] = {
    {"m/spm.model", "{\"model_type\":\"llama\"}", NULL},
    {"m/spm.model", "{\"model_type\":\"gemma2\"}", NULL},
    {"m/spm.model", "{\"model_type\":\"t5\"}", NULL},
    {"m/spm.model", "{\"model_type\":\"xlm-roberta\"}", NULL},
    {"m/spm.model", "{\"model_type\":\"albert\"}", NULL},
    {"m/spm.model", "{\"model_type\":\"deberta-v2\"}", NULL},
    {"m/spm.model", "{\"model_type\":\"camembert\"}", NULL},
    {"m/spm.model", "{\"model_type\":\"mbart\"}", NULL},
    {"m/spm.model", "{\"model_type\":\"pegasus\"}", NULL},
    {"m/source.spm", "{}", "{\"</s>\":0,\"<unk>\":1,\"<pad>\":2,\"\u2581a\":3,\"a\":4}"},
    {"m/sentencepiece.bpe.model", "{}", "{\"</s>\":0,\"<unk>\":1,\"<pad>\":2,\"<s>\":3,\"\u2581a\":4}"},
};
enum { CLASSES = sizeof classes / sizeof *classes };

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
    unsigned which = (unsigned)(data[0] - 'a') % CLASSES;
    const char *config = classes[which].config, *vocab = classes[which].vocab ? classes[which].vocab : "";
    const struct memory_file files[] = {{classes[which].file, data + 1, size - 1},
                                        {"m/config.json", config, strlen(config)},
                                        {"m/vocab.json", vocab, strlen(vocab)},
                                        {"m/target.spm", data + 1, size - 1}};
    struct memory_io m;
    struct tokenizer *t;
    struct snug_err err = {0};
    memory_io_init(&m, files, *vocab ? 4 : 2);
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
