/* describe.h: a planned session in words, and as JSON: what `snug plan` prints. */
#ifndef TRAIN_SESSION_DESCRIBE_H
#define TRAIN_SESSION_DESCRIBE_H

#include "base/str.h"
#include "train/session/session.h"

int64_t describe_weights(const struct session *s); /* how many numbers the weights are; 0 also without memory */
struct snug_forecast describe_forecast(const struct session *s);

/* Appends; str_check tells whether there was memory. */
const char *describe_precision(const struct session *s); /* "bf16 with fp32 master weights" */
void describe_plan(const struct session *s, struct str *out);
void describe_title(const struct session *s, struct str *out);     /* of a picture of the plan: one line */
void describe_plan_json(const struct session *s, struct str *out); /* the members of plan_report_json, and more */

#endif
