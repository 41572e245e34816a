/* exchange.h: what the ranks of a run send each other. */
#ifndef TRAIN_FORECAST_EXCHANGE_H
#define TRAIN_FORECAST_EXCHANGE_H

#include <stdint.h>

struct session;

/* Bytes of an optimizer step that the busiest link carries each way: a rank's that gets most, or sends most. Exchanges that follow one
 * another are one; all wait for the slowest. */
int64_t exchange_bytes(const struct session *s);

/* How long they take, by the GPU's data sheet: nothing else runs meanwhile. 0: not known. */
double exchange_seconds(const struct session *s, int64_t bytes);

#endif
