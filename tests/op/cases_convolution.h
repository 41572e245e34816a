/* cases_convolution.h: rows of op_cases (cases.c, which includes this) for convolutions over rows. */
#define ACTIVATION(N, F) .x = NARROW(N, F), .y = NARROW(N, F)
#define NEIGHBOURS(T, B, H, W) .x = NARROW(T, H), .cu = INTS((B) + 1), .y = NARROW(T, (H) * (W)), .width = W
#define NEIGHBOURS_BWD(T, B, H, W) .dy = NARROW(T, (H) * (W)), .cu = INTS((B) + 1), .dx = NARROW(T, H), .width = W

{CASE(activation, "gelu", ACTIVATION(5, 21), .slope = NARROW(5, 21), .act = ACT_gelu)},
    {CASE(activation, "gelu_tanh", ACTIVATION(4, 32), .slope = NARROW(4, 32), .act = ACT_gelu_tanh)},
    {CASE(activation, "tanh", ACTIVATION(3, 17), .slope = NARROW(3, 17), .act = ACT_tanh)},
    {CASE(activation, "relu, no slope", ACTIVATION(3, 17), .act = ACT_relu)},
    {CASE(activation, "silu, one of everything", ACTIVATION(1, 1), .slope = NARROW(1, 1), .act = ACT_silu)},
    {CASE(activation, "no rows", ACTIVATION(0, 8), .slope = NARROW(0, 8), .act = ACT_tanh)},
    {CASE(activation, "large", ACTIVATION(170, 300), .slope = NARROW(170, 300), .act = ACT_gelu), .long_only = true},
    {CASE(neighbours, "three, and padding rows", NEIGHBOURS(12, 3, 17, 3)), LENGTHS(4, 1, 6)},
    {CASE(neighbours, "more than a sequence has", NEIGHBOURS(9, 2, 8, 7)), LENGTHS(2, 7)},
    {CASE(neighbours, "itself", NEIGHBOURS(5, 1, 4, 1)), LENGTHS(5)},
    {CASE(neighbours, "no sequences", NEIGHBOURS(3, 0, 8, 3))}, {CASE(neighbours, "no rows", NEIGHBOURS(0, 0, 8, 3))},
    {CASE(neighbours, "large", NEIGHBOURS(300, 3, 130, 3)), LENGTHS(100, 150, 50), .long_only = true},
    {CASE(neighbours_bwd, "three, and padding rows", NEIGHBOURS_BWD(12, 3, 17, 3)), LENGTHS(4, 1, 6)},
    {CASE(neighbours_bwd, "more than a sequence has", NEIGHBOURS_BWD(9, 2, 8, 7)), LENGTHS(2, 7)},
    {CASE(neighbours_bwd, "no sequences", NEIGHBOURS_BWD(3, 0, 8, 3))},
    {CASE(neighbours_bwd, "no rows", NEIGHBOURS_BWD(0, 0, 8, 3))},
    {CASE(neighbours_bwd, "large", NEIGHBOURS_BWD(300, 3, 130, 3)), LENGTHS(100, 150, 50), .long_only = true},
