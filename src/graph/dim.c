#include "graph/dim.h"

const struct dimension_info dimension_table[DIMS] = {
#define DIMENSION(name, plural, tokens) {#name, #plural, tokens},
    DIMENSIONS(DIMENSION)
#undef DIMENSION
};

bool dim_equal(struct dim a, struct dim b)
{
    bool equal = a.c == b.c;
    for (int i = 0; i < DIMS; i++)
        equal = equal && a.times.of[i] == b.times.of[i];
    return equal;
}

bool dim_is_constant(struct dim d)
{
    return dim_equal(d, (struct dim){.c = d.c});
}

bool dim_has_tokens(struct dim d)
{
    for (int i = 0; i < DIMS; i++)
        if (dimension_table[i].tokens && d.times.of[i] > 0)
            return true;
    return false;
}

struct dim dim_plus(struct dim a, int64_t times, struct dim b)
{
    for (int i = 0; i < DIMS; i++)
        a.times.of[i] += times * b.times.of[i];
    a.c += times * b.c;
    return a;
}
