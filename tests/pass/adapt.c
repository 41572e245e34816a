/* pass_adapt. The expected texts were derived by hand from y = x W^T + b + scale dropout(x) A^T B^T, and DoRA's formula. */
#include "text.h"

enum { Q, Q_AND_K, Q_DROPPED, Q_EVALUATED, K_SAVED };

static void adapt(struct graph *g, int p)
{
    const struct adapter k = {.module = "k", .path = "k", .r = 3, .scale = 1},
                         q = {.module = "q", .path = "q", .r = 1, .scale = 2};
    const struct adapter both[] = {k, q};
    const char *saved[] = {"k"};
    struct adapters a = {.list = p == Q_AND_K ? both : &q, .n = p == Q_AND_K ? 2 : 1, .saved = saved};
    a.n_saved = p == K_SAVED;
    a.dropout = p == Q_DROPPED || p == Q_EVALUATED ? 0.5 : 0;
    pass_adapt(
        g, &(struct pass_settings){.program = p == Q_EVALUATED ? PROGRAM_EVALUATION : PROGRAM_STEP, .adapters = &a});
}

#define INPUTS_                                                                                                        \
    "%1 input F32[T,4] \"x\" layer=0 in keep\n"                                                                        \
    "%2 input I32[T,2] \"coords\" layer=0 in keep\n"                                                                   \
    "%3 input I32[4] \"rng\" layer=0 in keep\n"

/* ---- Layers with a product each. */

#define LAYERS(q, k)                                                                                                   \
    "%4 weight F32[2,4] \"q.weight\" layer=1 in keep" q "\n"                                                           \
    "%5 weight F32[2,4] \"k.weight\" layer=1 in keep" k "\n"
#define FACTORS(a, b)                                                                                                  \
    "%" a " weight F32[1,4] \"q.lora_A.weight\" layer=1 init=uniform:0.5:-1:head in keep\n"                            \
    "%" b " weight F32[2,1] \"q.lora_B.weight\" layer=1 init=zero:0:-1:head in keep\n"
#define SECOND                                                                                                         \
    "%7 activation F32[T,2] layer=1\n"                                                                                 \
    "linear(x=%1 w=%5 y=%7) act=none in_out=0 layer=1\n"

static const char two_layers[] = INPUTS_ LAYERS("", "") "%6 activation F32[T,2] layer=1\n"
                                                        "linear(x=%1 w=%4 y=%6) act=none in_out=0 layer=1\n" SECOND;

static void a_layer_gets_what_its_adapter_adds(void **state)
{
    (void)state;
#define ADAPTED                                                                                                        \
    "%9 activation F32[T,1] layer=1\n"                                                                                 \
    "linear(x=%1 w=%8 y=%9) act=none in_out=0 layer=1\n"                                                               \
    "%10 activation F32[T,1] layer=1\n"                                                                                \
    "scale(x=%9 y=%10) by=2 layer=1\n"                                                                                 \
    "%12 activation F32[T,2] layer=1\n"                                                                                \
    "linear(x=%10 w=%11 y=%12) act=none in_out=0 layer=1\n"                                                            \
    "%6 activation F32[T,2] layer=1\n"                                                                                 \
    "linear(x=%1 w=%4 add=%12 y=%6) act=none in_out=0 layer=1\n" SECOND
    text_becomes(two_layers, adapt, Q, INPUTS_ LAYERS(" frozen", " frozen") FACTORS("8", "11") ADAPTED);
    text_becomes(two_layers, adapt, Q_EVALUATED, INPUTS_ LAYERS(" frozen", " frozen") FACTORS("8", "11") ADAPTED);
    text_becomes(two_layers, adapt, K_SAVED, INPUTS_ LAYERS(" frozen", "") FACTORS("8", "11") ADAPTED);
}

static void dropout_is_of_the_adapter_alone(void **state)
{
    (void)state;
    text_becomes(two_layers, adapt, Q_DROPPED,
                 INPUTS_ LAYERS(" frozen", " frozen")
                     FACTORS("9", "12") "%8 activation F32[T,4] layer=1\n"
                                        "dropout(x=%1 coords=%2 rng=%3 y=%8) p=0.5 site=0 layer=1\n"
                                        "%10 activation F32[T,1] layer=1\n"
                                        "linear(x=%8 w=%9 y=%10) act=none in_out=0 layer=1\n"
                                        "%11 activation F32[T,1] layer=1\n"
                                        "scale(x=%10 y=%11) by=2 layer=1\n"
                                        "%13 activation F32[T,2] layer=1\n"
                                        "linear(x=%11 w=%12 y=%13) act=none in_out=0 layer=1\n"
                                        "%6 activation F32[T,2] layer=1\n"
                                        "linear(x=%1 w=%4 add=%13 y=%6) act=none in_out=0 layer=1\n" SECOND);
}

/* ---- One product for two layers. */

#define GROUP(frozen)                                                                                                  \
    "%4 weight F32[4,4] \"qk.weight\" layer=1 in keep group" frozen "\n"                                               \
    "%5 weight F32[2,4] \"q.weight\" layer=1 slice=%4+0 in keep" frozen "\n"                                           \
    "%6 weight F32[2,4] \"k.weight\" layer=1 slice=%4+8 in keep" frozen "\n"                                           \
    "%7 weight F32[4] \"qk.bias\" layer=1 in keep group" frozen "\n"                                                   \
    "%8 weight F32[2] \"q.bias\" layer=1 slice=%7+0 in keep" frozen "\n"                                               \
    "%9 weight F32[2] \"k.bias\" layer=1 slice=%7+2 in keep" frozen "\n"
static const char one_product[] = INPUTS_ GROUP("") "%10 activation F32[T,4] layer=1 out\n"
                                                    "linear(x=%1 w=%4 b=%7 y=%10) act=none in_out=0 layer=1\n";

static void one_product_gets_the_columns_of_all_adapters(void **state)
{
    (void)state;
    text_becomes(one_product, adapt, Q_AND_K,
                 INPUTS_ GROUP(" frozen") FACTORS(
                     "12", "15") "%17 weight F32[3,4] \"k.lora_A.weight\" layer=1 init=uniform:0.5:-1:head in keep\n"
                                 "%19 weight F32[2,3] \"k.lora_B.weight\" layer=1 init=zero:0:-1:head in keep\n"
                                 "%13 activation F32[T,1] layer=1\n"
                                 "linear(x=%1 w=%12 y=%13) act=none in_out=0 layer=1\n"
                                 "%14 activation F32[T,1] layer=1\n"
                                 "scale(x=%13 y=%14) by=2 layer=1\n"
                                 "%11 activation F32[T,4] layer=1\n"
                                 "%16 activation F32[T,2] layer=1 slice=%11+0 pitch=4\n"
                                 "linear(x=%14 w=%15 y=%16) act=none in_out=0 layer=1\n"
                                 "%18 activation F32[T,3] layer=1\n"
                                 "linear(x=%1 w=%17 y=%18) act=none in_out=0 layer=1\n"
                                 "%20 activation F32[T,2] layer=1 slice=%11+2 pitch=4\n"
                                 "linear(x=%18 w=%19 y=%20) act=none in_out=0 layer=1\n"
                                 "%10 activation F32[T,4] layer=1 out\n"
                                 "linear(x=%1 w=%4 b=%7 add=%11 y=%10) act=none in_out=0 layer=1\n");
}

static void one_product_is_split_where_a_layer_has_none(void **state)
{
    (void)state;
    text_becomes(one_product, adapt, Q,
                 INPUTS_ GROUP(" frozen")
                     FACTORS("12", "15") "%13 activation F32[T,1] layer=1\n"
                                         "linear(x=%1 w=%12 y=%13) act=none in_out=0 layer=1\n"
                                         "%14 activation F32[T,1] layer=1\n"
                                         "scale(x=%13 y=%14) by=2 layer=1\n"
                                         "%16 activation F32[T,2] layer=1\n"
                                         "linear(x=%14 w=%15 y=%16) act=none in_out=0 layer=1\n"
                                         "%10 activation F32[T,4] layer=1 out\n"
                                         "%11 activation F32[T,2] layer=1 slice=%10+0 pitch=4\n"
                                         "linear(x=%1 w=%5 b=%8 add=%16 y=%11) act=none in_out=0 layer=1\n"
                                         "%17 activation F32[T,2] layer=1 slice=%10+2 pitch=4\n"
                                         "linear(x=%1 w=%6 b=%9 y=%17) act=none in_out=0 layer=1\n");
}

/* ---- Lengths of rows: y = act((x W^T + scale x A^T B^T) m / norm + b). */

static void adapt_with_dora(struct graph *g, int p)
{
    const struct adapter q = {.module = "q", .path = "q", .r = 1, .scale = 2};
    (void)p;
    pass_adapt(g, &(struct pass_settings){.program = PROGRAM_STEP,
                                          .adapters = &(struct adapters){.list = &q, .n = 1, .dora = true}});
}

static void lengths_go_before_bias_and_activation(void **state)
{
    (void)state;
#define LAYER_OF(frozen)                                                                                               \
    "%4 weight F32[2,4] \"q.weight\" layer=1 in keep" frozen "\n"                                                      \
    "%5 weight F32[2] \"q.bias\" layer=1 in keep" frozen "\n"
    text_becomes(INPUTS_ LAYER_OF("") "%6 activation F32[T,2] layer=1 out\n"
                                      "%7 activation F32[T,2] layer=1\n"
                                      "linear(x=%1 w=%4 b=%5 y=%6 slope=%7) act=gelu in_out=0 layer=1\n",
                 adapt_with_dora, 0,
                 INPUTS_ LAYER_OF(" frozen") FACTORS(
                     "8", "11") "%15 weight F32[2] \"q.lora_magnitude_vector\" layer=1 init=lengths:0:-1:head in keep\n"
                                "%9 activation F32[T,1] layer=1\n"
                                "linear(x=%1 w=%8 y=%9) act=none in_out=0 layer=1\n"
                                "%10 activation F32[T,1] layer=1\n"
                                "scale(x=%9 y=%10) by=2 layer=1\n"
                                "%12 activation F32[T,2] layer=1\n"
                                "linear(x=%10 w=%11 y=%12) act=none in_out=0 layer=1\n"
                                "%13 activation F32[2] layer=1 exact\n"
                                "dora_norm(w=%4 a=%8 b=%11 norm=%13) scale=2 in_out=0 layer=1\n"
                                "%14 activation F32[T,2] layer=1\n"
                                "linear(x=%1 w=%4 add=%12 y=%14) act=none in_out=0 layer=1\n"
                                "%6 activation F32[T,2] layer=1 out\n"
                                "%7 activation F32[T,2] layer=1\n"
                                "dora(z=%14 m=%15 norm=%13 bias=%5 y=%6 slope=%7) act=gelu layer=1\n");
}

/* ---- In 16 bits. */

static void adapt_in_bf16(struct graph *g, int p)
{
    (void)p;
    struct pass_settings s = {.adapters = &(struct adapters){0}, .precision = {.wide = DT_F32, .narrow = DT_BF16}};
    pass_precision(g, &s);
    pass_materialize(g, &s);
}

/* One that embed reads too stays as it is, and so does one that is trained: they are cast at each use. */
static void a_frozen_weight_is_narrow_where_all_take_it_so(void **state)
{
    (void)state;
#define WEIGHTS_OF(a)                                                                                                  \
    "%1 input I32[T] \"ids\" layer=0 in keep\n"                                                                        \
    "%2 weight " a "[9,4] \"table.weight\" layer=1 in keep frozen\n"                                                   \
    "%3 weight " a "[4,4] \"q.weight\" layer=1 in keep frozen\n"                                                       \
    "%4 weight F32[4,4] \"k.weight\" layer=1 in keep\n"
    text_becomes(WEIGHTS_OF("F32") "%5 activation F32[T,4] layer=1\n"
                                   "embed(ids=%1 table=%2 y=%5) still=0 layer=1\n"
                                   "%6 activation F32[T,4] layer=1\n"
                                   "linear(x=%5 w=%3 y=%6) act=none in_out=0 layer=1\n"
                                   "%7 activation F32[T,4] layer=1\n"
                                   "linear(x=%6 w=%4 y=%7) act=none in_out=0 layer=1\n"
                                   "%8 activation F32[T,9] layer=1\n"
                                   "linear(x=%7 w=%2 y=%8) act=none in_out=0 layer=1\n",
                 adapt_in_bf16, 0,
                 WEIGHTS_OF("BF16") "%5 activation BF16[T,4] layer=1\n"
                                    "embed(ids=%1 table=%2 y=%5) still=0 layer=1\n"
                                    "%6 activation BF16[T,4] layer=1\n"
                                    "linear(x=%5 w=%3 y=%6) act=none in_out=0 layer=1\n"
                                    "%9 activation BF16[4,4] layer=1\n"
                                    "cast(x=%4 y=%9) layer=1\n"
                                    "%7 activation BF16[T,4] layer=1\n"
                                    "linear(x=%6 w=%9 y=%7) act=none in_out=0 layer=1\n"
                                    "%8 activation BF16[T,9] layer=1\n"
                                    "linear(x=%7 w=%2 y=%8) act=none in_out=0 layer=1\n");
}

/* Rows of several tables are added up before they are rounded. */
static void tables_that_are_added_stay_wide(void **state)
{
    (void)state;
#define TABLES                                                                                                         \
    "%1 input I32[T] \"ids\" layer=0 in keep\n"                                                                        \
    "%2 input I32[T] \"types\" layer=0 in keep\n"                                                                      \
    "%3 weight F32[9,4] \"words\" layer=0 in keep frozen\n"                                                            \
    "%4 weight F32[2,4] \"kinds\" layer=0 in keep frozen\n"
    text_becomes(TABLES "%5 activation F32[T,4] layer=0\n"
                        "embed(ids=%1 table=%3 ids2=%2 table2=%4 y=%5) still=0 layer=0\n",
                 adapt_in_bf16, 0,
                 TABLES "%5 activation BF16[T,4] layer=0\n"
                        "embed(ids=%1 table=%3 ids2=%2 table2=%4 y=%5) still=0 layer=0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_gets_what_its_adapter_adds),
        cmocka_unit_test(dropout_is_of_the_adapter_alone),
        cmocka_unit_test(one_product_gets_the_columns_of_all_adapters),
        cmocka_unit_test(one_product_is_split_where_a_layer_has_none),
        cmocka_unit_test(lengths_go_before_bias_and_activation),
        cmocka_unit_test(a_frozen_weight_is_narrow_where_all_take_it_so),
        cmocka_unit_test(tables_that_are_added_stay_wide),
    };
    return cmocka_run_group_tests_name("adapt", tests, NULL, NULL);
}
