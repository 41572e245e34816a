/* Any bytes as config.json: a model that is accepted can be built, for each of
 * its tasks, or says what it is too large for. */
#include "format/json.h"
#include "json_values.h"
#include "model/model.h"

#include <math.h>

enum { MOST_LAYERS = 8 }; /* more are built in the same way, and take time */

static void must_be_an_error(int code, const struct snug_err *err)
{
    MUST(code == SNUG_ERR_INPUT || code == SNUG_ERR_USAGE);
    MUST(err->code == code && strlen(err->text) > 3 && strlen(err->text) < sizeof err->text);
}

static void must_make_sense(const struct model_config *c)
{
    MUST(c->hidden_size > 0 && c->layers >= 0 && c->heads > 0);
    MUST(c->vocab_size > 0 && c->type_vocab_size >= 0 && c->first_position >= 0 && c->num_labels >= 0);
    MUST(c->longest > 0 && c->pad_id >= -1 && c->pad_id < c->vocab_size && isfinite(c->init_std));
    const double dropouts[] = {c->dropout_embedding, c->dropout_hidden, c->dropout_attention};
    for (int i = 0; i < 3; i++)
        MUST(dropouts[i] >= 0 && dropouts[i] < 1);
}

static void build(const struct model_config *c, enum build_mode mode)
{
    struct graph g;
    struct built built;
    struct snug_err err = {0};
    MUST(!graph_init(&g, &err));
    int code = model_build(c, (struct build_settings){.mode = mode, .dropout = true}, &g, &built, &err);
    if (code)
        must_be_an_error(code, &err);
    graph_free(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *o;
    struct model_config c;
    struct snug_err err = {0};
    if (json_parse((const char *)data, size, "config.json", &o, &err))
        return 0;
    int code = json_is_object(o) ? model_config_read(o, "config.json", &c, &err) : SNUG_ERR_INPUT;
    if (code && json_is_object(o))
        must_be_an_error(code, &err);
    if (!code)
        must_make_sense(&c);
    for (int t = MODEL_AUTO + 1; !code && t < MODEL_COUNT && c.layers <= MOST_LAYERS; t++) {
        struct model_config of_task = c;
        int refused = model_set_task(&of_task, (enum model_task)t, "config.json", &err);
        if (refused) {
            must_be_an_error(refused, &err);
            continue;
        }
        build(&of_task, BUILD_TRAIN);
        build(&of_task, BUILD_EVALUATE);
    }
    json_decref(o);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return seed % 8 ? replace_json_value(data, size, max_size, seed / 8) : LLVMFuzzerMutate(data, size, max_size);
}
