#include "metrics/entities.h"

#include <stdlib.h>
#include <string.h>

enum { NO_TYPE = -2 }; /* "_", where no label but O has it */

/* ---- types ---- */

/* The first character of UTF-8 text, and what stands behind it. */
static const char *first_character(const char *s, uint32_t *c)
{
    unsigned char lead = (unsigned char)*s;
    int more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    *c = more == 0 ? lead : lead & (0x3Fu >> more);
    if (!lead)
        return s;
    for (s++; more-- && (*s & 0xC0) == 0x80; s++)
        *c = *c << 6 | (*s & 0x3Fu);
    return s;
}

/* What stands behind the first '-', or without one the rest; "_" for nothing. */
static const char *type_name(const char *label, uint32_t *mark)
{
    const char *rest = first_character(label, mark), *dash = strchr(rest, '-');
    const char *name = dash ? dash + 1 : rest;
    return *name ? name : "_";
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int32_t find(const char *const *names, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    return NO_TYPE;
}

int32_t entity_types(const char *const *labels, int32_t n, const char **names, struct tag *tags)
{
    int32_t types = 0;
    for (int32_t i = 0; i < n; i++) {
        uint32_t mark;
        const char *name = type_name(labels[i], &mark);
        if (mark != 'O' && find(names, types, name) < 0)
            names[types++] = name;
    }
    if (types)
        qsort(names, (size_t)types, sizeof *names, by_name);
    for (int32_t i = 0; i < n; i++) {
        const char *name = type_name(labels[i], &tags[i].mark);
        tags[i].type = find(names, types, name);
    }
    return types;
}

/* ---- entities ---- */

/* Whether an entity ends between two words, and whether one begins there: seqeval's end_of_chunk and start_of_chunk. */
static bool ends(struct tag before, struct tag now)
{
    uint32_t a = before.mark, b = now.mark;
    if (a == 'E' || a == 'S')
        return true;
    if ((a == 'B' || a == 'I') && (b == 'B' || b == 'S' || b == 'O'))
        return true;
    return a != 'O' && a != '.' && before.type != now.type;
}

static bool begins(struct tag before, struct tag now)
{
    uint32_t a = before.mark, b = now.mark;
    if (b == 'B' || b == 'S')
        return true;
    if ((a == 'E' || a == 'S' || a == 'O') && (b == 'E' || b == 'I'))
        return true;
    return b != 'O' && b != '.' && before.type != now.type;
}

/* The tags of a row so far. */
struct run {
    struct tag before;
    int64_t begin; /* of the entity at work */
};

/* The next word: whether an entity has ended before it, which is of type `ended->type` and begins at `ended->begin`. */
static bool step(struct run *r, struct tag now, int64_t at, struct run *ended)
{
    bool end = ends(r->before, now);
    *ended = *r;
    if (begins(r->before, now))
        r->begin = at;
    r->before = now;
    return end;
}

void entities_count(const struct tag *tags, const int32_t *actual, const int32_t *predicted, int64_t n,
                    struct label_counts *types)
{
    const struct tag outside = {.mark = 'O', .type = NO_TYPE};
    struct run a = {.before = outside}, p = a, a_ended, p_ended;
    int64_t at = 0;
    for (int64_t i = 0; i <= n; i++) {
        if (i < n && actual[i] < 0)
            continue;
        bool is_actual = step(&a, i < n ? tags[actual[i]] : outside, at, &a_ended);
        bool is_predicted = step(&p, i < n ? tags[predicted[i]] : outside, at, &p_ended);
        at++;
        is_actual &= a_ended.before.type >= 0;
        is_predicted &= p_ended.before.type >= 0;
        if (is_actual)
            types[a_ended.before.type].actual++;
        if (is_predicted)
            types[p_ended.before.type].predicted++;
        if (is_actual && is_predicted && a_ended.before.type == p_ended.before.type && a_ended.begin == p_ended.begin)
            types[a_ended.before.type].true_positive++;
    }
}
