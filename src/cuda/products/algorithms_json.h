/* algorithms_json.h: the algorithms of products as JSON, for profiles and checkpoints. */
#ifndef CUDA_PRODUCTS_ALGORITHMS_JSON_H
#define CUDA_PRODUCTS_ALGORITHMS_JSON_H

#include "base/err.h"
#include "base/hash.h"

#include <jansson.h>

struct cuda_products;

/* Which rows of the table of algorithms. */
enum algorithms_which {
    ALGORITHMS_ALL,
    ALGORITHMS_MEASURED, /* for profiles: not those that a checkpoint recorded */
    ALGORITHMS_OF_RUN,   /* for checkpoints: those that workspace was asked for, at any number of rows */
};
/* These rows as a JSON array, a new reference. They hold for one kind of device and one version of cuBLASLt. SNUG_ERR_ENV: no memory. */
int algorithms_export(const struct cuda_products *p, enum algorithms_which which, json_t **out, struct snug_err *err);

/* And back: replaces the table. `where` is the file, for messages. SNUG_ERR_INPUT: not what algorithms_export gives. */
int algorithms_import(struct cuda_products *p, json_t *products, const char *where, struct snug_err *err);

/* Adds to such an array what is news, which stands in the place of the same product's. */
int algorithms_merge(json_t *products, json_t *news, struct snug_err *err);

/* Adds what a checkpoint recorded: it stands in the place of what the table has of the same layers, which are not
 * measured again. *refused: how many of them cuBLASLt does not take; these are left out, and `name` is one of them. */
int algorithms_add_recorded(struct cuda_products *p, json_t *products, const char *where, int *refused, char name[128],
                            struct snug_err *err);

/* Of the measured ones of the run: equal where the same algorithms are used. */
struct hash128 algorithms_hash(const struct cuda_products *p);

#endif
