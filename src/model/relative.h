/* relative.h: relative positions of attention as DeBERTa has them: which row of a table a query and a key have, by how far they are
 * apart. */
#ifndef MODEL_RELATIVE_H
#define MODEL_RELATIVE_H

#include <stdint.h>

struct relative {
    int64_t
        rows; /* of the table, even; the first half is for keys behind the query. 0: there are no relative positions */
    int64_t buckets;  /* distances from half of this on share rows, in steps that grow with them; 0: each has its own */
    int64_t furthest; /* with buckets: distances below this have different ones */
};

/* The row of each distance, query minus key, from 1 - longest to longest - 1: never less than that of the distance before. */
void relative_rows(const struct relative *r, int64_t longest, int32_t *rows);

#endif
