#include "train/session/freeze.h"

#include "pass/pass.h"

#include <string.h>

static bool is_own_weight(const struct value *v)
{
    return v->role == ROLE_WEIGHT && !v->group;
}

static int count_matches(const struct graph *g, const char *pattern)
{
    int n = 0;
    for (int i = 1; i < g->n_values; i++)
        n += is_own_weight(&g->values[i]) && freeze_matches(pattern, g->values[i].name);
    return n;
}

/* What could have been meant: the names, and each beginning of a name that ends at a dot, with `*` behind it. */
struct meant {
    const char **list;
    size_t n, cap;
};

static bool add_meant(struct meant *m, const char *text)
{
    if (!text || !MEM_GROW(m->list, m->cap, m->n + 1))
        return false;
    m->list[m->n++] = text;
    return true;
}

/* The pattern with what most likely is missing at its ends, NULL where that matches nothing either. */
static const char *widened(struct graph *g, const char *pattern)
{
    static const char *const ends[][2] = {{"", ".*"}, {"*.", ""}, {"*.", ".*"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *wider = graph_name(g, "%s%s%s", ends[i][0], pattern, ends[i][1]);
        if (count_matches(g, wider))
            return wider;
    }
    return NULL;
}

/* Of the names and their beginnings, the one most like the pattern. */
static const char *nearest_weights(struct graph *g, const char *pattern)
{
    struct meant m = {0};
    bool there = true;
    for (int i = 1; i < g->n_values; i++) {
        const char *name = is_own_weight(&g->values[i]) ? g->values[i].name : NULL;
        if (!name)
            continue;
        there &= add_meant(&m, name);
        for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
            there &= add_meant(&m, graph_name(g, "%.*s.*", (int)(dot - name), name));
    }
    const char *near = there ? nearest_name(pattern, m.list, m.n) : NULL;
    mem_free(m.list);
    return near;
}

static int refuse_unmatched(struct graph *g, const char *pattern, struct snug_err *err)
{
    const char *near = widened(g, pattern);
    if (!near)
        near = nearest_weights(g, pattern);
    return near ? err_set(err, SNUG_ERR_USAGE, "--freeze %s: matches no weight of the model; did you mean %s?", pattern,
                          near)
                : err_set(err, SNUG_ERR_USAGE,
                          "--freeze %s: matches no weight of the model; 'snug inspect' lists their names", pattern);
}

static int check_patterns(const struct session *s, struct graph *g, struct snug_err *err)
{
    char pattern[FREEZE_PATTERN_MAX];
    const char *patterns = s->o->freeze;
    int weights = 0, frozen = 0;
    int64_t elements = 0, left = 0;
    while (freeze_next(&patterns, pattern))
        if (!count_matches(g, pattern))
            return refuse_unmatched(g, pattern, err);
    pass_freeze(g, &(struct pass_settings){.freeze = s->o->freeze});
    for (int i = 1; i < g->n_values; i++) {
        const struct value *v = &g->values[i];
        if (!is_own_weight(v))
            continue;
        int64_t n = value_elements(v, (struct dims){0});
        weights++;
        frozen += v->frozen;
        elements += n;
        left += v->frozen ? 0 : n;
    }
    if (!left)
        return err_set(err, SNUG_ERR_USAGE, "--freeze %s: matches every weight; leave some to train", s->o->freeze);
    session_note(s, "frozen: %d of %d weights, %lld of %lld parameters; %lld are trained", frozen, weights,
                 (long long)(elements - left), (long long)elements, (long long)left);
    return SNUG_OK;
}

int freeze_check(const struct session *s, struct snug_err *err)
{
    struct graph g;
    struct built built;
    if (!s->o->freeze)
        return SNUG_OK;
    TRY(graph_init(&g, err));
    int code = model_build(&s->model, (struct build_settings){.mode = BUILD_TRAIN}, &g, &built, err);
    if (!code)
        pass_adapt(&g, &(struct pass_settings){.program = PROGRAM_STEP, .adapters = s->compile.adapters});
    if (!code)
        code = graph_ok(&g, err);
    if (!code)
        code = check_patterns(s, &g, err);
    graph_free(&g);
    return code;
}
