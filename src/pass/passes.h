/* passes.h: every pass, in the order in which they run, and for which programs. A row makes the prototype (pass.h), the call
 * (compile.c) and the word of `snug plan --dump`.
 *
 *     PASS(x, name, programs)     x is whatever the user of the table gives */
#ifndef PASS_PASSES_H
#define PASS_PASSES_H

#define PASSES(PASS, x)                                                                                                \
    PASS(x, adapt, HAS_FORWARD)                                                                                        \
    PASS(x, freeze, HAS_FORWARD)                                                                                       \
    PASS(x, quantize, HAS_FORWARD)                                                                                     \
    PASS(x, grad, HAS_BACKWARD)                                                                                        \
    PASS(x, fold_bias, HAS_BACKWARD)                                                                                   \
    PASS(x, fold_act, HAS_BACKWARD)                                                                                    \
    PASS(x, fold_head, HAS_BACKWARD | 1 << PROGRAM_EVALUATION)                                                         \
    PASS(x, precision, HAS_FORWARD)                                                                                    \
    PASS(x, fp8, HAS_BACKWARD)                                                                                         \
    PASS(x, cache, 1 << PROGRAM_GENERATION)                                                                            \
    PASS(x, materialize, HAS_FORWARD)                                                                                  \
    PASS(x, keep_mask, HAS_BACKWARD)                                                                                   \
    PASS(x, reduce, HAS_BACKWARD | HAS_UPDATE)                                                                         \
    PASS(x, update, HAS_UPDATE)                                                                                        \
    PASS(x, share, HAS_UPDATE)                                                                                         \
    PASS(x, place, HAS_FORWARD | HAS_UPDATE)                                                                           \
    PASS(x, recompute, HAS_BACKWARD)                                                                                   \
    PASS(x, pad, HAS_FORWARD)                                                                                          \
    PASS(x, pull, HAS_FORWARD)                                                                                         \
    PASS(x, order, EVERY_PROGRAM)                                                                                      \
    PASS(x, offload, HAS_BACKWARD)                                                                                     \
    PASS(x, stage, HAS_UPDATE)

#endif
