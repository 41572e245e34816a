#include "op/optimizer/codes.h"

#include "graph/graph.h"

#include <math.h>

bool codes_fit(struct graph *g, int p, int id, int absmax, const char *op)
{
    if (!shape_same(g, p, id, op))
        return false;
    const struct value *most = graph_value(g, absmax);
    int64_t blocks = (value_elements(graph_value(g, p), (struct dims){0}) + MAP_BLOCK - 1) / MAP_BLOCK;
    return shape_require(
        g, graph_value(g, id)->dtype == DT_U8 && most->ndim == 1 && dim_equal(most->shape[0], DIM(blocks)), op,
        "states must be U8, and have one absmax for every 256 elements");
}

void codes_open(struct codes *c, const struct tensor *code, const struct tensor *absmax, bool is_signed)
{
    c->code = code->data;
    c->absmax = absmax->data;
    c->is_signed = is_signed;
    for (int i = 0; i < MAP_CODES; i++)
        c->map[i] = is_signed ? map_signed(i) : map_unsigned(i);
}

void codes_read(const struct codes *c, int64_t from, int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)c->map[c->code[from + i]] * c->absmax[from / MAP_BLOCK];
}

int codes_nearest(const float *map, double x)
{
    int low = 0, high = MAP_CODES - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if ((double)map[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return x - (double)map[low] <= (double)map[high] - x ? low : high;
}

void codes_write(const struct codes *c, int64_t from, int64_t n, const double *x)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    c->absmax[from / MAP_BLOCK] = most;
    for (int64_t i = 0; i < n; i++) {
        int code = codes_nearest(c->map, most > 0 ? x[i] / most : 0);
        if (c->is_signed && x[i] < 0 && code >= MAP_SIGNED_ZERO)
            code = MAP_SIGNED_ZERO - 1;
        c->code[from + i] = (uint8_t)code;
    }
}
