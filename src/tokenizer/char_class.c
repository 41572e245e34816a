#include "tokenizer/char_class.h"

#include "tokenizer/class_tables.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
    const struct char_range *ranges;
    size_t n;
} classes[] = {
    [CLASS_NUMERIC] = {numeric, COUNT(numeric)},
    [CLASS_ACCENT] = {accents, COUNT(accents)},
    [CLASS_COMPAT] = {compat, COUNT(compat)},
    [CLASS_EXTENDERS] = {extenders, COUNT(extenders)},
};

static const struct {
    const char *category;
    const struct char_range *ranges;
    size_t n;
} newer[] = {
#define CATEGORY(name) {#name, newer_##name, COUNT(newer_##name)},
    NEWER_CATEGORIES(CATEGORY)
#undef CATEGORY
};

bool char_in_class(uint32_t c, enum char_class class)
{
    const struct char_range *ranges = classes[class].ranges;
    size_t low = 0, high = classes[class].n; /* the range that may hold c is in [low, high) */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].first <= c)
            low = middle;
        else
            high = middle;
    }
    return ranges[low].first <= c && c <= ranges[low].last;
}

const struct char_range *char_newer(const char *category, size_t k)
{
    for (size_t i = 0; i < COUNT(newer); i++) {
        if (strncmp(newer[i].category, category, strlen(category)) != 0)
            continue;
        if (k < newer[i].n)
            return &newer[i].ranges[k];
        k -= newer[i].n;
    }
    return NULL;
}

struct hash128 char_class_hash(void)
{
    struct hash128 h[COUNT(classes) + COUNT(newer)];
    for (size_t i = 0; i < COUNT(classes); i++)
        h[i] = hash_bytes(classes[i].ranges, classes[i].n * sizeof *classes[i].ranges);
    for (size_t i = 0; i < COUNT(newer); i++)
        h[COUNT(classes) + i] = hash_bytes(newer[i].ranges, newer[i].n * sizeof *newer[i].ranges);
    return hash_bytes(h, sizeof h);
}
