/* pack.h: what the files of plan/ share. */
#ifndef PLAN_PACK_H
#define PLAN_PACK_H

#include "plan/plan.h"

/* Bytes of a value at its largest, with what `align` adds. */
int64_t plan_room(const struct plan *p, const struct program *g, int id);
/* Likewise of a persistent value: those of the largest program that has it. */
int64_t plan_persistent_room(const struct plan *p, const char *name);
/* Whether it has a place of its own in the arena of the device, among the values of one program at a time. */
bool plan_is_transient(const struct program *g, int id);
/* The place of a persistent value in one of the first `before` programs, by name; -1 if it is new. */
int64_t plan_known_place(const struct plan *p, int before, const struct value *v);

/* Sets g->at of a program's transient values, counted from 0, and g->peak_bytes: INT64_MAX where it found no places for them within `most`
 * bytes. Lifetimes and the lower bound are set. */
int plan_pack_program(const struct plan *p, struct program *g, int64_t most, struct snug_err *err);

#endif
