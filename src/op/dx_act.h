/* dx_act.h: the two parts of linear_dx_act. The product is left in du, where act_bwd multiplies it in place: nothing has room
 * for the gradient between them. */
#ifndef OP_DX_ACT_H
#define OP_DX_ACT_H

#include "graph/op.h"

static inline struct args_linear_dx dx_act_product(const struct args_linear_dx_act *a)
{
    return (struct args_linear_dx){.dy = a->dy, .w = a->w, .dx = a->du, .in_out = a->in_out};
}

static inline struct args_act_bwd dx_act_slope(const struct args_linear_dx_act *a)
{
    return (struct args_act_bwd){.slope = a->slope, .dy = a->du, .du = a->du, .dbias = a->dbias};
}

#endif
