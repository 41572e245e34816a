/* act.h: activation functions and their derivatives, in double: the definition for every backend. */
#ifndef OP_ACT_H
#define OP_ACT_H

#include "graph/op.h"

double act_value(enum act act, double x);
double act_slope(enum act act, double x); /* d act_value / dx */

#endif
