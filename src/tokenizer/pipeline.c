/* The tables of steps, and reading a section of tokenizer.json into a list of them. */
#include "base/str.h"
#include "tokenizer/steps/step.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define STEP(x, T) {.name = #T, .read = normalizer_##T##_read, .normalize = normalizer_##T##_run},
static const struct step_type normalizers[] = {NORMALIZERS(STEP, )};
#undef STEP
#define STEP(x, T) {.name = #T, .read = pre_tokenizer_##T##_read, .split = pre_tokenizer_##T##_run},
static const struct step_type pre_tokenizers[] = {PRE_TOKENIZERS(STEP, )};
#undef STEP
#define STEP(x, T) {.name = #T, .read = model_##T##_read, .encode = model_##T##_run, .hash = model_##T##_hash},
static const struct step_type models[] = {MODELS(STEP, )};
#undef STEP
#define STEP(x, T) {.name = #T, .read = post_processor_##T##_read},
static const struct step_type post_processors[] = {POST_PROCESSORS(STEP, )};
#undef STEP
#define STEP(x, T) {.name = #T, .read = decoder_##T##_read, .decode = decoder_##T##_run},
static const struct step_type decoders[] = {DECODERS(STEP, )};
#undef STEP

static const struct {
    const char *section, *list; /* keys of the file, and of a Sequence's steps */
    const struct step_type *types;
    size_t n;
} kinds[STEP_KINDS] = {
    [STEP_NORMALIZER] = {"normalizer", "normalizers", normalizers, COUNT(normalizers)},
    [STEP_PRE_TOKENIZER] = {"pre_tokenizer", "pretokenizers", pre_tokenizers, COUNT(pre_tokenizers)},
    [STEP_MODEL] = {"model", NULL, models, COUNT(models)},
    [STEP_POST_PROCESSOR] = {"post_processor", "processors", post_processors, COUNT(post_processors)},
    [STEP_DECODER] = {"decoder", "decoders", decoders, COUNT(decoders)},
};

static int unknown_type(struct tokenizer *t, enum step_kind kind, json_t *type, struct snug_err *err)
{
    struct str names = {0};
    char what[32];
    for (size_t i = 0; i < kinds[kind].n; i++)
        str_printf(&names, "%s%s", i ? ", " : "", kinds[kind].types[i].name);
    str_append(&names, kinds[kind].list ? ", Sequence, null" : "");
    snprintf(what, sizeof what, "%s.type", kinds[kind].section);
    int code = str_check(&names, err);
    if (!code)
        code = step_not_supported(t, what, type, str_text(&names), err);
    str_free(&names);
    return code;
}

int tokenizer_push_step(struct tokenizer *t, enum step_kind kind, struct step step, struct snug_err *err)
{
    struct steps *s = &t->steps[kind];
    if (!MEM_GROW(s->list, s->cap, s->n + 1))
        return err_no_memory(err, (s->n + 1) * sizeof step);
    s->list[s->n++] = step;
    return 0;
}

int tokenizer_add_step(struct tokenizer *t, enum step_kind kind, const char *name, json_t *o, struct snug_err *err)
{
    struct step step = {NULL, NULL};
    for (size_t i = 0; name && i < kinds[kind].n; i++)
        if (!strcmp(kinds[kind].types[i].name, name))
            step.type = &kinds[kind].types[i];
    if (!step.type)
        return unknown_type(t, kind, json_object_get(o, "type"), err);
    TRY(step.type->read(t, o, &step.state, err));
    return tokenizer_push_step(t, kind, step, err);
}

int tokenizer_read_steps(struct tokenizer *t, enum step_kind kind, json_t *section, struct snug_err *err)
{
    if (!section)
        return 0;
    const char *what = kinds[kind].section, *list_key = kinds[kind].list, *name = NULL;
    json_t *type = json_object_get(section, "type");
    if (json_is_string(type))
        name = json_string_value(type);
    if (!name || !list_key || strcmp(name, "Sequence"))
        return tokenizer_add_step(t, kind, name, section, err);
    TRY(ONLY_KEYS(t, section, what, err, list_key));
    json_t *list = json_object_get(section, list_key), *o;
    if (!json_is_array(list))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s.%s is not an array; correct the file", t->path, what, list_key);
    size_t i;
    json_array_foreach(list, i, o)
    {
        if (!json_is_object(o))
            return err_set(err, SNUG_ERR_INPUT, "%s: %s.%s[%zu] is not an object; correct the file", t->path, what,
                           list_key, i);
        TRY(tokenizer_read_steps(t, kind, o, err));
    }
    return 0;
}

bool tokenizer_only_step(const struct tokenizer *t, enum step_kind kind, const char *name)
{
    return t->steps[kind].n == 1 && !strcmp(t->steps[kind].list[0].type->name, name);
}
