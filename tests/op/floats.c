/* Floats of a case's inputs: normal numbers, made into what the slot's name says they are. */
#include "cases.h"
#include "op/clip.h"

#include <math.h>
#include <string.h>

bool case_falls_below_zero(const struct op_case *c, int64_t i)
{
    if (i % 16 != 5)
        return false;
    int m = case_slot(c, "m");
    return m >= 0 && c->args.slot[m].dtype == DT_U8;
}

/* How the floats of a slot are made of normal ones. */
enum filling {
    NORMAL,
    SHIFTED,
    AROUND_ONE,
    SQUARES,
    GRADIENTS,
    LENGTHS, /* of rows, of which some are 0 */
    SMALL,   /* their square is below v */
    ABSOLUTE,
    COEFFICIENT,
    SCALER,
    PROBABILITIES,
    POWERS, /* of 2 */
    APART,  /* so far that a small step changes no choice */
    CLASS_WEIGHTS,
    STEP
};

static enum filling filling_of(const struct op_case *c, const char *name)
{
    static const struct {
        const char *name;
        enum filling filling;
    } fillings[] = {{"x", SHIFTED},
                    {"h", SHIFTED},
                    {"v", SQUARES},
                    {"row", SQUARES},
                    {"col", SQUARES},
                    {"sum", SQUARES},
                    {"partials", SQUARES},
                    {"col_sums", SQUARES},
                    {"row_sums", SQUARES},
                    {"weight_sums", SQUARES},
                    {"squares", SQUARES},
                    {"g", GRADIENTS},
                    {"norm", LENGTHS},
                    {"x_scale", POWERS},
                    {"w_scale", POWERS},
                    {"mean_g", SMALL},
                    {"coef", COEFFICIENT},
                    {"scaler", SCALER},
                    {"weights", CLASS_WEIGHTS},
                    {"step", STEP}};
    if (strstr(name, "gamma"))
        return AROUND_ONE;
    if (!strncmp(name, "absmax", 6))
        return ABSOLUTE;
    if (!strcmp(name, "labels") && (c->op == OP_bce || c->op == OP_bce_bwd))
        return PROBABILITIES;
    if (!strcmp(name, "logits") && c->op == OP_route)
        return APART;
    for (size_t i = 0; i < sizeof fillings / sizeof *fillings; i++)
        if (!strcmp(fillings[i].name, name))
            return fillings[i].filling;
    return NORMAL;
}

/* Element i, of a normal number. */
static double filled(const struct op_case *c, int slot, const struct slot_data *s, enum filling filling, int64_t i,
                     double x)
{
    switch (filling) {
    case NORMAL:
        return x;
    case SHIFTED:
        return x + c->offset;
    case AROUND_ONE:
        return 1 + 0.3 * x;
    case SQUARES:
        return c->op == OP_rmsprop ? 1 + x * x : c->skip && c->op == OP_clip ? INFINITY : x * x;
    case GRADIENTS:
        return case_falls_below_zero(c, i) ? -2e-7 : x;
    case POWERS:
        return exp2(nearbyint(x));
    case LENGTHS:
        return i % 7 == 3 ? 0 : 1 + x * x;
    case SMALL:
        return 0.1 * x;
    case ABSOLUTE:
        return c->update == 1 ? 0 : fabs(x);
    case COEFFICIENT:
        return c->skip ? -1 : 0.375;
    case SCALER:
        return (double[]){1024, LOSS_SCALE_INTERVAL - 1, 7, 0}[i];
    case PROBABILITIES:
        return random_uniform(case_stream(c), (uint32_t)slot, (uint32_t)i);
    case APART:
        return 6 * fmod(0.6180339887 * (double)(i % s->shape.shape[1]) + 0.37 * (double)(i / s->shape.shape[1]), 1) - 3;
    case CLASS_WEIGHTS:
        return i % 5 == 3 ? 0 : fabs(x);
    case STEP:
        return (double[STEP_SCALARS]){0.2, 0.05, c->update ? c->update : 3, 4294967254, 17, 0.3}[i];
    }
    return x;
}

void fill_floats(const struct op_case *c, int slot, struct slot_data *s)
{
    const uint32_t stream = case_stream(c);
    const enum filling filling = filling_of(c, op_table[c->op].slots[slot].name);
    for (int64_t i = 0; i < s->elements; i++)
        s->ref[i] = filled(c, slot, s, filling, i, random_normal(stream, (uint32_t)slot, (uint32_t)i));
}
