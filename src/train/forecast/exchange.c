#include "train/forecast/exchange.h"

#include "search/links.h"
#include "train/session/session.h"

/* Of what a rank exchanges, the share with ranks of other hosts: with each of the others it exchanges as much. */
static double network_share(const struct session *s)
{
    int ranks = s->compile.ranks, beside = (int)s->o->gpus_per_host;
    return option_given(s->o, network) && ranks > beside ? (double)(ranks - beside) / (ranks - 1) : 0;
}

/* Links reach a share of what their data sheet promises. Those in a host and those between hosts carry at the same time. */
double exchange_seconds_of_byte(const struct session *s)
{
    const struct backend *b = s->compile.backend;
    const double reached = 0.75, bits = 8, giga = 1e9;
    double abroad = network_share(s);
    if (b->facts.host_memory || !(b->rates.link > 0))
        return 0;
    double here = (1 - abroad) / (reached * b->rates.link);
    double network = abroad > 0 ? abroad * bits / (reached * giga * s->o->network) : 0;
    return network > here ? network : here;
}

struct exchange exchange_of(const struct session *s)
{
    const struct compile_settings *c = &s->compile;
    const struct plan *p = &s->run.plan;
    const struct links links = {c->ranks, c->link_seconds};
    const struct rates rates = rates_of(c->backend, &c->precision, c->threads, s->choices.usual);
    double bytes = links_bytes(&links, p, &s->run.where, s->choices.accumulation);
    return (struct exchange){.bytes = (int64_t)bytes,
                             .network_bytes = (int64_t)(bytes * network_share(s)),
                             .seconds = links_seconds(&links, &rates, p, &s->run.where, s->choices.accumulation)};
}
