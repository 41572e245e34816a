/* labels.h: names of classes and their ids. */
#ifndef DATA_LABELS_H
#define DATA_LABELS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LABELS_MAX = 100000 }; /* classes; more is taken for a mistake */

struct label_map {
    int32_t n;
    char **names;    /* (n): the name of class id; UTF-8 */
    int32_t *sorted; /* (n): ids in the order of their names' bytes, for label_map_find */
    bool from_data;  /* made from the labels of the training data, not taken from a model */
    bool numbers;    /* names are "0", "1" …, or "LABEL_0", "LABEL_1" …: a number in the data is the id */
    bool numerals;   /* names are other whole numbers, such as stars from "1" to "5": a number in the data is a name */
};

/* Copies `names`. SNUG_ERR_INPUT when two are equal or n > LABELS_MAX (`path` is for the message). */
int label_map_init(struct label_map *m, const char *const *names, int32_t n, const char *path, struct snug_err *err);
int label_map_copy(struct label_map *m, const struct label_map *from, const char *path, struct snug_err *err);
void label_map_free(struct label_map *m);
int32_t label_map_find(const struct label_map *m, const char *name); /* id, or -1; O(log n) */

#endif
