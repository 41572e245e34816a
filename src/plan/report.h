/* report.h: what a plan says to people and programs. */
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "base/str.h"
#include "plan/plan.h"

/* The peak by component, by what holds the most and by layer, exact: component bytes and the packing gap add up to the
 * arena. What a checkpoint's copy takes comes on top. */
void plan_report_text(const struct plan *p, struct str *out);
void plan_anatomy_text(const struct plan *p,
                       struct str *out); /* more of the same: each layer's components, all that holds something */
void plan_report_json(const struct plan *p, struct str *out); /* one object: all of it, bytes everywhere */

/* A picture of memory over the nodes of all programs, stacked by component, with the peak marked: SVG that needs nothing else.
 * `title` stands above it. */
void plan_picture(const struct plan *p, const char *title, struct str *out);

/* What lies in the host's memory, where something does: "optimizer states", "weights" or "activations", or several of them. */
const char *plan_host_holds(const struct plan *p);

#endif
