/* report.h: what a plan says to people and programs. */
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "base/str.h"
#include "plan/plan.h"

/* The peak by component and by layer, exact: component bytes and the packing gap add up to the arena. What
 * a checkpoint's copy takes comes on top. */
void plan_report_text(const struct plan *p, struct str *out);
void plan_report_json(const struct plan *p, struct str *out); /* one object: bytes everywhere */

#endif
