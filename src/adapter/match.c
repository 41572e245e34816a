#include "adapter/matching.h"

#include "base/str.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- layers ---- */

static bool in_list(json_t *list, const char *text, size_t n)
{
    size_t i;
    json_t *v;
    if (json_is_string(list))
        return json_string_length(list) == n && !strncmp(json_string_value(list), text, n);
    json_array_foreach(list, i,
                       v) if (json_string_length(v) == n && !strncmp(json_string_value(v), text, n)) return true;
    return false;
}

/* The number of the layer that a module lies in: the first in its path behind one of the names, or with any name before it that is not the
 * path's first. -1: none. */
static int64_t layer_of(const char *path, json_t *names)
{
    const char *before = NULL, *part = path;
    for (const char *dot = strchr(path, '.'); dot; before = part, part = dot + 1, dot = strchr(part, '.')) {
        char *end;
        long long number = strtoll(part, &end, 10);
        if (before && isdigit((unsigned char)*part) && end == dot &&
            (names ? in_list(names, before, (size_t)(part - before) - 1) : before > path))
            return number;
    }
    return -1;
}

static bool layer_has_adapters(const struct adapter_config *c, const char *path)
{
    size_t i;
    json_t *v;
    int64_t layer = c->layers ? layer_of(path, c->layers_names) : -1;
    if (!c->layers || json_is_integer(c->layers))
        return !c->layers || (layer >= 0 && json_integer_value(c->layers) == layer);
    json_array_foreach(c->layers, i, v) if (layer >= 0 && json_integer_value(v) == layer) return true;
    return false;
}

/* ---- the modules of the model ---- */

static int add_module(struct matching *m, const char *weight_name, bool in_out, const char *router,
                      struct snug_err *err)
{
    size_t n = adapter_module_length(weight_name);
    char *path = n ? arena_strndup(&m->out->arena, weight_name, n) : NULL;
    if (!n)
        return SNUG_OK;
    if (!path || !MEM_GROW(m->modules, m->cap, m->n + 1) || !MEM_GROW(m->heads, m->cap_heads, m->n + 1) ||
        !MEM_GROW(m->in_out, m->cap_in_out, m->n + 1) || !MEM_GROW(m->routers, m->cap_routers, m->n + 1))
        return err_no_memory(err, n);
    m->routers[m->n] = router;
    m->modules[m->n] = path;
    m->in_out[m->n] = in_out;
    m->heads[m->n++] =
        (!model_task(m->model)->tied || m->model->untied) && model_is_of_head(m->model, weight_name) ? path : NULL;
    return SNUG_OK;
}

/* The layers that products compute, also the parts of one product's weight. A table of embeddings is none, though it may be the weight
 * of a product as well, and a convolution's weight is none. */
static int find_modules(struct matching *m, struct snug_err *err)
{
    const struct graph *g = m->g;
    char *linear = mem_alloc((size_t)g->n_values); /* 1: of a layer; 2: and (I,O) */
    bool *table = mem_alloc((size_t)g->n_values);
    int code = linear && table ? SNUG_OK : err_no_memory(err, 2 * (unsigned long long)g->n_values);
    for (int k = 1; !code && k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        linear[n->op == OP_linear ? n->u.linear.w : 0] = n->u.linear.in_out ? 2 : 1;
        table[n->op == OP_embed ? n->u.embed.table : 0] = true;
    }
    for (int i = 1; !code && i < g->n_values; i++) {
        const struct value *v = graph_value(g, i);
        if (v->base && v->role == ROLE_WEIGHT)
            linear[i] |= linear[v->base];
        const char *router = NULL;
        if (!linear[i] || table[i] || v->group || !v->name || v->ndim != 2)
            continue;
        if (m->routes[i])
            code = experts_router_path(m, v, &router, err);
        if (!code)
            code = add_module(m, v->name, linear[i] == 2, router, err);
    }
    mem_free(linear);
    mem_free(table);
    return code;
}

/* Whether it is a router that no name of a module means. */
static bool is_unnamed(const struct matching *m, size_t i)
{
    return m->model->names_are_modules && m->routers[i];
}

/* "query, key, value, dense": the last names of all modules, once each. */
static const char *last_names(const struct matching *m, struct str *text)
{
    for (size_t i = 0; i < m->n; i++) {
        const char *dot = strrchr(m->modules[i], '.'), *last = dot ? dot + 1 : m->modules[i];
        bool known = is_unnamed(m, i);
        for (size_t k = 0; k < i && !known; k++)
            known = matching_ends(m->modules[k], last);
        if (!known)
            str_printf(text, "%s%s", text->n ? ", " : "", last);
    }
    return str_text(text);
}

static int refuse_unmatched(const struct matching *m, const char *key, const char *flag, const char *name,
                            struct snug_err *err)
{
    struct str names = {0};
    bool file = m->c->path[0];
    int code = file
                   ? err_set(err, SNUG_ERR_INPUT,
                             "%s: %s %s: no linear layer of the model has that name; is the adapter for another model? "
                             "This one has %s",
                             m->c->path, key, name, last_names(m, &names))
                   : err_set(err, SNUG_ERR_USAGE, "%s %s: no linear layer of the model has that name; it has %s", flag,
                             name, last_names(m, &names));
    str_free(&names);
    return code;
}

/* ---- modules that are trained in full ---- */

static int add_saved(struct matching *m, const char *path, size_t n, struct snug_err *err)
{
    struct adapters *a = &m->out->adapters;
    const char **list = (const char **)a->saved;
    for (size_t i = 0; i < a->n_saved; i++)
        if (strlen(list[i]) == n && !strncmp(list[i], path, n))
            return SNUG_OK;
    char *copy = arena_strndup(&m->out->arena, path, n);
    if (!copy || !MEM_GROW(list, m->cap_saved, a->n_saved + 1))
        return err_no_memory(err, n);
    list[a->n_saved++] = copy;
    a->saved = list;
    return SNUG_OK;
}

/* Whether a module's path, the first n bytes, ends as an entry of the list does: PEFT asks for no dot before it. */
static bool is_saved(json_t *saved, const char *path, size_t n, bool *found)
{
    size_t i;
    json_t *v;
    bool any = false;
    json_array_foreach(saved, i, v)
    {
        size_t k = json_string_length(v);
        bool ends = k <= n && !strncmp(path + n - k, json_string_value(v), k);
        found[i] |= ends;
        any |= ends;
    }
    return any;
}

/* PEFT names these whether a model has them or not. */
static bool is_usual_head(const char *name)
{
    return !strcmp(name, "classifier") || !strcmp(name, "score") || !strcmp(name, "qa_outputs");
}

/* Of each weight's modules, from the outermost one. The heads that PEFT names by itself need not all be there. */
static int find_saved(struct matching *m, struct snug_err *err)
{
    size_t n = json_array_size(m->c->saved);
    bool *found = mem_alloc(n + 1);
    int code = found ? SNUG_OK : err_no_memory(err, n + 1);
    for (int i = 1; !code && i < m->g->n_values; i++) {
        const struct value *v = graph_value(m->g, i);
        if (v->role != ROLE_WEIGHT || v->group || !v->name)
            continue;
        for (const char *dot = strchr(v->name, '.'); dot && !code; dot = strchr(dot + 1, '.'))
            if (is_saved(m->c->saved, v->name, (size_t)(dot - v->name), found)) {
                code = add_saved(m, v->name, (size_t)(dot - v->name), err);
                break;
            }
    }
    for (size_t i = 0; !code && i < n; i++) {
        const char *name = json_string_value(json_array_get(m->c->saved, i));
        if (!found[i] && !is_usual_head(name))
            code = err_set(err, m->c->path[0] ? SNUG_ERR_INPUT : SNUG_ERR_USAGE,
                           "%s%s%s: the model has no module of that name; 'snug inspect' lists its weights",
                           m->c->path[0] ? m->c->path : "--modules-to-save ", m->c->path[0] ? ": modules_to_save " : "",
                           name);
    }
    mem_free(found);
    return code;
}

/* ---- modules with an adapter ---- */

static bool inside_saved(const struct matching *m, const char *path)
{
    const struct adapters *a = &m->out->adapters;
    for (size_t i = 0; i < a->n_saved; i++) {
        size_t n = strlen(a->saved[i]);
        if (!strncmp(path, a->saved[i], n) && (!path[n] || path[n] == '.'))
            return true;
    }
    return false;
}

static bool is_whole_name(json_t *list, const char *path)
{
    return in_list(list, path, strlen(path));
}

bool matching_all_linear(const struct adapter_config *c)
{
    return json_is_string(c->targets) && !strcmp(json_string_value(c->targets), "all-linear");
}

/* Neither trained in full nor excluded. */
static int may_be_target(const struct matching *m, const char *path, bool *may, struct snug_err *err)
{
    bool out = false;
    if (m->c->excluded)
        TRY(matching_in_list(m, m->c->excluded, path, &out, err));
    *may = !out && !inside_saved(m, path);
    return SNUG_OK;
}

/* layers_to_transform is asked where a name is the end of a path alone, as PEFT does. */
int matching_is_target(const struct matching *m, const char *path, bool *target, struct snug_err *err)
{
    const struct adapter_config *c = m->c;
    bool named = matching_all_linear(c);
    TRY(may_be_target(m, path, target, err));
    if (*target && !named)
        TRY(matching_in_list(m, c->targets, path, &named, err));
    *target = *target && named &&
              (json_is_string(c->targets) || is_whole_name(c->targets, path) || layer_has_adapters(c, path));
    return SNUG_OK;
}

const char *matching_peft_path(const struct matching *m, size_t i)
{
    return m->routers[i] ? m->routers[i] : m->modules[i];
}

int matching_is_target_module(const struct matching *m, size_t i, bool *target, struct snug_err *err)
{
    const struct adapter_config *c = m->c;
    TRY(matching_is_target(m, m->modules[i], target, err));
    *target = *target && !(matching_all_linear(c) && m->heads[i]) && !is_unnamed(m, i);
    if (*target || !matching_is_parameter(m, matching_peft_path(m, i)))
        return SNUG_OK;
    TRY(may_be_target(m, m->modules[i], target, err));
    *target = *target && (json_is_string(c->targets) || layer_has_adapters(c, m->modules[i]));
    return SNUG_OK;
}

int matching_add(struct matching *m, struct adapter new, struct snug_err *err)
{
    struct adapters *a = &m->out->adapters;
    struct adapter *list = (struct adapter *)a->list;
    double r = (double)m->c->r, alpha = m->c->alpha;
    TRY(matching_pattern_value(m, m->c->ranks, new.module, &r, err));
    TRY(matching_pattern_value(m, m->c->alphas, new.module, &alpha, err));
    if (!MEM_GROW(list, m->cap_list, a->n + 1))
        return err_no_memory(err, (a->n + 1) * sizeof *list);
    new.r = (int64_t)r;
    new.scale = alpha / (m->c->rslora ? sqrt(r) : r);
    list[a->n++] = new;
    a->list = list;
    return SNUG_OK;
}

/* An entry of the list that means no layer at all. */
static int check_targets(const struct matching *m, struct snug_err *err)
{
    size_t k;
    json_t *name;
    if (json_is_array(m->c->targets) && !m->c->path[0])
        json_array_foreach(m->c->targets, k, name)
        {
            bool found = false;
            for (size_t i = 0; i < m->n && !found; i++)
                found = matching_ends(m->modules[i], json_string_value(name)) && !is_unnamed(m, i);
            if (!found)
                return refuse_unmatched(m, "target_modules", "--target-modules", json_string_value(name), err);
        }
    if (m->out->adapters.n)
        return SNUG_OK;
    const char *one = json_is_string(m->c->targets) ? json_string_value(m->c->targets)
                                                    : json_string_value(json_array_get(m->c->targets, 0));
    return refuse_unmatched(m, "target_modules", "--target-modules", one ? one : "[]", err);
}

static int by_module(const void *a, const void *b)
{
    return strcmp(((const struct adapter *)a)->module, ((const struct adapter *)b)->module);
}

int adapter_match(struct adapter_config *c, const struct model_config *model, const struct graph *g,
                  struct adapter_set *out, struct snug_err *err)
{
    *out = (struct adapter_set){.adapters = {.dropout = c->dropout, .dora = c->dora}};
    struct matching m = {.c = c, .model = model, .g = g, .out = out, .scratch = regex_match_new()};
    int code = m.scratch ? experts_find(&m, err) : err_no_memory(err, 1 << 12);
    if (!code)
        code = find_modules(&m, err);
    if (!code)
        code = experts_rename(&m, c, err);
    if (!code)
        code = experts_check_parameters(&m, err);
    if (!code)
        code = experts_match(&m, err);
    if (!code)
        code = find_saved(&m, err);
    for (size_t i = 0; i < m.n && !code; i++) {
        bool target;
        code = matching_is_target_module(&m, i, &target, err);
        /* No linear layer in transformers. Where experts' layers have names, all-linear has become a list with the router's. */
        const char *path = matching_peft_path(&m, i);
        target = target && !(m.routers[i] && matching_all_linear(c) && !matching_is_parameter(&m, path));
        if (!code && target && m.routers[i])
            code = experts_check_router(&m, i, err);
        if (!code && target && m.routers[i])
            code = experts_check_plain(&m, m.modules[i], "a router of experts", "leave the router out", err);
        if (!code && target)
            code = matching_add(&m, (struct adapter){.module = m.modules[i], .path = path, .in_out = m.in_out[i]}, err);
    }
    if (!code)
        code = check_targets(&m, err);
    if (!code)
        qsort((void *)out->adapters.list, out->adapters.n, sizeof *out->adapters.list, by_module);
    regex_match_free(m.scratch);
    mem_free(m.modules);
    mem_free(m.heads);
    mem_free(m.in_out);
    mem_free(m.experts);
    mem_free(m.routes);
    mem_free(m.routers);
    return code;
}

void adapter_set_free(struct adapter_set *s)
{
    mem_free((void *)s->adapters.list);
    mem_free((void *)s->adapters.saved);
    mem_free(s->parts);
    arena_free(&s->arena);
    *s = (struct adapter_set){0};
}
