#include "train/session/adapter.h"

#include "adapter/join.h"
#include "train/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct model_tensor *session_adapter_tensor(const struct session *s, const char *name)
{
    return s->adapter.opened_dir ? weights_of_adapter(&s->adapter.dir, name) : NULL;
}

/* ---- opening ---- */

/* The task with labels that the adapter's file names; else the first task that has labels. */
static enum model_task task_of_adapter(const struct session *s)
{
    const char *type = json_string_value(json_object_get(s->adapter.doc, "task_type"));
    enum model_task first = MODEL_AUTO;
    for (int t = MODEL_COUNT - 1; t > MODEL_AUTO; t--) {
        if (!model_tasks[t].classes)
            continue;
        first = (enum model_task)t;
        if (type && model_tasks[t].peft && !strcmp(type, model_tasks[t].peft))
            return first;
    }
    return first;
}

/* Where nothing else says so, the adapter's own head tells how many labels there are. */
static void count_labels(struct session *s)
{
    json_t *config = s->dir.config;
    enum model_task task = task_of_adapter(s);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    for (const struct model_arch *const *arch = model_archs; type && *arch; arch++) {
        const struct model_head *head = &(*arch)->heads[task];
        const struct model_tensor *t = head->weight ? session_adapter_tensor(s, head->weight) : NULL;
        if (strcmp(type, (*arch)->model_type) != 0 || !t || t->tensor->ndim != 2)
            continue;
        json_int_t n = (json_int_t)t->tensor->shape[0];
        if ((json_int_t)json_object_size(json_object_get(config, "id2label")) != n)
            json_object_del(config, "id2label");
        json_object_set_new(config, "num_labels", json_integer(n));
        json_object_set_new(config, "architectures", json_pack("[s]", head->class_name));
    }
}

/* What the folder's own config.json says of the labels; one that PEFT has written has none. */
static int take_labels(struct session *s, struct snug_err *err)
{
    static const char *const keys[] = {"id2label", "label2id", "num_labels", "problem_type", "architectures"};
    char *path = model_dir_file(&s->adapter.dir, "config.json");
    json_t *beside = NULL;
    if (!path)
        return err_no_memory(err, strlen(s->o->adapter));
    int code = io_exists(s->io, path) ? json_read_object(s->io, path, 16 << 20, &beside, err) : SNUG_OK;
    const char *type = json_string_value(json_object_get(beside, "model_type"));
    const char *base = json_string_value(json_object_get(s->dir.config, "model_type"));
    if (type && base && strcmp(type, base) != 0)
        code = err_set(err, SNUG_ERR_INPUT,
                       "%s: an adapter of a %.40s model, and %s is a %.40s model; give the adapter's own base",
                       s->o->adapter, type, s->o->model, base);
    for (size_t i = 0; !code && beside && i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(beside, keys[i]))
            json_object_set(s->dir.config, keys[i], json_object_get(beside, keys[i]));
    if (!beside && !code)
        count_labels(s);
    json_decref(beside);
    mem_free(path);
    return code;
}

int session_adapter_open(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    struct session_adapter *a = &s->adapter;
    a->wanted = o->use_peft || o->adapter;
    if (o->use_peft && o->adapter)
        return err_set(err, SNUG_ERR_USAGE,
                       "--adapter %s: is an adapter already, and --use-peft makes a new one; leave one of them out",
                       o->adapter);
    if (!o->adapter)
        return SNUG_OK;
    a->dir =
        (struct model_dir){.adapter = true, .check_finite = o->check_finite, .note = session_note_line, .note_ctx = s};
    TRY(model_dir_open(s->io, o->adapter, &a->dir, err));
    a->opened_dir = true;
    a->doc = json_deep_copy(a->dir.config);
    if (!a->doc)
        return err_no_memory(err, 1 << 16);
    TRY(adapter_config_read(a->doc, a->dir.config_path, &a->config, err));
    return take_labels(s, err);
}

/* ---- matching ---- */

/* Whether a module is one of the list, or lies in one: PEFT compares the ends of names. */
static bool is_saved(const json_t *saved, const char *module, size_t length)
{
    size_t i;
    json_t *v;
    json_array_foreach((json_t *)saved, i, v)
    {
        const char *name = json_string_value(v);
        size_t n = strlen(name);
        for (size_t end = n; end <= length; end++)
            if ((end == length || module[end] == '.') && !strncmp(module + end - n, name, n))
                return true;
    }
    return false;
}

/* What the base lacks is random, and nobody could load it again: the pooler of most bases of BERT. */
static int save_new_modules(struct session *s, const struct graph *g, struct snug_err *err)
{
    json_t *saved = json_object_get(s->adapter.doc, "modules_to_save");
    for (int i = 1; s->dir.n_tensors && i < g->n_values; i++) {
        const struct value *v = graph_value(g, i);
        const char *dot = v->role == ROLE_WEIGHT && !v->group ? strrchr(v->name, '.') : NULL;
        if (!dot || init_is_whole(&v->init) || weights_find(&s->dir, &s->model, v->name) ||
            is_saved(saved, v->name, (size_t)(dot - v->name)))
            continue;
        if (json_array_append_new(saved, json_stringn(v->name, (size_t)(dot - v->name))))
            return err_no_memory(err, 256);
        session_note(s, "%.*s: not in %s, so the adapter saves it too (modules_to_save)", (int)(dot - v->name), v->name,
                     s->dir.path);
    }
    return SNUG_OK;
}

/* Of a new adapter. */
static int make_config(struct session *s, const struct graph *g, struct snug_err *err)
{
    const struct options *o = s->o;
    const char *usual = s->model.arch->adapted;
    struct adapter_wishes w = {.r = o->lora_r,
                               .alpha = o->lora_alpha,
                               .dropout = o->lora_dropout,
                               .rslora = o->use_rslora,
                               .dora = o->use_dora,
                               .targets = o->target_modules ? o->target_modules
                                          : usual           ? usual
                                                            : "all-linear",
                               .parameters = o->target_parameters,
                               .saved = o->modules_to_save,
                               .excluded = s->model.arch->excluded,
                               .base = o->model,
                               .task_type = model_task(&s->model)->peft,
                               .heads = model_task(&s->model)->peft_heads};
    TRY(adapter_config_make(&w, &s->adapter.doc, err));
    TRY(save_new_modules(s, g, err));
    return adapter_config_read(s->adapter.doc, "", &s->adapter.config, err);
}

static void shape_text(const struct value *v, struct st_tensor *as)
{
    *as = (struct st_tensor){.ndim = v->ndim};
    for (int d = 0; d < v->ndim; d++)
        as->shape[d] = v->shape[d].c;
}

/* An adapter of a part beside the text model may be left out if it changes nothing: PEFT adds them where names are alike. */
static int check_others(struct model_dir *d, const struct model_tensor *t, struct snug_err *err)
{
    const char *end = strstr(t->tensor->name, ".lora_B.weight");
    int64_t n = st_elements(t->tensor), zeros = 0;
    float *x = end ? mem_alloc((size_t)n * sizeof *x + 1) : NULL;
    if (!end)
        return SNUG_OK;
    int code = x ? model_dir_read(d, t, DT_F32, x, err) : err_no_memory(err, (unsigned long long)n * sizeof *x);
    while (!code && zeros < n && x[zeros] == 0)
        zeros++;
    mem_free(x);
    if (!code && zeros < n)
        code = err_set(err, SNUG_ERR_INPUT,
                       "%s: %s is not 0, and would change a part beside the text model, which this does not; give an "
                       "adapter of the text model alone",
                       d->path, t->tensor->name);
    return code;
}

static int refuse_embeddings(const struct model_dir *d, struct snug_err *err)
{
    for (size_t i = 0; i < d->n_tensors; i++)
        if (strstr(d->tensors[i].tensor->name, ".lora_embedding_"))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: %s is of embeddings, which have no adapter here; train them by modules_to_save",
                           d->path, d->tensors[i].tensor->name);
    return SNUG_OK;
}

/* The folder has just the tensors that this adapter trains, in their shapes. */
static int check_tensors(struct session *s, const struct graph *g, struct snug_err *err)
{
    struct model_dir *d = &s->adapter.dir;
    size_t used = 0;
    TRY(refuse_embeddings(d, err));
    for (int i = 1; i < g->n_values; i++) {
        const struct value *v = graph_value(g, i);
        if (v->role != ROLE_WEIGHT || v->group || v->frozen)
            continue;
        const struct model_tensor *t = session_adapter_tensor(s, v->name);
        struct st_tensor wanted;
        char have[200], want[200];
        shape_text(v, &wanted);
        if (!t)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: has no " ADAPTER_PREFIX
                           "%s, which adapter_config.json asks for; is the adapter for another model?",
                           d->path, v->name);
        used++;
        if (strcmp(st_shape_text(t->tensor, have), st_shape_text(&wanted, want)) != 0)
            return err_set(
                err, SNUG_ERR_INPUT,
                "%s: %s has shape %s where adapter_config.json and the model ask for %s; take both from one adapter",
                d->path, t->tensor->name, have, want);
    }
    size_t left_out = 0;
    for (size_t i = 0; used < d->n_tensors && i < d->n_tensors; i++) {
        const char *name = d->tensors[i].tensor->name;
        size_t n = strlen(ADAPTER_PREFIX);
        bool named = !strncmp(name, ADAPTER_PREFIX, n), others = named && model_carries(&s->model, name + n);
        int id = named ? graph_find(g, name + n) : 0;
        if (others)
            TRY(check_others(d, &d->tensors[i], err));
        left_out += others;
        if (!others && (!id || g->values[id].frozen))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: %s belongs to no layer that adapter_config.json gives an adapter; is the adapter for "
                           "another model?",
                           d->path, name);
    }
    if (left_out)
        session_note(s, "%s: %zu tensor%s beside the text model, and left out", d->path, left_out,
                     left_out == 1 ? " is for a part" : "s are for parts");
    return SNUG_OK;
}

static void note_counts(const struct session *s, const struct graph *g)
{
    const struct adapters *a = &s->adapter.set.adapters;
    int64_t all = 0, trained = 0;
    size_t experts = 0;
    char of_experts[64] = "";
    for (int i = 1; i < g->n_values; i++) {
        const struct value *v = graph_value(g, i);
        int64_t n = v->role == ROLE_WEIGHT && !v->group ? value_elements(v, (struct dims){0}) : 0;
        all += n;
        trained += v->frozen ? 0 : n;
    }
    for (size_t i = 0; i < a->n; i++)
        experts += a->list[i].experts != 0;
    if (experts)
        snprintf(of_experts, sizeof of_experts, " and %zu weights of experts", experts);
    session_note(s, "adapters on %zu linear layers%s, r %lld; %lld of %lld parameters are trained (%.2f %%)",
                 a->n - experts, of_experts, (long long)s->adapter.config.r, (long long)trained, (long long)all,
                 100 * (double)trained / (double)all);
}

int session_adapter_match(struct session *s, struct snug_err *err)
{
    struct session_adapter *a = &s->adapter;
    struct graph g;
    struct built built;
    if (!a->wanted)
        return SNUG_OK;
    TRY(graph_init(&g, err));
    int code = model_build(&s->model, (struct build_settings){.mode = BUILD_TRAIN}, &g, &built, err);
    if (!code && !a->doc)
        code = make_config(s, &g, err);
    if (!code)
        code = adapter_match(&a->config, &s->model, &g, &a->set, err);
    if (!code && a->opened_dir)
        code = adapter_join(&a->dir, &a->set, &g, err);
    if (!code) {
        pass_adapt(&g, &(struct pass_settings){.program = PROGRAM_EVALUATION, .adapters = &a->set.adapters});
        code = graph_ok(&g, err);
    }
    if (!code && a->opened_dir)
        code = check_tensors(s, &g, err);
    if (!code && s->compile.train)
        note_counts(s, &g);
    s->compile.adapters = &a->set.adapters;
    graph_free(&g);
    return code;
}

/* ---- the result ---- */

/* The base by its name on the hub and its commit where it is from there. Otherwise by its whole path, which does not depend on
 * where a reader stands. */
static int name_base(const struct session *s, json_t *doc)
{
    char name[MODEL_HUB_NAME], commit[MODEL_HUB_COMMIT];
    if (model_dir_of_hub(&s->dir, name, commit)) {
        json_t *text = json_string(name); /* one that is no UTF-8 is none of the hub's */
        return text && (json_object_set_new(doc, "base_model_name_or_path", text) ||
                        json_object_set_new(doc, "revision", json_string(commit)));
    }
    char *base = realpath(s->dir.path, NULL);
    json_t *text = base ? json_string(base) : NULL; /* NULL for one that is no UTF-8: what was there stays */
    free(base);
    int failed = json_object_get(doc, "revision") ? json_object_set_new(doc, "revision", json_null()) : 0;
    return (text && json_object_set_new(doc, "base_model_name_or_path", text)) || failed;
}

int session_adapter_text(const struct session *s, char **text, struct snug_err *err)
{
    json_t *doc = json_deep_copy(s->adapter.doc);
    int failed = !doc || json_object_set_new(doc, "inference_mode", json_true()) || name_base(s, doc);
    char *dumped = failed ? NULL : json_dumps(doc, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
    *text = dumped ? mem_strdup(dumped) : NULL;
    json_decref(doc);
    free(dumped);
    return *text ? SNUG_OK : err_no_memory(err, 1 << 16);
}

void session_adapter_close(struct session *s)
{
    struct session_adapter *a = &s->adapter;
    adapter_set_free(&a->set);
    if (a->opened_dir)
        model_dir_close(&a->dir);
    json_decref(a->doc);
    *a = (struct session_adapter){0};
}
