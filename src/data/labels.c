#include "data/labels.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct named {
    const char *name;
    int32_t id;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int sort_names(struct label_map *m, const char *path, struct snug_err *err)
{
    size_t bytes = (size_t)m->n * sizeof(struct named);
    struct named *s = mem_alloc(bytes);
    m->sorted = mem_alloc((size_t)m->n * sizeof *m->sorted);
    if (!s || !m->sorted) {
        mem_free(s);
        return err_no_memory(err, bytes);
    }
    for (int32_t i = 0; i < m->n; i++)
        s[i] = (struct named){m->names[i], i};
    qsort(s, (size_t)m->n, sizeof *s, by_name);
    int code = SNUG_OK;
    for (int32_t i = 0; i < m->n && !code; i++) {
        m->sorted[i] = s[i].id;
        if (i > 0 && strcmp(s[i - 1].name, s[i].name) == 0)
            code =
                err_set(err, SNUG_ERR_INPUT, "%s: the labels with ids %d and %d have one name, '%s'; give each its own",
                        path, (int)s[i - 1].id, (int)s[i].id, s[i].name);
    }
    mem_free(s);
    return code;
}

static bool all_numbers(const struct label_map *m, const char *prefix)
{
    for (int32_t i = 0; i < m->n; i++) {
        char want[32];
        snprintf(want, sizeof want, "%s%d", prefix, (int)i);
        if (strcmp(m->names[i], want) != 0)
            return false;
    }
    return true;
}

static bool is_whole(const char *name)
{
    name += *name == '-';
    return *name && !name[strspn(name, "0123456789")];
}

static bool all_whole(const struct label_map *m)
{
    int32_t i = 0;
    while (i < m->n && is_whole(m->names[i]))
        i++;
    return m->n && i == m->n;
}

int label_map_init(struct label_map *m, const char *const *names, int32_t n, const char *path, struct snug_err *err)
{
    *m = (struct label_map){0};
    if (n < 0 || n > LABELS_MAX)
        return err_set(err, SNUG_ERR_INPUT, "%s: %d labels are over the limit of %d", path, (int)n, LABELS_MAX);
    m->names = mem_alloc((size_t)n * sizeof *m->names);
    int code = m->names ? SNUG_OK : err_no_memory(err, (size_t)n * sizeof *m->names);
    for (int32_t i = 0; i < n && !code; i++, m->n++) {
        m->names[i] = mem_strdup(names[i]);
        if (!m->names[i])
            code = err_no_memory(err, strlen(names[i]) + 1);
    }
    if (!code)
        code = sort_names(m, path, err);
    if (code)
        label_map_free(m);
    else
        m->numbers = all_numbers(m, "") || all_numbers(m, "LABEL_");
    m->numerals = !code && !m->numbers && all_whole(m);
    return code;
}

int label_map_copy(struct label_map *m, const struct label_map *from, const char *path, struct snug_err *err)
{
    TRY(label_map_init(m, (const char *const *)from->names, from->n, path, err));
    m->from_data = from->from_data;
    m->numbers = from->numbers;
    m->numerals = from->numerals;
    return SNUG_OK;
}

void label_map_free(struct label_map *m)
{
    for (int32_t i = 0; m->names && i < m->n; i++)
        mem_free(m->names[i]);
    mem_free(m->names);
    mem_free(m->sorted);
    *m = (struct label_map){0};
}

int32_t label_map_find(const struct label_map *m, const char *name)
{
    int32_t low = 0, high = m->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(name, m->names[m->sorted[middle]]);
        if (order == 0)
            return m->sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}
