#include "search/rates.h"

#include "graph/lanes.h"

/* Round numbers of common machines: what matters is their ratio, how many operations a byte is worth. A GPU does several times as
 * many operations on 16-bit numbers as on others. Of what a data sheet promises, products and kernels reach a share. */
struct rates rates_of(const struct backend *b, const struct precision *p, int threads, struct dims sizes)
{
    const double products = 0.62, memory = 0.75, pcie = 2.2e10; /* of version 4 with 16 lanes */
    const double fp8 = 1.9;                                     /* on an H200 beside 16 bits: 1.8 to 2.2 */
    bool narrow = p->narrow != p->wide;
    if (b->facts.host_memory)
        return (struct rates){
            .flops = 4e10 * threads, .fp8 = 1, .bytes = 2e10, .host_bytes = 2e10, .least = 1e-6, .sizes = sizes};
    if (b->rates.bytes > 0)
        return (struct rates){.flops = products * (narrow ? b->rates.narrow : b->rates.wide),
                              .fp8 = fp8,
                              .bytes = memory * b->rates.bytes,
                              .host_bytes = memory * b->rates.host_bytes,
                              .least = 3e-6,
                              .sizes = sizes};
    return (struct rates){
        .flops = narrow ? 4e14 : 5e13, .fp8 = fp8, .bytes = 2.5e12, .host_bytes = pcie, .least = 3e-6, .sizes = sizes};
}

static const double disk_rate = 2e9; /* bytes a second, each way, of one that is fast */

double rates_node(const struct rates *r, const struct program *g, const struct node *n)
{
    union args_any args;
    compile_args(g, n, r->sizes.T ? r->sizes : g->max, NULL, -1, &args);
    double compute = node_op(n)->flops(&args) / (n->op == OP_linear_fp8 ? r->fp8 * r->flops : r->flops);
    double move = compile_bytes(g, n, &args, MEMORY_DEVICE) / r->bytes +
                  compile_bytes(g, n, &args, MEMORY_HOST) / r->host_bytes +
                  compile_bytes(g, n, &args, MEMORY_DISK) / disk_rate;
    return r->least + (compute > move ? compute : move);
}

double rates_program(const struct rates *r, const struct program *g)
{
    double *seconds = mem_alloc((size_t)g->graph.n_nodes * sizeof *seconds), all = 0;
    for (int k = 1; k < g->graph.n_nodes; k++) {
        double node = node_is_of(&g->graph.nodes[k], 1) ? rates_node(r, g, &g->graph.nodes[k]) : 0;
        all += node;
        if (seconds)
            seconds[k] = node;
    }
    all = seconds ? lanes_seconds(&g->graph, seconds, g->settle)
                  : all; /* without memory as if nothing ran side by side */
    mem_free(seconds);
    return all;
}

double rates_step(const struct rates *r, const struct plan *p, const struct programs *where, int64_t accumulation)
{
    const int once[] = {where->step, where->first, where->update};
    double seconds = 0;
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        seconds += once[i] >= 0 ? rates_program(r, &p->programs[once[i]]) : 0;
    return where->next < 0 ? seconds
                           : seconds + (double)(accumulation - 1) * rates_program(r, &p->programs[where->next]);
}
