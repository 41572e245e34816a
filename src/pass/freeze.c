#include "pass/pass.h"

#include <fnmatch.h>
#include <string.h>

bool freeze_next(const char **patterns, char pattern[FREEZE_PATTERN_MAX])
{
    const char *at = *patterns ? *patterns : "";
    at += strspn(at, ", ");
    size_t n = strcspn(at, ", ");
    if (!n)
        return false;
    *patterns = at + n;
    n = n < FREEZE_PATTERN_MAX ? n : FREEZE_PATTERN_MAX - 1;
    memcpy(pattern, at, n);
    pattern[n] = 0;
    return true;
}

bool freeze_matches(const char *pattern, const char *weight_name)
{
    return !fnmatch(pattern, weight_name, 0);
}

static bool is_matched(const char *patterns, const char *weight_name)
{
    char pattern[FREEZE_PATTERN_MAX];
    bool matched = false;
    while (!matched && freeze_next(&patterns, pattern))
        matched = freeze_matches(pattern, weight_name);
    return matched;
}

void pass_freeze(struct graph *g, struct pass_settings *s)
{
    if (g->err.code || !s->freeze)
        return;
    for (int i = 1; i < g->n_values; i++) {
        struct value *v = graph_value(g, i);
        v->frozen |= v->role == ROLE_WEIGHT && (v->group || is_matched(s->freeze, v->name));
    }
    for (int i = g->n_values - 1; i > 0; i--) /* a group is trained as soon as one of its parts is */
        if (g->values[i].role == ROLE_WEIGHT && g->values[i].base && !g->values[i].frozen)
            g->values[g->values[i].base].frozen = false;
}
