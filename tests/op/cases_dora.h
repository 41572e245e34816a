/* cases_dora.h: rows of op_cases (cases.c, which includes this) for the ops of DoRA. */
#define DORA_NORM(O, I, r) .w = NARROW(O, I), .a = FLOAT(r, I), .b = FLOAT(O, r), .norm = FLOAT(O)
#define DORA_NORM_IN_OUT(O, I, r) .w = NARROW(I, O), .a = FLOAT(r, I), .b = FLOAT(O, r), .norm = FLOAT(O)
#define DORA(N, O) .z = NARROW(N, O), .m = FLOAT(O), .norm = FLOAT(O), .y = NARROW(N, O)
#define DORA_BWD(N, O) .dy = NARROW(N, O), .z = NARROW(N, O), .m = FLOAT(O), .norm = FLOAT(O)

{CASE(dora_norm, "odd width", DORA_NORM(7, 21, 3), .scale = 1.5)},
    {CASE(dora_norm, "in_out", DORA_NORM_IN_OUT(19, 12, 4), .scale = 0.5, .in_out = 1)},
    {CASE(dora_norm, "one of everything", DORA_NORM(1, 1, 1), .scale = 2)},
    {CASE(dora_norm, "float weight", .w = FLOAT(9, 24), .a = FLOAT(2, 24), .b = FLOAT(9, 2), .norm = FLOAT(9),
          .scale = 2)},
    {CASE(dora_norm, "large", DORA_NORM(131, 300, 16), .scale = 2), .long_only = true},
    {CASE(dora_norm, "large, in_out", DORA_NORM_IN_OUT(150, 260, 8), .scale = 2, .in_out = 1), .long_only = true},
    {CASE(dora, "bias", DORA(6, 7), .bias = FLOAT(7))}, {CASE(dora, "no bias", DORA(3, 17))},
    {CASE(dora, "gelu", DORA(5, 20), .bias = FLOAT(20), .slope = NARROW(5, 20), .act = ACT_gelu)},
    {CASE(dora, "silu, no slope", DORA(4, 33), .act = ACT_silu)},
    {CASE(dora, "whole packs", DORA(5, 32), .bias = FLOAT(32), .slope = NARROW(5, 32), .act = ACT_tanh)},
    {CASE(dora, "no rows", DORA(0, 8), .bias = FLOAT(8))},
    {CASE(dora, "large", DORA(170, 304), .bias = FLOAT(304)), .long_only = true},
    {CASE(dora_bwd, "all gradients", DORA_BWD(6, 21), .dz = NARROW(6, 21), .dm = FLOAT(21), .dbias = FLOAT(21))},
    {CASE(dora_bwd, "a frozen bias", DORA_BWD(9, 32), .dz = NARROW(9, 32), .dm = FLOAT(32))},
    {CASE(dora_bwd, "lengths alone", DORA_BWD(4, 8), .dm = FLOAT(8))},
    {CASE(dora_bwd, "the layer alone", DORA_BWD(4, 8), .dz = NARROW(4, 8))},
    {CASE(dora_bwd, "no rows", DORA_BWD(0, 16), .dz = NARROW(0, 16), .dm = FLOAT(16))},
    {CASE(dora_bwd, "large", DORA_BWD(700, 136), .dz = NARROW(700, 136), .dm = FLOAT(136), .dbias = FLOAT(136)),
     .long_only = true},
