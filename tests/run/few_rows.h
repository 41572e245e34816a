/* few_rows.h: what a run that is stopped and continued trains on. */
#ifndef TESTS_RUN_FEW_ROWS_H
#define TESTS_RUN_FEW_ROWS_H

#include "command.h"

static const char *rows; /* 29 rows of up to 12 tokens, with labels */

static inline int open_few_rows(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 29, 12, 1, true);
    return code;
}

#endif
