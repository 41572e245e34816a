/* schema.h: what the rows of a Parquet file are made of: values, lists and structs.
 *
 * Columns are stored for the leaves of this tree. With each value stand two levels. The definition level counts the nodes on its way that
 * are there, of those that might not be; the repetition level says which list goes on with this value, 0 for a new row. */
#ifndef FORMAT_PARQUET_SCHEMA_H
#define FORMAT_PARQUET_SCHEMA_H

#include "format/parquet/footer.h"

/* What a leaf's values are. */
enum parquet_meaning {
    PARQUET_BYTES, /* and other things that are no text, number or truth value */
    PARQUET_TEXT,
    PARQUET_TRUTH,
    PARQUET_WHOLE,
    PARQUET_UNSIGNED,
    PARQUET_REAL,
    PARQUET_HALF,    /* a float of 16 bits */
    PARQUET_DECIMAL, /* a whole number of 10^-scale */
};

struct parquet_leaf {
    const char *name; /* "messages.list.element.content" */
    enum parquet_type type;
    size_t width; /* bytes of a value, where these are fixed */
    enum parquet_meaning meaning;
    int scale, max_def, max_rep;
};

enum parquet_node_kind { PARQUET_LEAF, PARQUET_STRUCT, PARQUET_LIST };

struct parquet_node {
    const char *name;
    enum parquet_node_kind kind;
    int def;                       /* of values where it is there */
    int item_def, item_rep;        /* LIST: where it has an item; of the second item and later ones */
    struct parquet_node *children; /* (n_children); of a LIST its item */
    int n_children;
    int leaf, n_leaves;       /* those below it, the first of them and how many */
    bool has_bytes;           /* some leaf below it is PARQUET_BYTES */
    const char *const *names; /* LEAF: (n_names) what its numbers stand for; NULL: they are numbers */
    size_t n_names;
};

struct parquet_schema {
    struct parquet_node root; /* a struct: the columns */
    struct parquet_leaf *leaves;
    int n_leaves;
};

/* In f->arena. SNUG_ERR_INPUT: the tree is damaged. */
int parquet_schema_build(struct parquet_footer *f, const char *path, struct parquet_schema *s, struct snug_err *err);

#endif
