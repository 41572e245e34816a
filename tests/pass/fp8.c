/* Which products get factors of 8 bits, and what stands round them. */
#include "text.h"

/* A table; a layer with its activation; one that lies the other way round, and is frozen; one that reads what the first does; one whose
 * outputs are no multiple of 16; a head. Then what makes the gradients of inputs. */
#define VALUES                                                                                                         \
    "%1 input I32[T] \"input_ids\" layer=0 in keep\n"                                                                  \
    "%2 weight F32[9,16] \"table\" layer=0 in keep\n"                                                                  \
    "%3 weight F32[32,16] \"up.weight\" layer=1 in keep\n"                                                             \
    "%4 weight F32[32] \"up.bias\" layer=1 in keep\n"                                                                  \
    "%5 weight F32[32,16] \"down.weight\" layer=1 in keep frozen\n"                                                    \
    "%6 weight F32[24,16] \"odd.weight\" layer=1 in keep\n"                                                            \
    "%7 weight F32[16,16] \"head.weight\" layer=2 in keep\n"                                                           \
    "%8 activation BF16[T,16] layer=0\n"                                                                               \
    "embed(ids=%1 table=%2 y=%8) still=0 layer=0\n"
/* Products that stay: of odd sizes, and of the head. */
#define OTHERS                                                                                                         \
    "%13 activation BF16[T,24] layer=1\n"                                                                              \
    "linear(x=%11 w=%6 y=%13) act=none in_out=0 layer=1\n"                                                             \
    "%14 activation BF16[T,16] layer=2 out\n"                                                                          \
    "linear(x=%11 w=%7 y=%14) act=none in_out=0 layer=2\n"
static const char before[] =
    VALUES "%9 activation BF16[T,32] layer=1\n"
           "%10 activation BF16[T,32] layer=1\n"
           "linear(x=%8 w=%3 b=%4 y=%9 slope=%10) act=gelu in_out=0 layer=1\n"
           "%11 activation BF16[T,16] layer=1\n"
           "linear(x=%9 w=%5 y=%11) act=none in_out=1 layer=1\n"
           "%12 activation BF16[T,32] layer=1\n"
           "linear(x=%8 w=%3 y=%12) act=none in_out=0 layer=1\n" OTHERS "%15 activation BF16[T,32] layer=1\n"
           "linear_dx_act(dy=%11 w=%5 slope=%10 du=%15) in_out=1 layer=1 backward\n"
           "%16 activation BF16[T,16] layer=1 out\n"
           "linear_dx(dy=%15 w=%3 dx=%16) in_out=0 layer=1 backward\n"
           "linear_dx(dy=%12 w=%3 dx+=%16) in_out=0 layer=1 backward\n";

static void apply(struct graph *g, int adapters)
{
    static const struct adapters some;
    struct pass_settings s = {.program = PROGRAM_STEP,
                              .adapters = adapters ? &some : NULL,
                              .precision = {.wide = DT_F32, .narrow = DT_BF16, .fp8 = true}};
    pass_fp8(g, &s);
}

static void factors_stand_before_products(void **state)
{
    (void)state;
    text_becomes(before, apply, 0,
                 VALUES "%18 activation F8_E4M3[T,16] layer=1 exact\n"
                        "%19 activation F32[T] layer=1 exact\n"
                        "quantize_fp8(x=%8 y=%18 scale=%19) transposed=0 layer=1\n"
                        "%20 activation F8_E4M3[32,16] layer=1 exact\n"
                        "%21 activation F32[32] layer=1 exact\n"
                        "quantize_fp8(x=%3 y=%20 scale=%21) transposed=0 layer=1\n"
                        "%17 activation BF16[T,32] layer=1\n"
                        "linear_fp8(x=%18 x_scale=%19 w=%20 w_scale=%21 b=%4 y=%17) layer=1\n"
                        "%9 activation BF16[T,32] layer=1\n"
                        "%10 activation BF16[T,32] layer=1\n"
                        "activation(x=%17 y=%9 slope=%10) act=gelu layer=1\n"
                        "%22 activation F8_E4M3[T,32] layer=1 exact\n"
                        "%23 activation F32[T] layer=1 exact\n"
                        "quantize_fp8(x=%9 y=%22 scale=%23) transposed=0 layer=1\n"
                        "%24 activation F8_E4M3[16,32] layer=1 exact\n"
                        "%25 activation F32[16] layer=1 exact\n"
                        "quantize_fp8(x=%5 y=%24 scale=%25) transposed=1 layer=1\n"
                        "%11 activation BF16[T,16] layer=1\n"
                        "linear_fp8(x=%22 x_scale=%23 w=%24 w_scale=%25 y=%11) layer=1\n"
                        "%26 activation F8_E4M3[32,16] layer=1 exact\n"
                        "%27 activation F32[32] layer=1 exact\n"
                        "quantize_fp8(x=%3 y=%26 scale=%27) transposed=0 layer=1\n"
                        "%12 activation BF16[T,32] layer=1\n"
                        "linear_fp8(x=%18 x_scale=%19 w=%26 w_scale=%27 y=%12) layer=1\n" OTHERS
                        "%29 activation F8_E4M3[T,16] layer=1 exact\n"
                        "%30 activation F32[T] layer=1 exact\n"
                        "quantize_fp8(x=%11 y=%29 scale=%30) transposed=0 layer=1 backward\n"
                        "%31 activation F8_E4M3[32,16] layer=1 exact\n"
                        "%32 activation F32[32] layer=1 exact\n"
                        "quantize_fp8(x=%5 y=%31 scale=%32) transposed=0 layer=1 backward\n"
                        "%28 activation BF16[T,32] layer=1\n"
                        "linear_fp8(x=%29 x_scale=%30 w=%31 w_scale=%32 y=%28) layer=1 backward\n"
                        "%15 activation BF16[T,32] layer=1\n"
                        "act_bwd(slope=%10 dy=%28 du=%15) layer=1 backward\n"
                        "%33 activation F8_E4M3[T,32] layer=1 exact\n"
                        "%34 activation F32[T] layer=1 exact\n"
                        "quantize_fp8(x=%15 y=%33 scale=%34) transposed=0 layer=1 backward\n"
                        "%35 activation F8_E4M3[16,32] layer=1 exact\n"
                        "%36 activation F32[16] layer=1 exact\n"
                        "quantize_fp8(x=%3 y=%35 scale=%36) transposed=1 layer=1 backward\n"
                        "%16 activation BF16[T,16] layer=1 out\n"
                        "linear_fp8(x=%33 x_scale=%34 w=%35 w_scale=%36 y=%16) layer=1 backward\n"
                        "%37 activation F8_E4M3[T,32] layer=1 exact\n"
                        "%38 activation F32[T] layer=1 exact\n"
                        "quantize_fp8(x=%12 y=%37 scale=%38) transposed=0 layer=1 backward\n"
                        "%39 activation F8_E4M3[16,32] layer=1 exact\n"
                        "%40 activation F32[16] layer=1 exact\n"
                        "quantize_fp8(x=%3 y=%39 scale=%40) transposed=1 layer=1 backward\n"
                        "linear_fp8(x=%37 x_scale=%38 w=%39 w_scale=%40 y+=%16) layer=1 backward\n");
}

static void an_adapters_base_is_frozen(void **state)
{
    (void)state;
    text_becomes(before, apply, 1,
                 VALUES "%9 activation BF16[T,32] layer=1\n"
                        "%10 activation BF16[T,32] layer=1\n"
                        "linear(x=%8 w=%3 b=%4 y=%9 slope=%10) act=gelu in_out=0 layer=1\n"
                        "%17 activation F8_E4M3[T,32] layer=1 exact\n"
                        "%18 activation F32[T] layer=1 exact\n"
                        "quantize_fp8(x=%9 y=%17 scale=%18) transposed=0 layer=1\n"
                        "%19 activation F8_E4M3[16,32] layer=1 exact\n"
                        "%20 activation F32[16] layer=1 exact\n"
                        "quantize_fp8(x=%5 y=%19 scale=%20) transposed=1 layer=1\n"
                        "%11 activation BF16[T,16] layer=1\n"
                        "linear_fp8(x=%17 x_scale=%18 w=%19 w_scale=%20 y=%11) layer=1\n"
                        "%12 activation BF16[T,32] layer=1\n"
                        "linear(x=%8 w=%3 y=%12) act=none in_out=0 layer=1\n" OTHERS
                        "%22 activation F8_E4M3[T,16] layer=1 exact\n"
                        "%23 activation F32[T] layer=1 exact\n"
                        "quantize_fp8(x=%11 y=%22 scale=%23) transposed=0 layer=1 backward\n"
                        "%24 activation F8_E4M3[32,16] layer=1 exact\n"
                        "%25 activation F32[32] layer=1 exact\n"
                        "quantize_fp8(x=%5 y=%24 scale=%25) transposed=0 layer=1 backward\n"
                        "%21 activation BF16[T,32] layer=1\n"
                        "linear_fp8(x=%22 x_scale=%23 w=%24 w_scale=%25 y=%21) layer=1 backward\n"
                        "%15 activation BF16[T,32] layer=1\n"
                        "act_bwd(slope=%10 dy=%21 du=%15) layer=1 backward\n"
                        "%16 activation BF16[T,16] layer=1 out\n"
                        "linear_dx(dy=%15 w=%3 dx=%16) in_out=0 layer=1 backward\n"
                        "linear_dx(dy=%12 w=%3 dx+=%16) in_out=0 layer=1 backward\n");
}

/* A weight in codes of 4 bits, and a head. */
static const char coded[] = "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
                            "%2 weight F32[9,16] \"table\" layer=0 in keep frozen\n"
                            "%3 weight F4[32,16] \"up.weight\" layer=1 in keep frozen\n"
                            "%4 weight F32[16,32] \"head.weight\" layer=2 in keep frozen\n"
                            "%5 copy F32[8] \"absmax.up.weight\" layer=1 of=absmax:%3 in keep\n"
                            "%6 activation BF16[T,16] layer=0\n"
                            "embed(ids=%1 table=%2 y=%6) still=0 layer=0\n"
                            "%7 activation BF16[T,32] layer=1\n"
                            "linear(x=%6 w=%3 y=%7) act=none in_out=0 layer=1\n"
                            "%8 activation BF16[T,16] layer=2 out\n"
                            "linear(x=%7 w=%4 y=%8) act=none in_out=0 layer=2\n";

static void apply_to_codes(struct graph *g, int unused)
{
    (void)unused;
    struct pass_settings s = {.program = PROGRAM_STEP,
                              .precision = {.wide = DT_F32, .narrow = DT_BF16, .fp8 = true},
                              .quantization = {.bits = 4, .type = QUANT_FP4}};
    pass_fp8(g, &s);
    pass_materialize(g, &s);
}

/* What becomes 8 bits at once is made in 16. */
static void codes_come_in_16_bits(void **state)
{
    (void)state;
    text_becomes(coded, apply_to_codes, 0,
                 "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
                 "%2 weight F32[9,16] \"table\" layer=0 in keep frozen\n"
                 "%3 weight F4[32,16] \"up.weight\" layer=1 in keep frozen\n"
                 "%4 weight F32[16,32] \"head.weight\" layer=2 in keep frozen\n"
                 "%5 copy F32[8] \"absmax.up.weight\" layer=1 of=absmax:%3 in keep\n"
                 "%6 activation BF16[T,16] layer=0\n"
                 "embed(ids=%1 table=%2 y=%6) still=0 layer=0\n"
                 "%9 activation F8_E4M3[T,16] layer=1 exact\n"
                 "%10 activation F32[T] layer=1 exact\n"
                 "quantize_fp8(x=%6 y=%9 scale=%10) transposed=0 layer=1\n"
                 "%13 activation BF16[32,16] layer=1\n"
                 "dequantize(w=%3 absmax=%5 y=%13) table=1 layer=1\n"
                 "%11 activation F8_E4M3[32,16] layer=1 exact\n"
                 "%12 activation F32[32] layer=1 exact\n"
                 "quantize_fp8(x=%13 y=%11 scale=%12) transposed=0 layer=1\n"
                 "%7 activation BF16[T,32] layer=1\n"
                 "linear_fp8(x=%9 x_scale=%10 w=%11 w_scale=%12 y=%7) layer=1\n"
                 "%14 activation BF16[16,32] layer=2\n"
                 "cast(x=%4 y=%14) layer=2\n"
                 "%8 activation BF16[T,16] layer=2 out\n"
                 "linear(x=%7 w=%14 y=%8) act=none in_out=0 layer=2\n");
}

/* A weight in codes of 8 bits is a factor as it lies. Turned round, it is made of its codes. */
static const char factor[] = "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
                             "%2 weight F32[9,16] \"table\" layer=0 in keep frozen\n"
                             "%3 weight F8_E4M3[32,16] \"up.weight\" layer=1 in keep frozen\n"
                             "%4 weight F32[16,32] \"head.weight\" layer=2 in keep frozen\n"
                             "%5 copy F32[32] \"scale.up.weight\" layer=1 of=scale:%3 in keep\n"
                             "%6 activation BF16[T,16] layer=0\n"
                             "embed(ids=%1 table=%2 y=%6) still=0 layer=0\n"
                             "%7 activation BF16[T,32] layer=1\n"
                             "linear(x=%6 w=%3 y=%7) act=none in_out=0 layer=1\n"
                             "%8 activation BF16[T,16] layer=1 out\n"
                             "linear_dx(dy=%7 w=%3 dx=%8) in_out=0 layer=1 backward\n"
                             "%9 activation BF16[T,16] layer=2 out\n"
                             "linear(x=%7 w=%4 y=%9) act=none in_out=0 layer=2\n";

static void codes_of_8_bits_are_factors(void **state)
{
    (void)state;
    text_becomes(factor, apply_to_codes, 0,
                 "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
                 "%2 weight F32[9,16] \"table\" layer=0 in keep frozen\n"
                 "%3 weight F8_E4M3[32,16] \"up.weight\" layer=1 in keep frozen\n"
                 "%4 weight F32[16,32] \"head.weight\" layer=2 in keep frozen\n"
                 "%5 copy F32[32] \"scale.up.weight\" layer=1 of=scale:%3 in keep\n"
                 "%6 activation BF16[T,16] layer=0\n"
                 "embed(ids=%1 table=%2 y=%6) still=0 layer=0\n"
                 "%10 activation F8_E4M3[T,16] layer=1 exact\n"
                 "%11 activation F32[T] layer=1 exact\n"
                 "quantize_fp8(x=%6 y=%10 scale=%11) transposed=0 layer=1\n"
                 "%7 activation BF16[T,32] layer=1\n"
                 "linear_fp8(x=%10 x_scale=%11 w=%3 w_scale=%5 y=%7) layer=1\n"
                 "%12 activation F8_E4M3[T,32] layer=1 exact\n"
                 "%13 activation F32[T] layer=1 exact\n"
                 "quantize_fp8(x=%7 y=%12 scale=%13) transposed=0 layer=1 backward\n"
                 "%14 activation F8_E4M3[16,32] layer=1 exact\n"
                 "%15 activation F32[16] layer=1 exact\n"
                 "quantize_fp8(x=%3 x_scale=%5 y=%14 scale=%15) transposed=1 layer=1 backward\n"
                 "%8 activation BF16[T,16] layer=1 out\n"
                 "linear_fp8(x=%12 x_scale=%13 w=%14 w_scale=%15 y=%8) layer=1 backward\n"
                 "%16 activation BF16[16,32] layer=2\n"
                 "cast(x=%4 y=%16) layer=2\n"
                 "%9 activation BF16[T,16] layer=2 out\n"
                 "linear(x=%7 w=%16 y=%9) act=none in_out=0 layer=2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_stand_before_products), cmocka_unit_test(an_adapters_base_is_frozen),
        cmocka_unit_test(codes_come_in_16_bits), cmocka_unit_test(codes_of_8_bits_are_factors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
