/* Adapters of experts and of their routers. transformers has the weights of all experts of a block as one parameter, and PEFT adapts it by
 * its name: target_parameters. The adapter's own weights are then named as PEFT's modules nest. */
#include "adapter/matching.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

int experts_find(struct matching *m, struct snug_err *err)
{
    const struct graph *g = m->g;
    bool *logits = mem_alloc((size_t)g->n_values); /* by value: of a router */
    m->experts = mem_alloc((size_t)g->n_values);
    m->routes = mem_alloc((size_t)g->n_values);
    int code = logits && m->experts && m->routes ? SNUG_OK : err_no_memory(err, 3 * (unsigned long long)g->n_values);
    for (int k = 1; !code && k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        logits[n->op == OP_route ? n->u.route.logits : 0] = true;
        m->experts[n->op == OP_linear_experts ? n->u.linear_experts.w : 0] = true;
    }
    for (int k = 1; !code && k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        if (n->op == OP_linear && logits[n->u.linear.y])
            m->routes[n->u.linear.w] = true;
    }
    for (int i = 1; !code && i < g->n_values; i++) {
        m->experts[i] |= g->values[i].base && m->experts[g->values[i].base];
        m->routes[i] |= g->values[i].base && m->routes[g->values[i].base];
    }
    mem_free(logits);
    return code;
}

/* BLOCK.gate, or what else its last name is, where the experts of its layer are BLOCK.experts: in files, Mixtral's has another block. One
 * that is a part of a value has that value's name. */
int experts_router_path(struct matching *m, const struct value *router, const char **out, struct snug_err *err)
{
    char path[MODEL_NAME_MAX], module[MODEL_NAME_MAX];
    router = router->base ? graph_value(m->g, router->base) : router;
    snprintf(module, sizeof module, "%.*s", (int)adapter_module_length(router->name), router->name);
    for (int i = 1; i < m->g->n_values; i++) {
        const struct value *v = graph_value(m->g, i);
        const char *experts = m->experts[i] && !v->base && v->name ? strstr(v->name, ".experts.") : NULL;
        if (!experts || v->layer != router->layer)
            continue;
        snprintf(path, sizeof path, "%.*s%s", (int)(experts - v->name), v->name, strrchr(module, '.'));
        return (*out = arena_strdup(&m->out->arena, path)) ? SNUG_OK : err_no_memory(err, strlen(path));
    }
    *out = NULL; /* no expert computes */
    return SNUG_OK;
}

/* ---- what is refused ---- */

int experts_check_plain(const struct matching *m, const char *path, const char *what, const char *otherwise,
                        struct snug_err *err)
{
    bool file = m->c->path[0];
    if (m->c->dora)
        return file ? err_set(err, SNUG_ERR_INPUT,
                              "%s: use_dora: %s is %s, whose adapter has no lengths; take a plain one", m->c->path,
                              path, what)
                    : err_set(err, SNUG_ERR_USAGE, "--use-dora: %s is %s, whose adapter has no lengths; %s", path, what,
                              otherwise);
    if (m->c->dropout <= 0)
        return SNUG_OK;
    return file ? err_set(err, SNUG_ERR_INPUT, "%s: lora_dropout %g: %s is %s, whose adapter has no dropout; write 0",
                          m->c->path, m->c->dropout, path, what)
                : err_set(err, SNUG_ERR_USAGE,
                          "--lora-dropout %g: %s is %s, whose adapter has no dropout; write --lora-dropout 0, or %s",
                          m->c->dropout, path, what, otherwise);
}

/* ---- parameters ---- */

static bool is_parameter(const struct matching *m, const char *name)
{
    size_t i;
    json_t *v;
    bool any = false;
    json_array_foreach(m->c->parameters, i, v) any |= matching_ends(name, json_string_value(v));
    return any;
}

/* The weights of experts that node k multiplies by; NULL: it is another node. */
static const struct value *parameter_of(const struct matching *m, int k)
{
    const struct node *n = &m->g->nodes[k];
    const struct value *w = graph_value(m->g, n->op == OP_linear_experts ? n->u.linear_experts.w : 0);
    return n->op == OP_linear_experts && w->name ? w : NULL;
}

static bool names_any(const struct matching *m, const char *parameter)
{
    bool found = false;
    for (size_t k = 0; k < m->n && !found; k++)
        found = matching_names_weight(matching_peft_path(m, k), parameter);
    for (int k = 1; k < m->g->n_nodes && !found; k++)
        found = parameter_of(m, k) && matching_ends(parameter_of(m, k)->name, parameter);
    return found;
}

static int wrong_parameter(const struct matching *m, const char *name, struct snug_err *err)
{
    bool experts = false;
    for (int k = 1; k < m->g->n_nodes; k++)
        experts |= parameter_of(m, k) != NULL;
    if (m->c->path[0])
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: target_parameters has %s, which is neither a linear layer's weight nor experts' of the "
                       "model; is the adapter for another model?",
                       m->c->path, name);
    return err_set(err, SNUG_ERR_USAGE,
                   "--target-parameters %s: is neither a linear layer's weight nor experts' of the model; %s", name,
                   experts ? "those are experts.gate_up_proj and experts.down_proj"
                           : "it has no experts: name layers by --target-modules");
}

/* One that names neither a layer's weight nor experts. */
int experts_check_parameters(const struct matching *m, struct snug_err *err)
{
    size_t i;
    json_t *name;
    json_array_foreach(m->c->parameters, i, name)
    {
        if (!names_any(m, json_string_value(name)))
            return wrong_parameter(m, json_string_value(name), err);
    }
    return SNUG_OK;
}

/* How many of a block's parameters PEFT wraps behind that of node k: their modules enclose its own. */
static int wrapped_behind(const struct matching *m, int k)
{
    const char *name = parameter_of(m, k)->name;
    size_t block = (size_t)(strrchr(name, '.') - name);
    int n = 0;
    for (int later = k + 1; later < m->g->n_nodes; later++) {
        const struct value *w = parameter_of(m, later);
        n += w && !strncmp(w->name, name, block + 1) && is_parameter(m, w->name);
    }
    return n;
}

/* BLOCK.experts, with a base_layer for each module that encloses it. */
static int path_of(struct matching *m, int k, const char **out, struct snug_err *err)
{
    const char *name = parameter_of(m, k)->name;
    struct str path = {0};
    str_printf(&path, "%.*s", (int)(strrchr(name, '.') - name), name);
    for (int i = wrapped_behind(m, k); i > 0; i--)
        str_append(&path, ".base_layer");
    int code = str_check(&path, err);
    if (!code && !(*out = arena_strdup(&m->out->arena, str_text(&path))))
        code = err_no_memory(err, strlen(str_text(&path)));
    str_free(&path);
    return code;
}

static int add_part(struct matching *m, const struct value *v, struct adapter_part part, struct snug_err *err)
{
    struct adapter_set *out = m->out;
    part.weight = arena_strdup(&out->arena, v->name);
    if (!part.weight || !MEM_GROW(out->parts, m->cap_parts, out->n_parts + 1))
        return err_no_memory(err, strlen(v->name));
    out->parts[out->n_parts++] = part;
    return SNUG_OK;
}

/* The tensors of files that w is made of: itself, or one for each layer of each expert. */
static int add_parts(struct matching *m, int w, const char *module, struct snug_err *err)
{
    const struct value *whole = graph_value(m->g, w);
    int64_t in = whole->shape[2].c, expert = whole->shape[1].c * in;
    if (!whole->group)
        return add_part(m, whole, (struct adapter_part){.module = module}, err);
    for (int i = 1; i < m->g->n_values; i++) {
        const struct value *v = graph_value(m->g, i);
        struct adapter_part part = {.module = module, .expert = v->at / expert, .row = v->at % expert / in};
        if (v->base == w && v->name)
            TRY(add_part(m, v, part, err));
    }
    return SNUG_OK;
}

int experts_check_router(const struct matching *m, size_t i, struct snug_err *err)
{
    const char *path = matching_peft_path(m, i);
    bool file = m->c->path[0], whole = false;
    for (int k = 1; k < m->g->n_nodes; k++)
        whole |= m->g->nodes[k].op == OP_linear_experts && m->g->nodes[k].u.linear_experts.in_out;
    if (!whole || matching_is_parameter(m, path))
        return SNUG_OK;
    return err_set(err, file ? SNUG_ERR_INPUT : SNUG_ERR_USAGE,
                   "%s%s: %s is a router, and no linear layer for PEFT; name it by %s router.weight",
                   file ? m->c->path : "", file ? ": target_modules" : "--target-modules", path,
                   file ? "target_parameters" : "--target-parameters");
}

int experts_match(struct matching *m, struct snug_err *err)
{
    for (int k = 1; k < m->g->n_nodes; k++) {
        const struct value *w = parameter_of(m, k);
        if (!w || !is_parameter(m, w->name))
            continue;
        TRY(experts_check_plain(m, w->name, "of experts", "leave it out", err));
        const char *module = arena_strdup(&m->out->arena, w->name), *path = NULL;
        if (!module)
            return err_no_memory(err, strlen(w->name));
        TRY(path_of(m, k, &path, err));
        struct adapter new = {
            .module = module, .path = path, .experts = w->shape[0].c, .in_out = m->g->nodes[k].u.linear_experts.in_out};
        TRY(matching_add(m, new, err));
        TRY(add_parts(m, m->g->nodes[k].u.linear_experts.w, module, err));
    }
    return SNUG_OK;
}
