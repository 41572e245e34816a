/* The output folder becomes a Hugging Face folder. */
#include "train/train.h"

#include "output/export.h"
#include "output/languages.h"
#include "output/record.h"
#include "train/card.h"
#include "train/session/class_names.h"
#include "train/session/processes/distant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the result's weights: what they are trained in. */
static enum dtype stored_type(const struct session *s)
{
    return s->compile.precision.pure ? DT_BF16 : DT_F32;
}

int train_config_text(const struct session *s, char **text, struct snug_err *err)
{
    json_t *config = json_deep_copy(s->dir.config), *classes = json_array();
    int failed = !config || json_array_append_new(classes, json_string(model_class(&s->model)));
    failed |= json_object_set_new(config, "architectures", classes);
    json_object_del(config, "num_labels"); /* id2label says it */
    failed |= json_object_set_new(config, json_object_get(config, "dtype") ? "dtype" : "torch_dtype",
                                  json_string(stored_type(s) == DT_BF16 ? "bfloat16" : "float32"));
    if (model_task(&s->model)->classes)
        failed |= class_names_to_config(s, config);
    if (model_task(&s->model)->labels == TASK_AUTO)
        failed |= json_object_set_new(config, "problem_type", json_string(model_problem_names[s->model.problem]));
    else if (!model_task(&s->model)->tied)
        json_object_del(config, "problem_type");      /* of another task's labels */
    if (model_task(&s->model)->labels == TASK_SPAN) { /* as are these; transformers takes two then */
        json_object_del(config, "id2label");
        json_object_del(config, "label2id");
    }
    char *dumped = failed ? NULL : json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(config);
    *text = dumped ? mem_strdup(dumped) : NULL;
    free(dumped);
    return *text ? SNUG_OK : err_no_memory(err, 1 << 16);
}

struct export_source {
    struct session *s;
    struct run_value *values;
    size_t n;
};

/* What the result's file calls a weight: of an adapter as PEFT wraps its model. */
static void file_name(const struct session *s, const char *weight, char name[MODEL_NAME_MAX])
{
    if (s->adapter.wanted)
        snprintf(name, MODEL_NAME_MAX, ADAPTER_PREFIX "%s", weight);
    else
        model_file_name(&s->model, weight, name);
}

/* The tensors of the result: all weights with what stands beside them, or what an adapter trains. Names are in `names`. */
static int list_tensors(const struct session *s, struct export_source *e, struct arena *names,
                        struct st_tensor *tensors, size_t *n, struct snug_err *err)
{
    char name[MODEL_NAME_MAX];
    *n = 0;
    for (size_t i = 0; i < e->n; i++) {
        const struct run_value *v = &e->values[i];
        bool left_out = init_is_whole(&v->init) && !weights_find(&s->dir, &s->model, v->name);
        if (left_out || (s->adapter.wanted && v->frozen))
            continue;
        file_name(s, v->name, name);
        tensors[*n] = (struct st_tensor){.name = arena_strdup(names, name), .dtype = stored_type(s), .ndim = v->ndim};
        if (!tensors[*n].name)
            return err_no_memory(err, strlen(name));
        memcpy(tensors[(*n)++].shape, v->shape, sizeof v->shape);
    }
    for (size_t i = 0; i < s->dir.n_tensors && !s->adapter.wanted; i++) {
        const struct st_tensor *t = s->dir.tensors[i].tensor;
        if (!model_carries(&s->model, t->name))
            continue;
        tensors[*n] = (struct st_tensor){.name = t->name, .dtype = stored_type(s), .ndim = t->ndim};
        memcpy(tensors[(*n)++].shape, t->shape, sizeof t->shape);
    }
    return SNUG_OK;
}

static int read_weight(void *ctx, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                       struct snug_err *err)
{
    struct export_source *e = ctx;
    char name[MODEL_NAME_MAX];
    int64_t first = offset / dtype_bytes(t->dtype, 1), n = (int64_t)bytes / dtype_bytes(t->dtype, 1);
    for (size_t i = 0; i < e->n; i++) {
        file_name(e->s, e->values[i].name, name);
        if (strcmp(name, t->name))
            continue;
        struct run_value part = run_part_of(&e->values[i], first, n);
        return distant_read(e->s, &e->s->run, &part, to, t->dtype, err);
    }
    return model_dir_read_part(&e->s->dir, model_dir_find(&e->s->dir, t->name), t->dtype, first, n, to, err);
}

int train_export(struct session *s, const struct io *io, const char *dir, int64_t step, struct snug_err *err)
{
    struct export_source source = {.s = s};
    struct str record = {0}, card = {0};
    struct arena names = {0};
    char *config = NULL, *adapter = NULL, *languages[LANGUAGES_FILES] = {NULL};
    size_t n = 0;
    TRY(run_list(&s->run, 1u << ROLE_WEIGHT, &source.values, &source.n, err));
    struct st_tensor *tensors = mem_alloc((source.n + s->dir.n_tensors) * sizeof *tensors);
    int code = tensors ? train_config_text(s, &config, err) : err_no_memory(err, source.n * sizeof *tensors);
    if (!code)
        code = list_tensors(s, &source, &names, tensors, &n, err);
    if (!code && s->adapter.wanted)
        code = session_adapter_text(s, &adapter, err);
    if (!code && s->tokenizer)
        code = languages_texts(io, s->dir.path, s->tokenizer, s->o->source_lang, s->o->target_lang, languages, err);
    if (!code && s->o->command == CMD_TRAIN)
        code = record_text(s->o, &record, err);
    if (!code && step >= 0 && card_is_free(io, dir))
        code = card_text(s, io, dir, step, &card, err);
    struct export_model m = {.weights_name = s->adapter.wanted ? "adapter_model.safetensors" : NULL,
                             .replaces = step >= 0 && s->opened_output && s->output_use == CKPT_OVERWRITE,
                             .tensors = tensors,
                             .n_tensors = n,
                             .read = read_weight,
                             .ctx = &source,
                             .texts = {{"config.json", config},
                                       {"adapter_config.json", adapter},
                                       {RECORD_NAME, record.s},
                                       {CARD_NAME, card.s},
                                       {language_files[0], languages[0]},
                                       {language_files[1], languages[1]}},
                             .source_dir = s->dir.path,
                             .files = s->dir.carried,
                             .n_files = s->dir.n_carried};
    for (size_t i = 0; i < s->dir.n_made; i++)
        m.texts[EXPORT_OWN + i] = (struct export_text){s->dir.made[i].name, s->dir.made[i].text};
    if (!code)
        code = export_folder(io, dir, &m, err);
    str_free(&record);
    str_free(&card);
    mem_free(config);
    mem_free(adapter);
    for (int i = 0; i < LANGUAGES_FILES; i++)
        mem_free(languages[i]);
    arena_free(&names);
    mem_free(tensors);
    mem_free(source.values);
    return code;
}
