/* What config.json files of all architectures have in common. */
#include "model/model.h"
#include "model/refused.h"

#include <stdio.h>
#include <string.h>

static int unsupported_type(const char *path, const char *type, struct snug_err *err)
{
    int n = 0;
    while (model_archs[n])
        n++;
    if (!type)
        return err_set(err, SNUG_ERR_INPUT, "%s: model_type is missing; write which of the %d of docs/models.md it is",
                       path, n);
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: model_type is \"%s\", which is none of the %d that snug trains; docs/models.md lists them",
                   path, type, n);
}

/* The task that the class name of a checkpoint stands for; AUTO for a bare base model or another head. */
static int read_architectures(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    json_t *list = json_object_get(o, "architectures");
    if (!list || json_is_null(list) || (json_is_array(list) && json_array_size(list) == 0))
        return SNUG_OK;
    const char *name = json_string_value(json_array_get(list, 0));
    char text[64];
    if (!name)
        return err_set(err, SNUG_ERR_INPUT, "%s: architectures is %s; write a list of class names", path,
                       json_value_text(list, text));
    if (strncmp(name, c->arch->class_prefix, strlen(c->arch->class_prefix)))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: architectures says \"%s\" but model_type is \"%s\"; one of them must be corrected", path,
                       name, c->arch->model_type);
    for (int t = 0; t < MODEL_COUNT; t++)
        if (c->arch->heads[t].class_name && !strcmp(c->arch->heads[t].class_name, name))
            c->task = (enum model_task)t;
    return SNUG_OK;
}

/* num_labels from id2label (transformers keeps no num_labels in the file), or the number itself; 2 where there is
 * neither. */
static int read_labels(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    json_t *names = json_object_get(o, "id2label"), *ids = json_object_get(o, "label2id");
    int64_t stated = -1;
    char text[64];
    TRY(json_get_int(o, path, "num_labels", false, 1, 1 << 20, &stated, err));
    c->num_labels = stated > 0 ? stated : 2;
    if (!names || json_is_null(names))
        return SNUG_OK;
    if (!json_is_object(names) || !json_object_size(names))
        return err_set(err, SNUG_ERR_INPUT, "%s: id2label is %s; write {\"0\": \"a name\", ...}", path,
                       json_is_object(names) ? "empty" : json_value_text(names, text));
    int64_t n = (int64_t)json_object_size(names);
    if (stated > 0 && stated != n)
        return err_set(err, SNUG_ERR_INPUT, "%s: num_labels is %lld but id2label has %lld entries; make them agree",
                       path, (long long)stated, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)i);
        json_t *given = json_object_get(names, key);
        const char *name = json_string_value(given);
        if (given && !name)
            return err_set(err, SNUG_ERR_INPUT, "%s: id2label has %s for \"%s\"; write a name, in quotes", path,
                           json_value_text(given, text), key);
        if (!name)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: id2label has %lld entries but no name for \"%s\"; keys must be 0 to %lld", path,
                           (long long)n, key, (long long)n - 1);
        json_t *id = json_object_get(ids, name);
        if (json_is_object(ids) && (!json_is_integer(id) || json_integer_value(id) != i))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: id2label has \"%s\" for \"%s\" but label2id has %s for it; make them agree", path, name,
                           key, id ? json_value_text(id, text) : "nothing");
    }
    if (json_is_object(ids) && (int64_t)json_object_size(ids) != n)
        return err_set(err, SNUG_ERR_INPUT, "%s: id2label has %lld entries but label2id has %zu; make them agree", path,
                       (long long)n, json_object_size(ids));
    c->num_labels = n;
    return SNUG_OK;
}

static int read_problem(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    const char *name = NULL;
    TRY(json_get_string(o, path, "problem_type", false, &name, err));
    if (!name)
        return SNUG_OK;
    for (int i = 1; i < PROBLEM_COUNT; i++)
        if (!strcmp(model_problem_names[i], name)) {
            c->problem = (enum problem)i;
            return SNUG_OK;
        }
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: problem_type is \"%s\"; supported are regression, single_label_classification, "
                   "multi_label_classification",
                   path, name);
}

/* `auto_map` names a model's own code. It is that of transformers where the classes are its: Phi-3's folders have a copy of it. */
static int refuse_own_code(json_t *o, const char *path, const struct model_config *c, struct snug_err *err)
{
    json_t *map = json_object_get(o, "auto_map"), *value;
    const char *key;
    json_object_foreach(map, key, value)
    {
        const char *class = strrchr(json_is_string(value) ? json_string_value(value) : "", '.');
        if (!class || strncmp(class + 1, c->arch->class_prefix, strlen(c->arch->class_prefix)))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: auto_map names code of the model's own for %s, which is not supported; use a model "
                           "without it",
                           path, key);
    }
    return json_is_object(map) ? SNUG_OK : refused_present(o, path, "auto_map", err);
}

json_t *model_settings(const struct model_arch *a, json_t *o)
{
    return a->part ? json_object_get(o, a->part) : o;
}

/* Those of the architecture. */
static int read_own(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    json_t *own = model_settings(c->arch, o);
    char text[64];
    if (!json_is_object(own))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; write the settings of the text model there, {...}", path,
                       c->arch->part, own ? json_value_text(own, text) : "missing");
    TRY(c->arch->config(own, path, c, err));
    if (own != o) {
        TRY(refused_check(refused_everywhere, own, path, c, err));
        TRY(config_tied(o, path, c, err));
    }
    return refused_check(c->arch->refused, own, path, c, err);
}

int model_config_read(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    *c = (struct model_config){.pad_id = -1, .dropout_classifier = -1};
    const char *type = NULL;
    TRY(json_get_string(o, path, "model_type", false, &type, err));
    for (int i = 0; type && model_archs[i]; i++)
        if (!strcmp(model_archs[i]->model_type, type))
            c->arch = model_archs[i];
    if (!c->arch)
        return unsupported_type(path, type, err);
    TRY(read_architectures(o, path, c, err));
    TRY(refused_check(refused_everywhere, o, path, c, err));
    TRY(refuse_own_code(o, path, c, err));
    TRY(read_labels(o, path, c, err));
    TRY(read_problem(o, path, c, err));
    TRY(read_own(o, path, c, err));
    c->file_layers = c->file_layers ? c->file_layers : c->layers;
    if (!c->rotary[ROTARY_ALL].pairs)
        TRY(refused_present(model_settings(c->arch, o), path, "rope_scaling", err));
    if (c->pad_id >= c->vocab_size)
        return err_set(err, SNUG_ERR_INPUT, "%s: pad_token_id %lld is not below vocab_size %lld; correct one", path,
                       (long long)c->pad_id, (long long)c->vocab_size);
    return SNUG_OK;
}

/* ---- for the architectures ---- */

int config_act(json_t *o, const char *path, const char *key, enum act fallback, enum act *out, struct snug_err *err)
{
    static const struct {
        const char *name;
        enum act act;
    } rows[] = {{"gelu", ACT_gelu},           {"gelu_new", ACT_gelu_tanh}, {"gelu_pytorch_tanh", ACT_gelu_tanh},
                {"gelu_fast", ACT_gelu_tanh}, {"relu", ACT_relu},          {"relu2", ACT_relu2},
                {"tanh", ACT_tanh},           {"silu", ACT_silu},          {"swish", ACT_silu}};
    const char *name = NULL;
    TRY(json_get_string(o, path, key, false, &name, err));
    *out = fallback;
    if (!name)
        return SNUG_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name)) {
            *out = rows[i].act;
            return SNUG_OK;
        }
    return err_set(
        err, SNUG_ERR_INPUT,
        "%s: %s is \"%s\"; supported are gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu, relu2, tanh, silu, swish",
        path, key, name);
}

int config_tied(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    bool tied = !c->untied;
    TRY(json_get_bool(o, path, "tie_word_embeddings", false, &tied, err));
    c->untied = !tied;
    return SNUG_OK;
}

int config_check_heads(const struct model_config *c, const char *path, const char *hidden_key, const char *heads_key,
                       struct snug_err *err)
{
    if (c->hidden_size % c->heads == 0)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: %s %lld is not a multiple of %s %lld; correct one", path, hidden_key,
                   (long long)c->hidden_size, heads_key, (long long)c->heads);
}
