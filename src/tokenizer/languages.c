/* The languages of a translator's tokenizer (mBART, NLLB). Its template adds the language of a text as a token of its own, before the
 * text or behind its end token. Targets have the same template with their language in that place. */
#include "tokenizer/parts.h"

#include <string.h>

static bool is_named(const struct tokenizer *t, int32_t id)
{
    for (int i = 0; i < TOKEN_SPECIALS; i++)
        if (t->special[i] == id)
            return true;
    return false;
}

/* Where the template has a token that is none of the named special ones; n_parts: nowhere. */
static size_t language_part(const struct tokenizer *t, const struct template *form)
{
    size_t i = 0;
    while (i < form->n_parts &&
           (form->parts[i].kind != PART_SPECIAL || form->parts[i].n_ids != 1 || is_named(t, form->parts[i].ids[0])))
        i++;
    return i;
}

bool tokenizer_has_languages(const struct tokenizer *t)
{
    return language_part(t, &t->single) < t->single.n_parts;
}

/* *form: that of `from` with the language `id`. */
static int with_language(struct tokenizer *t, const struct template *from, int32_t id, struct template *form,
                         struct snug_err *err)
{
    struct template_part *parts = arena_alloc(&t->arena, from->n_parts * sizeof *parts);
    int32_t *ids = arena_alloc(&t->arena, sizeof *ids);
    if (!parts || !ids)
        return err_no_memory(err, from->n_parts * sizeof *parts);
    memcpy(parts, from->parts, from->n_parts * sizeof *parts);
    *ids = id;
    parts[language_part(t, from)].ids = ids;
    *form = (struct template){parts, from->n_parts, from->added};
    return SNUG_OK;
}

/* What a user calls the language of a token: all of it, or what its marks leave. */
static void language_name(const struct tokenizer *t, int32_t id, const char **name, size_t *n)
{
    *name = tokenizer_token(t, id);
    *n = strlen(*name);
    if (t->n_languages && *n > 4) {
        *name += 2;
        *n -= 4;
    }
}

/* A language is an added token, or one of those that are nothing else: a word that looks like one is none. */
static int find_language(const struct tokenizer *t, const char *wanted, int32_t *id, struct snug_err *err)
{
    const char *name;
    size_t n, among = t->n_languages ? (size_t)t->n_languages : t->n_added;
    for (size_t i = 0; i < among; i++) {
        *id = t->n_languages ? t->first_language + (int32_t)i : t->added[i].id;
        language_name(t, *id, &name, &n);
        if (strlen(wanted) == n && !memcmp(name, wanted, n))
            return SNUG_OK;
    }
    const struct template_part *known = &t->single.parts[language_part(t, &t->single)];
    language_name(t, known->ids[0], &name, &n);
    return err_set(err, SNUG_ERR_INPUT, "%s: has no language \"%s\"; write one as it does, as in \"%.*s\"", t->path,
                   wanted, (int)n, name);
}

int tokenizer_apply_languages(struct tokenizer *t, const char *source, const char *target, struct snug_err *err)
{
    int32_t id;
    if (!tokenizer_has_languages(t))
        return err_set(err, SNUG_ERR_INPUT, "%s: its post_processor gives texts no language; leave the languages out",
                       t->path);
    if (source) {
        TRY(find_language(t, source, &id, err));
        TRY(with_language(t, &t->single, id, &t->single, err));
        if (language_part(t, &t->pair) < t->pair.n_parts)
            TRY(with_language(t, &t->pair, id, &t->pair, err));
    }
    if (target) {
        TRY(find_language(t, target, &id, err));
        TRY(with_language(t, &t->single, id, &t->target, err));
    }
    return SNUG_OK;
}

int tokenizer_set_languages(struct tokenizer *t, const char *source, const char *target, struct snug_err *err)
{
    TRY(tokenizer_apply_languages(t, source, target, err));
    return tokenizer_rehash(t, err);
}

int32_t tokenizer_target_language(const struct tokenizer *t, bool *leads)
{
    if (!t->target.n_parts)
        return -1;
    size_t at = language_part(t, &t->target);
    *leads = at == 0;
    return t->target.parts[at].ids[0];
}
