#include "model/refused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct refused refused_everywhere[] = {
    {.key = "quantization_config",
     .kind = REFUSED_PRESENT,
     .advice = "take the model that this one was made of; --load-in-4bit keeps it in 4 bits below an adapter",
     .but = "the methods of [adapters.md](adapters.md#a-base-that-others-have-quantised)"},
    {.key = "pruned_heads", .kind = REFUSED_PRESENT},
    {.key = "torch_dtype", .kind = REFUSED_OTHER, .words = {"float32", "float16", "bfloat16", "float64"}},
    {.key = "dtype", .kind = REFUSED_OTHER, .words = {"float32", "float16", "bfloat16", "float64"}},
    {0},
};

static int check_present(const char *key, const char *advice, json_t *o, const char *path, struct snug_err *err)
{
    json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v) || (json_is_object(v) && !json_object_size(v)))
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: %s is present and not supported; %s", path, key,
                   advice ? advice : "use a model without it");
}

int refused_present(json_t *o, const char *path, const char *key, struct snug_err *err)
{
    return check_present(key, NULL, o, path, err);
}

static int check_switch(const char *key, bool refused, json_t *o, const char *path, struct snug_err *err)
{
    bool on = !refused;
    TRY(json_get_bool(o, path, key, false, &on, err));
    if (on != refused)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s and not supported; use a model %s", path, key,
                   on ? "true" : "false", on ? "without it" : "that has it true");
}

static int check_above_0(const char *key, json_t *o, const char *path, struct snug_err *err)
{
    double number = 0;
    TRY(json_get_real(o, path, key, false, 0, 1e9, &number, err));
    if (number == 0)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: %s is %.6g and not supported; write 0 to train without it", path, key,
                   number);
}

int64_t refused_number(const struct refused *row, const struct model_config *c)
{
    return row->like ? row->like(c) : strtoll(row->words[0], NULL, 10);
}

static int check_number(const struct refused *row, json_t *o, const char *path, const struct model_config *c,
                        struct snug_err *err)
{
    int64_t like = refused_number(row, c), number = like;
    TRY(json_get_int(o, path, row->key, false, 0, (int64_t)1 << 40, &number, err));
    if (number == like)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: %s is %lld, not %s; use a model that has %lld there", path, row->key,
                   (long long)number, row->words[0], (long long)like);
}

static int check_word(const struct refused *row, json_t *o, const char *path, struct snug_err *err)
{
    const char *word = NULL;
    char list[200] = "";
    size_t used = 0;
    TRY(json_get_string(o, path, row->key, false, &word, err));
    for (int i = 0; word && i < REFUSED_WORDS && row->words[i]; i++) {
        if (!strcmp(word, row->words[i]))
            return SNUG_OK;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", row->words[i]);
    }
    if (!word)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: %s is \"%s\"; supported %s %s", path, row->key, word,
                   row->words[1] ? "are" : "is", list);
}

static int check(const struct refused *row, json_t *o, const char *path, const struct model_config *c,
                 struct snug_err *err)
{
    switch (row->kind) {
    case REFUSED_TRUE:
    case REFUSED_FALSE:
        return check_switch(row->key, row->kind == REFUSED_TRUE, o, path, err);
    case REFUSED_PRESENT:
        return check_present(row->key, row->advice, o, path, err);
    case REFUSED_ABOVE_0:
        return check_above_0(row->key, o, path, err);
    case REFUSED_UNLIKE:
        return check_number(row, o, path, c, err);
    case REFUSED_OTHER:
        return check_word(row, o, path, err);
    }
    return SNUG_OK;
}

int refused_check(const struct refused *rows, json_t *o, const char *path, const struct model_config *c,
                  struct snug_err *err)
{
    for (; rows && rows->key; rows++)
        TRY(check(rows, o, path, c, err));
    return SNUG_OK;
}
