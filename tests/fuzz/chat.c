/* A template, a NUL, and messages as JSON: whatever both are, rendering ends, with a text or with a message. */
#include "chat/template.h"
#include "format/json.h"
#include "fuzz.h"

#include <string.h>

static void check_marks(const struct chat_rendering *out)
{
    size_t last = 0;
    for (size_t i = 0; i < out->n_marks; i++) {
        MUST(out->marks[i].from <= out->marks[i].to && out->marks[i].to <= out->text.n);
        MUST(out->marks[i].to >= last);
        last = out->marks[i].to;
    }
    for (size_t i = 0, n; i < out->text.n; i += n)
        MUST((n = (size_t)utf8_sequence(out->text.s + i, out->text.n - i)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct chat_variable tokens[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t bytes = nul ? (size_t)(nul - data) : size;
    struct chat_template *t;
    struct snug_err err = {0};
    json_t *messages = NULL;
    if (chat_template_open("t", (const char *)data, bytes, &t, &err)) {
        MUST(!t && strlen(err.text) > 3);
        return 0;
    }
    if (nul)
        json_parse((const char *)nul + 1, size - bytes - 1, "f", &messages, &err);
    if (!messages)
        messages =
            json_loads("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]", 0, NULL);
    struct chat_rendering out = {0};
    struct chat_input in = {.messages = messages, .add_generation_prompt = size % 2, .tokens = tokens, .n_tokens = 2};
    int code = chat_template_render(t, &in, &out, &err);
    MUST(code == SNUG_OK || code == SNUG_ERR_INPUT || code == SNUG_ERR_ENV);
    if (!code)
        check_marks(&out);
    chat_rendering_free(&out);
    chat_template_close(t);
    json_decref(messages);
    return 0;
}
