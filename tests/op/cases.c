/* The cases. Sizes are chosen to meet every tail of the vectorised loops (below, at and above 4, 8, 16, 64 and 128
 * elements), every block edge of attention (64 and 512), nothing at all, one of everything, and enough for several
 * threads. */
#include "cases.h"

#include "op/codes/quantize.h"

#define COUNT_(...) (int8_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define TENSOR_(type, ...)                                                                                             \
    {                                                                                                                  \
        .shape = {__VA_ARGS__}, .dtype = type, .ndim = COUNT_(__VA_ARGS__)                                             \
    }
#define NARROW(...) TENSOR_(DT_BF16, __VA_ARGS__) /* the policy's type */
#define FLOAT(...) TENSOR_(DT_F32, __VA_ARGS__)
#define INTS(...) TENSOR_(DT_I32, __VA_ARGS__)
#define DOUBLES(...) TENSOR_(DT_F64, __VA_ARGS__)
#define CODED(m, ...) .w = TENSOR_(DT_F4, __VA_ARGS__), .absmax = FLOAT(m), .y = NARROW(__VA_ARGS__)
#define NESTED(m, groups, ...)                                                                                         \
    .w = TENSOR_(DT_F4, __VA_ARGS__), .absmax = CODES(m), .nested = FLOAT(1 + (groups)), .y = NARROW(__VA_ARGS__)
#define STEP .step = DOUBLES(STEP_SCALARS)

#define CASE(opname, what, ...) .op = OP_##opname, .name = what, .args.opname = {__VA_ARGS__}

/* B sequences of the given lengths. */
#define LENGTHS(...) .n_sequences = (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), .lengths = {__VA_ARGS__}
#define KEY_LENGTHS(...) .key_lengths = {__VA_ARGS__}

#define EMBED(N, V, H) .ids = INTS(N), .table = FLOAT(V, H), .y = NARROW(N, H)
#define EMBED_BWD(N, V, H, B) .ids = INTS(N), .dy = NARROW(N, H), .cu = INTS((B) + 1), .dtable = FLOAT(V, H)

#define MASK_DROPOUT(N, B, H)                                                                                          \
    .x = NARROW(N, H), .ids = INTS(N), .cu = INTS((B) + 1), .y = NARROW(N, H), .token = 1, .kept = 0.88
#define LINEAR(N, I, O) .x = NARROW(N, I), .w = NARROW(O, I), .y = NARROW(N, O)
#define LINEAR_IN_OUT(N, I, O) .x = NARROW(N, I), .w = NARROW(I, O), .y = NARROW(N, O), .in_out = 1
#define LINEAR_DX(N, I, O) .dy = NARROW(N, O), .w = NARROW(O, I), .dx = NARROW(N, I)
#define LINEAR_DW(N, I, O) .dy = NARROW(N, O), .x = NARROW(N, I)
#define LINEAR_DX_ACT(N, I, O) .dy = NARROW(N, O), .w = NARROW(O, I), .slope = NARROW(N, I), .du = NARROW(N, I)
#define ACT_BWD(N, F) .slope = NARROW(N, F), .dy = NARROW(N, F), .du = NARROW(N, F)

/* T rows of B sequences, A heads of D and K key heads. */
#define ATTENTION(T, B, A, K, D)                                                                                       \
    .qkv = NARROW(T, ((A) + 2 * (K)) * (D)), .cu = INTS((B) + 1), .o = NARROW(T, (A) * (D)), .lse = FLOAT(A, T),       \
    .heads = A, .kv_heads = K
#define ATTENTION_BWD(T, B, A, K, D)                                                                                   \
    ATTENTION(T, B, A, K, D), .dout = NARROW(T, (A) * (D)), .dqkv = NARROW(T, ((A) + 2 * (K)) * (D))
#define SINKS(T, B, A, D)                                                                                              \
    .sinks = FLOAT(A), .o = NARROW(T, (A) * (D)), .lse = FLOAT(A, T), .dout = NARROW(T, (A) * (D)), .cu = INTS((B) + 1)
#define SINKS_BWD(T, B, A, D) SINKS(T, B, A, D), .dsinks = FLOAT(A)
/* W rows of a convolution. */
#define SHORT_CONV(T, B, H, W) .bcx = NARROW(T, 3 * (H)), .w = FLOAT(H, 1, W), .cu = INTS((B) + 1), .y = NARROW(T, H)
#define SHORT_CONV_BWD(T, B, H, W)                                                                                     \
    .dy = NARROW(T, H), .bcx = NARROW(T, 3 * (H)), .w = FLOAT(H, 1, W), .cu = INTS((B) + 1), .dw = FLOAT(H, 1, W)
#define SHORT_CONV_CACHED(T, B, H, W) SHORT_CONV(T, B, H, W), .past = INTS(B), .rows = FLOAT(B, W, H)
#define DROP(T, share, number) .coords = INTS(T, 2), .rng = INTS(4), .p = share, .site = number

#define BIASED(T, B, A, D, N, far)                                                                                     \
    .q = NARROW(T, 3 * (A) * (D)), .table = FLOAT(N, A), .cu = INTS((B) + 1), .o = NARROW(T, (A) * (D)),               \
    .lse = FLOAT(A, T), .heads = A, .furthest = far
#define BIASED_BWD(T, B, A, D, N, far)                                                                                 \
    BIASED(T, B, A, D, N, far), .dout = NARROW(T, (A) * (D)), .dq = NARROW(T, 3 * (A) * (D)), .dtable = FLOAT(N, A)
#define SLOPES(T, B, A, D) BIASED(T, B, A, D, 1, 0), .causal = 1
#define SLOPES_BWD(T, B, A, D) SLOPES(T, B, A, D), .dout = NARROW(T, (A) * (D)), .dq = NARROW(T, 3 * (A) * (D))
#define CROSS(T, S, B, A, D)                                                                                           \
    .q = NARROW(T, (A) * (D)), .kv = NARROW(S, 2 * (A) * (D)), .cu = INTS((B) + 1), .kv_cu = INTS((B) + 1),            \
    .o = NARROW(T, (A) * (D)), .lse = FLOAT(A, T), .heads = A
#define CROSS_BWD(T, S, B, A, D)                                                                                       \
    CROSS(T, S, B, A, D), .dout = NARROW(T, (A) * (D)), .dq = NARROW(T, (A) * (D)), .dkv = NARROW(S, 2 * (A) * (D))

/* L: rows of a sequence's cache. */
#define CACHED(T, B, L, A, K, D)                                                                                       \
    .qkv = NARROW(T, ((A) + 2 * (K)) * (D)), .cu = INTS((B) + 1), .past = INTS(B), .keys = NARROW(B, L, (K) * (D)),    \
    .values = NARROW(B, L, (K) * (D)), .o = NARROW(T, (A) * (D)), .heads = A, .kv_heads = K

#define NORM(N, H)                                                                                                     \
    .x = NARROW(N, H), .gamma = FLOAT(H), .beta = FLOAT(H), .y = NARROW(N, H), .mean = FLOAT(N), .rstd = FLOAT(N),     \
    .eps = 1e-12
#define NORM_BWD(N, H) .dy = NARROW(N, H), .h = NARROW(N, H), .gamma = FLOAT(H), .mean = FLOAT(N), .rstd = FLOAT(N)
#define DROPOUT(N, H) .x = NARROW(N, H), .y = NARROW(N, H)
#define DROPOUT_BWD(N, H) .dy = NARROW(N, H), .dx = NARROW(N, H)
#define GATHER(T, B, H) .x = NARROW(T, H), .cu = INTS((B) + 1), .y = NARROW(B, H)
#define GATHER_BWD(T, B, H) .dy = NARROW(B, H), .cu = INTS((B) + 1), .dx = NARROW(T, H)

#define CROSS_ENTROPY(N, V) .logits = NARROW(N, V), .labels = INTS(N), STEP, .loss = FLOAT(1), .lse = FLOAT(N)
#define ARGMAX(N, V) .logits = NARROW(N, V), .labels = INTS(N), .best = INTS(N)
#define HEAD(N, H, V, rows)                                                                                            \
    .x = NARROW(N, H), .w = NARROW(V, H), .labels = INTS(N), STEP, .loss = FLOAT(1), .chunk = rows
#define HEAD_GRADIENTS(N, H, V) .dx = NARROW(N, H), .dw = FLOAT(V, H)
#define SCALER .scaler = DOUBLES(SCALER_SCALARS)
#define CROSS_ENTROPY_BWD(N, V)                                                                                        \
    .logits = NARROW(N, V), .labels = INTS(N), .lse = FLOAT(N), STEP, .dlogits = NARROW(N, V)
#define LOSS(N, V) .logits = NARROW(N, V), .labels = FLOAT(N, V), STEP, .loss = FLOAT(1)
#define LOSS_BWD(N, V) .logits = NARROW(N, V), .labels = FLOAT(N, V), STEP, .dlogits = NARROW(N, V)

#define SCALED_CLIP(n) .partials = DOUBLES(n), .scaler = DOUBLES(SCALER_SCALARS), .norm = FLOAT(1), .coef = FLOAT(1)
#define ADAMW(...)                                                                                                     \
    .p = FLOAT(__VA_ARGS__), .g = NARROW(__VA_ARGS__), .m = FLOAT(__VA_ARGS__), .v = FLOAT(__VA_ARGS__), STEP,         \
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
/* Stored in bf16; G is the gradient's type. */
#define PURE_ADAMW(G, ...)                                                                                             \
    .p = NARROW(__VA_ARGS__), .g = G(__VA_ARGS__), .m = NARROW(__VA_ARGS__), .v = NARROW(__VA_ARGS__), STEP,           \
    .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .noise = 77
#define CODES(...) TENSOR_(DT_U8, __VA_ARGS__)
#define FP8(...) TENSOR_(DT_F8_E4M3, __VA_ARGS__)
#define QUANTIZE_FP8(N, I) .x = NARROW(N, I), .y = FP8(N, I), .scale = FLOAT(N)
#define TURN_FP8(N, I) .x = NARROW(N, I), .y = FP8(I, N), .scale = FLOAT(I), .transposed = 1
#define TURN_CODES(N, I) .x = FP8(N, I), .x_scale = FLOAT(N), .y = FP8(I, N), .scale = FLOAT(I), .transposed = 1
#define CODED_ROWS(rows, ...) .w = FP8(__VA_ARGS__), .absmax = FLOAT(rows), .y = NARROW(__VA_ARGS__)
#define LINEAR_FP8(N, I, O) .x = FP8(N, I), .x_scale = FLOAT(N), .w = FP8(O, I), .w_scale = FLOAT(O), .y = NARROW(N, O)
#define ADAMW8BIT(n, blocks)                                                                                           \
    .p = FLOAT(n), .g = NARROW(n), .m = CODES(n), .v = CODES(n), .absmax_m = FLOAT(blocks), .absmax_v = FLOAT(blocks), \
    STEP, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
#define PURE_ADAMW8BIT(G, n, blocks)                                                                                   \
    .p = NARROW(n), .g = G(n), .m = CODES(n), .v = CODES(n), .absmax_m = FLOAT(blocks), .absmax_v = FLOAT(blocks),     \
    STEP, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .noise = 5
#define PURE_SGD(G, n) .p = NARROW(n), .g = G(n), .buf = NARROW(n), STEP, .momentum = 0.9, .noise = 9
#define SGD(...) .p = FLOAT(__VA_ARGS__), .g = NARROW(__VA_ARGS__), STEP
#define ADAFACTOR STEP, .eps1 = 1e-30, .eps2 = 1e-3, .clip_threshold = 1, .decay_rate = -0.8
#define ADAFACTOR_MATRIX(r, c) .p = FLOAT(r, c), .g = NARROW(r, c), .row = FLOAT(r), .col = FLOAT(c)

const struct op_case op_cases[] = {
    {CASE(embed, "one table", EMBED(7, 11, 5))},
    {CASE(embed, "three tables", EMBED(9, 13, 33), .ids2 = INTS(9), .table2 = FLOAT(4, 33), .ids3 = INTS(9),
          .table3 = FLOAT(2, 33))},
    {CASE(embed, "two tables, one row", EMBED(1, 1, 16), .ids2 = INTS(1), .table2 = FLOAT(3, 16))},
    {CASE(embed, "tables of 16 bits", .ids = INTS(9), .table = NARROW(13, 33), .ids2 = INTS(9), .table2 = NARROW(4, 33),
          .ids3 = INTS(9), .table3 = NARROW(2, 33), .y = NARROW(9, 33))},
    {CASE(embed, "a table of 16 bits, y in fp32", .ids = INTS(5), .table = NARROW(6, 40), .y = FLOAT(5, 40))},
    {CASE(embed, "no rows", EMBED(0, 3, 8))},
    {CASE(embed, "many rows", EMBED(301, 40, 128)), .long_only = true},

    {CASE(embed_bwd, "rows that meet in the table", EMBED_BWD(17, 3, 21, 2)), LENGTHS(9, 8)},
    {CASE(embed_bwd, "padding rows", EMBED_BWD(12, 40, 16, 3)), LENGTHS(3, 1, 4)},
    {CASE(embed_bwd, "no rows", EMBED_BWD(0, 5, 8, 0))},
    {CASE(embed_bwd, "many rows", EMBED_BWD(304, 90, 200, 3)), LENGTHS(100, 150, 50), .long_only = true},

    {CASE(linear, "bias", LINEAR(6, 5, 7), .b = FLOAT(7))},
    {CASE(linear, "no bias", LINEAR(3, 16, 17))},
    {CASE(linear, "gelu", LINEAR(5, 9, 20), .b = FLOAT(20), .slope = NARROW(5, 20), .act = ACT_gelu)},
    {CASE(linear, "gelu_tanh", LINEAR(4, 8, 33), .b = FLOAT(33), .slope = NARROW(4, 33), .act = ACT_gelu_tanh)},
    {CASE(linear, "relu", LINEAR(4, 8, 16), .b = FLOAT(16), .slope = NARROW(4, 16), .act = ACT_relu)},
    {CASE(linear, "tanh", LINEAR(2, 32, 32), .b = FLOAT(32), .slope = NARROW(2, 32), .act = ACT_tanh)},
    {CASE(linear, "silu, no bias", LINEAR(3, 6, 15), .slope = NARROW(3, 15), .act = ACT_silu)},
    {CASE(linear, "gelu, no slope", LINEAR(5, 11, 21), .b = FLOAT(21), .act = ACT_gelu)},
    {CASE(linear, "in_out", LINEAR_IN_OUT(5, 12, 18), .b = FLOAT(18))},
    {CASE(linear, "in_out, silu", LINEAR_IN_OUT(6, 10, 24), .slope = NARROW(6, 24), .act = ACT_silu)},
    {CASE(linear, "in_out, gelu_tanh", LINEAR_IN_OUT(7, 16, 10), .b = FLOAT(10), .slope = NARROW(7, 10),
          .act = ACT_gelu_tanh)},
    {CASE(linear, "one of everything", LINEAR(1, 1, 1), .b = FLOAT(1))},
    {CASE(linear, "no rows", LINEAR(0, 8, 8), .b = FLOAT(8))},
    {CASE(linear, "float output", .x = NARROW(9, 24), .w = NARROW(40, 24), .b = FLOAT(40), .y = FLOAT(9, 40))},
    {CASE(linear, "large", LINEAR(96, 192, 160), .b = FLOAT(160), .slope = NARROW(96, 160), .act = ACT_gelu),
     .long_only = true},
    {CASE(linear, "large, in_out", LINEAR_IN_OUT(100, 257, 131), .b = FLOAT(131)), .long_only = true},

    {CASE(linear_dx, "small", LINEAR_DX(6, 5, 7))},
    {CASE(linear_dx, "in_out", .dy = NARROW(6, 18), .w = NARROW(11, 18), .dx = NARROW(6, 11), .in_out = 1)},
    {CASE(linear_dx, "one of everything", LINEAR_DX(1, 1, 1))},
    {CASE(linear_dx, "no rows", LINEAR_DX(0, 8, 8))},
    {CASE(linear_dx, "large", LINEAR_DX(96, 160, 192)), .long_only = true},
    {CASE(linear_dx, "large, in_out", .dy = NARROW(100, 257), .w = NARROW(131, 257), .dx = NARROW(100, 131),
          .in_out = 1),
     .long_only = true},

    {CASE(linear_dw, "small", LINEAR_DW(6, 5, 7), .dw = FLOAT(7, 5), .db = FLOAT(7))},
    {CASE(linear_dw, "narrow gradient", LINEAR_DW(16, 24, 32), .dw = NARROW(32, 24), .db = FLOAT(32))},
    {CASE(linear_dw, "in_out", LINEAR_DW(9, 17, 19), .dw = FLOAT(17, 19), .db = FLOAT(19), .in_out = 1)},
    {CASE(linear_dw, "no rows", LINEAR_DW(0, 8, 9), .dw = FLOAT(9, 8), .db = FLOAT(9))},
    {CASE(linear_dw, "one of everything", LINEAR_DW(1, 1, 1), .dw = FLOAT(1, 1), .db = FLOAT(1))},
    {CASE(linear_dw, "large", LINEAR_DW(601, 96, 200), .dw = FLOAT(200, 96), .db = FLOAT(200)), .long_only = true},

    {CASE(linear_dx_act, "sums", LINEAR_DX_ACT(6, 5, 7), .dbias = FLOAT(5))},
    {CASE(linear_dx_act, "no sums", LINEAR_DX_ACT(9, 40, 24))},
    {CASE(linear_dx_act, "in_out", .dy = NARROW(6, 18), .w = NARROW(11, 18), .slope = NARROW(6, 11),
          .du = NARROW(6, 11), .dbias = FLOAT(11), .in_out = 1)},
    {CASE(linear_dx_act, "no rows", LINEAR_DX_ACT(0, 8, 16), .dbias = FLOAT(8))},
    {CASE(linear_dx_act, "one of everything", LINEAR_DX_ACT(1, 1, 1), .dbias = FLOAT(1))},
    {CASE(linear_dx_act, "large", LINEAR_DX_ACT(300, 160, 192), .dbias = FLOAT(160)), .long_only = true},
    {CASE(linear_dx_act, "large, in_out", .dy = NARROW(200, 257), .w = NARROW(131, 257), .slope = NARROW(200, 131),
          .du = NARROW(200, 131), .dbias = FLOAT(131), .in_out = 1),
     .long_only = true},

    {CASE(act_bwd, "small", ACT_BWD(5, 33))},
    {CASE(act_bwd, "whole packs", ACT_BWD(5, 32))},
    {CASE(act_bwd, "one row", ACT_BWD(1, 77))},
    {CASE(act_bwd, "no rows", ACT_BWD(0, 16))},
    {CASE(act_bwd, "large", ACT_BWD(100, 300)), .long_only = true},

    {CASE(attention, "one head", ATTENTION(5, 1, 1, 1, 4), .scale = 0.5), LENGTHS(5)},
    {CASE(attention, "several sequences, padding rows", ATTENTION(30, 4, 3, 3, 16), .scale = 0.25),
     LENGTHS(1, 16, 2, 9)},
    {CASE(attention, "dropout", ATTENTION(40, 2, 2, 2, 8), DROP(40, 0.3, 3), .scale = 0.35), LENGTHS(17, 23)},
    {CASE(attention, "grouped heads, causal, odd D", ATTENTION(38, 2, 4, 2, 7), DROP(38, 0.1, 9), .causal = 1,
          .scale = 0.4),
     LENGTHS(33, 5)},
    {CASE(attention, "dropout with p = 0", ATTENTION(6, 1, 2, 1, 2), DROP(6, 0, 1), .scale = 1), LENGTHS(6)},
    {CASE(attention, "sequences of one token", ATTENTION(3, 3, 2, 2, 5), .scale = 1), LENGTHS(1, 1, 1)},
    {CASE(attention, "one whole block", ATTENTION(64, 1, 2, 2, 16), .scale = 0.25), LENGTHS(64)},
    {CASE(attention, "no sequences", ATTENTION(0, 0, 2, 2, 8), .scale = 1)},
    {CASE(attention, "only padding", ATTENTION(4, 0, 2, 2, 8), .scale = 1)},
    {CASE(attention, "D = 32, many short sequences", ATTENTION(160, 10, 12, 12, 32), DROP(160, 0.1, 2),
          .scale = 0.1767),
     LENGTHS(16, 16, 13, 16, 16, 16, 19, 16, 16, 16), .long_only = true},
    {CASE(attention, "block edges", ATTENTION(328, 4, 2, 1, 64), DROP(328, 0.1, 2), .scale = 0.125),
     LENGTHS(64, 63, 65, 129), .long_only = true},
    {CASE(attention, "block edges, causal", ATTENTION(328, 4, 2, 1, 64), .scale = 0.125, .causal = 1),
     LENGTHS(64, 63, 65, 129), .long_only = true},
    {CASE(attention, "longer than a chunk", ATTENTION(1120, 2, 2, 1, 32), DROP(1120, 0.1, 5), .scale = 0.1767),
     LENGTHS(1050, 65), .long_only = true},
    {CASE(attention, "longer than a chunk, causal", ATTENTION(1090, 1, 2, 2, 16), DROP(1090, 0.1, 5), .scale = 0.25,
          .causal = 1),
     LENGTHS(1089), .long_only = true},
    {CASE(attention, "D = 128", ATTENTION(150, 2, 2, 2, 128), .scale = 0.0884), LENGTHS(70, 80), .long_only = true},
    {CASE(attention, "D = 80, scores of about 40", ATTENTION(100, 2, 3, 1, 80), .scale = 1), LENGTHS(30, 70),
     .condition = 4, .long_only = true},

    {CASE(attention_bwd, "one head", ATTENTION_BWD(5, 1, 1, 1, 4), .dbias = FLOAT(12), .scale = 0.5), LENGTHS(5)},
    {CASE(attention_bwd, "several sequences, padding rows", ATTENTION_BWD(30, 4, 3, 3, 16), .dbias = FLOAT(144),
          .scale = 0.25),
     LENGTHS(1, 16, 2, 9)},
    {CASE(attention_bwd, "dropout", ATTENTION_BWD(40, 2, 2, 2, 8), DROP(40, 0.3, 3), .scale = 0.35), LENGTHS(17, 23)},
    {CASE(attention_bwd, "grouped heads, causal, odd D", ATTENTION_BWD(38, 2, 4, 2, 7), DROP(38, 0.1, 9), .causal = 1,
          .scale = 0.4),
     LENGTHS(33, 5)},
    {CASE(attention_bwd, "one whole block", ATTENTION_BWD(64, 1, 2, 2, 16), .scale = 0.25), LENGTHS(64)},
    {CASE(attention_bwd, "no sequences", ATTENTION_BWD(0, 0, 2, 2, 8), .scale = 1)},
    {CASE(attention_bwd, "only padding", ATTENTION_BWD(4, 0, 2, 2, 8), .scale = 1)},
    {CASE(attention_bwd, "D = 32, many short sequences", ATTENTION_BWD(160, 10, 12, 12, 32), DROP(160, 0.1, 2),
          .scale = 0.1767),
     LENGTHS(16, 16, 13, 16, 16, 16, 19, 16, 16, 16), .long_only = true},
    {CASE(attention_bwd, "block edges", ATTENTION_BWD(328, 4, 2, 1, 64), DROP(328, 0.1, 2), .scale = 0.125),
     LENGTHS(64, 63, 65, 129), .long_only = true},
    {CASE(attention_bwd, "block edges, causal", ATTENTION_BWD(328, 4, 2, 1, 64), .scale = 0.125, .causal = 1),
     LENGTHS(64, 63, 65, 129), .long_only = true},
    {CASE(attention_bwd, "longer than a chunk", ATTENTION_BWD(1120, 2, 2, 1, 32), DROP(1120, 0.1, 5), .scale = 0.1767),
     LENGTHS(1050, 65), .long_only = true},
    {CASE(attention_bwd, "longer than a chunk, causal", ATTENTION_BWD(1090, 1, 2, 2, 16), DROP(1090, 0.1, 5),
          .scale = 0.25, .causal = 1),
     LENGTHS(1089), .long_only = true},
    {CASE(attention_bwd, "D = 128", ATTENTION_BWD(150, 2, 2, 2, 128), .scale = 0.0884), LENGTHS(70, 80),
     .long_only = true},
    {CASE(attention_bwd, "D = 80, scores of about 40", ATTENTION_BWD(100, 2, 3, 1, 80), .scale = 1), LENGTHS(30, 70),
     .condition = 4, .long_only = true},

    {CASE(norm, "plain", NORM(5, 12))},
    {CASE(norm, "residual", NORM(6, 33), .res = NARROW(6, 33), .h = NARROW(6, 33))},
    {CASE(norm, "residual and dropout", NORM(9, 20), .res = NARROW(9, 20), .h = NARROW(9, 20), DROP(9, 0.25, 4)),
     LENGTHS(4, 5)},
    {CASE(norm, "dropout, no residual", NORM(8, 16), .h = NARROW(8, 16), DROP(8, 0.1, 70)), LENGTHS(8)},
    {CASE(norm, "dropout with p = 0", NORM(3, 10), .res = NARROW(3, 10), .h = NARROW(3, 10), DROP(3, 0, 1)),
     LENGTHS(3)},
    {CASE(norm, "no beta", .x = NARROW(6, 33), .res = NARROW(6, 33), .gamma = FLOAT(33), .y = NARROW(6, 33),
          .h = NARROW(6, 33), .mean = FLOAT(6), .rstd = FLOAT(6), .eps = 1e-12)},
    {CASE(norm, "large mean", NORM(4, 64)), .offset = 30, .condition = 30},
    {CASE(norm, "no rows", NORM(0, 16))},
    {CASE(norm, "one row", NORM(1, 300))},
    {CASE(norm, "large", NORM(70, 1024), .res = NARROW(70, 1024), .h = NARROW(70, 1024), DROP(70, 0.1, 11)),
     LENGTHS(40, 30), .long_only = true},

    {CASE(norm_bwd, "all gradients", NORM_BWD(6, 33), .dh = NARROW(6, 33), .dx = NARROW(6, 33), .dres = NARROW(6, 33),
          .dgamma = FLOAT(33), .dbeta = FLOAT(33))},
    {CASE(norm_bwd, "dropout", NORM_BWD(9, 20), .dx = NARROW(9, 20), .dres = NARROW(9, 20), .dgamma = FLOAT(20),
          .dbeta = FLOAT(20), DROP(9, 0.25, 4)),
     LENGTHS(4, 5)},
    {CASE(norm_bwd, "only the weights", NORM_BWD(5, 8), .dgamma = FLOAT(8), .dbeta = FLOAT(8))},
    {CASE(norm_bwd, "no rows", NORM_BWD(0, 16), .dx = NARROW(0, 16), .dgamma = FLOAT(16), .dbeta = FLOAT(16))},
    {CASE(norm_bwd, "one row", NORM_BWD(1, 300), .dx = NARROW(1, 300), .dgamma = FLOAT(300), .dbeta = FLOAT(300))},
    {CASE(norm_bwd, "large", NORM_BWD(600, 136), .dx = NARROW(600, 136), .dres = NARROW(600, 136), .dgamma = FLOAT(136),
          .dbeta = FLOAT(136), DROP(600, 0.1, 11)),
     LENGTHS(400, 200), .long_only = true},

    {CASE(dropout, "odd width", DROPOUT(7, 21), DROP(7, 0.5, 2)), LENGTHS(3, 4)},
    {CASE(dropout, "rows that are samples", DROPOUT(5, 16), DROP(5, 0.1, 73))},
    {CASE(dropout, "no rows", DROPOUT(0, 16), DROP(0, 0.1, 1))},
    {CASE(dropout, "large", DROPOUT(60, 500), DROP(60, 0.1, 0)), LENGTHS(30, 30), .long_only = true},
    {CASE(dropout_bwd, "odd width", DROPOUT_BWD(7, 21), DROP(7, 0.5, 2)), LENGTHS(3, 4)},
    {CASE(dropout_bwd, "no rows", DROPOUT_BWD(0, 16), DROP(0, 0.1, 1))},
    {CASE(dropout_bwd, "large", DROPOUT_BWD(60, 500), DROP(60, 0.1, 0)), LENGTHS(30, 30), .long_only = true},

    {CASE(gather, "first", GATHER(12, 3, 17)), LENGTHS(4, 1, 6)},
    {CASE(gather, "last", GATHER(12, 3, 17), .last = 1), LENGTHS(4, 1, 6)},
    {CASE(gather, "no sequences", GATHER(0, 0, 8))},
    {CASE(pool, "means", GATHER(12, 3, 17)), LENGTHS(4, 1, 6)},
    {CASE(pool, "no sequences", GATHER(0, 0, 8))},
    {CASE(pool, "large", GATHER(300, 2, 100)), LENGTHS(200, 90), .long_only = true},
    {CASE(pool_bwd, "means", GATHER_BWD(12, 3, 17)), LENGTHS(4, 1, 6)},
    {CASE(pool_bwd, "no sequences", GATHER_BWD(3, 0, 8))},
    {CASE(pool_bwd, "large", GATHER_BWD(300, 2, 200)), LENGTHS(200, 90), .long_only = true},
    {CASE(gather_bwd, "first", GATHER_BWD(12, 3, 17)), LENGTHS(4, 1, 6)},
    {CASE(gather_bwd, "last", GATHER_BWD(12, 3, 17), .last = 1), LENGTHS(4, 1, 6)},
    {CASE(gather_bwd, "no sequences", GATHER_BWD(3, 0, 8))},
    {CASE(gather_bwd, "large", GATHER_BWD(300, 2, 100)), LENGTHS(200, 90), .long_only = true},

#include "cases_spans.h"
    {CASE(cross_entropy, "two classes", CROSS_ENTROPY(5, 2))},
    {CASE(cross_entropy, "smoothing", CROSS_ENTROPY(9, 37), .smoothing = 0.1)},
    {CASE(cross_entropy, "one row, one class", CROSS_ENTROPY(1, 1))},
    {CASE(cross_entropy, "no rows", CROSS_ENTROPY(0, 4))},
    {CASE(cross_entropy, "large", CROSS_ENTROPY(33, 1003), .smoothing = 0.05), .long_only = true},
    {CASE(cross_entropy_bwd, "two classes", CROSS_ENTROPY_BWD(5, 2))},
    {CASE(cross_entropy_bwd, "smoothing", CROSS_ENTROPY_BWD(9, 37), .smoothing = 0.1)},
    {CASE(cross_entropy_bwd, "no rows", CROSS_ENTROPY_BWD(0, 4))},
    {CASE(cross_entropy_bwd, "large", CROSS_ENTROPY_BWD(33, 1003), .smoothing = 0.05), .long_only = true},

    {CASE(cross_entropy, "weights", CROSS_ENTROPY(9, 3), .weights = FLOAT(3))},
    {CASE(cross_entropy, "weights and smoothing", CROSS_ENTROPY(9, 37), .weights = FLOAT(37), .smoothing = 0.1)},
    {CASE(cross_entropy, "weights of no rows", CROSS_ENTROPY(0, 4), .weights = FLOAT(4))},
    {CASE(cross_entropy, "weights of many classes", CROSS_ENTROPY(33, 1003), .weights = FLOAT(1003), .smoothing = 0.05),
     .long_only = true},
    {CASE(cross_entropy_bwd, "weights", CROSS_ENTROPY_BWD(9, 3), .weights = FLOAT(3))},
    {CASE(cross_entropy_bwd, "weights and smoothing", CROSS_ENTROPY_BWD(9, 37), .weights = FLOAT(37),
          .smoothing = 0.1)},
    {CASE(cross_entropy_bwd, "weights, scaled", CROSS_ENTROPY_BWD(5, 17), .weights = FLOAT(17), SCALER)},
    {CASE(cross_entropy_bwd, "weights of many classes", CROSS_ENTROPY_BWD(33, 1003), .weights = FLOAT(1003),
          .smoothing = 0.05),
     .long_only = true},

    {CASE(mse, "one output", LOSS(6, 1))},
    {CASE(mse, "several outputs", LOSS(4, 35))},
    {CASE(mse, "no rows", LOSS(0, 3))},
    {CASE(mse_bwd, "several outputs", LOSS_BWD(4, 35))},
    {CASE(mse_bwd, "no rows", LOSS_BWD(0, 3))},
    {CASE(bce, "three labels", LOSS(5, 3))},
    {CASE(bce, "many labels", LOSS(3, 50))},
    {CASE(bce, "no rows", LOSS(0, 3))},
    {CASE(bce, "weights", LOSS(5, 3), .weights = FLOAT(3))},
    {CASE(bce, "weights of many labels", LOSS(3, 50), .weights = FLOAT(50))},
    {CASE(bce_bwd, "weights", LOSS_BWD(5, 3), .weights = FLOAT(3))},
    {CASE(bce_bwd, "weights of many labels, scaled", LOSS_BWD(3, 50), .weights = FLOAT(50), SCALER)},
    {CASE(bce_bwd, "many labels", LOSS_BWD(3, 50))},
    {CASE(bce_bwd, "no rows", LOSS_BWD(0, 3))},

    {CASE(move, "wide", .x = FLOAT(5, 7), .y = FLOAT(5, 7))},
    {CASE(move, "narrow, in pieces", .x = NARROW(517, 301), .y = NARROW(517, 301))},
    {CASE(move, "nothing", .x = FLOAT(0, 7), .y = FLOAT(0, 7))},
    {CASE(cast, "to the policy's type", .x = FLOAT(5, 7), .y = NARROW(5, 7))},
    {CASE(cast, "from the policy's type", .x = NARROW(3, 67), .y = FLOAT(3, 67))},
    {CASE(cast, "nothing", .x = FLOAT(0, 7), .y = NARROW(0, 7))},
    {CASE(cast, "large", .x = FLOAT(170, 301), .y = NARROW(170, 301)), .long_only = true},

    {CASE(all_reduce, "one rank", .g = NARROW(7, 11))},

    {CASE(sumsq, "less than a chunk", .g = NARROW(7, 11), .partials = DOUBLES(3), .at = 1)},
    {CASE(sumsq, "one element", .g = NARROW(1), .partials = DOUBLES(1))},
    {CASE(sumsq, "three chunks", .g = NARROW(2 * SUMSQ_CHUNK + 5), .partials = DOUBLES(4), .at = 1), .long_only = true},
    {CASE(clip, "norm below", .partials = DOUBLES(5), .norm = FLOAT(1), .coef = FLOAT(1), .max_norm = 1000)},
    {CASE(clip, "norm above", .partials = DOUBLES(17), .norm = FLOAT(1), .coef = FLOAT(1), .max_norm = 0.5)},
    {CASE(clip, "off", .partials = DOUBLES(2), .norm = FLOAT(1), .coef = FLOAT(1))},
    {CASE(clip, "not finite", .partials = DOUBLES(9), .norm = FLOAT(1), .coef = FLOAT(1), .max_norm = 1), .skip = true},
    {CASE(clip, "scaled, the scale grows", SCALED_CLIP(5), .max_norm = 1e-3)},
    {CASE(clip, "scaled, many partial sums", SCALED_CLIP(300))},
    {CASE(clip, "scaled, skipped", SCALED_CLIP(5), .max_norm = 1), .skip = true},

    {CASE(adamw, "plain", ADAMW(5, 7))},
    {CASE(adamw, "decay and clipping", ADAMW(67), .coef = FLOAT(1), .weight_decay = 0.1), .update = 1},
    {CASE(adamw, "one element", ADAMW(1)), .update = 1000},
    {CASE(adamw, "a copy", ADAMW(3, 35), .coef = FLOAT(1), .copy = NARROW(3, 35), .weight_decay = 0.1)},
    {CASE(adamw, "skipped", ADAMW(37), .coef = FLOAT(1), .copy = NARROW(37), .weight_decay = 0.1), .skip = true},
    {CASE(adamw, "large", ADAMW(40, 1001), .weight_decay = 0.01), .long_only = true},
    {CASE(adamw, "decay after the update", ADAMW(37), .weight_decay = 0.5, .decay_last = 1)},
    {CASE(adamw, "stored in bf16", PURE_ADAMW(NARROW, 3, 35), .coef = FLOAT(1), .weight_decay = 0.1), .rounds = true},
    {CASE(adamw, "stored in bf16, gradient in fp32", PURE_ADAMW(FLOAT, 5)), .rounds = true},
    {CASE(adamw, "stored in bf16, skipped", PURE_ADAMW(NARROW, 37), .coef = FLOAT(1)), .skip = true, .rounds = true},
    {CASE(adamw, "stored in bf16, large", PURE_ADAMW(NARROW, 40, 1001), .weight_decay = 0.01), .rounds = true,
     .long_only = true},
    {CASE(adamw8bit, "less than a block", ADAMW8BIT(37, 1))},
    {CASE(adamw8bit, "blocks and a rest", ADAMW8BIT(771, 4), .coef = FLOAT(1), .copy = NARROW(771),
          .weight_decay = 0.1)},
    {CASE(adamw8bit, "first step", ADAMW8BIT(512, 2)), .update = 1},
    {CASE(adamw8bit, "one element", ADAMW8BIT(1, 1), .weight_decay = 0.1)},
    {CASE(adamw8bit, "skipped", ADAMW8BIT(300, 2), .coef = FLOAT(1), .copy = NARROW(300)), .skip = true},
    {CASE(adamw8bit, "large", ADAMW8BIT(40001, 157), .weight_decay = 0.01), .long_only = true},
    {CASE(adamw8bit, "stored in bf16", PURE_ADAMW8BIT(NARROW, 771, 4), .weight_decay = 0.1), .rounds = true},
    {CASE(adamw8bit, "stored in bf16, gradient in fp32", PURE_ADAMW8BIT(FLOAT, 256, 1)), .rounds = true},
    {CASE(sgd, "plain", SGD(5, 7))},
    {CASE(sgd, "stored in bf16", PURE_SGD(NARROW, 41)), .rounds = true},
    {CASE(sgd, "stored in bf16, gradient in fp32", PURE_SGD(FLOAT, 300)), .rounds = true},
    {CASE(sgd, "first momentum", SGD(37), .buf = FLOAT(37), .momentum = 0.9, .dampening = 0.5), .update = 1},
    {CASE(sgd, "momentum, decay and clipping", SGD(37), .buf = FLOAT(37), .coef = FLOAT(1), .momentum = 0.9,
          .weight_decay = 0.1)},
    {CASE(sgd, "Nesterov", SGD(16), .buf = FLOAT(16), .momentum = 0.9, .nesterov = 1)},
    {CASE(sgd, "a copy", SGD(67), .coef = FLOAT(1), .copy = NARROW(67))},
    {CASE(sgd, "skipped", SGD(37), .buf = FLOAT(37), .coef = FLOAT(1), .copy = NARROW(37), .momentum = 0.9),
     .skip = true},
    {CASE(adafactor, "matrix", ADAFACTOR, ADAFACTOR_MATRIX(5, 7), .beta1 = -1)},
    {CASE(adafactor, "rows in groups, decay, clipping", ADAFACTOR, ADAFACTOR_MATRIX(19, 67), .coef = FLOAT(1),
          .beta1 = -1, .weight_decay = 0.1)},
    {CASE(adafactor, "first moment, a copy", ADAFACTOR, ADAFACTOR_MATRIX(6, 33), .m = FLOAT(6, 33),
          .copy = NARROW(6, 33), .beta1 = 0.9)},
    {CASE(adafactor, "first step, size of the weight", ADAFACTOR, ADAFACTOR_MATRIX(9, 16), .beta1 = -1,
          .scale_parameter = 1),
     .update = 1},
    {CASE(adafactor, "relative step from small", ADAFACTOR, ADAFACTOR_MATRIX(4, 5), .beta1 = -1, .scale_parameter = 1,
          .relative_step = 1, .warmup_init = 1),
     .update = 50},
    {CASE(adafactor, "relative step", ADAFACTOR, ADAFACTOR_MATRIX(4, 5), .beta1 = -1, .relative_step = 1),
     .update = 20000},
    {CASE(adafactor, "vector", ADAFACTOR, .p = FLOAT(37), .g = NARROW(37), .v = FLOAT(37), .beta1 = -1,
          .scale_parameter = 1)},
    {CASE(adafactor, "one element", ADAFACTOR, .p = FLOAT(1), .g = NARROW(1), .v = FLOAT(1), .m = FLOAT(1),
          .beta1 = 0.5)},
    {CASE(adafactor, "several matrices", ADAFACTOR, .p = FLOAT(2, 3, 5, 9), .g = NARROW(2, 3, 5, 9),
          .row = FLOAT(2, 3, 5), .col = FLOAT(2, 3, 9), .beta1 = -1, .scale_parameter = 1)},
    {CASE(adafactor, "skipped", ADAFACTOR, ADAFACTOR_MATRIX(5, 7), .m = FLOAT(5, 7), .copy = NARROW(5, 7),
          .coef = FLOAT(1), .beta1 = 0.9),
     .skip = true},
    {CASE(adafactor, "stored in bf16", ADAFACTOR, .p = NARROW(19, 67), .g = NARROW(19, 67), .row = FLOAT(19),
          .col = FLOAT(67), .m = NARROW(19, 67), .beta1 = 0.9, .scale_parameter = 1, .weight_decay = 0.1, .noise = 3),
     .rounds = true},
    {CASE(adafactor, "vector stored in bf16, gradient in fp32", ADAFACTOR, .p = NARROW(37), .g = FLOAT(37),
          .v = FLOAT(37), .beta1 = -1, .scale_parameter = 1, .noise = 3),
     .rounds = true},
    {CASE(adafactor, "large", ADAFACTOR, ADAFACTOR_MATRIX(333, 200), .beta1 = -1, .scale_parameter = 1),
     .long_only = true},
    {CASE(adafactor, "tall", ADAFACTOR, ADAFACTOR_MATRIX(6001, 17), .m = FLOAT(6001, 17), .beta1 = 0.9),
     .long_only = true},
    {CASE(adafactor, "large vector", ADAFACTOR, .p = FLOAT(40001), .g = NARROW(40001), .v = FLOAT(40001), .beta1 = -1),
     .long_only = true},
    {CASE(sgd, "large", SGD(40, 1001), .buf = FLOAT(40, 1001), .momentum = 0.9), .long_only = true},

    /* Wide and high tensors, where kernels for GPUs take other ways. */
    {CASE(embed, "wide rows", EMBED(40, 30, 1024), .ids2 = INTS(40), .table2 = FLOAT(7, 1024)), .long_only = true},
    {CASE(embed_bwd, "few ids, thousands of rows", EMBED_BWD(5000, 2, 16, 2)), LENGTHS(2100, 2800), .long_only = true},
    {CASE(embed_bwd, "some ids, thousands of rows", EMBED_BWD(4500, 300, 8, 1)), LENGTHS(4500), .long_only = true},
    {CASE(embed_bwd, "wide rows", EMBED_BWD(100, 9, 1032, 1)), LENGTHS(97), .long_only = true},
    {CASE(act_bwd, "wide", ACT_BWD(5, 4104)), .long_only = true},
    {CASE(act_bwd, "high", ACT_BWD(2500, 8)), .long_only = true},
    {CASE(norm, "wide", NORM(5, 2056), .res = NARROW(5, 2056), .h = NARROW(5, 2056), DROP(5, 0.1, 3)), LENGTHS(5),
     .long_only = true},
    {CASE(norm_bwd, "wide", NORM_BWD(5, 2056), .dh = NARROW(5, 2056), .dx = NARROW(5, 2056), .dres = NARROW(5, 2056),
          .dgamma = FLOAT(2056), .dbeta = FLOAT(2056), DROP(5, 0.1, 3)),
     LENGTHS(5), .long_only = true},
    {CASE(norm_bwd, "width of a base model", NORM_BWD(9, 768), .dx = NARROW(9, 768), .dgamma = FLOAT(768),
          .dbeta = FLOAT(768)),
     .long_only = true},
    {CASE(cross_entropy, "a vocabulary", CROSS_ENTROPY(3, 30522)), .long_only = true},
    {CASE(cross_entropy_bwd, "a vocabulary", CROSS_ENTROPY_BWD(3, 30522)), .long_only = true},

    {CASE(cross_entropy_bwd, "scaled", CROSS_ENTROPY_BWD(9, 37), SCALER)},
    {CASE(mse_bwd, "scaled", LOSS_BWD(4, 35), SCALER)},
    {CASE(bce_bwd, "scaled", LOSS_BWD(3, 50), SCALER)},
    {CASE(act_bwd, "sums", ACT_BWD(9, 37), .dbias = FLOAT(37))},
    {CASE(act_bwd, "sums of no rows", ACT_BWD(0, 16), .dbias = FLOAT(16))},
    {CASE(act_bwd, "sums over many rows", ACT_BWD(2500, 72), .dbias = FLOAT(72)), .long_only = true},
    {CASE(act_bwd, "wide sums", ACT_BWD(70, 4104), .dbias = FLOAT(4104)), .long_only = true},
    {CASE(norm_bwd, "sums", NORM_BWD(9, 20), .dx = NARROW(9, 20), .dres = NARROW(9, 20), .dgamma = FLOAT(20),
          .dbeta = FLOAT(20), .dbias = FLOAT(20), DROP(9, 0.25, 4)),
     LENGTHS(4, 5)},
    {CASE(norm_bwd, "only sums", NORM_BWD(5, 33), .dh = NARROW(5, 33), .dbias = FLOAT(33))},
    {CASE(norm_bwd, "sums of no rows", NORM_BWD(0, 16), .dx = NARROW(0, 16), .dbias = FLOAT(16))},
    {CASE(norm_bwd, "sums over many rows", NORM_BWD(600, 136), .dx = NARROW(600, 136), .dgamma = FLOAT(136),
          .dbeta = FLOAT(136), .dbias = FLOAT(136), DROP(600, 0.1, 11)),
     LENGTHS(400, 200), .long_only = true},
    {CASE(norm_bwd, "wide sums", NORM_BWD(40, 1024), .dx = NARROW(40, 1024), .dgamma = FLOAT(1024),
          .dbeta = FLOAT(1024), .dbias = FLOAT(1024)),
     .long_only = true},
    {CASE(argmax, "two classes", ARGMAX(5, 2))},
    {CASE(argmax, "tails", ARGMAX(9, 37))},
    {CASE(argmax, "one class", ARGMAX(3, 1))},
    {CASE(argmax, "no rows", ARGMAX(0, 4))},
    {CASE(argmax, "a vocabulary", ARGMAX(33, 30522)), .long_only = true},
    {CASE(linear_cross_entropy, "one chunk", HEAD(9, 5, 37, 16), HEAD_GRADIENTS(9, 5, 37))},
    {CASE(linear_cross_entropy, "a row at a time", HEAD(9, 5, 37, 1), HEAD_GRADIENTS(9, 5, 37))},
    {CASE(linear_cross_entropy, "three, smoothing, bias", HEAD(9, 16, 37, 3), .b = FLOAT(37), HEAD_GRADIENTS(9, 16, 37),
          .db = FLOAT(37), .smoothing = 0.1)},
    {CASE(linear_cross_entropy, "softcap, scaled", HEAD(50, 24, 65, 20), HEAD_GRADIENTS(50, 24, 65), SCALER,
          .softcap = 3)},
    {CASE(linear_cross_entropy, "best", .x = FLOAT(19, 9), .w = FLOAT(33, 9), .labels = INTS(19), STEP,
          .loss = FLOAT(1), .best = INTS(19), .chunk = 4, .softcap = 30)},
    {CASE(linear_cross_entropy, "loss alone", HEAD(19, 9, 33, 4))},
    {CASE(linear_cross_entropy, "no rows", HEAD(0, 5, 4, 2), HEAD_GRADIENTS(0, 5, 4), .b = FLOAT(4), .db = FLOAT(4))},
    {CASE(linear_cross_entropy, "one of everything", HEAD(1, 1, 1, 1), HEAD_GRADIENTS(1, 1, 1))},
    {CASE(linear_cross_entropy, "frozen matrix", HEAD(70, 33, 130, 64), .dx = NARROW(70, 33), .b = FLOAT(130),
          .db = FLOAT(130))},
    {CASE(linear_cross_entropy, "large", HEAD(300, 65, 1003, 64), HEAD_GRADIENTS(300, 65, 1003), .b = FLOAT(1003),
          .db = FLOAT(1003), .smoothing = 0.05),
     .long_only = true},
    {CASE(attention, "first rows", ATTENTION(44, 3, 2, 2, 8), DROP(44, 0.3, 3), .scale = 0.35, .queries = 1),
     LENGTHS(17, 1, 22)},
    {CASE(attention, "two blocks of queries", ATTENTION(328, 4, 2, 1, 64), DROP(328, 0.1, 2), .scale = 0.125,
          .queries = 70),
     LENGTHS(64, 63, 65, 129), .long_only = true},
    {CASE(attention_bwd, "first rows", ATTENTION_BWD(44, 3, 2, 2, 8), DROP(44, 0.3, 3), .dbias = FLOAT(48),
          .scale = 0.35, .queries = 1),
     LENGTHS(17, 1, 22)},
    {CASE(attention_bwd, "two blocks of queries", ATTENTION_BWD(328, 4, 2, 1, 64), DROP(328, 0.1, 2), .scale = 0.125,
          .queries = 70),
     LENGTHS(64, 63, 65, 129), .long_only = true},

    {CASE(linear, "addend", LINEAR(6, 5, 7), .b = FLOAT(7), .add = NARROW(6, 7))},
    {CASE(linear, "addend, gelu", LINEAR(5, 9, 40), .add = NARROW(5, 40), .slope = NARROW(5, 40), .act = ACT_gelu)},
    {CASE(linear, "addend, in_out, many rows", LINEAR_IN_OUT(70, 12, 33), .b = FLOAT(33), .add = NARROW(70, 33))},
    {CASE(linear, "large, addend", LINEAR(130, 192, 160), .b = FLOAT(160), .add = NARROW(130, 160)), .long_only = true},
    {CASE(scale, "odd width", .x = NARROW(7, 21), .y = NARROW(7, 21), .by = 1.5)},
    {CASE(scale, "one of everything", .x = NARROW(1, 1), .y = NARROW(1, 1), .by = -0.3)},
    {CASE(scale, "nothing", .x = NARROW(0, 8), .y = NARROW(0, 8), .by = 2)},
    {CASE(scale, "large", .x = NARROW(170, 301), .y = NARROW(170, 301), .by = 0.7), .long_only = true},
#include "cases_attention.h"
#include "cases_disentangled.h"
#include "cases_experts.h"
#include "cases_general.h"
#include "cases_llm.h"
    {CASE(attention_cached, "prompts and single tokens", CACHED(14, 4, 20, 4, 2, 8), .scale = 0.35),
     LENGTHS(6, 1, 4, 1)},
    {CASE(attention_cached, "odd D, one key head", CACHED(5, 3, 9, 3, 1, 7), .scale = 0.4), LENGTHS(2, 1, 2)},
    {CASE(attention_cached, "window", CACHED(12, 3, 24, 2, 2, 4), .scale = 0.5, .window = 5), LENGTHS(8, 1, 3)},
    {CASE(attention_cached, "softcap", CACHED(9, 2, 12, 2, 1, 16), .scale = 1, .softcap = 1.5), LENGTHS(4, 5)},
    {CASE(attention_cached, "no sequences", CACHED(3, 0, 6, 2, 2, 4), .scale = 1)},
    {CASE(attention_cached, "a full cache", CACHED(6, 1, 6, 1, 1, 4), .scale = 1), LENGTHS(6)},
    {CASE(attention_cached, "long", CACHED(70, 3, 600, 6, 2, 64), .scale = 0.125), LENGTHS(60, 1, 9),
     .long_only = true},
    {CASE(attention_cached, "D = 128, window", CACHED(40, 2, 300, 4, 1, 128), .scale = 0.0884, .window = 70),
     LENGTHS(30, 10), .long_only = true},

#include "cases_optimizers.h"

/* Behind the others, whose random numbers follow from their places. */
#include "cases_balance.h"
#include "cases_cached.h"
#include "cases_places.h"
#include "cases_tiles.h"

#include "cases_adafactor.h"
#include "cases_convolution.h"
#include "cases_dora.h"

    /* What ranks exchange: with one of them here, and with several in all_reduce.c. */
    {CASE(broadcast, "one rank", .x = NARROW(7, 11), .from = 1)},
    {CASE(pull, "one rank", .x = NARROW(7, 11), .y = NARROW(7, 11), .from = 1)},

    /* Between a file and the host's memory; from a file that is one in tests/cuda/pages.c. */
    {CASE(page, "from a file", .x = FLOAT(5, 7), .y = FLOAT(5, 7))},
    {CASE(page, "to a file", .x = NARROW(517, 301), .y = NARROW(517, 301), .out = 1)},

    /* What an evaluation with label smoothing asks for. At the end, as a case draws its numbers by its place. */
    {CASE(linear_cross_entropy, "best, smoothing", .x = FLOAT(19, 9), .w = FLOAT(33, 9), .labels = INTS(19), STEP,
          .loss = FLOAT(1), .best = INTS(19), .chunk = 4, .smoothing = 0.1)},

    {CASE(dequantize, "one block", CODED(1, 4, 16))},
    {CASE(dequantize, "a part of a block", CODED(2, 5, 22)), .long_only = true},
    {CASE(dequantize, "two codes", CODED(1, 1, 2), .table = QUANT_FP4)},
    {CASE(dequantize, "several threads", CODED(1040, 130, 512))},
    {CASE(dequantize, "several threads, floats", CODED(528, 66, 512), .table = QUANT_FP4)},
    {CASE(dequantize, "nested", NESTED(20, 1, 10, 128))},
    {CASE(dequantize, "nested, several groups", NESTED(600, 3, 75, 512), .table = QUANT_FP4)},
    {CASE(dequantize, "experts", CODED(6, 2, 3, 64))},
    {CASE(embed_bwd, "a row that stays", EMBED_BWD(40, 3, 21, 2), .still = 2), LENGTHS(19, 21)},
    {CASE(embed_bwd, "a row of thousands that stays", EMBED_BWD(3000, 2, 16, 1), .still = 1), LENGTHS(2900),
     .long_only = true},
    {CASE(rotary, "interleaved", ROTARY(6, 4, 2, 16), TABLE(6, 16), .interleaved = 1)},
    {CASE(rotary, "interleaved, part of a head", ROTARY(7, 3, 1, 18), TABLE(7, 10), .interleaved = 1)},
    {CASE(rotary, "interleaved, part of a head, whole packs", ROTARY(7, 2, 2, 64), TABLE(7, 32), .interleaved = 1)},
    {CASE(rotary, "interleaved, norms of heads", ROTARY(5, 3, 3, 32), TABLE(5, 16), HEAD_GAMMAS(5, 3, 3, 32),
          .eps = 1e-6, .interleaved = 1)},
    {CASE(rotary, "large, interleaved", ROTARY(120, 8, 2, 64), TABLE(120, 64), .interleaved = 1), .long_only = true},
    {CASE(rotary_bwd, "interleaved", ROTARY_BWD(6, 4, 2, 16), TABLE(6, 16), .interleaved = 1)},
    {CASE(rotary_bwd, "interleaved, part of a head", ROTARY_BWD(7, 3, 1, 18), TABLE(7, 10), .interleaved = 1)},
    {CASE(rotary_bwd, "interleaved, part of a head, whole packs", ROTARY_BWD(7, 2, 2, 64), TABLE(7, 32),
          .interleaved = 1)},
    {CASE(rotary_bwd, "interleaved, norms of heads", ROTARY_BWD(5, 3, 3, 32), TABLE(5, 16),
          HEAD_GAMMAS_BWD(5, 3, 3, 32), .interleaved = 1)},
    {CASE(rotary_bwd, "large, interleaved, norms of heads", ROTARY_BWD(120, 4, 2, 128), TABLE(120, 128),
          HEAD_GAMMAS_BWD(120, 4, 2, 128), .interleaved = 1),
     .long_only = true},

    {CASE(attention_general, "slopes", SLOPES(19, 2, 2, 4), .scale = 0.5), LENGTHS(5, 12)},
    {CASE(attention_general, "slopes, dropout", SLOPES(30, 3, 3, 7), DROP(30, 0.3, 2), .scale = 0.4),
     LENGTHS(12, 1, 14)},
    {CASE(attention_general, "slopes, several tiles", SLOPES(210, 2, 3, 64), .scale = 0.125), LENGTHS(170, 37),
     .condition = 8},
    {CASE(attention_general, "slopes, a wide head", SLOPES(70, 1, 2, 200), .scale = 0.07), LENGTHS(66), .condition = 8,
     .long_only = true},
    {CASE(attention_general_bwd, "slopes", SLOPES_BWD(19, 2, 2, 4), .scale = 0.5), LENGTHS(5, 12)},
    {CASE(attention_general_bwd, "slopes, dropout", SLOPES_BWD(30, 3, 3, 7), DROP(30, 0.3, 2), .scale = 0.4),
     LENGTHS(12, 1, 14)},
    {CASE(attention_general_bwd, "slopes, several tiles", SLOPES_BWD(210, 2, 3, 64), .scale = 0.125), LENGTHS(170, 37),
     .condition = 8},
    {CASE(attention_general_bwd, "slopes, a wide head", SLOPES_BWD(70, 1, 2, 200), .scale = 0.07), LENGTHS(66),
     .condition = 8, .long_only = true},
    {CASE(attention_cached, "slopes", CACHED(12, 3, 24, 3, 3, 4), .table = FLOAT(1, 3), .scale = 1), LENGTHS(8, 1, 3),
     .condition = 8},
    {CASE(mask_dropout, "two sequences", MASK_DROPOUT(9, 2, 7)), LENGTHS(5, 4)},
    {CASE(mask_dropout, "rows behind them", MASK_DROPOUT(12, 3, 21)), LENGTHS(1, 7, 2)},
    {CASE(mask_dropout, "large", MASK_DROPOUT(300, 2, 301)), LENGTHS(130, 160), .long_only = true},
    {CASE(quantize_fp8, "rows", QUANTIZE_FP8(5, 32))},
    {CASE(quantize_fp8, "odd rows", QUANTIZE_FP8(3, 37))},
    {CASE(quantize_fp8, "several packs a thread", QUANTIZE_FP8(2, 2320)), .offset = 3},
    {CASE(quantize_fp8, "floats", .x = FLOAT(4, 48), .y = FP8(4, 48), .scale = FLOAT(4))},
    {CASE(quantize_fp8, "large", QUANTIZE_FP8(300, 272)), .long_only = true},
    {CASE(quantize_fp8, "columns", TURN_FP8(32, 16))},
    {CASE(quantize_fp8, "odd columns", TURN_FP8(19, 37))},
    {CASE(quantize_fp8, "several tiles of columns", TURN_FP8(140, 200)), .offset = -2},
    {CASE(quantize_fp8, "columns of floats", .x = FLOAT(70, 24), .y = FP8(24, 70), .scale = FLOAT(24),
          .transposed = 1)},
    {CASE(quantize_fp8, "large, columns", TURN_FP8(600, 272)), .long_only = true},
    {CASE(linear_fp8, "no bias", LINEAR_FP8(6, 32, 16))},
    {CASE(linear_fp8, "bias, addend", LINEAR_FP8(7, 48, 32), .b = FLOAT(32), .add = NARROW(7, 32)), .once = true},
    {CASE(linear_fp8, "bias of floats", LINEAR_FP8(5, 16, 16), .b = FLOAT(16))},
    {CASE(linear_fp8, "no rows", LINEAR_FP8(0, 16, 16))},
    {CASE(linear_fp8, "large", LINEAR_FP8(200, 160, 192), .b = FLOAT(192)), .long_only = true},
    {CASE(gate_rows, "a row a warp", GATE_ROWS(7, 24))},
    {CASE(gate_rows, "odd rows", GATE_ROWS(5, 13))},
    {CASE(gate_rows, "no rows", GATE_ROWS(0, 8))},
    {CASE(gate_rows, "large", GATE_ROWS(300, 96)), .long_only = true},
    {CASE(gate_rows_bwd, "a row a warp", GATE_ROWS_BWD(7, 24), .dx = NARROW(7, 24), .dlogits = NARROW(7, 1))},
    {CASE(gate_rows_bwd, "odd rows", GATE_ROWS_BWD(5, 13), .dx = NARROW(5, 13), .dlogits = NARROW(5, 1))},
    {CASE(gate_rows_bwd, "frozen gate", GATE_ROWS_BWD(5, 13), .dx = NARROW(5, 13))},
    {CASE(gate_rows_bwd, "frozen expert", GATE_ROWS_BWD(5, 16), .dlogits = NARROW(5, 1))},
    {CASE(gate_rows_bwd, "no rows", GATE_ROWS_BWD(0, 8), .dx = NARROW(0, 8), .dlogits = NARROW(0, 1))},
    {CASE(gate_rows_bwd, "large", GATE_ROWS_BWD(300, 96), .dx = NARROW(300, 96), .dlogits = NARROW(300, 1)),
     .long_only = true},

    {CASE(attention, "sinks", ATTENTION(20, 2, 4, 2, 4), .sinks = FLOAT(4), .scale = 0.5, .causal = 1), LENGTHS(11, 6)},
    {CASE(attention, "sinks, window, dropout", ATTENTION(26, 2, 2, 1, 8), DROP(26, 0.2, 3), .sinks = FLOAT(2),
          .scale = 0.4, .causal = 1, .window = 5),
     LENGTHS(17, 9)},
    {CASE(attention, "sinks, both ways", ATTENTION(9, 1, 3, 3, 5), .sinks = FLOAT(3), .scale = 0.5), LENGTHS(9)},
    {CASE(attention, "sinks, groups of eight", ATTENTION(330, 2, 16, 2, 64), .sinks = FLOAT(16), .scale = 0.125,
          .causal = 1, .window = 128),
     LENGTHS(290, 33)},
    {CASE(attention, "sinks, short sequences", ATTENTION(900, 30, 2, 2, 64), .sinks = FLOAT(2), .scale = 0.125,
          .causal = 1, .longest = 30),
     LENGTHS(30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30,
             30, 30, 30),
     .long_only = true},
    {CASE(attention_sinks_bwd, "two sequences", SINKS_BWD(20, 2, 4, 6)), LENGTHS(11, 6)},
    {CASE(attention_sinks_bwd, "one row", SINKS_BWD(1, 1, 3, 5)), LENGTHS(1)},
    {CASE(attention_sinks_bwd, "no rows", SINKS_BWD(0, 1, 3, 8)), LENGTHS(0)},
    {CASE(attention_sinks_bwd, "large", SINKS_BWD(300, 2, 8, 64)), LENGTHS(170, 121), .long_only = true},
    {CASE(attention_cached, "sinks", CACHED(12, 3, 24, 4, 2, 4), .sinks = FLOAT(4), .scale = 0.5), LENGTHS(8, 1, 3),
     .condition = 8},
    {CASE(attention_cached, "sinks, window", CACHED(9, 2, 40, 8, 1, 64), .sinks = FLOAT(8), .scale = 0.125,
          .window = 6),
     LENGTHS(7, 1), .condition = 8},
    {CASE(glu_clamped, "limits that matter", GLU(5, 33), .alpha = 1.702, .limit = 0.5)},
    {CASE(glu_clamped, "whole packs", GLU(4, 32), .alpha = 1.702, .limit = 7)},
    {CASE(glu_clamped, "no rows", GLU(0, 16), .alpha = 1, .limit = 1)},
    {CASE(glu_clamped, "large", GLU(100, 304), .alpha = 1.702, .limit = 1), .long_only = true},
    {CASE(glu_clamped_bwd, "limits that matter", GLU_BWD(5, 33), .alpha = 1.702, .limit = 0.5)},
    {CASE(glu_clamped_bwd, "whole packs", GLU_BWD(4, 32), .alpha = 1.702, .limit = 7)},
    {CASE(glu_clamped_bwd, "no rows", GLU_BWD(0, 16), .alpha = 1, .limit = 1)},
    {CASE(glu_clamped_bwd, "large", GLU_BWD(100, 304), .alpha = 1.702, .limit = 1), .long_only = true},
    {CASE(linear_experts, "(in,out)", EXPERTS_IN_OUT(29, 6, 16, 24))},
    {CASE(linear_experts, "(in,out), odd sizes", EXPERTS_IN_OUT(23, 5, 7, 13))},
    {CASE(linear_experts, "(in,out), several tiles", EXPERTS_IN_OUT(700, 6, 136, 264)), .long_only = true},
    {CASE(linear_experts_dx, "(in,out)", EXPERTS_DX_IN_OUT(29, 6, 16, 24))},
    {CASE(linear_experts_dx, "(in,out), odd sizes", EXPERTS_DX_IN_OUT(23, 5, 7, 13))},
    {CASE(linear_experts_dx, "(in,out), several tiles", EXPERTS_DX_IN_OUT(700, 6, 136, 264)), .long_only = true},
    {CASE(linear_experts_dw, "(in,out)", EXPERTS_DW(29, 6, 16, 24), .dw = FLOAT(6, 16, 24), .in_out = 1)},
    {CASE(linear_experts_dw, "(in,out), odd sizes", EXPERTS_DW(23, 5, 7, 13), .dw = NARROW(5, 7, 13), .in_out = 1)},
    {CASE(linear_experts_dw, "(in,out), several tiles", EXPERTS_DW(700, 6, 136, 264), .dw = FLOAT(6, 136, 264),
          .in_out = 1),
     .long_only = true},
    {CASE(expert_bias, "some without rows", EXPERT_BIAS(29, 6, 24))},
    {CASE(expert_bias, "more experts than rows", EXPERT_BIAS(5, 40, 7))},
    {CASE(expert_bias, "no rows", EXPERT_BIAS(0, 4, 8))},
    {CASE(expert_bias, "large", EXPERT_BIAS(300, 6, 264)), .long_only = true},
    {CASE(expert_bias_bwd, "some without rows", EXPERT_BIAS_BWD(29, 6, 24), .db = FLOAT(6, 24))},
    {CASE(expert_bias_bwd, "in the policy's type", EXPERT_BIAS_BWD(23, 5, 7), .db = NARROW(5, 7))},
    {CASE(expert_bias_bwd, "no rows", EXPERT_BIAS_BWD(0, 4, 8), .db = FLOAT(4, 8))},
    {CASE(expert_bias_bwd, "large", EXPERT_BIAS_BWD(300, 6, 264), .db = FLOAT(6, 264)), .long_only = true},
    {CASE(quantize_fp8, "rows of codes", .x = FP8(5, 32), .x_scale = FLOAT(5), .y = FP8(5, 32), .scale = FLOAT(5))},
    {CASE(quantize_fp8, "columns of codes", TURN_CODES(32, 16))},
    {CASE(quantize_fp8, "odd columns of codes", TURN_CODES(19, 37))},
    {CASE(quantize_fp8, "several tiles of columns of codes", TURN_CODES(140, 200))},
    {CASE(quantize_fp8, "large, columns of codes", TURN_CODES(600, 272)), .long_only = true},
    {CASE(dequantize, "rows", CODED_ROWS(6, 6, 32))},
    {CASE(dequantize, "odd rows", CODED_ROWS(5, 5, 37))},
    {CASE(dequantize, "rows of experts", CODED_ROWS(12, 3, 4, 24))},
    {CASE(dequantize, "rows, several threads", CODED_ROWS(130, 130, 528))},
    {CASE(attention, "sinks, more heads than a warp has at once", ATTENTION(75, 2, 40, 8, 8), .sinks = FLOAT(40),
          .scale = 0.3, .causal = 1),
     LENGTHS(61, 9)},
    {CASE(attention, "sinks, wide heads", ATTENTION(70, 1, 3, 1, 136), .sinks = FLOAT(3), .scale = 0.1, .causal = 1),
     LENGTHS(70), .long_only = true},
    {CASE(attention_sinks_bwd, "more heads than a warp has at once", SINKS_BWD(75, 2, 40, 8)), LENGTHS(61, 9)},
    {CASE(attention_sinks_bwd, "wide heads", SINKS_BWD(70, 1, 3, 264)), LENGTHS(70)},
    {CASE(attention_sinks_bwd, "more blocks than lanes", SINKS_BWD(2300, 1, 2, 8)), LENGTHS(2290)},
    {CASE(attention_sinks_bwd, "in the policy's type", SINKS(130, 1, 5, 16), .dsinks = NARROW(5)), LENGTHS(129)},
    {CASE(linear, "relu2", LINEAR(4, 8, 16), .b = FLOAT(16), .slope = NARROW(4, 16), .act = ACT_relu2)},
    {CASE(linear, "in_out, relu2, no slope", LINEAR_IN_OUT(7, 16, 33), .act = ACT_relu2)},
    {CASE(linear, "relu2, large", LINEAR(96, 192, 160), .slope = NARROW(96, 160), .act = ACT_relu2), .long_only = true},
    {CASE(activation, "relu2", ACTIVATION(5, 21), .slope = NARROW(5, 21), .act = ACT_relu2)},
    {CASE(glu, "relu2", GLU(5, 33), .act = ACT_relu2)},
    {CASE(glu_bwd, "relu2", GLU_BWD(5, 33), .act = ACT_relu2)},
    {CASE(norm, "one plus gamma", NORM(5, 20), .one_plus = 1)},
    {CASE(norm, "one plus gamma, residual, whole packs", NORM(3, 64), .res = NARROW(3, 64), .h = NARROW(3, 64),
          .one_plus = 1)},
    {CASE(norm_bwd, "one plus gamma", NORM_BWD(5, 20), .dx = NARROW(5, 20), .dgamma = FLOAT(20), .dbeta = FLOAT(20),
          .one_plus = 1)},
    {CASE(norm_bwd, "one plus gamma, residual, whole packs", NORM_BWD(9, 64), .dh = NARROW(9, 64), .dx = NARROW(9, 64),
          .dres = NARROW(9, 64), .dgamma = FLOAT(64), .dbeta = FLOAT(64), .one_plus = 1)},
    {CASE(norm_bwd, "one plus gamma, wide", NORM_BWD(5, 2056), .dx = NARROW(5, 2056), .dgamma = FLOAT(2056),
          .one_plus = 1),
     .long_only = true},
    {CASE(bias, "plain", .x = NARROW(5, 21), .b = FLOAT(21), .y = NARROW(5, 21))},
    {CASE(bias, "whole packs", .x = NARROW(9, 64), .b = FLOAT(64), .y = NARROW(9, 64))},
    {CASE(bias, "no rows", .x = NARROW(0, 8), .b = FLOAT(8), .y = NARROW(0, 8))},
    {CASE(bias, "large", .x = NARROW(300, 264), .b = FLOAT(264), .y = NARROW(300, 264)), .long_only = true},

    {CASE(short_conv, "three rows, and padding rows", SHORT_CONV(12, 3, 17, 3)), LENGTHS(4, 1, 6)},
    {CASE(short_conv, "bias, whole packs", SHORT_CONV(11, 2, 24, 3), .b = FLOAT(24)), LENGTHS(2, 9)},
    {CASE(short_conv, "four rows", SHORT_CONV(9, 2, 8, 4)), LENGTHS(3, 6)},
    {CASE(short_conv, "two rows, one column", SHORT_CONV(7, 2, 1, 2), .b = FLOAT(1)), LENGTHS(6, 1)},
    {CASE(short_conv, "itself", SHORT_CONV(5, 1, 4, 1)), LENGTHS(5)},
    {CASE(short_conv, "no sequences", SHORT_CONV(3, 0, 8, 3))},
    {CASE(short_conv, "no rows", SHORT_CONV(0, 0, 8, 3))},
    {CASE(short_conv, "large", SHORT_CONV(300, 4, 130, 3)), LENGTHS(100, 0, 150, 45), .long_only = true},
    {CASE(short_conv_bwd, "three rows, and padding rows", SHORT_CONV_BWD(12, 3, 17, 3), .dbcx = NARROW(12, 51)),
     LENGTHS(4, 1, 6)},
    {CASE(short_conv_bwd, "bias, whole packs", SHORT_CONV_BWD(11, 2, 24, 3), .b = FLOAT(24), .db = FLOAT(24),
          .dbcx = NARROW(11, 72)),
     LENGTHS(2, 9)},
    {CASE(short_conv_bwd, "four rows, of the weight alone", SHORT_CONV_BWD(9, 2, 8, 4)), LENGTHS(3, 6)},
    {CASE(short_conv_bwd, "two rows, not of the weight", .dy = NARROW(7, 5), .bcx = NARROW(7, 15), .w = FLOAT(5, 1, 2),
          .b = FLOAT(5), .cu = INTS(3), .dbcx = NARROW(7, 15), .db = FLOAT(5)),
     LENGTHS(6, 1)},
    {CASE(short_conv_bwd, "no sequences", SHORT_CONV_BWD(3, 0, 8, 3), .dbcx = NARROW(3, 24))},
    {CASE(short_conv_bwd, "no rows", SHORT_CONV_BWD(0, 0, 8, 3), .dbcx = NARROW(0, 24), .b = FLOAT(8), .db = FLOAT(8))},
    {CASE(short_conv_bwd, "large", SHORT_CONV_BWD(2300, 4, 130, 3), .dbcx = NARROW(2300, 390)),
     LENGTHS(1100, 0, 1150, 45), .long_only = true},
    {CASE(short_conv_cached, "pieces of all kinds", SHORT_CONV_CACHED(14, 5, 17, 3)), LENGTHS(4, 1, 5, 0, 2)},
    {CASE(short_conv_cached, "bias, whole packs", SHORT_CONV_CACHED(13, 4, 24, 4), .b = FLOAT(24)),
     LENGTHS(2, 1, 9, 1)},
    {CASE(short_conv_cached, "itself", SHORT_CONV_CACHED(6, 2, 3, 1)), LENGTHS(4, 2)},
    {CASE(short_conv_cached, "rows of other sequences", SHORT_CONV_CACHED(7, 4, 9, 3), .at = INTS(4, 20)),
     LENGTHS(2, 3, 1, 1)},
    {CASE(short_conv_cached, "no sequences", SHORT_CONV_CACHED(3, 0, 8, 3))},
    {CASE(short_conv_cached, "large", SHORT_CONV_CACHED(150, 4, 264, 3), .at = INTS(4, 40)), LENGTHS(3, 3, 2, 3),
     .long_only = true},
};

const int n_op_cases = (int)(sizeof op_cases / sizeof *op_cases);
