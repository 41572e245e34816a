#include "output/onnx/lower.h"

#include "op/attention/bias_bucket.h"

#include <float.h>

/* The lowest float is added, not minus infinity: a padded row of the batch may see no key at all, and must not become NaN, which the
 * next layer would carry to the tokens. Without a window it is (1 - mask) times that, which programs that know attention look for. */
const char *onnx_seen(struct onnx *x, int64_t window)
{
    const char *what = onnx_name(x, "seen %lld", (long long)window), *made = onnx_made(x, what);
    if (made)
        return made;
    const enum onnx_type type = window ? ONNX_BOOL : ONNX_FLOAT;
    const struct onnx_attr to = {.name = "to", .kind = ONNX_ATTR_INT, .x = {type}};
    const char *seen = onnx_node(x, "Unsqueeze", ONNX_IN("attention_mask", ONNX_INTS(x, 1)));
    seen = onnx_node(x, "Unsqueeze", ONNX_IN(seen, ONNX_INTS(x, 2)));
    seen = onnx_node_with(x, "Cast", ONNX_IN(seen), to);
    if (!window) {
        const char *padding = onnx_node(x, "Sub", ONNX_IN(onnx_real(x, 1), seen));
        return onnx_keep(x, what, onnx_node(x, "Mul", ONNX_IN(padding, onnx_real(x, -FLT_MAX))));
    }
    const char *apart = onnx_node(x, "Abs", ONNX_IN(onnx_distances(x)));
    seen = onnx_node(x, "And", ONNX_IN(seen, onnx_node(x, "Less", ONNX_IN(apart, onnx_int(x, window)))));
    return onnx_keep(x, what, onnx_node(x, "Where", ONNX_IN(seen, onnx_real(x, 0), onnx_real(x, -FLT_MAX))));
}

/* From distance `furthest` on all have the last bucket. */
const char *onnx_distance_bias(struct onnx *x, int table, int64_t furthest)
{
    const char *what = onnx_name(x, "bias %d %lld", table, (long long)furthest), *made = onnx_made(x, what);
    if (made)
        return made;
    int64_t n = 2 * furthest + 1, buckets = graph_value(x->g, table)->shape[0].c;
    int64_t *bucket = arena_alloc(&x->arena, (size_t)n * sizeof *bucket);
    if (!bucket) {
        onnx_fail(x, SNUG_ERR_ENV, "no memory for %lld distances", (long long)n);
        return "";
    }
    for (int64_t d = -furthest; d <= furthest; d++)
        bucket[d + furthest] = bias_bucket(d, 0, buckets, furthest, false);
    const char *rows = onnx_list(x, "distance_buckets", ONNX_INT64, n, bucket);
    rows = onnx_node(x, "Gather", ONNX_IN(onnx_use(x, table), rows));
    const char *at = onnx_node(x, "Clip", ONNX_IN(onnx_distances(x), onnx_int(x, -furthest), onnx_int(x, furthest)));
    at = onnx_node(x, "Add", ONNX_IN(at, onnx_int(x, furthest)));
    const char *bias = onnx_node(x, "Gather", ONNX_IN(rows, at));
    bias = onnx_transpose(x, bias, 3, (const int64_t[]){2, 0, 1});
    return onnx_keep(x, what, onnx_node(x, "Add", ONNX_IN(bias, onnx_seen(x, 0))));
}
