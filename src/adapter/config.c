#include "adapter/config.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

enum { RANK_MOST = 1 << 20, ALPHA_MOST = 1000000000 };

/* Members that do not change what an adapter computes, or that are read here. */
static const char *const known[] = {"alpha_pattern",
                                    "auto_mapping",
                                    "base_model_name_or_path",
                                    "bias",
                                    "corda_config",
                                    "ensure_weight_tying",
                                    "eva_config",
                                    "exclude_modules",
                                    "fan_in_fan_out",
                                    "inference_mode",
                                    "init_lora_weights",
                                    "layers_pattern",
                                    "layers_to_transform",
                                    "loftq_config",
                                    "lora_alpha",
                                    "lora_dropout",
                                    "lora_ga_config",
                                    "megatron_core",
                                    "modules_to_save",
                                    "peft_type",
                                    "peft_version",
                                    "qalora_group_size",
                                    "r",
                                    "rank_pattern",
                                    "revision",
                                    "runtime_config",
                                    "target_modules",
                                    "target_parameters",
                                    "task_type",
                                    "use_dora",
                                    "use_rslora"};

static bool is_known(const char *key)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(key, known[i]))
            return true;
    return false;
}

/* null, false, or a list or object with nothing in it. */
static bool asks_for_nothing(json_t *v)
{
    return json_is_null(v) || json_is_false(v) || (json_is_array(v) && !json_array_size(v)) ||
           (json_is_object(v) && !json_object_size(v));
}

static int refuse_others(json_t *doc, const char *path, struct snug_err *err)
{
    const char *key;
    json_t *v;
    char text[64];
    json_object_foreach(doc, key, v)
    {
        if (!is_known(key) && !asks_for_nothing(v))
            return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s and not supported; use a plain LoRA adapter", path, key,
                           json_value_text(v, text));
    }
    return SNUG_OK;
}

/* A member that must be the only word supported, or absent. */
static int check_word(json_t *doc, const char *path, const char *key, const char *word, struct snug_err *err)
{
    const char *have = word;
    TRY(json_get_string(doc, path, key, false, &have, err));
    return !strcmp(have, word)
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT, "%s: %s is \"%s\" and not supported; use an adapter with \"%s\"", path,
                         key, have, word);
}

static bool all_strings(json_t *list)
{
    size_t i;
    json_t *v;
    bool all = json_is_array(list);
    json_array_foreach(list, i, v) all &= json_is_string(v);
    return all;
}

static bool all_numbers(json_t *object, double least, double most)
{
    const char *key;
    json_t *v;
    bool all = json_is_object(object);
    json_object_foreach(object, key, v) all &=
        json_is_number(v) && json_number_value(v) >= least && json_number_value(v) <= most;
    return all;
}

static bool all_whole(json_t *object)
{
    const char *key;
    json_t *v;
    bool all = true;
    json_object_foreach(object, key, v) all &= json_number_value(v) == floor(json_number_value(v));
    return all;
}

static bool are_layers(json_t *v)
{
    size_t i;
    json_t *layer;
    bool all = json_is_integer(v) || json_is_array(v);
    json_array_foreach(v, i, layer) all &= json_is_integer(layer);
    return all;
}

static int wrong(const char *path, const char *key, json_t *v, const char *wanted, struct snug_err *err)
{
    char text[64];
    return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s, it must be %s", path, key, json_value_text(v, text), wanted);
}

/* The member, NULL where it is absent or says nothing. */
static json_t *member(json_t *doc, const char *key)
{
    json_t *v = json_object_get(doc, key);
    return !v || asks_for_nothing(v) ? NULL : v;
}

static int check_members(const struct adapter_config *c, struct snug_err *err)
{
    const char *path = c->path;
    if (c->parameters && !all_strings(c->parameters))
        return wrong(path, "target_parameters", c->parameters, "a list of names", err);
    if (c->targets && !json_is_string(c->targets) && !all_strings(c->targets))
        return wrong(path, "target_modules", c->targets, "a list of names, or one text", err);
    if (c->excluded && !json_is_string(c->excluded) && !all_strings(c->excluded))
        return wrong(path, "exclude_modules", c->excluded, "a list of names, or one text", err);
    if (c->saved && !all_strings(c->saved))
        return wrong(path, "modules_to_save", c->saved, "a list of names", err);
    if (c->ranks && !(all_numbers(c->ranks, 1, RANK_MOST) && all_whole(c->ranks)))
        return wrong(path, "rank_pattern", c->ranks, "an object of whole numbers from 1 to 1048576", err);
    if (c->alphas && !all_numbers(c->alphas, 0, ALPHA_MOST))
        return wrong(path, "alpha_pattern", c->alphas, "an object of numbers from 0 to 1e9", err);
    if (c->layers && !are_layers(c->layers))
        return wrong(path, "layers_to_transform", c->layers, "a number, or a list of numbers", err);
    if (c->layers_names && !json_is_string(c->layers_names) && !all_strings(c->layers_names))
        return wrong(path, "layers_pattern", c->layers_names, "a name, or a list of names", err);
    return SNUG_OK;
}

int adapter_config_read(json_t *doc, const char *path, struct adapter_config *c, struct snug_err *err)
{
    *c = (struct adapter_config){.doc = doc,
                                 .path = path,
                                 .r = 8,
                                 .alpha = 8,
                                 .targets = member(doc, "target_modules"),
                                 .parameters = member(doc, "target_parameters"),
                                 .excluded = member(doc, "exclude_modules"),
                                 .saved = member(doc, "modules_to_save"),
                                 .ranks = member(doc, "rank_pattern"),
                                 .alphas = member(doc, "alpha_pattern"),
                                 .layers = member(doc, "layers_to_transform"),
                                 .layers_names = member(doc, "layers_pattern")};
    TRY(check_word(doc, path, "peft_type", "LORA", err));
    TRY(check_word(doc, path, "bias", "none", err));
    TRY(json_get_int(doc, path, "r", false, 1, RANK_MOST, &c->r, err));
    TRY(json_get_real(doc, path, "lora_alpha", false, 0, ALPHA_MOST, &c->alpha, err));
    TRY(json_get_real(doc, path, "lora_dropout", false, 0, 0.999, &c->dropout, err));
    TRY(json_get_bool(doc, path, "use_rslora", false, &c->rslora, err));
    TRY(json_get_bool(doc, path, "use_dora", false, &c->dora, err));
    TRY(refuse_others(doc, path, err));
    if (!c->targets && !c->parameters)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no target_modules; get the adapter again", path);
    return check_members(c, err);
}

/* ---- making ---- */

static json_t *list_of(const char *names)
{
    json_t *list = json_array();
    for (const char *at = names ? names : ""; *at;) {
        at += strspn(at, ", ");
        size_t n = strcspn(at, ", ");
        if (n)
            json_array_append_new(list, json_stringn(at, n));
        at += n;
    }
    return list;
}

static bool has(json_t *list, const char *name)
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) if (!strcmp(json_string_value(v), name)) return true;
    return false;
}

static json_t *targets_of(const char *names)
{
    static const char of_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-., ";
    bool one = !strcmp(names, "all-linear") || names[strspn(names, of_names)];
    return one ? json_string(names) : list_of(names);
}

int adapter_config_make(const struct adapter_wishes *w, json_t **out, struct snug_err *err)
{
    json_t *saved = list_of(w->saved), *heads = list_of(w->heads), *head;
    size_t i;
    json_array_foreach(heads, i, head) if (!has(saved, json_string_value(head))) json_array_append(saved, head);
    json_decref(heads);
    *out =
        json_pack("{s:s,s:s?,s:s,s:s,s:b,s:b,s:b,s:I,s:f,s:f,s:b,s:b,s:o,s:o?,s:s?,s:o,s:{},s:{}}", "peft_type", "LORA",
                  "task_type", w->task_type, "base_model_name_or_path", w->base, "bias", "none", "fan_in_fan_out", 0,
                  "inference_mode", 1, "init_lora_weights", 1, "r", (json_int_t)w->r, "lora_alpha", w->alpha,
                  "lora_dropout", w->dropout, "use_rslora", w->rslora, "use_dora", w->dora, "target_modules",
                  targets_of(w->targets), "target_parameters", w->parameters ? list_of(w->parameters) : NULL,
                  "exclude_modules", w->excluded, "modules_to_save", saved, "rank_pattern", "alpha_pattern");
    return *out ? SNUG_OK : err_no_memory(err, 1 << 12);
}
