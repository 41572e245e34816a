/* Any bytes as adapter_config.json: what is accepted is matched with the modules of a small model, or names what is not there. */
#include "adapter/match.h"
#include "fuzz.h"
#include "json_values.h"

static const char model[] =
    "{\"model_type\":\"gpt_neox\",\"architectures\":[\"GPTNeoXForCausalLM\"],\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":8,\"vocab_size\":9,\"rotary_pct\":1}";

static void must_be_an_error(int code, const struct snug_err *err)
{
    MUST(code == SNUG_ERR_INPUT || code == SNUG_ERR_USAGE);
    MUST(err->code == code && strlen(err->text) > 3 && strlen(err->text) < sizeof err->text);
}

static void match(struct adapter_config *c)
{
    json_t *o;
    struct model_config m;
    struct graph g;
    struct built built;
    struct adapter_set set = {0};
    struct snug_err err = {0};
    MUST(!json_parse(model, sizeof model - 1, "config.json", &o, &err));
    MUST(!model_config_read(o, "config.json", &m, &err) && !graph_init(&g, &err));
    MUST(!model_build(&m, (struct build_settings){.mode = BUILD_TRAIN}, &g, &built, &err));
    int code = adapter_match(c, &m, &g, &set, &err);
    if (code)
        must_be_an_error(code, &err);
    for (size_t i = 0; !code && i < set.adapters.n; i++) {
        MUST(i == 0 || strcmp(set.adapters.list[i - 1].module, set.adapters.list[i].module) < 0);
        MUST(set.adapters.list[i].r > 0);
    }
    if (!code && set.adapters.list[0].r <= 1 << 16) {
        pass_adapt(&g, &(struct pass_settings){.program = PROGRAM_STEP, .adapters = &set.adapters});
        MUST(!graph_ok(&g, &err) && !graph_check(&g, "adapt", &err));
    }
    adapter_set_free(&set);
    graph_free(&g);
    json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *o;
    struct adapter_config c;
    struct snug_err err = {0};
    if (json_parse((const char *)data, size, "adapter_config.json", &o, &err))
        return 0;
    if (json_is_object(o)) {
        int code = adapter_config_read(o, "adapter_config.json", &c, &err);
        if (code)
            must_be_an_error(code, &err);
        else
            match(&c);
    }
    json_decref(o);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return seed % 8 ? replace_json_value(data, size, max_size, seed / 8) : LLVMFuzzerMutate(data, size, max_size);
}
