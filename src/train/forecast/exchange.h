/* exchange.h: what the ranks of a run send each other. */
#ifndef TRAIN_FORECAST_EXCHANGE_H
#define TRAIN_FORECAST_EXCHANGE_H

#include <stdint.h>

struct session;

/* Of an optimizer step. */
struct exchange {
    int64_t bytes;         /* that the busiest rank gets, or sends: each way */
    int64_t network_bytes; /* of these, from and to other hosts (--network) */
    double seconds;        /* that it makes the step longer, by the GPU's data sheet and --network. 0: not known */
};

struct exchange exchange_of(const struct session *s);

/* How long a byte takes; compile_settings' link_seconds. */
double exchange_seconds_of_byte(const struct session *s);

#endif
