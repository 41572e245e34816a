/* quantised.h: folders whose weights others have quantised. Each method of quantization_config is a row of QUANT_METHODS and a file
 * that finds, of each weight, the tensors that it is kept in. In their place a folder gets one tensor of F32, whose numbers are made as
 * they are read. A new method is a row and a function; where its weights are matrices of codes and scales, the function fills a struct
 * quant_matrix, and matrix.c reads it. */
#ifndef FORMAT_QUANTISED_H
#define FORMAT_QUANTISED_H

#include "format/model_dir.h"

struct quant_finding;

struct quant_method {
    const char *name;  /* quant_method */
    const char *maker; /* for messages: who has quantised the weights */
    int (*find)(struct quant_finding *f, struct snug_err *err);
    /* What config.json is to say of codes that may stay; NULL: nothing, the weights are numbers. */
    int (*bits)(const struct model_dir *d, json_t *config, struct model_bits *out, struct snug_err *err);
};

/* What a method's function works with. */
struct quant_finding {
    struct model_dir *d;
    const struct quant_method *method;
    json_t *config;          /* quantization_config, an object; NULL: the folder has none */
    struct quantised *state; /* owns all that is found */
    struct arena *arena;     /* lives as long */
    bool *gone; /* by tensor of the folder: a part of a weight that is found, or nothing that a model needs */
};

/* Elements [first, first + n) of a weight, which is `of`. */
struct quant_cache;
typedef int quant_read(struct quant_cache *cache, const void *of, int64_t first, int64_t n, float *to,
                       struct snug_err *err);

/* ---- for methods: all take what they find, so that the folder has it no more ---- */

/* Where a name ends so; NULL: it does not. */
const char *quant_end(const char *name, const char *end);

/* The name with its last `cut` bytes replaced, in the arena; NULL: no memory is left. */
const char *quant_name(struct quant_finding *f, const char *name, const char *end, const char *with);

/* The tensor PATH SUFFIX; where it is absent an error, or out->tensor NULL. */
int quant_take(struct quant_finding *f, const char *path, const char *suffix, struct model_tensor *out,
               struct snug_err *err);
int quant_take_any(struct quant_finding *f, const char *path, const char *suffix, struct model_tensor *out,
                   struct snug_err *err);

/* Whatever ends so is nothing that a weight is made of. */
void quant_drop(struct quant_finding *f, const char *end);

/* "... does not fit the weight that X has quantised". */
int quant_bad_part(const struct quant_finding *f, const struct model_tensor *t, struct snug_err *err);

/* Elements [first, first + n) of a tensor of one type, in new memory, for mem_free. */
int quant_read_elements(const struct model_tensor *t, int64_t first, int64_t n, void **out, struct snug_err *err);

/* A weight is found: its name and shape, and where it lies; the other fields are filled. */
int quant_add(struct quant_finding *f, struct st_tensor weight, quant_read *read, const void *of, struct snug_err *err);

/* What quant_add was given with the same `read`; NULL: t is no such weight. */
const void *quant_found(const struct model_dir *d, const struct model_tensor *t, quant_read *read);

/* ---- matrices of codes ---- */

struct quant_matrix;

/* What is decoded at once. A line of the cache has so many rows where these lie beside one another in words of 4 bytes. */
enum { QUANT_TILE_ROWS = 16, QUANT_TILE_COLUMNS = 256 };

/* How the codes of a matrix (rows, columns) lie. */
struct quant_layout {
    bool whole;  /* those of a row are all over the tensor, which is kept while its weight is read */
    bool across; /* scales and zero points are stored as (groups, rows) */
    bool bytes;  /* a code is a byte, and stands for quant_matrix.table's number */
    /* Those of n columns from `column` on of `rows` rows from `row` on, at most a tile, as numbers; rows of `to` are m->columns apart.
     * codes: of the first of these rows, or of all. Not for bytes. */
    void (*unpack)(const struct quant_matrix *m, const uint8_t *codes, int64_t row, int64_t rows, int64_t column,
                   int64_t n, float *to);
    /* The zero points, in the order in which the file has scales; NULL: zeros are numbers, I8. */
    void (*unpack_zeros)(const struct quant_matrix *m, const uint32_t *stored, float *to);
};

/* An element is (code - zero point) * scale, with those of its block or group. */
struct quant_matrix {
    const struct quant_layout *layout;
    int64_t rows, columns;             /* of the weight: outputs, inputs; both at least 1 */
    int64_t block_rows, block_columns; /* elements that share a scale */
    int64_t scale_rows, scale_columns; /* how many scales */
    struct model_tensor codes, scales; /* scales: F32, F16, BF16 */
    struct model_tensor zeros,
        columns_group; /* .tensor NULL: none; columns_group: I32 (columns), the group of each column */
    float zero;        /* where there are no zeros */
    int bits;
    uint32_t zeros_more; /* is added to each word of zeros: what a file has less */
};

enum { QUANT_TABLE = 256 };

/* What is kept of the weight that is being read. */
struct quant_cache {
    const struct quant_matrix *of;
    float *scales, *zeros; /* (scale_rows, scale_columns) */
    int32_t *groups;
    uint8_t *codes;
    float table[QUANT_TABLE]; /* what a byte stands for */
};
void quant_cache_clear(struct quant_cache *cache);

quant_read quant_read_matrix;

/* Adds the weight, with the shape of t; m lives as long as the finding's arena. Sizes of scales, zeros and columns_group must have been
 * compared with those of the codes. */
int quant_add_matrix(struct quant_finding *f, const char *name, int ndim, const int64_t *shape,
                     const struct quant_matrix *m, struct snug_err *err);

/* Whether the tensor is a list of floats of one of the types that scales have. */
bool quant_is_scale(const struct model_tensor *t);
/* Whether the tensor has this type and this shape. */
bool quant_is(const struct model_tensor *t, enum dtype dtype, int64_t rows, int64_t columns);

static inline int64_t quant_blocks(int64_t elements, int64_t block)
{
    return elements / block + (elements % block > 0);
}

/* Codes [first, first + n) of those of 1 to 8 bits that stand one behind the other, the first in the lowest bits. Reads a byte behind
 * them. */
void quant_unpack_bits(const uint8_t *codes, int bits, int64_t first, int64_t n, float *to);

/* A row of bytes: of I8, F8_E4M3 or F8_E5M2. */
extern const struct quant_layout quant_bytes;

/* ---- the methods ---- */

int bitsandbytes_find(struct quant_finding *f, struct snug_err *err);
int bitsandbytes_bits(const struct model_dir *d, json_t *config, struct model_bits *out, struct snug_err *err);
bool bitsandbytes_is(const struct model_dir *d); /* by its tensors */
int fp8_find(struct quant_finding *f, struct snug_err *err);
int compressed_tensors_find(struct quant_finding *f, struct snug_err *err);
int gptq_find(struct quant_finding *f, struct snug_err *err);
int awq_find(struct quant_finding *f, struct snug_err *err);
int mxfp4_find(struct quant_finding *f, struct snug_err *err);

/* Puts numbers in the place of what is quantised in a folder that has been opened; a method that is no row is SNUG_ERR_INPUT. */
int quantised_open(struct model_dir *d, struct snug_err *err);

#endif
