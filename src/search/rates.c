#include "search/rates.h"

/* Round numbers of common machines: what matters is their ratio, how many operations a byte is worth. A GPU does several times as
 * many operations on 16-bit numbers as on others. */
struct rates rates_of(const struct backend *b, const struct precision *p, int threads, struct dims sizes)
{
    bool narrow = p->narrow != p->wide;
    if (b->facts.host_memory)
        return (struct rates){.flops = 4e10 * threads, .bytes = 2e10, .least = 1e-6, .sizes = sizes};
    return (struct rates){.flops = narrow ? 4e14 : 5e13, .bytes = 2.5e12, .least = 3e-6, .sizes = sizes};
}

double rates_node(const struct rates *r, const struct program *g, const struct node *n)
{
    union args_any args;
    compile_args(g, n, r->sizes.T ? r->sizes : g->max, NULL, &args);
    double compute = node_op(n)->flops(&args) / r->flops, move = compile_bytes(g, n, &args) / r->bytes;
    return r->least + (compute > move ? compute : move);
}

double rates_program(const struct rates *r, const struct program *g)
{
    double seconds = 0;
    for (int k = 1; k < g->graph.n_nodes; k++)
        seconds += rates_node(r, g, &g->graph.nodes[k]);
    return seconds;
}
