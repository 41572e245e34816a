/* Names of an expert's layers. transformers has the weights of all experts of a block as parameters, so PEFT takes these names, and
 * "all-linear", for names of parameters: w1 and w3 for gate_up_proj, w2 for down_proj, gate for the router's. */
#include "adapter/matching.h"

#include <stdio.h>
#include <string.h>

/* The weight of one layer of an expert, a part of a parameter; NULL: value i is something else. */
static const struct value *part_at(const struct matching *m, int i)
{
    const struct value *v = graph_value(m->g, i);
    return m->experts[i] && v->role == ROLE_WEIGHT && v->base && !v->group && v->name ? v : NULL;
}

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

struct text {
    const char *at;
    size_t n;
};

static struct text text_of(const char *path)
{
    return (struct text){last_name(path), strlen(last_name(path))};
}

/* "w1" of "model.layers.0.block_sparse_moe.experts.0.w1.weight". */
static struct text layer_name(const struct value *part)
{
    size_t n = adapter_module_length(part->name), from = n;
    while (from > 0 && part->name[from - 1] != '.')
        from--;
    return (struct text){part->name + from, n - from};
}

static bool is_same(struct text a, struct text b)
{
    return a.n == b.n && !strncmp(a.at, b.at, a.n);
}

/* Whether an entry of the list is that name, or ends with it behind a dot. */
static bool list_names(json_t *list, struct text name)
{
    size_t i;
    json_t *v;
    bool any = false;
    json_array_foreach(list, i, v)
    {
        const char *entry = json_string_value(v);
        size_t n = strlen(entry);
        any |= n >= name.n && !strncmp(entry + n - name.n, name.at, name.n) &&
               (n == name.n || entry[n - name.n - 1] == '.');
    }
    return any;
}

static int refuse_file(const struct matching *m, const struct value *part, struct snug_err *err)
{
    return err_set(
        err, SNUG_ERR_INPUT,
        "%s: target_modules has %.*s of a mixture of experts, whose layers have no adapter each; load it with "
        "PEFT and transformers 5 and save it again",
        m->c->path, (int)layer_name(part).n, layer_name(part).at);
}

/* An expression is for whole names of modules, and these are none. */
static int refuse_expression(const struct matching *m, struct snug_err *err)
{
    char path[MODEL_NAME_MAX];
    bool named = false;
    for (int i = 1; i < m->g->n_values && !named; i++) {
        const struct value *part = part_at(m, i);
        if (!part)
            continue;
        snprintf(path, sizeof path, "%.*s", (int)adapter_module_length(part->name), part->name);
        TRY(matching_in_list(m, m->c->targets, path, &named, err));
    }
    return !named
               ? SNUG_OK
               : err_set(err, m->c->path[0] ? SNUG_ERR_INPUT : SNUG_ERR_USAGE,
                         "%s%s: the expression has %s of a mixture of experts, whose layers have no adapter each; name "
                         "them in a list, or by target_parameters",
                         m->c->path[0] ? m->c->path : "--target-modules ",
                         m->c->path[0] ? ": target_modules" : json_string_value(m->c->targets), path);
}

/* What the layers of one parameter, which ends with `parameter`, are called, once each, and which of these are asked for. */
struct layers {
    struct text name[4];
    int n, asked;
    const struct value *first, *left_out;
};

static void find_layers(const struct matching *m, const char *parameter, struct layers *l)
{
    *l = (struct layers){0};
    for (int i = 1; i < m->g->n_values; i++) {
        const struct value *part = part_at(m, i);
        bool known = !part || strcmp(last_name(graph_value(m->g, part->base)->name), parameter) != 0;
        for (int k = 0; k < l->n && !known; k++)
            known = is_same(l->name[k], layer_name(part));
        if (known || l->n == (int)(sizeof l->name / sizeof *l->name))
            continue;
        bool asked = matching_all_linear(m->c) || list_names(m->c->targets, layer_name(part));
        l->name[l->n++] = layer_name(part);
        l->asked += asked;
        l->first = asked ? part : l->first;
        l->left_out = asked ? l->left_out : part;
    }
}

/* The rank and alpha of a parameter that has several layers' weights are those of all together. */
static int add_parameter(const struct matching *m, const char *parameter, const struct layers *l, json_t *to,
                         struct snug_err *err)
{
    char key[64];
    bool made = !json_array_append_new(to, json_string(parameter));
    snprintf(key, sizeof key, ".*\\.%s", parameter);
    if (l->n > 1) {
        made &= !json_object_set_new(json_object_get(m->c->doc, "rank_pattern"), key, json_integer(l->n * m->c->r));
        made &= !json_object_set_new(json_object_get(m->c->doc, "alpha_pattern"), key, json_real(l->n * m->c->alpha));
    }
    return made ? SNUG_OK : err_no_memory(err, 1 << 10);
}

/* Those that are asked for become parameters in `to`. */
static int rename_layers(const struct matching *m, json_t *to, struct snug_err *err)
{
    static const char *const parameters[] = {"gate_up_proj", "down_proj"};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        struct layers l;
        find_layers(m, parameters[i], &l);
        if (!l.asked)
            continue;
        if (m->c->path[0])
            return refuse_file(m, l.first, err);
        if (l.asked < l.n)
            return err_set(
                err, SNUG_ERR_USAGE,
                "--target-modules: %.*s of experts lies with %.*s in one parameter, %s; name both or neither",
                (int)layer_name(l.first).n, layer_name(l.first).at, (int)layer_name(l.left_out).n,
                layer_name(l.left_out).at, parameters[i]);
        TRY(add_parameter(m, parameters[i], &l, to, err));
    }
    return SNUG_OK;
}

/* Whether a name is that of a layer of an expert, or of a router. */
static bool is_of_experts(const struct matching *m, struct text name)
{
    bool found = false;
    for (int i = 1; i < m->g->n_values && !found; i++)
        found = part_at(m, i) && is_same(layer_name(part_at(m, i)), name);
    for (size_t i = 0; i < m->n && !found; i++)
        found = m->routers[i] && is_same(text_of(m->modules[i]), name);
    return found;
}

/* The modules that are asked for beside those: of a list what it has, else the last names of all. */
static json_t *other_targets(const struct matching *m)
{
    json_t *out = json_array(), *v;
    size_t i;
    if (matching_all_linear(m->c))
        for (i = 0; i < m->n; i++) {
            struct text name = text_of(m->modules[i]);
            if (!m->heads[i] && !list_names(out, name) && !is_of_experts(m, name))
                json_array_append_new(out, json_string(name.at));
        }
    else
        json_array_foreach(m->c->targets, i, v) if (!is_of_experts(m, text_of(json_string_value(v))))
            json_array_append(out, v);
    return out;
}

static int rename_router(const struct matching *m, json_t *to, struct snug_err *err)
{
    bool asked = false;
    for (size_t i = 0; i < m->n; i++)
        asked |= m->routers[i] && (matching_all_linear(m->c) || list_names(m->c->targets, text_of(m->modules[i])));
    return !asked || !json_array_append_new(to, json_string("gate.weight")) ? SNUG_OK : err_no_memory(err, 1 << 10);
}

int experts_rename(struct matching *m, struct adapter_config *c, struct snug_err *err)
{
    json_t *to = c->parameters ? json_copy(c->parameters) : json_array();
    size_t before = json_array_size(to);
    int code = to ? SNUG_OK : err_no_memory(err, 1 << 10);
    if (!code && json_is_string(c->targets) && !matching_all_linear(c))
        code = refuse_expression(m, err);
    else if (!code)
        code = rename_layers(m, to, err);
    if (!code && json_array_size(to) > before)
        code = rename_router(m, to, err);
    if (!code && json_array_size(to) > before) {
        json_object_set_new(c->doc, "target_modules", other_targets(m));
        json_object_set(c->doc, "target_parameters", to);
        code = adapter_config_read(c->doc, c->path, c, err);
    }
    json_decref(to);
    return code;
}
