/* Cases of span_loss, for the list in cases.c. */
#define SPAN(T, B)                                                                                                     \
    .logits = NARROW(T, 2), .spans = INTS(T), .cu = INTS((B) + 1), STEP, .loss = FLOAT(1), .lse = FLOAT(B, 2)
#define SPAN_BWD(T, B)                                                                                                 \
    .logits = NARROW(T, 2), .spans = INTS(T), .cu = INTS((B) + 1), .lse = FLOAT(B, 2), STEP, .dlogits = NARROW(T, 2)

{CASE(span_loss, "rows", SPAN(12, 3)), LENGTHS(4, 1, 6)}, {CASE(span_loss, "one row", SPAN(1, 1)), LENGTHS(1)},
    {CASE(span_loss, "no sequences", SPAN(3, 0))},
    {CASE(span_loss, "large", SPAN(1200, 3)), LENGTHS(384, 37, 700), .long_only = true},
    {CASE(span_loss_bwd, "rows", SPAN_BWD(12, 3)), LENGTHS(4, 1, 6)},
    {CASE(span_loss_bwd, "one row", SPAN_BWD(1, 1)), LENGTHS(1)}, {CASE(span_loss_bwd, "no sequences", SPAN_BWD(3, 0))},
    {CASE(span_loss_bwd, "scaled", SPAN_BWD(30, 2), SCALER), LENGTHS(19, 9)},
    {CASE(span_loss_bwd, "large", SPAN_BWD(1200, 3)), LENGTHS(384, 37, 700), .long_only = true},
