/* label_reader.h: the label column of a data file, or its columns of one label each, row by row, and what they turn out
 * to hold once all is read. */
#ifndef DATA_LABEL_READER_H
#define DATA_LABEL_READER_H

#include "data/files/columns.h"
#include "data/files/source.h"

#include <jansson.h>
#include <locale.h>

struct seen_name {
    char *name;
    int32_t id; /* in the finished map */
};

struct label_reader {
    enum data_task task;           /* TASK_CLASS, TASK_REGRESSION, TASK_MULTI_LABEL or TASK_TOKEN_CLASS */
    const struct label_map *given; /* or NULL */
    int32_t num_labels;            /* how many there must be, or 0 */
    const char *misfit;            /* as dataset_options has it */
    locale_t c_locale;             /* numbers are read alike in every locale */
    const struct columns *columns; /* the table's */
    bool column_each;              /* a number in each of several columns */

    const char *ignore; /* the label whose rows are left out, or NULL */
    bool ignore_is_number;
    double ignore_number;
    int64_t n_ignored;

    int64_t n_rows, n_items; /* of rows that are not left out; a row has one item for TASK_CLASS, else any number */
    int32_t *ids;      /* (n_items): names: the id in `given`, or an index of `seen`; with classes also the number */
    double *numbers;   /* (n_items), for the other tasks when the items are numbers */
    int64_t *row_ends; /* (n_rows): end of the row's items, for the other tasks */
    size_t ids_cap, numbers_cap, row_ends_cap;

    bool any, are_names; /* what the first item was; names and numbers are never mixed */
    struct place first;

    struct seen_name *seen; /* (n_seen) different names … */
    int32_t n_seen, *slots; /* … and a hash table of their indices, -1 where empty */
    size_t seen_cap, n_slots;
};

/* `task` is the one decided on; from `o` come labels, num_labels and ignore_label. SNUG_ERR_USAGE for a class in several
 * columns. */
int label_reader_open(struct label_reader *r, enum data_task task, const struct dataset_options *o,
                      const struct columns *columns, struct snug_err *err);
/* The next row's labels, of each label column: the text of a CSV field (with a 0 byte behind it), or a JSON value. A single
 * column has a list for the tasks with several labels: "a;b", "0;1;1" or a JSON array. *left_out: the row has the label
 * that is ignored, and does not count. SNUG_ERR_INPUT with place and value. */
int label_reader_text(struct label_reader *r, struct place p, const char *const *texts, bool *left_out,
                      struct snug_err *err);
int label_reader_json(struct label_reader *r, struct place p, json_t *const *values, bool *left_out,
                      struct snug_err *err);
/* Sets classes, values or targets, num_labels, labels and label_form of *d. Targets take the place of d->words. `path` is for messages. */
int label_reader_finish(struct label_reader *r, const char *path, struct dataset *d, struct snug_err *err);
void label_reader_close(struct label_reader *r);

/* For data whose labels are numbers: makes d->labels and d->num_labels for d->classes, for d->values of a width, or for
 * d->targets. */
int labels_of_targets(struct dataset *d, const char *path, const struct label_map *given, int32_t num_labels,
                      struct snug_err *err);
int labels_of_numbers(struct dataset *d, const char *path, const struct label_map *given, int32_t num_labels,
                      struct snug_err *err);
int labels_of_values(struct dataset *d, const char *path, const struct label_map *given, int32_t num_labels,
                     int64_t width, const char *misfit, struct snug_err *err);
/* SNUG_ERR_INPUT where the training data had names: the number `item` as an id would be a guess. */
int label_numbers_check(const char *item, struct place p, const struct label_map *given, struct snug_err *err);
/* Whether `text` is a number, and which. */
bool label_number(const char *text, double *x, locale_t c_locale);
/* SNUG_ERR_INPUT unless `value` can be a class id with this map or number of labels. `misfit`: as dataset_options has it. */
int label_id_check(int64_t value, struct place p, const struct label_map *given, int32_t num_labels, const char *misfit,
                   struct snug_err *err);

#endif
