/* Names of an expert's layers. transformers has the weights of all experts of a block as parameters, so PEFT takes these names, and
 * "all-linear", for names of parameters: w1 and w3 for gate_up_proj, w2 for down_proj, gate for the router's. The configuration of an
 * adapter from before transformers 5, where each of these was a layer, becomes one for the same layers. */
#include "adapter/matching.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What the configuration gets. New references. */
struct renamed {
    json_t *parameters, *targets, *ranks, *alphas;
    bool failed; /* no memory */
};

static void add_name(struct renamed *to, json_t *list, const char *name)
{
    to->failed |= json_array_append_new(list, json_string(name)) != 0;
}

/* ---- names ---- */

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The weight of one layer of an expert, a part of a parameter; NULL: value i is something else. */
static const struct value *part_at(const struct matching *m, int i)
{
    const struct value *v = graph_value(m->g, i);
    return m->experts[i] && v->role == ROLE_WEIGHT && v->base && !v->group && v->name ? v : NULL;
}

static bool is_of_first_expert(const struct matching *m, const struct value *part)
{
    const struct value *whole = graph_value(m->g, part->base);
    return part->at < whole->shape[1].c * whole->shape[2].c;
}

/* "model.layers.0.block_sparse_moe.experts.0.w1" */
static void path_of(const struct value *part, char path[MODEL_NAME_MAX])
{
    snprintf(path, MODEL_NAME_MAX, "%.*s", (int)adapter_module_length(part->name), part->name);
}

/* Whether an entry of the list is that name, or ends with it behind a dot. */
static bool list_names(json_t *list, const char *name)
{
    size_t i;
    json_t *v;
    bool any = false;
    json_array_foreach(list, i, v) any |= matching_ends(json_string_value(v), name);
    return any;
}

/* Whether it is the last name of a layer of an expert, or of a router. */
static bool is_of_experts(const struct matching *m, const char *name)
{
    char path[MODEL_NAME_MAX];
    bool found = false;
    for (int i = 1; i < m->g->n_values && !found; i++)
        if (part_at(m, i) && is_of_first_expert(m, part_at(m, i))) {
            path_of(part_at(m, i), path);
            found = !strcmp(last_name(path), name);
        }
    for (size_t i = 0; i < m->n && !found; i++)
        found = m->routers[i] && !strcmp(last_name(m->modules[i]), name);
    return found;
}

/* ---- parameters ---- */

/* In a list that options give, the last name alone counts, as for PEFT with transformers 5. */
static int is_asked(const struct matching *m, const char *path, bool *asked, struct snug_err *err)
{
    if (m->c->path[0] || json_is_string(m->c->targets))
        return matching_is_target(m, path, asked, err);
    *asked = list_names(m->c->targets, last_name(path));
    return SNUG_OK;
}

/* What is asked of the parts of a parameter. */
struct asked {
    int parts, n, layers;         /* n: parts that are asked for; layers: of an expert */
    const struct value *in, *out; /* the first that is, and that is not */
    bool known;                   /* r and alpha, which those of other blocks share */
    double r, alpha;
};

/* "experts.0.w1" */
static const char *short_name(const char *path)
{
    const char *experts = strstr(path, "experts.");
    return experts ? experts : path;
}

static int refuse_some(const struct matching *m, const struct asked *a, const char *parameter, struct snug_err *err)
{
    char in[MODEL_NAME_MAX], out[MODEL_NAME_MAX];
    bool file = m->c->path[0];
    path_of(a->in, in);
    path_of(a->out, out);
    return err_set(err, file ? SNUG_ERR_INPUT : SNUG_ERR_USAGE,
                   "%s%s takes %s and not %s, which lies in the same parameter, %s; %s", file ? m->c->path : "",
                   file ? ": target_modules" : "--target-modules", short_name(in), short_name(out), parameter,
                   file ? "use an adapter of both" : "name both or neither");
}

/* A part that is asked for: its rank and alpha are those of the others. */
static int add_part(const struct matching *m, const struct value *part, const char *path, struct asked *a,
                    struct snug_err *err)
{
    double r = (double)m->c->r, alpha = m->c->alpha;
    TRY(matching_pattern_value(m, m->c->ranks, path, &r, err));
    TRY(matching_pattern_value(m, m->c->alphas, path, &alpha, err));
    a->n++;
    a->in = a->in ? a->in : part;
    a->r = a->known ? a->r : r;
    a->alpha = a->known ? a->alpha : alpha;
    a->known = true;
    return r == a->r && alpha == a->alpha
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT,
                         "%s: rank_pattern or alpha_pattern tells %s from other layers of experts, which have one rank "
                         "and one alpha here; use an adapter without that",
                         m->c->path, short_name(path));
}

/* Of the parts of value w. */
static int find_asked(const struct matching *m, int w, struct asked *a, struct snug_err *err)
{
    char path[MODEL_NAME_MAX];
    *a = (struct asked){.known = a->known, .r = a->r, .alpha = a->alpha};
    for (int i = 1; i < m->g->n_values; i++) {
        const struct value *part = part_at(m, i);
        bool asked;
        if (!part || part->base != w)
            continue;
        path_of(part, path);
        TRY(is_asked(m, path, &asked, err));
        if (asked)
            TRY(add_part(m, part, path, a, err));
        else if (!a->out)
            a->out = part;
        a->parts++;
        a->layers += is_of_first_expert(m, part);
    }
    return SNUG_OK;
}

/* One that is needed, or that has to stand before others. */
static void add_pattern(const struct matching *m, const char *key, double r, double alpha, struct renamed *to)
{
    if (r != (double)m->c->r || m->c->ranks)
        to->failed |= json_object_set_new(to->ranks, key, json_integer((json_int_t)r)) != 0;
    if (alpha != m->c->alpha || m->c->alphas)
        to->failed |= json_object_set_new(to->alphas, key, json_real(alpha)) != 0;
}

/* The rank and alpha of a parameter that has several layers' weights are those of all together. Here an adapter of options counts as
 * PEFT's, and that of a file as it did for the layers: with use_rslora these differ. */
static void add_patterns(const struct matching *m, const char *parameter, const struct asked *a, struct renamed *to)
{
    /* PEFT's for gate_up_proj; down_proj is a name of layers without experts, too */
    const char *key = strcmp(parameter, "down_proj") ? ".*\\.gate_up_proj" : ".*\\.experts\\.down_proj";
    bool root = m->c->rslora && m->c->path[0];
    double r = a->layers * a->r, alpha = (root ? sqrt(a->layers) : a->layers) * a->alpha;
    add_pattern(m, key, r, alpha, to);
}

static void remove_from(json_t *list, size_t n)
{
    while (json_array_size(list) > n)
        json_array_remove(list, n);
}

/* All that end with this name, by that alone; else those that are asked for, by their whole names. */
static int add_parameters(const struct matching *m, const char *parameter, struct renamed *to, struct snug_err *err)
{
    struct asked a = {0}, taken = {0};
    size_t before = json_array_size(to->parameters), blocks = 0;
    for (int w = 1; w < m->g->n_values; w++) {
        const struct value *v = graph_value(m->g, w);
        if (!m->experts[w] || v->base || v->role != ROLE_WEIGHT || !v->name || !matching_ends(v->name, parameter))
            continue;
        TRY(find_asked(m, w, &a, err));
        blocks++;
        if (!a.n)
            continue;
        if (a.n < a.parts)
            return refuse_some(m, &a, parameter, err);
        add_name(to, to->parameters, v->name);
        taken = a;
    }
    if (!taken.n)
        return SNUG_OK;
    if (json_array_size(to->parameters) - before == blocks) {
        remove_from(to->parameters, before);
        add_name(to, to->parameters, parameter);
    }
    add_patterns(m, parameter, &taken, to);
    return SNUG_OK;
}

/* ---- modules beside them ---- */

/* A module's weight. Patterns that meant the module do not mean its weight for PEFT. */
static int add_weight(const struct matching *m, size_t i, struct renamed *to, struct snug_err *err)
{
    char name[MODEL_NAME_MAX + 8];
    double r = (double)m->c->r, alpha = m->c->alpha;
    snprintf(name, sizeof name, "%s.weight", matching_peft_path(m, i));
    add_name(to, to->parameters, name);
    TRY(matching_pattern_value(m, m->c->ranks, m->modules[i], &r, err));
    TRY(matching_pattern_value(m, m->c->alphas, m->modules[i], &alpha, err));
    add_pattern(m, name, r, alpha, to);
    return SNUG_OK;
}

static int add_routers(const struct matching *m, struct renamed *to, struct snug_err *err)
{
    size_t before = json_array_size(to->parameters), routers = 0;
    for (size_t i = 0; i < m->n; i++) {
        bool asked = false;
        if (m->routers[i])
            TRY(matching_is_target_module(m, i, &asked, err));
        if (asked)
            TRY(add_weight(m, i, to, err));
        routers += m->routers[i] != NULL;
    }
    if (json_array_size(to->parameters) == before || json_array_size(to->parameters) - before < routers)
        return SNUG_OK;
    remove_from(to->parameters, before);
    add_name(to, to->parameters, "gate.weight");
    return SNUG_OK;
}

/* The names that stay: of a list what it has beside those of experts, else the last names of all modules. An expression's modules get
 * their whole names. */
static void keep_targets(const struct matching *m, struct renamed *to)
{
    size_t i;
    json_t *v;
    if (matching_all_linear(m->c))
        for (i = 0; i < m->n; i++) {
            const char *name = last_name(m->modules[i]);
            if (!m->heads[i] && !list_names(to->targets, name) && !is_of_experts(m, name))
                add_name(to, to->targets, name);
        }
    json_array_foreach(m->c->targets, i, v) if (!is_of_experts(m, last_name(json_string_value(v))))
        add_name(to, to->targets, json_string_value(v));
}

/* Layers without experts have feed-forward blocks of the same names, which PEFT now takes for those of experts alone: they become
 * parameters too. Of an adapter that options make they are left out, as PEFT does. */
static int add_modules(const struct matching *m, struct renamed *to, struct snug_err *err)
{
    bool expression = json_is_string(m->c->targets) && !matching_all_linear(m->c);
    for (size_t i = 0; i < m->n && (expression || m->c->path[0]); i++) {
        bool asked = false;
        if (!m->routers[i])
            TRY(matching_is_target_module(m, i, &asked, err));
        if (asked && is_of_experts(m, last_name(m->modules[i])))
            TRY(add_weight(m, i, to, err));
        else if (asked && expression)
            add_name(to, to->targets, m->modules[i]);
    }
    return SNUG_OK;
}

/* ---- the configuration ---- */

static int fill(const struct matching *m, struct renamed *to, bool *any, struct snug_err *err)
{
    size_t before = json_array_size(to->parameters);
    TRY(add_parameters(m, "gate_up_proj", to, err));
    TRY(add_parameters(m, "down_proj", to, err));
    *any = json_array_size(to->parameters) > before;
    if (!*any)
        return SNUG_OK;
    TRY(add_routers(m, to, err));
    keep_targets(m, to);
    return add_modules(m, to, err);
}

/* What the patterns were stands behind what is new: the first that fits counts. */
static bool put(json_t *doc, const struct matching *m, const struct renamed *to)
{
    int failed = json_object_update_missing(to->ranks, m->c->ranks ? m->c->ranks : to->ranks) |
                 json_object_update_missing(to->alphas, m->c->alphas ? m->c->alphas : to->alphas);
    failed |= json_object_set(doc, "rank_pattern", to->ranks) | json_object_set(doc, "alpha_pattern", to->alphas) |
              json_object_set(doc, "target_modules", to->targets) |
              json_object_set(doc, "target_parameters", to->parameters);
    return !failed;
}

int experts_rename(struct matching *m, struct adapter_config *c, struct snug_err *err)
{
    if (m->model->names_are_modules)
        return SNUG_OK;
    struct renamed to = {.parameters = c->parameters ? json_copy(c->parameters) : json_array(),
                         .targets = json_array(),
                         .ranks = json_object(),
                         .alphas = json_object()};
    bool any = false;
    int code =
        to.parameters && to.targets && to.ranks && to.alphas ? fill(m, &to, &any, err) : err_no_memory(err, 1 << 10);
    if (!code && any && (to.failed || !put(c->doc, m, &to)))
        code = err_no_memory(err, 1 << 10);
    if (!code && any)
        code = adapter_config_read(c->doc, c->path, c, err);
    m->out->of_layers = any && c->path[0];
    json_decref(to.parameters);
    json_decref(to.targets);
    json_decref(to.ranks);
    json_decref(to.alphas);
    return code;
}
