/* cases_experts.h: rows of the table in cases.c: mixtures of experts. N tokens choose k of E experts. */
#define ROUTE(N, E, chosen)                                                                                            \
    .logits = NARROW(N, E), .gates = NARROW(N, chosen), .places = INTS((N) * (chosen)), .offsets = INTS((E) + 1),      \
    .k = chosen
#define ROUTE_BWD(N, E, k)                                                                                             \
    .logits = NARROW(N, E), .dgates = NARROW(N, k), .places = INTS((N) * (k)), .offsets = INTS((E) + 1),               \
    .dlogits = NARROW(N, E)
#define TAKE(N, H, chosen)                                                                                             \
    .x = NARROW(N, H), .places = INTS((N) * (chosen)), .y = NARROW((N) * (chosen), H), .k = chosen
#define TAKE_BWD(N, H, chosen)                                                                                         \
    .dy = NARROW((N) * (chosen), H), .places = INTS((N) * (chosen)), .dx = NARROW(N, H), .k = chosen
#define COMBINE(N, H, k) .x = NARROW((N) * (k), H), .gates = NARROW(N, k), .places = INTS((N) * (k)), .y = NARROW(N, H)
#define COMBINE_BWD(N, H, k)                                                                                           \
    .dy = NARROW(N, H), .x = NARROW((N) * (k), H), .gates = NARROW(N, k), .places = INTS((N) * (k))
#define GATE_ROWS(N, H) .x = NARROW(N, H), .logits = NARROW(N, 1), .y = NARROW(N, H)
#define GATE_ROWS_BWD(N, H) .dy = NARROW(N, H), .x = NARROW(N, H), .logits = NARROW(N, 1)
#define EXPERTS(N, E, I, O) .x = NARROW(N, I), .w = NARROW(E, O, I), .offsets = INTS((E) + 1), .y = NARROW(N, O)
#define EXPERTS_DX(N, E, I, O) .dy = NARROW(N, O), .w = NARROW(E, O, I), .offsets = INTS((E) + 1), .dx = NARROW(N, I)
#define EXPERTS_DW(N, E, I, O) .dy = NARROW(N, O), .x = NARROW(N, I), .offsets = INTS((E) + 1)
#define EXPERTS_IN_OUT(N, E, I, O)                                                                                     \
    .x = NARROW(N, I), .w = NARROW(E, I, O), .offsets = INTS((E) + 1), .y = NARROW(N, O), .in_out = 1
#define EXPERTS_DX_IN_OUT(N, E, I, O)                                                                                  \
    .dy = NARROW(N, O), .w = NARROW(E, I, O), .offsets = INTS((E) + 1), .dx = NARROW(N, I), .in_out = 1
#define EXPERT_BIAS(N, E, O) .x = NARROW(N, O), .b = FLOAT(E, O), .offsets = INTS((E) + 1), .y = NARROW(N, O)
#define EXPERT_BIAS_BWD(N, E, O) .dy = NARROW(N, O), .offsets = INTS((E) + 1)
#define SPLIT(E, M, N) .w = NARROW((E) * (M), N), .y = NARROW(E, M, N), .experts = E
#define SPLIT_COLUMNS(E, M, N) .w = NARROW(M, (N) * (E)), .y = NARROW(E, M, N), .experts = E, .columns = 1

{CASE(route, "as Mixtral", ROUTE(13, 8, 2), .normalized = 1)}, {CASE(route, "as Qwen3-MoE, by all", ROUTE(37, 60, 8))},
    {CASE(route, "more experts than lanes", ROUTE(11, 130, 32), .normalized = 1)},
    {CASE(route, "all experts", ROUTE(5, 3, 3))}, {CASE(route, "one expert", ROUTE(4, 1, 1))},
    {CASE(route, "no rows", ROUTE(0, 4, 2))},
    {CASE(route, "large", ROUTE(900, 128, 8), .normalized = 1), .long_only = true},
    {CASE(route_bwd, "as Mixtral", ROUTE_BWD(13, 8, 2), .normalized = 1)},
    {CASE(route_bwd, "as Qwen3-MoE, by all", ROUTE_BWD(37, 60, 8))},
    {CASE(route_bwd, "more experts than lanes", ROUTE_BWD(11, 130, 32), .normalized = 1)},
    {CASE(route_bwd, "one expert", ROUTE_BWD(4, 1, 1))}, {CASE(route_bwd, "no rows", ROUTE_BWD(0, 4, 2))},
    {CASE(route_bwd, "large", ROUTE_BWD(900, 128, 8)), .long_only = true}, {CASE(take, "two of each", TAKE(7, 24, 2))},
    {CASE(take, "odd rows", TAKE(5, 13, 3))}, {CASE(take, "no rows", TAKE(0, 8, 2))},
    {CASE(take, "large", TAKE(300, 96, 4)), .long_only = true}, {CASE(take_bwd, "two of each", TAKE_BWD(7, 24, 2))},
    {CASE(take_bwd, "odd rows", TAKE_BWD(5, 13, 3))}, {CASE(take_bwd, "no rows", TAKE_BWD(0, 8, 2))},
    {CASE(take_bwd, "large", TAKE_BWD(300, 96, 4)), .long_only = true},
    {CASE(combine, "two of each", COMBINE(7, 24, 2))}, {CASE(combine, "odd rows", COMBINE(5, 13, 3))},
    {CASE(combine, "no rows", COMBINE(0, 8, 2))}, {CASE(combine, "large", COMBINE(300, 96, 4)), .long_only = true},
    {CASE(combine_bwd, "two of each", COMBINE_BWD(7, 24, 2), .dx = NARROW(14, 24), .dgates = NARROW(7, 2))},
    {CASE(combine_bwd, "odd rows", COMBINE_BWD(5, 13, 3), .dx = NARROW(15, 13), .dgates = NARROW(5, 3))},
    {CASE(combine_bwd, "frozen router", COMBINE_BWD(5, 13, 3), .dx = NARROW(15, 13))},
    {CASE(combine_bwd, "frozen experts", COMBINE_BWD(5, 16, 3), .dgates = NARROW(5, 3))},
    {CASE(combine_bwd, "no rows", COMBINE_BWD(0, 8, 2), .dx = NARROW(0, 8), .dgates = NARROW(0, 2))},
    {CASE(combine_bwd, "large", COMBINE_BWD(300, 96, 4), .dx = NARROW(1200, 96), .dgates = NARROW(300, 4)),
     .long_only = true},
    {CASE(linear_experts, "some without rows", EXPERTS(29, 6, 16, 24))},
    {CASE(linear_experts, "odd sizes", EXPERTS(23, 5, 7, 13))},
    {CASE(linear_experts, "one expert", EXPERTS(9, 1, 8, 8))},
    {CASE(linear_experts, "more experts than rows", EXPERTS(5, 40, 8, 8))},
    {CASE(linear_experts, "no rows", EXPERTS(0, 4, 8, 8))},
    {CASE(linear_experts, "several tiles", EXPERTS(700, 6, 136, 264)), .long_only = true},
    {CASE(linear_experts_dx, "some without rows", EXPERTS_DX(29, 6, 16, 24))},
    {CASE(linear_experts_dx, "odd sizes", EXPERTS_DX(23, 5, 7, 13))},
    {CASE(linear_experts_dx, "more experts than rows", EXPERTS_DX(5, 40, 8, 8))},
    {CASE(linear_experts_dx, "no rows", EXPERTS_DX(0, 4, 8, 8))},
    {CASE(linear_experts_dx, "several tiles", EXPERTS_DX(700, 6, 136, 264)), .long_only = true},
    {CASE(linear_experts_dw, "some without rows", EXPERTS_DW(29, 6, 16, 24), .dw = FLOAT(6, 24, 16))},
    {CASE(linear_experts_dw, "odd sizes", EXPERTS_DW(23, 5, 7, 13), .dw = FLOAT(5, 13, 7))},
    {CASE(linear_experts_dw, "in the policy's type", EXPERTS_DW(29, 6, 16, 24), .dw = NARROW(6, 24, 16))},
    {CASE(linear_experts_dw, "no rows", EXPERTS_DW(0, 4, 8, 8), .dw = FLOAT(4, 8, 8))},
    {CASE(linear_experts_dw, "several tiles", EXPERTS_DW(700, 6, 136, 264), .dw = FLOAT(6, 264, 136)),
     .long_only = true},
    {CASE(split_experts, "rows", SPLIT(6, 4, 24))}, {CASE(split_experts, "columns", SPLIT_COLUMNS(6, 24, 4))},
    {CASE(split_experts, "odd columns", SPLIT_COLUMNS(5, 13, 3))},
    {CASE(split_experts, "one expert", SPLIT_COLUMNS(1, 8, 2))},
    {CASE(split_experts_bwd, "rows", .dy = NARROW(6, 4, 24), .dw = FLOAT(24, 24))},
    {CASE(split_experts_bwd, "columns", .dy = NARROW(6, 24, 4), .dw = FLOAT(24, 24), .columns = 1)},
    {CASE(split_experts_bwd, "odd columns", .dy = FLOAT(5, 13, 3), .dw = FLOAT(13, 15), .columns = 1)},
    {CASE(split_experts_bwd, "in the policy's type", .dy = NARROW(5, 13, 3), .dw = NARROW(13, 15), .columns = 1)},
