/* The choice of experts (Shazeer et al., arXiv 1701.06538), of each token the k of E with the largest logits z; of equal ones the
 * first, and NaN counts as -infinity:
 *     gates[n,j] = exp(z[n,e]) / sum of exp(z[n,.]) over all experts or, when `normalized`, over the chosen; e the j-th chosen of n
 * Rows are then sorted by expert, those of an expert by token: token n's j-th row is row places[n k + j], and expert e has the rows
 * offsets[e] ... offsets[e+1]-1. logits (N,E), gates (N,k), places (k N) I32, offsets (E+1) I32.
 * Backward, with p the gates and s[n] = sum_j dgates[n,j] p[n,j]:
 *     dz[n,e] = p[n,e] (dgates[n,e] - s[n]), dgates being 0 of experts that were not chosen; 0 for these when `normalized`. */
#include "graph/graph.h"
#include "op/experts/rows.h"

#include <math.h>

static void make_integers(struct graph *g, int id)
{
    graph_value(g, id)->dtype = DT_I32;
}

void shape_route(struct graph *g, struct op_route *n)
{
    const struct value *z = graph_value(g, n->logits);
    if (!shape_require(g, z->ndim == 2 && dim_is_constant(z->shape[1]), "route", "logits must be (N,E)") ||
        !shape_require(g, n->k > 0 && n->k <= z->shape[1].c, "route", "k must be 1 to E"))
        return;
    struct dim N = z->shape[0], E = z->shape[1];
    n->gates = shape_out(g, SHAPE(N, DIM(n->k)));
    make_integers(g, n->places = shape_stat(g, SHAPE(dim_plus(DIM(0), n->k, N))));
    make_integers(g, n->offsets = shape_stat(g, SHAPE(dim_plus(E, 1, DIM(1)))));
}

void shape_route_bwd(struct graph *g, struct op_route_bwd *n)
{
    const struct value *z = graph_value(g, n->logits), *d = graph_value(g, n->dgates);
    const struct value *places = graph_value(g, n->places), *offsets = graph_value(g, n->offsets);
    shape_require(g,
                  z->ndim == 2 && d->ndim == 2 && dim_equal(d->shape[0], z->shape[0]) && dim_is_constant(d->shape[1]) &&
                      experts_places_fit(places, d->shape[0], d->shape[1].c) && offsets->dtype == DT_I32 &&
                      dim_equal(offsets->shape[0], dim_plus(z->shape[1], 1, DIM(1))),
                  "route_bwd", "logits must be (N,E), dgates (N,k), places (k N) and offsets (E+1) I32");
    if (n->dlogits)
        shape_same(g, n->logits, n->dlogits, "route_bwd");
}

void grad_route(struct grads *d, const struct op_route *n)
{
    struct op_route_bwd b = {.logits = n->logits,
                             .dgates = grad_of(d, n->gates),
                             .places = n->places,
                             .offsets = n->offsets,
                             .dlogits = grad_target(d, n->logits),
                             .normalized = n->normalized};
    if (b.dlogits)
        emit_route_bwd(d->g, &b);
}

double flops_route(const struct args_route *a)
{
    return (double)a->logits.shape[0] * (double)a->logits.shape[1] * (double)(a->k + 4);
}

double flops_route_bwd(const struct args_route_bwd *a)
{
    return 6.0 * (double)a->logits.shape[0] * (double)a->logits.shape[1];
}

/* The best expert behind the one that was chosen last, -1 for none yet. */
static int64_t next_expert(const double *z, int64_t E, int64_t last)
{
    int64_t best = -1;
    for (int64_t e = 0; e < E; e++)
        if ((last < 0 || experts_before(z[last], last, z[e], e)) &&
            (best < 0 || experts_before(z[e], e, z[best], best)))
            best = e;
    return best;
}

void ref_route(const struct args_route *a, const struct call *c)
{
    (void)c;
    int64_t N = a->logits.shape[0], E = a->logits.shape[1], k = a->k;
    int32_t *places = a->places.data, *offsets = a->offsets.data;
    for (int64_t n = 0; n < N; n++) {
        const double *z = (const double *)a->logits.data + n * E;
        double *gates = (double *)a->gates.data + n * k, sum = 0;
        for (int64_t j = 0, last = -1; j < k; j++)
            places[n * k + j] = (int32_t)(last = next_expert(z, E, last));
        double max = z[places[n * k]];
        for (int64_t j = 0; j < k; j++)
            gates[j] = exp(z[places[n * k + j]] - max);
        for (int64_t i = 0; i < (a->normalized ? k : E); i++)
            sum += a->normalized ? gates[i] : exp(z[i] - max);
        for (int64_t j = 0; j < k; j++)
            gates[j] /= sum;
    }
    experts_sort(places, offsets, N * k, E);
}

void ref_route_bwd(const struct args_route_bwd *a, const struct call *c)
{
    (void)c;
    int64_t N = a->logits.shape[0], E = a->logits.shape[1], k = a->dgates.shape[1];
    const int32_t *places = a->places.data, *offsets = a->offsets.data;
    for (int64_t n = 0; a->dlogits.data && n < N; n++) {
        const double *z = (const double *)a->logits.data + n * E, *d = (const double *)a->dgates.data + n * k;
        double *dz = (double *)a->dlogits.data + n * E, max = z[experts_of(offsets, E, places[n * k])], sum = 0, s = 0;
        for (int64_t e = 0; e < E && !a->normalized; e++)
            sum += exp(z[e] - max);
        for (int64_t j = 0; j < k && a->normalized; j++)
            sum += exp(z[experts_of(offsets, E, places[n * k + j])] - max);
        for (int64_t j = 0; j < k; j++)
            s += d[j] * exp(z[experts_of(offsets, E, places[n * k + j])] - max) / sum;
        for (int64_t e = 0; e < E; e++)
            dz[e] = (a->dlogits.add ? dz[e] : 0) - (a->normalized ? 0 : exp(z[e] - max) / sum * s);
        for (int64_t j = 0; j < k; j++) {
            int64_t e = experts_of(offsets, E, places[n * k + j]);
            dz[e] += exp(z[e] - max) / sum * (a->normalized ? d[j] - s : d[j]);
        }
    }
}
