/* cases_cached.h: rows of the table in cases.c, for attention to a cache with a bias by distance, or of what an encoder gave. */
/* S: new rows of those that are attended to; L: rows of the cache. */
#define KNOWN(T, S, B, L, A, K, D)                                                                                     \
    .qkv = NARROW(T, (A) * (D)), .kv = NARROW(S, 2 * (K) * (D)), .kv_cu = INTS((B) + 1), .cu = INTS((B) + 1),          \
    .past = INTS(B), .keys = NARROW(B, L, (K) * (D)), .values = NARROW(B, L, (K) * (D)), .o = NARROW(T, (A) * (D)),    \
    .heads = A, .kv_heads = K

{CASE(attention_cached, "a bias by distance", CACHED(12, 3, 24, 3, 3, 4), .table = FLOAT(8, 3), .furthest = 9,
      .scale = 1),
 LENGTHS(8, 1, 3)},
    {CASE(attention_cached, "to others, new and known", KNOWN(9, 14, 3, 10, 4, 2, 8), .scale = 0.4), LENGTHS(5, 1, 2),
     KEY_LENGTHS(3, 0, 9)},
    {CASE(attention_cached, "to others, all known", KNOWN(3, 0, 3, 7, 2, 2, 7), .scale = 0.4), LENGTHS(1, 1, 1)},
    {CASE(attention_cached, "to nobody", KNOWN(3, 4, 2, 7, 2, 2, 4), .scale = 0.4), LENGTHS(1, 2), KEY_LENGTHS(0, 3)},
    {CASE(attention_cached, "a bias, as T5", CACHED(70, 3, 600, 6, 6, 64), .table = FLOAT(32, 6), .furthest = 128,
          .scale = 1),
     LENGTHS(60, 1, 9), .condition = 8, .long_only = true},
