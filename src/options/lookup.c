/* What a name stands for, which name was meant, and what to say of one that is not taken. */
#include "options/value.h"

#include <ctype.h>
#include <string.h>

static bool name_is(const char *typed, const char *name)
{
    for (; *typed && *name; typed++, name++)
        if ((*typed == '-' ? '_' : *typed) != *name)
            return false;
    return *typed == *name;
}

static bool pattern_is(const char *typed, const char *pattern)
{
    for (; *pattern != '*'; typed++, pattern++)
        if ((*typed == '-' ? '_' : *typed) != *pattern)
            return false;
        else if (!*pattern)
            return true;
    return true;
}

static const struct option_foreign *find_foreign(const struct option_foreign *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (pattern_is(name, list[i].name))
            return &list[i];
    return NULL;
}

static struct option_meaning lookup_foreign(const char *name)
{
    const struct option_foreign *f = find_foreign(options_accepted, n_options_accepted, name);
    if (f)
        return (struct option_meaning){MEANS_ACCEPTED, -1, NULL, f};
    f = find_foreign(options_refused, n_options_refused, name);
    return (struct option_meaning){f ? MEANS_REFUSED : MEANS_NOTHING, -1, NULL, f};
}

static struct option_meaning means_row(const struct options *o, int i, const struct option_spelling *spelling)
{
    bool taken = option_rows[i].commands & o->command;
    return (struct option_meaning){taken ? MEANS_OPTION : MEANS_OTHER_COMMAND, i, spelling, NULL};
}

struct option_meaning option_lookup(const struct options *o, const char *name)
{
    struct option_meaning m = {MEANS_NOTHING, -1, NULL, NULL};
    for (int i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].type != OPTION_SECTION && option_rows[i].parent < 0 && name_is(name, option_rows[i].name))
            return means_row(o, i, NULL);
    for (size_t i = 0; i < n_option_spellings && m.kind != MEANS_OPTION; i++)
        if (name_is(name, option_spellings[i].spelling))
            m = means_row(o, option_spellings[i].option, &option_spellings[i]);
    if (m.kind == MEANS_NOTHING && o->command & (CMD_TRAIN | CMD_PLAN | CMD_EVAL | CMD_PREDICT))
        m = lookup_foreign(name);
    return m;
}

struct option_meaning option_lookup_key(const struct options *o, int parent, const char *key)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].parent == parent && name_is(key, option_rows[i].name))
            return means_row(o, i, NULL);
    char name[2 * OPTION_NAME_MAX];
    snprintf(name, sizeof name, "%s.%s", option_rows[parent].name, key);
    return lookup_foreign(name);
}

bool option_is_flag(const struct option_meaning *m)
{
    if (m->foreign)
        return strcmp(m->foreign->off, "true") == 0 || strcmp(m->foreign->off, "false") == 0;
    return m->kind == MEANS_OPTION &&
           (m->spelling && m->spelling->value ? true : option_rows[m->option].type == OPTION_BOOL);
}

/* As names are compared: capitals and hyphens make no difference. */
static char plain(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

/* Optimal string alignment distance (insert, delete, replace, swap neighbours) of two short words. */
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    size_t n = strlen(a), k = strlen(b);
    if (n >= LONGEST || k >= LONGEST)
        return LONGEST;
    int d[3][LONGEST + 1]; /* the last three rows of the table */
    for (size_t j = 0; j <= k; j++)
        d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = d[i % 3], *last = d[(i + 2) % 3], *before = d[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= k; j++) {
            char x = plain(a[i - 1]), y = plain(b[j - 1]);
            int best = last[j - 1] + (x != y);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && x == plain(b[j - 2]) && plain(a[i - 2]) == y && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return d[n % 3][k];
}

/* The nearest name of those considered so far, the first of equals. */
struct nearest {
    const char *typed, *name; /* name NULL: none is near */
    int distance;             /* at the most this, to be near */
};

static struct nearest nearest_to(const char *typed)
{
    int n = (int)strlen(typed);
    return (struct nearest){.typed = typed, .distance = n < 4 ? n / 2 : 3 * n / 8};
}

/* What was typed may be the beginning of a name, which argparse would take. */
static bool begins(const char *typed, const char *name)
{
    size_t n = 0;
    while (typed[n] && plain(typed[n]) == plain(name[n]))
        n++;
    return !typed[n] && n >= 3;
}

static void consider(struct nearest *n, const char *name)
{
    int d = begins(n->typed, name) ? 1 : edit_distance(n->typed, name);
    if (d < n->distance || (d == n->distance && !n->name)) {
        n->distance = d;
        n->name = name;
    }
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
    struct nearest nearest = nearest_to(typed);
    for (size_t i = 0; i < n; i++)
        consider(&nearest, names[i]);
    return nearest.name;
}

const char *option_nearest(const struct options *o, int parent, const char *name)
{
    struct nearest nearest = nearest_to(name);
    for (int i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].commands & o->command && option_rows[i].parent == parent)
            consider(&nearest, option_rows[i].name);
    for (size_t i = 0; i < n_option_spellings; i++)
        if (parent < 0 && option_rows[option_spellings[i].option].commands & o->command)
            consider(&nearest, option_spellings[i].spelling);
    for (size_t i = 0; nearest.name && i < n_option_spellings; i++)
        if (nearest.name == option_spellings[i].spelling && option_spellings[i].kind == SPELLING_HABIT)
            return option_rows[option_spellings[i].option].name;
    return nearest.name;
}

/* What to do instead; NULL: there is no hint for this command. */
static const char *hint_for(const struct options *o, const char *name)
{
    for (size_t i = 0; i < n_option_hints; i++)
        if (option_hints[i].commands & o->command && name_is(name, option_hints[i].name))
            return option_hints[i].what;
    return NULL;
}

/* What to say of a name that this command does not take; SNUG_OK for one that it takes or ignores with a note. */
int option_refuse(struct options *o, const struct option_meaning *m, const char *from, const char *name,
                  struct snug_err *err)
{
    const char *command = command_name(o->command), *hint = hint_for(o, name);
    switch (m->kind) {
    case MEANS_OPTION:
        return SNUG_OK;
    case MEANS_ACCEPTED:
        return option_note(o, err, "%s is ignored: %s", from, m->foreign->why);
    case MEANS_REFUSED:
        return err_set(err, SNUG_ERR_USAGE, "%s: refused; %s", from, m->foreign->why);
    case MEANS_OTHER_COMMAND:
        if (!hint) /* for another of its names */
            hint = hint_for(o, option_rows[m->option].name);
        return hint ? err_set(err, SNUG_ERR_USAGE, "%s: not an option of 'snug %s'; %s", from, command, hint)
                    : err_set(err, SNUG_ERR_USAGE, "%s: not an option of 'snug %s'; see 'snug %s --help'", from,
                              command, command);
    case MEANS_NOTHING:
        break;
    }
    if (hint)
        return err_set(err, SNUG_ERR_USAGE, "%s: unknown option; %s", from, hint);
    const char *nearest = option_nearest(o, -1, name);
    char flag[OPTION_NAME_MAX];
    if (nearest)
        return err_set(err, SNUG_ERR_USAGE, "%s: unknown option; did you mean %s? see 'snug %s --help'", from,
                       option_flag(nearest, flag), command);
    return err_set(err, SNUG_ERR_USAGE, "%s: unknown option; see 'snug %s --help'", from, command);
}
