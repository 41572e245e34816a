/* cases_optimizers.h: rows of op_cases (cases.c, which includes this) for the optimizers whose updates are a rule for each element. */
#define UPDATE(...) .p = FLOAT(__VA_ARGS__), .g = NARROW(__VA_ARGS__), STEP
#define RMSPROP(...) UPDATE(__VA_ARGS__), .v = FLOAT(__VA_ARGS__), .alpha = 0.9, .eps = 1e-8
#define RMSPROP8BIT(n, blocks) UPDATE(n), .v = CODES(n), .absmax_v = FLOAT(blocks), .alpha = 0.9, .eps = 1e-3
#define ADAGRAD(...) UPDATE(__VA_ARGS__), .sum = FLOAT(__VA_ARGS__), .eps = 1e-10
#define LION(...) UPDATE(__VA_ARGS__), .m = FLOAT(__VA_ARGS__), .beta1 = 0.9, .beta2 = 0.99
#define LION8BIT(n, blocks) UPDATE(n), .m = CODES(n), .absmax_m = FLOAT(blocks), .beta1 = 0.9, .beta2 = 0.99
#define ADEMAMIX_BETAS .beta1 = 0.9, .beta2 = 0.99, .beta3 = 0.999, .alpha = 5, .eps = 1e-8
#define ADEMAMIX(...)                                                                                                  \
    UPDATE(__VA_ARGS__), .m = FLOAT(__VA_ARGS__), .slow = FLOAT(__VA_ARGS__), .v = FLOAT(__VA_ARGS__), ADEMAMIX_BETAS
#define ADEMAMIX8BIT(n, blocks)                                                                                        \
    UPDATE(n), .m = CODES(n), .slow = CODES(n), .v = CODES(n), .absmax_m = FLOAT(blocks),                              \
               .absmax_slow = FLOAT(blocks), .absmax_v = FLOAT(blocks), ADEMAMIX_BETAS

{CASE(rmsprop, "plain", RMSPROP(5, 7))},
    {CASE(rmsprop, "centered, momentum, decay, clipping", RMSPROP(67), .mean_g = FLOAT(67), .buf = FLOAT(67),
          .coef = FLOAT(1), .momentum = 0.8, .weight_decay = 0.1)},
    {CASE(rmsprop, "a copy of two blocks", RMSPROP(512), .copy = NARROW(512), .buf = FLOAT(512), .momentum = 0.5)},
    {CASE(rmsprop, "skipped", RMSPROP(37), .coef = FLOAT(1), .copy = NARROW(37)), .skip = true},
    {CASE(rmsprop, "stored in bf16", .p = NARROW(301), .g = NARROW(301), .v = NARROW(301), .mean_g = NARROW(301),
          .buf = NARROW(301), STEP, .alpha = 0.9, .eps = 1e-8, .momentum = 0.8, .noise = 77),
     .rounds = true},
    {CASE(lion, "stored in bf16", .p = NARROW(301), .g = NARROW(301), .m = NARROW(301), STEP, .beta1 = 0.9,
          .beta2 = 0.99, .weight_decay = 0.1, .noise = 78),
     .rounds = true},
    {CASE(adagrad, "stored in bf16", .p = NARROW(301), .g = NARROW(301), .sum = NARROW(301), STEP, .eps = 1e-10,
          .noise = 79),
     .rounds = true},
    {CASE(ademamix, "stored in bf16", .p = NARROW(301), .g = NARROW(301), .m = NARROW(301), .slow = NARROW(301),
          .v = NARROW(301), STEP, ADEMAMIX_BETAS, .noise = 80),
     .rounds = true},
    {CASE(ademamix8bit, "stored in bf16", .p = NARROW(300), .g = NARROW(300), .m = CODES(300), .slow = CODES(300),
          .v = CODES(300), .absmax_m = FLOAT(2), .absmax_slow = FLOAT(2), .absmax_v = FLOAT(2), STEP, ADEMAMIX_BETAS,
          .noise = 81),
     .rounds = true},
    {CASE(rmsprop8bit, "blocks and a rest", RMSPROP8BIT(771, 4), .coef = FLOAT(1), .copy = NARROW(771),
          .weight_decay = 0.1)},
    {CASE(rmsprop8bit, "first step", RMSPROP8BIT(37, 1)), .update = 1},
    {CASE(rmsprop8bit, "skipped", RMSPROP8BIT(300, 2), .coef = FLOAT(1), .copy = NARROW(300)), .skip = true},
    {CASE(adagrad, "plain", ADAGRAD(5, 7))},
    {CASE(adagrad, "decay of both, clipping, a copy", ADAGRAD(301), .coef = FLOAT(1), .copy = NARROW(301),
          .lr_decay = 0.5, .weight_decay = 0.1)},
    {CASE(adagrad, "skipped", ADAGRAD(37), .coef = FLOAT(1), .copy = NARROW(37)), .skip = true},
    {CASE(lion, "plain", LION(5, 7))},
    {CASE(lion, "decay, clipping, a copy", LION(301), .coef = FLOAT(1), .copy = NARROW(301), .weight_decay = 0.1)},
    {CASE(lion, "skipped", LION(37), .coef = FLOAT(1), .copy = NARROW(37)), .skip = true},
    {CASE(lion, "large", LION(40, 1001), .weight_decay = 0.01), .long_only = true},
    {CASE(lion8bit, "blocks and a rest", LION8BIT(771, 4), .coef = FLOAT(1), .copy = NARROW(771), .weight_decay = 0.1)},
    {CASE(lion8bit, "first step", LION8BIT(37, 1)), .update = 1},
    {CASE(lion8bit, "skipped", LION8BIT(300, 2), .coef = FLOAT(1), .copy = NARROW(300)), .skip = true},
    {CASE(ademamix, "plain", ADEMAMIX(5, 7))},
    {CASE(ademamix, "warm-ups, decay, clipping, a copy", ADEMAMIX(301), .coef = FLOAT(1), .copy = NARROW(301),
          .t_alpha = 10, .t_beta3 = 7, .weight_decay = 0.1)},
    {CASE(ademamix, "behind its warm-ups", ADEMAMIX(37), .t_alpha = 10, .t_beta3 = 7), .update = 20},
    {CASE(ademamix, "skipped", ADEMAMIX(37), .coef = FLOAT(1), .copy = NARROW(37)), .skip = true},
    {CASE(ademamix8bit, "blocks and a rest", ADEMAMIX8BIT(771, 4), .coef = FLOAT(1), .copy = NARROW(771),
          .weight_decay = 0.1)},
    {CASE(ademamix8bit, "first step", ADEMAMIX8BIT(37, 1)), .update = 1},
    {CASE(ademamix8bit, "skipped", ADEMAMIX8BIT(300, 2), .coef = FLOAT(1), .copy = NARROW(300)), .skip = true},
    {CASE(ademamix8bit, "large", ADEMAMIX8BIT(40001, 157), .weight_decay = 0.01), .long_only = true},
