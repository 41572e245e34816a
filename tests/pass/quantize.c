/* Weights in codes: which ones, and how their numbers come to the nodes. */
#include "text.h"

/* A table, three layers whose weights are a group, one that is small, one on its own, a head. */
static const char before[] = "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
                             "%2 weight F32[9,16] \"table\" layer=0 in keep\n"
                             "%3 weight F32[24,16] layer=1 in keep group frozen\n"
                             "%4 weight F32[16,16] \"q.weight\" layer=1 slice=%3+0 in keep frozen\n"
                             "%5 weight F32[8,16] \"k.weight\" layer=1 slice=%3+256 in keep frozen\n"
                             "%6 weight F32[16,24] \"o.weight\" layer=1 in keep frozen\n"
                             "%7 weight F32[2,16] \"small.weight\" layer=1 in keep frozen\n"
                             "%8 weight F32[4,16] \"head.weight\" layer=2 in keep frozen\n"
                             "%9 activation F32[T,16] layer=0\n"
                             "embed(ids=%1 table=%2 y=%9) still=0 layer=0\n"
                             "%10 activation F32[T,24] layer=1\n"
                             "linear(x=%9 w=%3 y=%10) act=none in_out=0 layer=1\n"
                             "%11 activation F32[T,16] layer=1\n"
                             "linear(x=%10 w=%6 y=%11) act=none in_out=0 layer=1\n"
                             "%12 activation F32[T,2] layer=1\n"
                             "linear(x=%11 w=%7 y=%12) act=none in_out=0 layer=1\n"
                             "%13 activation F32[T,4] \"logits\" layer=2 out\n"
                             "linear(x=%11 w=%8 y=%13) act=none in_out=0 layer=2\n";

static void apply(struct graph *g, int nested)
{
    struct pass_settings s = {.program = PROGRAM_EVALUATION,
                              .precision = {.wide = DT_F32, .narrow = DT_F32},
                              .quantization = {.bits = 4, .type = QUANT_FP4, .nested = nested}};
    pass_quantize(g, &s);
    pass_precision(g, &s);
    pass_materialize(g, &s);
}

#define AFTER(absmax, slots)                                                                                           \
    "%1 input I32[T] \"input_ids\" layer=0 in keep\n"                                                                  \
    "%2 weight F32[9,16] \"table\" layer=0 in keep\n"                                                                  \
    "%3 weight F4[24,16] layer=1 in keep group frozen\n"                                                               \
    "%4 weight F4[16,16] \"q.weight\" layer=1 slice=%3+0 in keep frozen\n"                                             \
    "%5 weight F4[8,16] \"k.weight\" layer=1 slice=%3+256 in keep frozen\n"                                            \
    "%6 weight F4[16,24] \"o.weight\" layer=1 in keep frozen\n"                                                        \
    "%7 weight F32[2,16] \"small.weight\" layer=1 in keep frozen\n"                                                    \
    "%8 weight F32[4,16] \"head.weight\" layer=2 in keep frozen\n" absmax "%9 activation F32[T,16] layer=0\n"          \
    "embed(ids=%1 table=%2 y=%9) still=0 layer=0\n" slots

static void layers_are_in_codes(void **state)
{
    (void)state;
    text_becomes(before, apply, false,
                 AFTER("%14 copy F32[4] \"absmax.q.weight\" layer=1 of=absmax:%4 in keep\n"
                       "%15 copy F32[2] \"absmax.k.weight\" layer=1 of=absmax:%5 in keep\n"
                       "%16 copy F32[6] \"absmax.o.weight\" layer=1 of=absmax:%6 in keep\n",
                       "%17 activation F32[24,16] layer=1\n"
                       "%18 activation F32[16,16] layer=1 slice=%17+0\n"
                       "dequantize(w=%4 absmax=%14 y=%18) table=1 layer=1\n"
                       "%19 activation F32[8,16] layer=1 slice=%17+256\n"
                       "dequantize(w=%5 absmax=%15 y=%19) table=1 layer=1\n"
                       "%10 activation F32[T,24] layer=1\n"
                       "linear(x=%9 w=%17 y=%10) act=none in_out=0 layer=1\n"
                       "%20 activation F32[16,24] layer=1\n"
                       "dequantize(w=%6 absmax=%16 y=%20) table=1 layer=1\n"
                       "%11 activation F32[T,16] layer=1\n"
                       "linear(x=%10 w=%20 y=%11) act=none in_out=0 layer=1\n"
                       "%12 activation F32[T,2] layer=1\n"
                       "linear(x=%11 w=%7 y=%12) act=none in_out=0 layer=1\n"
                       "%13 activation F32[T,4] \"logits\" layer=2 out\n"
                       "linear(x=%11 w=%8 y=%13) act=none in_out=0 layer=2\n"));
}

static void magnitudes_may_be_in_codes(void **state)
{
    (void)state;
    text_becomes(before, apply, true,
                 AFTER("%14 copy U8[4] \"absmax.q.weight\" layer=1 of=absmax:%4 in keep\n"
                       "%15 copy F32[2] \"nested_absmax.q.weight\" layer=1 of=nested_absmax:%4 in keep\n"
                       "%16 copy U8[2] \"absmax.k.weight\" layer=1 of=absmax:%5 in keep\n"
                       "%17 copy F32[2] \"nested_absmax.k.weight\" layer=1 of=nested_absmax:%5 in keep\n"
                       "%18 copy U8[6] \"absmax.o.weight\" layer=1 of=absmax:%6 in keep\n"
                       "%19 copy F32[2] \"nested_absmax.o.weight\" layer=1 of=nested_absmax:%6 in keep\n",
                       "%20 activation F32[24,16] layer=1\n"
                       "%21 activation F32[16,16] layer=1 slice=%20+0\n"
                       "dequantize(w=%4 absmax=%14 nested=%15 y=%21) table=1 layer=1\n"
                       "%22 activation F32[8,16] layer=1 slice=%20+256\n"
                       "dequantize(w=%5 absmax=%16 nested=%17 y=%22) table=1 layer=1\n"
                       "%10 activation F32[T,24] layer=1\n"
                       "linear(x=%9 w=%20 y=%10) act=none in_out=0 layer=1\n"
                       "%23 activation F32[16,24] layer=1\n"
                       "dequantize(w=%6 absmax=%18 nested=%19 y=%23) table=1 layer=1\n"
                       "%11 activation F32[T,16] layer=1\n"
                       "linear(x=%10 w=%23 y=%11) act=none in_out=0 layer=1\n"
                       "%12 activation F32[T,2] layer=1\n"
                       "linear(x=%11 w=%7 y=%12) act=none in_out=0 layer=1\n"
                       "%13 activation F32[T,4] \"logits\" layer=2 out\n"
                       "linear(x=%11 w=%8 y=%13) act=none in_out=0 layer=2\n"));
}

static void apply_8_bits(struct graph *g, int unused)
{
    (void)unused;
    struct pass_settings s = {
        .program = PROGRAM_EVALUATION, .precision = {.wide = DT_F32, .narrow = DT_F32}, .quantization = {.bits = 8}};
    pass_quantize(g, &s);
    pass_precision(g, &s);
    pass_materialize(g, &s);
}

/* A group is one value with the scales of all its rows, of which its tensors have theirs. The small weight has rows, too. */
static void codes_of_8_bits_have_scales_of_rows(void **state)
{
    (void)state;
    text_becomes(before, apply_8_bits, 0,
                 "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
                 "%2 weight F32[9,16] \"table\" layer=0 in keep\n"
                 "%3 weight F8_E4M3[24,16] layer=1 in keep group frozen\n"
                 "%4 weight F8_E4M3[16,16] \"q.weight\" layer=1 slice=%3+0 in keep frozen\n"
                 "%5 weight F8_E4M3[8,16] \"k.weight\" layer=1 slice=%3+256 in keep frozen\n"
                 "%6 weight F8_E4M3[16,24] \"o.weight\" layer=1 in keep frozen\n"
                 "%7 weight F8_E4M3[2,16] \"small.weight\" layer=1 in keep frozen\n"
                 "%8 weight F32[4,16] \"head.weight\" layer=2 in keep frozen\n"
                 "%14 copy F32[24] \"scale.(null)\" layer=1 of=scale:%3 in keep\n"
                 "%15 copy F32[16] \"scale.q.weight\" layer=1 slice=%14+0 of=scale:%4 in keep\n"
                 "%16 copy F32[8] \"scale.k.weight\" layer=1 slice=%14+16 of=scale:%5 in keep\n"
                 "%17 copy F32[16] \"scale.o.weight\" layer=1 of=scale:%6 in keep\n"
                 "%18 copy F32[2] \"scale.small.weight\" layer=1 of=scale:%7 in keep\n"
                 "%9 activation F32[T,16] layer=0\n"
                 "embed(ids=%1 table=%2 y=%9) still=0 layer=0\n"
                 "%19 activation F32[24,16] layer=1\n"
                 "dequantize(w=%3 absmax=%14 y=%19) table=0 layer=1\n"
                 "%10 activation F32[T,24] layer=1\n"
                 "linear(x=%9 w=%19 y=%10) act=none in_out=0 layer=1\n"
                 "%20 activation F32[16,24] layer=1\n"
                 "dequantize(w=%6 absmax=%17 y=%20) table=0 layer=1\n"
                 "%11 activation F32[T,16] layer=1\n"
                 "linear(x=%10 w=%20 y=%11) act=none in_out=0 layer=1\n"
                 "%21 activation F32[2,16] layer=1\n"
                 "dequantize(w=%7 absmax=%18 y=%21) table=0 layer=1\n"
                 "%12 activation F32[T,2] layer=1\n"
                 "linear(x=%11 w=%21 y=%12) act=none in_out=0 layer=1\n"
                 "%13 activation F32[T,4] \"logits\" layer=2 out\n"
                 "linear(x=%11 w=%8 y=%13) act=none in_out=0 layer=2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_in_codes),
                                       cmocka_unit_test(magnitudes_may_be_in_codes),
                                       cmocka_unit_test(codes_of_8_bits_have_scales_of_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
