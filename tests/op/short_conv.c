/* Convolutions of sequences that come piece by piece give what they give at once. */
#include "cases.h"
#include "checks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SEQUENCES = 3, ROWS = 12, H = 5, W = 4 };

/* What there is of every text, and what the convolution makes of it. */
static double texts[SEQUENCES][ROWS][3 * H], whole[SEQUENCES][ROWS][H], weight[H][1][W], bias[H];
static double rows[SEQUENCES][W][H]; /* that are kept */
static int32_t at[SEQUENCES][ROWS];

static struct tensor doubles(void *data, int64_t n, int64_t width)
{
    return (struct tensor){.data = data, .dtype = DT_F64, .ndim = 2, .shape = {n, width}};
}

static struct tensor ints(int32_t *data, int64_t n)
{
    return (struct tensor){.data = data, .dtype = DT_I32, .ndim = 1, .shape = {n}};
}

static const struct tensor weights = {.data = weight, .dtype = DT_F64, .ndim = 3, .shape = {H, 1, W}};
static const struct tensor biases = {.data = bias, .dtype = DT_F64, .ndim = 1, .shape = {H}};

static void convolve_whole(void)
{
    int32_t cu[SEQUENCES + 1];
    for (int b = 0; b <= SEQUENCES; b++)
        cu[b] = b * ROWS;
    struct args_short_conv a = {.bcx = doubles(texts, SEQUENCES * ROWS, 3 * H),
                                .w = weights,
                                .b = biases,
                                .cu = ints(cu, SEQUENCES + 1),
                                .y = doubles(whole, SEQUENCES * ROWS, H)};
    ref_short_conv(&a, NULL);
}

static void make_texts(uint32_t stream)
{
    for (int i = 0; i < SEQUENCES * ROWS * 3 * H; i++)
        (&texts[0][0][0])[i] = random_normal(stream, 0, (uint32_t)i);
    for (int i = 0; i < H * W; i++)
        (&weight[0][0][0])[i] = random_normal(stream, 1, (uint32_t)i);
    for (int i = 0; i < H; i++)
        bias[i] = random_normal(stream, 2, (uint32_t)i);
    for (int i = 0; i < SEQUENCES * W * H; i++)
        (&rows[0][0][0])[i] = NAN;
}

/* One call: pieces[b] rows of text b from its row past[b] on. Those from `checked` on must be those of the whole. */
static void read_pieces(const int *pieces, int32_t *past, bool shares, const bool *checked)
{
    static double now[SEQUENCES * ROWS][3 * H], y[SEQUENCES * ROWS][H];
    int32_t cu[SEQUENCES + 1] = {0};
    for (int b = 0; b < SEQUENCES; b++) {
        cu[b + 1] = cu[b] + pieces[b];
        memcpy(now[cu[b]], texts[b][past[b]], sizeof *now * (size_t)pieces[b]);
        for (int i = 0; shares && i < pieces[b]; i++)
            at[b][past[b] + i] = b * ROWS + past[b] + i;
    }
    struct args_short_conv_cached a = {.bcx = doubles(now, cu[SEQUENCES], 3 * H),
                                       .w = weights,
                                       .b = biases,
                                       .cu = ints(cu, SEQUENCES + 1),
                                       .past = ints(past, SEQUENCES),
                                       .rows = {.data = rows, .dtype = DT_F64, .ndim = 3, .shape = {SEQUENCES, W, H}},
                                       .y = doubles(y, cu[SEQUENCES], H)};
    if (shares)
        a.at = (struct tensor){.data = at, .dtype = DT_I32, .ndim = 2, .shape = {SEQUENCES, ROWS}};
    ref_short_conv_cached(&a, NULL);
    for (int b = 0; b < SEQUENCES; past[b] += pieces[b], b++)
        for (int i = 0; checked[b] && i < pieces[b]; i++)
            for (int h = 0; h < H; h++)
                assert_true(fabs(y[cu[b] + i][h] - whole[b][past[b] + i][h]) < 1e-13);
}

static const bool all[SEQUENCES] = {true, true, true};

static void check_pieces(void)
{
    static const int pieces[][SEQUENCES] = {{1, 7, 2}, {1, 1, 0}, {5, 1, 1}, {1, 1, 9}, {4, 2, 0}};
    int32_t past[SEQUENCES] = {0};
    make_texts(91);
    convolve_whole();
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
        read_pieces(pieces[k], past, false, all);
        for (int b = 0; b < SEQUENCES; b++) /* the last row once more, which changes nothing */
            past[b]--;
        read_pieces((const int[]){1, 1, 1}, past, false, all);
    }
    for (int b = 0; b < SEQUENCES; b++)
        assert_int_equal(past[b], ROWS);
}

/* Beams: the first reads what all begin with; each goes on by itself, then two of them from one. */
static void check_shares(void)
{
    enum { PROMPT = 5, FORK = 8 };
    int32_t past[SEQUENCES] = {0, PROMPT, PROMPT};
    make_texts(92);
    for (int b = 1; b < SEQUENCES; b++)
        memcpy(texts[b], texts[0], sizeof **texts * PROMPT);
    convolve_whole();
    memset(at, 0, sizeof at);
    const bool first[SEQUENCES] = {true, false, false};
    read_pieces((const int[]){3, 0, 0}, past, true, first);
    for (int n = 3; n < PROMPT; n++) { /* the others read their last row meanwhile, of a prompt that is not there yet */
        past[1] = past[2] = PROMPT - 1;
        read_pieces((const int[]){1, 1, 1}, past, true, first);
    }
    for (int b = 1; b < SEQUENCES; b++)
        memcpy(at[b], at[0], sizeof *at);
    for (int n = PROMPT; n < FORK; n++)
        read_pieces((const int[]){1, 1, 1}, past, true, (const bool[]){true, true, true});
    memcpy(at[0], at[2], sizeof *at); /* what beam 2 has written, beam 0 takes over */
    memcpy(texts[0], texts[2], sizeof **texts * FORK);
    convolve_whole();
    for (int n = FORK; n < ROWS; n++)
        read_pieces((const int[]){1, 1, 1}, past, true, all);
}

void test_short_conv(void **state)
{
    (void)state;
    check_pieces();
    check_shares();
}
