/* dim.h: dimensions, the sizes of a program that are known only when a micro-batch is. Shapes are sums of multiples of
 * them, and a program is planned for the largest they can have.
 *
 * To add one: a row here, the inputs that have it (model/build.c), and its largest and actual size where batches are
 * made (batches.c and stream.c of train/session, step.c and evaluate.c of train, train/forecast/typical.c). Text, plans and
 * recordings of a GPU go through the table. */
#ifndef GRAPH_DIM_H
#define GRAPH_DIM_H

#include <stdbool.h>
#include <stdint.h>

/* DIMENSION(name, plural, tokens): as text and C have it; the word for so many of them in reports; whether rows that
 * are counted by it are tokens, the many, to which precision and recomputation apply. */
#define DIMENSIONS(DIMENSION)                                                                                          \
    DIMENSION(T, tokens, true)        /* of a micro-batch: rows of all sequences, one after another */                 \
    DIMENSION(B, sequences, false)    /* of a micro-batch */                                                           \
    DIMENSION(S, source tokens, true) /* of a micro-batch: what an encoder reads, where T is what its decoder does */

/* Places in the vectors below. */
enum dimension {
#define DIMENSION(name, plural, tokens) DIMENSION_##name,
    DIMENSIONS(DIMENSION)
#undef DIMENSION
        DIMS
};

struct dimension_info {
    const char *name, *plural;
    bool tokens;
};
extern const struct dimension_info dimension_table[DIMS];

/* A number for each: the actual or the largest sizes of a micro-batch, say. */
struct dims {
    union {
        int64_t of[DIMS];
        struct {
#define DIMENSION(name, plural, tokens) int64_t name;
            DIMENSIONS(DIMENSION)
#undef DIMENSION
        };
    };
};

/* A size in a shape: the sum of `times` each dimension, and a constant. */
struct dim {
    struct dims times;
    int64_t c;
};
#define DIM_T ((struct dim){.times.T = 1})
#define DIM_B ((struct dim){.times.B = 1})
#define DIM_S ((struct dim){.times.S = 1})
#define DIM(n) ((struct dim){.c = (n)})

static inline int64_t dim_size(struct dim d, struct dims n)
{
    int64_t size = d.c;
    for (int i = 0; i < DIMS; i++)
        size += d.times.of[i] * n.of[i];
    return size;
}

bool dim_equal(struct dim a, struct dim b);
bool dim_is_constant(struct dim d);
bool dim_has_tokens(struct dim d);                              /* rows of such a number are tokens */
struct dim dim_plus(struct dim a, int64_t times, struct dim b); /* a + times b */

#endif
