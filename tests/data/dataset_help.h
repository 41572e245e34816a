/* dataset_help.h: files in a folder, opened as data with the fixture tokenizer "uncased". What is said while they are
 * opened is kept. */
#ifndef TESTS_DATA_DATASET_HELP_H
#define TESTS_DATA_DATASET_HELP_H

#include "data/dataset.h"
#include "format/safetensors.h"
#include "tokenizer/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

extern char dir[64], path[128]; /* the folder, and the file in it that was written last */
extern char notes[8192];        /* of the last data that were opened, a line each */
extern struct tokenizer *tokenizer;

int set_up(void **state);
int tear_down(void **state);

/* Write dir/NAME and give its path. */
const char *write_file(const char *name, const char *bytes, size_t n);
const char *write_data(const char *name, const char *content);

/* Options for the file written last, without a cache. */
struct dataset_options options(enum data_task task);

struct dataset opened(const struct dataset_options *o);
struct dataset text(const char *name, const char *content, enum data_task task); /* written and opened */

void check_values(const struct dataset *d, const float *want, int64_t n);

/* ---- Token ids as tensors. */

struct tensor_spec {
    const char *name;
    enum dtype dtype;
    int ndim;
    int64_t shape[2];
    const void *data;
};
void write_tensors(const char *name, const struct tensor_spec *specs, size_t n);

/* Two rows of four and two tokens, padded to four, and what belongs to them. */
extern const int64_t ids_2x4[8], mask_2x4[8], types_2x4[8], classes_2[2];
extern const struct tensor_spec ids_spec, mask_spec, types_spec;

#endif
