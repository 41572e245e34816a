/* cases_llm.h: rows of op_cases (cases.c, which includes this) for the ops of decoder language models. */
#define RMS_NORM(N, H) .x = NARROW(N, H), .gamma = FLOAT(H), .y = NARROW(N, H), .rstd = FLOAT(N), .eps = 1e-6
#define RMS_NORM_BWD(N, H) .dy = NARROW(N, H), .h = NARROW(N, H), .gamma = FLOAT(H), .rstd = FLOAT(N)
#define GLU(N, F) .x = NARROW(N, 2 * (F)), .y = NARROW(N, F)
#define GLU_BWD(N, F) .x = NARROW(N, 2 * (F)), .dy = NARROW(N, F), .dx = NARROW(N, 2 * (F))

/* T rows of A heads of D, K key heads, of each of which R elements are rotated; and gammas of a head, or of all heads. */
#define HEADS(A, K) .heads = A, .kv_heads = K
#define ROTARY(T, A, K, D) .qkv = NARROW(T, ((A) + 2 * (K)) * (D)), .y = NARROW(T, ((A) + 2 * (K)) * (D)), HEADS(A, K)
#define ROTARY_BWD(T, A, K, D)                                                                                         \
    .dy = NARROW(T, ((A) + 2 * (K)) * (D)), .dqkv = NARROW(T, ((A) + 2 * (K)) * (D)), HEADS(A, K)
#define TABLE(T, R) .table = FLOAT(T, R)
#define HEAD_GAMMAS(T, A, K, D) .q_gamma = FLOAT(D), .k_gamma = FLOAT(D), .rstd = FLOAT(T, (A) + (K))
#define ALL_GAMMAS(T, A, K, D) .q_gamma = FLOAT((A) * (D)), .k_gamma = FLOAT((K) * (D)), .rstd = FLOAT(T, 2)
#define HEAD_GAMMAS_BWD(T, A, K, D)                                                                                    \
    .qkv = NARROW(T, ((A) + 2 * (K)) * (D)), HEAD_GAMMAS(T, A, K, D), .dq_gamma = FLOAT(D), .dk_gamma = FLOAT(D)
#define ALL_GAMMAS_BWD(T, A, K, D)                                                                                     \
    .qkv = NARROW(T, ((A) + 2 * (K)) * (D)), ALL_GAMMAS(T, A, K, D), .dq_gamma = FLOAT((A) * (D)),                     \
    .dk_gamma = FLOAT((K) * (D))
#define ROTARY_TABLE(T, half) .positions = INTS(T), .frequencies = DOUBLES(half), .table = FLOAT(T, 2 * (half))

{CASE(rms_norm, "plain", RMS_NORM(5, 12))},
    {CASE(rms_norm, "residual", RMS_NORM(6, 33), .res = NARROW(6, 33), .h = NARROW(6, 33))},
    {CASE(rms_norm, "one plus gamma", RMS_NORM(7, 16), .res = NARROW(7, 16), .h = NARROW(7, 16), .one_plus = 1)},
    {CASE(rms_norm, "no rows", RMS_NORM(0, 16))}, {CASE(rms_norm, "one row", RMS_NORM(1, 300), .one_plus = 1)},
    {CASE(rms_norm, "large", RMS_NORM(70, 1024), .res = NARROW(70, 1024), .h = NARROW(70, 1024)), .long_only = true},
    {CASE(rms_norm, "wide", RMS_NORM(5, 2056), .res = NARROW(5, 2056), .h = NARROW(5, 2056)), .long_only = true},
    {CASE(rms_norm_bwd, "all gradients", RMS_NORM_BWD(6, 33), .dh = NARROW(6, 33), .dx = NARROW(6, 33),
          .dres = NARROW(6, 33), .dgamma = FLOAT(33))},
    {CASE(rms_norm_bwd, "one plus gamma", RMS_NORM_BWD(9, 20), .dx = NARROW(9, 20), .dgamma = FLOAT(20),
          .one_plus = 1)},
    {CASE(rms_norm_bwd, "only the weight", RMS_NORM_BWD(5, 8), .dgamma = FLOAT(8))},
    {CASE(rms_norm_bwd, "a frozen weight", RMS_NORM_BWD(5, 8), .dx = NARROW(5, 8))},
    {CASE(rms_norm_bwd, "no rows", RMS_NORM_BWD(0, 16), .dx = NARROW(0, 16), .dgamma = FLOAT(16))},
    {CASE(rms_norm_bwd, "one row", RMS_NORM_BWD(1, 300), .dx = NARROW(1, 300), .dgamma = FLOAT(300))},
    {CASE(rms_norm_bwd, "large", RMS_NORM_BWD(600, 136), .dx = NARROW(600, 136), .dres = NARROW(600, 136),
          .dgamma = FLOAT(136)),
     .long_only = true},
    {CASE(rms_norm_bwd, "wide", RMS_NORM_BWD(5, 2056), .dh = NARROW(5, 2056), .dx = NARROW(5, 2056),
          .dres = NARROW(5, 2056), .dgamma = FLOAT(2056), .one_plus = 1),
     .long_only = true},

    {CASE(glu, "silu", GLU(5, 33), .act = ACT_silu)},
    {CASE(glu, "gelu_tanh, whole packs", GLU(4, 32), .act = ACT_gelu_tanh)},
    {CASE(glu, "gelu", GLU(3, 21), .act = ACT_gelu)}, {CASE(glu, "no activation", GLU(2, 8))},
    {CASE(glu, "no rows", GLU(0, 16), .act = ACT_silu)},
    {CASE(glu, "large", GLU(100, 304), .act = ACT_silu), .long_only = true},
    {CASE(glu, "wide", GLU(5, 4104), .act = ACT_silu), .long_only = true},
    {CASE(glu_bwd, "silu", GLU_BWD(5, 33), .act = ACT_silu)},
    {CASE(glu_bwd, "gelu_tanh, whole packs", GLU_BWD(4, 32), .act = ACT_gelu_tanh)},
    {CASE(glu_bwd, "gelu", GLU_BWD(3, 21), .act = ACT_gelu)}, {CASE(glu_bwd, "relu", GLU_BWD(3, 16), .act = ACT_relu)},
    {CASE(glu_bwd, "no rows", GLU_BWD(0, 16), .act = ACT_silu)},
    {CASE(glu_bwd, "large", GLU_BWD(100, 304), .act = ACT_silu), .long_only = true},
    {CASE(glu_bwd, "wide", GLU_BWD(5, 4104), .act = ACT_silu), .long_only = true},

    {CASE(rotary_table, "small", ROTARY_TABLE(7, 3), .factor = 1)},
    {CASE(rotary_table, "a factor", ROTARY_TABLE(30, 64), .factor = 1.25)},
    {CASE(rotary_table, "no rows", ROTARY_TABLE(0, 8), .factor = 1)},
    {CASE(rotary_table, "large", ROTARY_TABLE(400, 64), .factor = 1), .long_only = true},
    {CASE(rotary, "one head", ROTARY(5, 1, 1, 4), TABLE(5, 4))},
    {CASE(rotary, "grouped heads", ROTARY(6, 4, 2, 16), TABLE(6, 16))},
    {CASE(rotary, "part of a head", ROTARY(7, 3, 1, 18), TABLE(7, 6))},
    {CASE(rotary, "part of a head, whole packs", ROTARY(7, 2, 2, 64), TABLE(7, 32))},
    {CASE(rotary, "norms of heads", ROTARY(5, 4, 2, 16), TABLE(5, 16), HEAD_GAMMAS(5, 4, 2, 16), .eps = 1e-6)},
    {CASE(rotary, "norms of heads, one plus gamma", ROTARY(5, 3, 3, 10), TABLE(5, 10), HEAD_GAMMAS(5, 3, 3, 10),
          .eps = 1e-6, .one_plus = 1)},
    {CASE(rotary, "norms of all heads", ROTARY(6, 4, 2, 6), TABLE(6, 6), ALL_GAMMAS(6, 4, 2, 6), .eps = 1e-5)},
    {CASE(rotary, "norms of all heads, one key head", ROTARY(6, 2, 1, 8), TABLE(6, 4), ALL_GAMMAS(6, 2, 1, 8),
          .eps = 1e-5)},
    {CASE(rotary, "norms without rotation", ROTARY(5, 2, 1, 12), HEAD_GAMMAS(5, 2, 1, 12), .eps = 1e-6)},
    {CASE(rotary, "no rows", ROTARY(0, 2, 1, 8), TABLE(0, 8), HEAD_GAMMAS(0, 2, 1, 8), .eps = 1e-6)},
    {CASE(rotary, "large", ROTARY(120, 8, 2, 64), TABLE(120, 64)), .long_only = true},
    {CASE(rotary, "large, norms of heads", ROTARY(60, 8, 2, 128), TABLE(60, 128), HEAD_GAMMAS(60, 8, 2, 128),
          .eps = 1e-6),
     .long_only = true},
    {CASE(rotary, "heads of 256, norms of heads", ROTARY(9, 3, 1, 256), TABLE(9, 256), HEAD_GAMMAS(9, 3, 1, 256),
          .eps = 1e-6, .one_plus = 1),
     .long_only = true},
    {CASE(rotary, "large, norms of all heads", ROTARY(60, 24, 8, 128), TABLE(60, 128), ALL_GAMMAS(60, 24, 8, 128),
          .eps = 1e-6),
     .long_only = true},
    {CASE(rotary_bwd, "one head", ROTARY_BWD(5, 1, 1, 4), TABLE(5, 4))},
    {CASE(rotary_bwd, "grouped heads", ROTARY_BWD(6, 4, 2, 16), TABLE(6, 16))},
    {CASE(rotary_bwd, "part of a head", ROTARY_BWD(7, 3, 1, 18), TABLE(7, 6))},
    {CASE(rotary_bwd, "part of a head, whole packs", ROTARY_BWD(7, 2, 2, 64), TABLE(7, 32))},
    {CASE(rotary_bwd, "norms of heads", ROTARY_BWD(5, 4, 2, 16), TABLE(5, 16), HEAD_GAMMAS_BWD(5, 4, 2, 16))},
    {CASE(rotary_bwd, "norms of heads, one plus gamma", ROTARY_BWD(5, 3, 3, 10), TABLE(5, 10),
          HEAD_GAMMAS_BWD(5, 3, 3, 10), .one_plus = 1)},
    {CASE(rotary_bwd, "norms of all heads", ROTARY_BWD(6, 4, 2, 6), TABLE(6, 6), ALL_GAMMAS_BWD(6, 4, 2, 6))},
    {CASE(rotary_bwd, "norms of all heads, one key head", ROTARY_BWD(6, 2, 1, 8), TABLE(6, 4),
          ALL_GAMMAS_BWD(6, 2, 1, 8))},
    {CASE(rotary_bwd, "norms without rotation", ROTARY_BWD(5, 2, 1, 12), HEAD_GAMMAS_BWD(5, 2, 1, 12))},
    {CASE(rotary_bwd, "no rows", ROTARY_BWD(0, 2, 1, 8), TABLE(0, 8), HEAD_GAMMAS_BWD(0, 2, 1, 8))},
    {CASE(rotary_bwd, "large", ROTARY_BWD(120, 8, 2, 64), TABLE(120, 64)), .long_only = true},
    {CASE(rotary_bwd, "large, norms of heads", ROTARY_BWD(300, 4, 2, 128), TABLE(300, 128),
          HEAD_GAMMAS_BWD(300, 4, 2, 128)),
     .long_only = true},
    {CASE(rotary_bwd, "heads of 256, norms of heads", ROTARY_BWD(9, 3, 1, 256), TABLE(9, 256),
          HEAD_GAMMAS_BWD(9, 3, 1, 256), .one_plus = 1),
     .long_only = true},
    {CASE(rotary_bwd, "large, norms of all heads", ROTARY_BWD(60, 24, 8, 128), TABLE(60, 128),
          ALL_GAMMAS_BWD(60, 24, 8, 128)),
     .long_only = true},

    {CASE(add, "odd width", .a = NARROW(7, 21), .b = NARROW(7, 21), .y = NARROW(7, 21))},
    {CASE(add, "whole packs", .a = NARROW(3, 32), .b = NARROW(3, 32), .y = NARROW(3, 32))},
    {CASE(add, "no rows", .a = NARROW(0, 8), .b = NARROW(0, 8), .y = NARROW(0, 8))},
    {CASE(add, "large", .a = NARROW(33, 1003), .b = NARROW(33, 1003), .y = NARROW(33, 1003)), .long_only = true},
    {CASE(add_bwd, "odd width", .dy = NARROW(7, 21), .da = NARROW(7, 21), .db = NARROW(7, 21))},
    {CASE(add_bwd, "whole packs", .dy = NARROW(3, 32), .da = NARROW(3, 32), .db = NARROW(3, 32))},
    {CASE(add_bwd, "no rows", .dy = NARROW(0, 8), .da = NARROW(0, 8), .db = NARROW(0, 8))},
    {CASE(add_bwd, "large", .dy = NARROW(33, 1003), .da = NARROW(33, 1003), .db = NARROW(33, 1003)), .long_only = true},
    {CASE(softcap, "odd width", .x = NARROW(7, 21), .y = NARROW(7, 21), .cap = 1.5)},
    {CASE(softcap, "whole packs", .x = NARROW(3, 32), .y = NARROW(3, 32), .cap = 30)},
    {CASE(softcap, "no rows", .x = NARROW(0, 8), .y = NARROW(0, 8), .cap = 30)},
    {CASE(softcap, "large", .x = NARROW(33, 1003), .y = NARROW(33, 1003), .cap = 2), .long_only = true},
    {CASE(softcap_bwd, "odd width", .y = NARROW(7, 21), .dy = NARROW(7, 21), .dx = NARROW(7, 21), .cap = 4)},
    {CASE(softcap_bwd, "whole packs", .y = NARROW(3, 32), .dy = NARROW(3, 32), .dx = NARROW(3, 32), .cap = 30)},
    {CASE(softcap_bwd, "no rows", .y = NARROW(0, 8), .dy = NARROW(0, 8), .dx = NARROW(0, 8), .cap = 30)},
    {CASE(softcap_bwd, "large", .y = NARROW(33, 1003), .dy = NARROW(33, 1003), .dx = NARROW(33, 1003), .cap = 4),
     .long_only = true},
