/* The names are those of llama.cpp (src/llama-vocab.cpp), the splits those of the tokenizer.json files that its converter gives
 * these names to. "default" is what llama.cpp does with files of unknown tokenizers: four patterns, one after the other. */
#include "format/gguf/pre.h"

#include <stdio.h>
#include <string.h>

#define SEQUENCE(list) "{\"type\":\"Sequence\",\"pretokenizers\":[" list "]}"
#define SPLIT(regex)                                                                                                   \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define BYTE_LEVEL(regex)                                                                                              \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":" regex "}"
#define DIGITS "{\"type\":\"Digits\",\"individual_digits\":true}"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)"
/* Llama 3 and Qwen2 differ in how many digits are a word. */
#define WORDS(digits)                                                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits                                     \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

#define LLAMA3 SEQUENCE(SPLIT(WORDS("\\\\p{N}{1,3}")) "," BYTE_LEVEL("false"))
#define QWEN2 SEQUENCE(SPLIT(WORDS("\\\\p{N}")) "," BYTE_LEVEL("false"))
#define SMOLLM SEQUENCE(DIGITS "," BYTE_LEVEL("true"))
#define DEFAULT                                                                                                        \
    SEQUENCE(SPLIT("[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+") "," SPLIT(GPT2) "," SPLIT("\\\\p{N}+") "," SPLIT(            \
        "[0-9][0-9][0-9]") "," BYTE_LEVEL("false"))

/* The first row of those with the same splits has the name that is written. */
static const struct gguf_pre rows[] = {
    {"default", DEFAULT, false, false, false},       {"gpt-2", BYTE_LEVEL("true"), false, false, false},
    {"smollm", SMOLLM, false, false, false},         {"starcoder", SMOLLM, false, false, false},
    {"llama-bpe", LLAMA3, true, false, true},        {"llama3", LLAMA3, true, false, true},
    {"llama-v3", LLAMA3, true, false, true},         {"qwen2", QWEN2, false, true, false},
    {"deepseek-r1-qwen", QWEN2, false, true, false}, {"dbrx", LLAMA3, false, false, false},
    {"refact", SMOLLM, false, false, false},         {"phi-2", BYTE_LEVEL("true"), false, false, false},
};
enum { ROWS = sizeof rows / sizeof *rows };

const struct gguf_pre *gguf_pre(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

const char *gguf_pre_list(char text[256])
{
    int n = 0;
    for (int i = 0; i < ROWS; i++)
        n += snprintf(text + n, 256 - (size_t)n, "%s%s", i ? ", " : "", rows[i].name);
    return text;
}

/* Whether two pre-tokenizers split alike: what concerns offsets alone does not count, and what one does not say. */
static bool same_splits(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value, *item;
    size_t i;
    if (!json_is_object(a) || !json_is_object(b))
        return json_is_array(a) || json_is_array(b) ? false : json_equal(a, b);
    json_object_foreach((json_t *)a, key, value)
    {
        json_t *other = json_object_get(b, key);
        if (!strcmp(key, "trim_offsets"))
            continue;
        if (!json_is_array(value)) {
            if (!same_splits(value, other))
                return false;
            continue;
        }
        if (json_array_size(value) != json_array_size(other))
            return false;
        json_array_foreach(value, i, item) if (!same_splits(item, json_array_get(other, i))) return false;
    }
    return true;
}

const struct gguf_pre *gguf_pre_of(const json_t *pre_tokenizer)
{
    for (int i = 0; i < ROWS; i++) {
        json_t *known = json_loads(rows[i].pre_tokenizer, 0, NULL);
        bool same = known && same_splits(known, pre_tokenizer);
        json_decref(known);
        if (same)
            return &rows[i];
    }
    return NULL;
}
