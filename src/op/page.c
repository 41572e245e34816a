/* y = x, byte for byte, between a file that is mapped into the host's memory and that memory. The host's processor does it, whatever the
 * device: reading what is mapped may take as long as the disk does. */
#include "graph/graph.h"

#include <string.h>

void shape_page(struct graph *g, struct op_page *n)
{
    struct value x = *graph_value(g, n->x);
    n->y = shape_out(g, x.ndim, x.shape);
}

double flops_page(const struct args_page *a)
{
    (void)a;
    return 0;
}

void ref_page(const struct args_page *a, const struct call *c)
{
    (void)c;
    memcpy(a->y.data, a->x.data, (size_t)dtype_bytes(a->x.dtype, tensor_elements(&a->x)));
}
