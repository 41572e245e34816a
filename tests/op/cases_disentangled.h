/* cases_disentangled.h: rows of the table in cases.c: attention of what and where, as DeBERTa has it. Of n parts of (R, n heads D)
 * one is the positions' queries (q), one their keys (k). */
#define DISENTANGLED(T, B, A, D, R, n, N, q, k)                                                                        \
    .qkv = NARROW(T, 3 * (A) * (D)), .relative = NARROW(R, (n) * (A) * (D)), .rows = INTS(2 * (N)-1),                  \
    .cu = INTS((B) + 1), .o = NARROW(T, (A) * (D)), .lse = FLOAT(A, T), .heads = A, .queries = q, .keys = k
#define DISENTANGLED_BWD(T, B, A, D, R, n, N, q, k)                                                                    \
    DISENTANGLED(T, B, A, D, R, n, N, q, k), .dout = NARROW(T, (A) * (D)), .dqkv = NARROW(T, 3 * (A) * (D)),           \
                                             .drelative = NARROW(R, (n) * (A) * (D))

{CASE(attention_disentangled, "shared projections", DISENTANGLED(9, 2, 2, 4, 8, 3, 6, 1, 2), .scale = 0.3),
 LENGTHS(5, 4)},
    {CASE(attention_disentangled, "dropout, padding rows", DISENTANGLED(30, 3, 3, 7, 16, 2, 14, 1, 2), DROP(30, 0.3, 2),
          .scale = 0.2),
     LENGTHS(12, 1, 14)},
    {CASE(attention_disentangled, "content to position", DISENTANGLED(11, 2, 2, 5, 6, 1, 9, 0, 1), .scale = 0.3),
     LENGTHS(4, 7)},
    {CASE(attention_disentangled, "position to content", DISENTANGLED(11, 2, 2, 5, 40, 1, 9, 1, 0), .scale = 0.3),
     LENGTHS(4, 7)},
    {CASE(attention_disentangled, "no sequences", DISENTANGLED(3, 0, 2, 8, 8, 2, 4, 1, 2), .scale = 1)},
    {CASE(attention_disentangled, "one token", DISENTANGLED(1, 1, 1, 3, 2, 2, 1, 2, 1), .scale = 1), LENGTHS(1)},
    {CASE(attention_disentangled, "as DeBERTa-v3", DISENTANGLED(210, 2, 3, 64, 64, 3, 200, 1, 2), DROP(210, 0.1, 2),
          .scale = 0.0722),
     LENGTHS(170, 37), .condition = 4, .long_only = true},
    {CASE(attention_disentangled_bwd, "shared projections", DISENTANGLED_BWD(9, 2, 2, 4, 8, 3, 6, 1, 2), .scale = 0.3),
     LENGTHS(5, 4)},
    {CASE(attention_disentangled_bwd, "dropout, padding rows", DISENTANGLED_BWD(30, 3, 3, 7, 16, 2, 14, 1, 2),
          DROP(30, 0.3, 2), .scale = 0.2),
     LENGTHS(12, 1, 14)},
    {CASE(attention_disentangled_bwd, "content to position", DISENTANGLED_BWD(11, 2, 2, 5, 6, 1, 9, 0, 1),
          .scale = 0.3),
     LENGTHS(4, 7)},
    {CASE(attention_disentangled_bwd, "position to content", DISENTANGLED_BWD(11, 2, 2, 5, 40, 1, 9, 1, 0),
          .scale = 0.3),
     LENGTHS(4, 7)},
    {CASE(attention_disentangled_bwd, "no sequences", DISENTANGLED_BWD(3, 0, 2, 8, 8, 2, 4, 1, 2), .scale = 1)},
    {CASE(attention_disentangled_bwd, "one token", DISENTANGLED_BWD(1, 1, 1, 3, 2, 2, 1, 2, 1), .scale = 1),
     LENGTHS(1)},
    {CASE(attention_disentangled_bwd, "frozen positions", DISENTANGLED(12, 2, 1, 5, 6, 2, 8, 1, 2),
          .dout = NARROW(12, 5), .dqkv = NARROW(12, 15), .scale = 0.4),
     LENGTHS(5, 7)},
    {CASE(attention_disentangled_bwd, "as DeBERTa-v3", DISENTANGLED_BWD(210, 2, 3, 64, 64, 3, 200, 1, 2),
          DROP(210, 0.1, 2), .scale = 0.0722),
     LENGTHS(170, 37), .condition = 4, .long_only = true},
