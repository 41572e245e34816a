/* Names of tensors in files. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

static bool ends(const char *name, const char *with)
{
    size_t n = strlen(name), tail = strlen(with);
    return n >= tail && !strcmp(name + n - tail, with);
}

/* As checkpoints have it that were converted from TensorFlow; other names stay as they are. */
static void spell_norm(const char *name, char spelling[MODEL_NAME_MAX])
{
    static const char *const old[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
    snprintf(spelling, MODEL_NAME_MAX, "%s", name);
    for (size_t i = 0; i < 2; i++)
        if (ends(name, old[i][0]))
            snprintf(spelling, MODEL_NAME_MAX, "%.*s%s", (int)(strlen(name) - strlen(old[i][0])), name, old[i][1]);
}

void model_file_name(const struct model_config *c, const char *name, char in_file[MODEL_NAME_MAX])
{
    const struct spelled_name *s = c->arch->spelled;
    while (s && s->name && !begins(name, s->name))
        s++;
    bool other = s && s->name;
    snprintf(in_file, MODEL_NAME_MAX, "%s%s", other ? s->in_files : "", name + (other ? strlen(s->name) : 0));
}

bool model_spelling(const struct model_config *c, const char *name, int i, char spelling[MODEL_NAME_MAX])
{
    enum { AS_IT_IS, BEHIND_MODULE, OLD_NORM, SPELLINGS };
    const char *prefix = c->arch->base_prefix;
    if (i == 0) {
        model_file_name(c, name, spelling);
        return true;
    }
    i -= c->arch->spelled ? 1 : 0; /* else the name as it is has been */
    bool bare = i >= SPELLINGS;
    if (i >= 2 * SPELLINGS || (bare && !begins(name, prefix)))
        return false;
    name += bare ? strlen(prefix) : 0;
    if (i % SPELLINGS == OLD_NORM)
        spell_norm(name, spelling);
    else
        snprintf(spelling, MODEL_NAME_MAX, "%s%s", i % SPELLINGS == BEHIND_MODULE ? "module." : "", name);
    return true;
}

/* Of a name in a file, what stands behind "module." and the base model's prefix, however that is spelled. */
static const char *bare_name(const struct model_config *c, const char *name)
{
    const char *const prefixes[] = {"module.", c->arch->base_prefix};
    for (const struct spelled_name *s = c->arch->spelled; s && s->name; s++)
        if (begins(name, s->in_files)) /* the end of which is that of the name, where it is not the base model's */
            return name + strlen(s->in_files) - (strcmp(s->name, c->arch->base_prefix) ? strlen(s->name) : 0);
    for (size_t i = 0; i < 2; i++)
        name += begins(name, prefixes[i]) ? strlen(prefixes[i]) : 0;
    return name;
}

bool model_has_frequencies(const struct model_config *c, const char *name)
{
    return c->arch->frequencies && c->rotary[ROTARY_ALL].pairs && ends(name, c->arch->frequencies);
}

bool model_carries(const struct model_config *c, const char *name)
{
    const char *const *beside = c->arch->beside;
    while (beside && *beside && !begins(name, *beside))
        beside++;
    return (beside && *beside) || model_has_frequencies(c, name);
}

bool model_ignores(const struct model_config *c, const char *name)
{
    const char *bare = bare_name(c, name);
    for (const char *const *end = c->arch->ignored; *end; end++)
        if (ends(bare, *end))
            return true;
    const char *own = model_head_weight(c);
    for (const struct tied_name *t = c->arch->tied; t->name; t++)
        if (!strcmp(bare, t->name) && !(own && !strcmp(bare, own)))
            return true;
    return false;
}

int64_t model_layer_of(const struct model_config *c, const char *name)
{
    const char *bare = bare_name(c, name), *const prefixes[] = {c->arch->layer_prefix, c->arch->second_prefix};
    long long layer;
    for (int stack = 0; stack < 2 && prefixes[stack]; stack++)
        if (begins(bare, prefixes[stack]) && sscanf(bare + strlen(prefixes[stack]), "%lld", &layer) == 1)
            return layer + stack * c->stack_layers;
    return -1;
}

const char *model_head_weight(const struct model_config *c)
{
    const struct model_head *head = &c->arch->heads[c->task];
    if (c->newer_head && head->newer)
        return head->newer;
    return c->untied && head->untied ? head->untied : head->weight;
}

bool model_is_of_head(const struct model_config *c, const char *name)
{
    const char *weight = model_head_weight(c), *dot = weight ? strrchr(weight, '.') : NULL;
    return dot && !strncmp(name, weight, (size_t)(dot - weight) + 1);
}
