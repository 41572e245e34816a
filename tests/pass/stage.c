/* pass_stage, text in and text out: what updates use of the host's memory passes through buffers on the device. */
#include "text.h"

#define N "8388608" /* elements: 32 MiB, a group */
#define HOST " memory=host"

#define WEIGHT(id, name) "%" id " weight F32[" N "] \"" name "\" layer=1 in keep\n"
#define GRADIENT(id, of, name) "%" id " gradient F32[" N "] \"grad." name "\" layer=1 of=grad:%" of " in out keep\n"
#define STATE(id, of, name, where)                                                                                     \
    "%" id " state F32[" N "] \"momentum_buffer." name "\" layer=1 of=momentum_buffer:%" of where " in keep\n"
#define VALUES(where)                                                                                                  \
    "%1 scalar F64[8] \"step\" layer=0 in\n" WEIGHT("2", "a") WEIGHT("3", "b") WEIGHT("4", "c")                        \
        GRADIENT("5", "2", "a") GRADIENT("6", "3", "b") GRADIENT("7", "4", "c") STATE("8", "2", "a", where)            \
            STATE("9", "3", "b", where) STATE("10", "4", "c", where)
#define SMALL(where)                                                                                                   \
    "%11 weight F32[8] \"d\" layer=1 in keep\n"                                                                        \
    "%12 gradient F32[8] \"grad.d\" layer=1 of=grad:%11 in\n"                                                          \
    "%13 state F32[8] \"momentum_buffer.d\" layer=1 of=momentum_buffer:%11" where " in keep\n"
#define SGD(p, g, buf)                                                                                                 \
    "sgd(p=%" p " g=%" g " buf=%" buf " step=%1) momentum=0.5 dampening=0 weight_decay=0 nesterov=0 noise=0 layer=1\n"
#define MOVE(x, y, lane) "move(x=%" x " y=%" y ") lane=" lane " layer=1\n"
#define BUFFER(id) "%" id " workspace F32[" N "] layer=1\n"
#define PLACE(id, of) "%" id " workspace F32[" N "] layer=1 slice=%" of "+0\n"

static void apply(struct graph *g, int prefetch)
{
    pass_stage(g, &(struct pass_settings){.choices.prefetch = prefetch});
}

/* What lies on the device stays as it is, and so do small tensors on the host. */
static void what_is_near_stays(void **state)
{
    (void)state;
#define NEAR VALUES("") SMALL(HOST) SGD("2", "5", "8") SGD("11", "12", "13")
    text_becomes(NEAR, apply, 0, NEAR);
    text_becomes(NEAR, apply, 1, NEAR);
}

/* Two buffers: the third group has that of the first, whose way back stands before. A small tensor between them needs no copy. */
static void two_buffers_take_turns(void **state)
{
    (void)state;
    text_becomes(
        VALUES(HOST) SMALL(HOST) SGD("2", "5", "8") SGD("11", "12", "13") SGD("3", "6", "9") SGD("4", "7", "10"), apply,
        0,
        VALUES(HOST) SMALL(HOST) BUFFER("14") PLACE("15", "14") BUFFER("16") PLACE("17", "16") PLACE("18", "14") /* */
        MOVE("8", "15", "in") MOVE("9", "17", "in") SGD("2", "5", "15") SGD("11", "12", "13") MOVE("15", "8", "out")
            MOVE("10", "18", "in") SGD("3", "6", "17") MOVE("17", "9", "out") SGD("4", "7", "18")
                MOVE("18", "10", "out"));
}

/* Below the peak, here an activation of three groups' size that dies before the updates, all groups have buffers of their own, which are
 * filled as soon as it is dead. One byte less, and the third waits for the first. */
static void room_below_the_peak_is_used(void **state)
{
    (void)state;
#define PEAK(elements)                                                                                                 \
    "%11 input F32[" elements ",1] \"x\" layer=0 in keep\n"                                                            \
    "%12 activation F32[" elements ",1] layer=1\n"                                                                     \
    "scale(x=%11 y=%12) by=2 layer=1 backward\n"
#define OUT_OF(elements) VALUES(HOST) PEAK(elements) SGD("2", "5", "8") SGD("3", "6", "9") SGD("4", "7", "10")
#define INPUT(elements) "%11 input F32[" elements ",1] \"x\" layer=0 in keep\n"
#define MADE(elements)                                                                                                 \
    "%12 activation F32[" elements ",1] layer=1\n"                                                                     \
    "scale(x=%11 y=%12) by=2 layer=1 backward\n"
    text_becomes(OUT_OF("25165824"), apply, 1,
                 VALUES(HOST) INPUT("25165824") BUFFER("13") PLACE("14", "13") BUFFER("15") PLACE("16", "15")
                     BUFFER("17") PLACE("18", "17") MADE("25165824") /* */
                 MOVE("8", "14", "in") MOVE("9", "16", "in") MOVE("10", "18", "in") SGD("2", "5", "14")
                     MOVE("14", "8", "out") SGD("3", "6", "16") MOVE("16", "9", "out") SGD("4", "7", "18")
                         MOVE("18", "10", "out"));
    text_becomes(OUT_OF("25165823"), apply, 1,
                 VALUES(HOST) INPUT("25165823") BUFFER("13") PLACE("14", "13") BUFFER("15") PLACE("16", "15")
                     PLACE("17", "13") MADE("25165823") /* */
                 MOVE("8", "14", "in") MOVE("9", "16", "in") SGD("2", "5", "14") MOVE("14", "8", "out")
                     MOVE("10", "17", "in") SGD("3", "6", "16") MOVE("16", "9", "out") SGD("4", "7", "17")
                         MOVE("17", "10", "out"));
}

/* From a file a tensor comes piece by piece, by way of the host's memory, and goes back so. */
static void what_is_on_disk_comes_in_pieces(void **state)
{
    (void)state;
#define ELEMENTS "8388609" /* one more than a piece */
#define ON_DISK                                                                                                        \
    "%1 scalar F64[8] \"step\" layer=0 in\n%2 weight F32[" ELEMENTS "] \"a\" layer=1 in keep\n"                        \
    "%3 gradient F32[" ELEMENTS "] \"grad.a\" layer=1 of=grad:%2 in out keep\n"                                        \
    "%4 state F32[" ELEMENTS "] \"momentum_buffer.a\" layer=1 of=momentum_buffer:%2 memory=disk in keep\n"
#define FAR(id, n, at) "%" id " state F32[" n "] layer=1 slice=%4+" at " memory=disk in keep\n"
#define NEAR_PIECE(id, n, at) "%" id " workspace F32[" n "] layer=1 slice=%6+" at "\n"
#define ROOM(id) "%" id " workspace F32[" N "] layer=1 memory=host\n"
#define BETWEEN(id, n, of) "%" id " workspace F32[" n "] layer=1 slice=%" of "+0 memory=host\n"
#define PAGE(x, y, out, lane) "page(x=%" x " y=%" y ") out=" out " lane=" lane " layer=1\n"
    text_becomes(ON_DISK SGD("2", "3", "4"), apply, 0,
                 ON_DISK "%5 workspace F32[8388864] layer=1\n%6 workspace F32[" ELEMENTS "] layer=1 slice=%5+0\n" /* */
                 FAR("7", N, "0") NEAR_PIECE("8", N, "0") ROOM("9") BETWEEN("10", N, "9") FAR("11", "1", N)
                     NEAR_PIECE("12", "1", N) BETWEEN("13", "1", "9") FAR("14", N, "0") NEAR_PIECE("15", N, "0")
                         ROOM("16") BETWEEN("17", N, "16") FAR("18", "1", N) NEAR_PIECE("19", "1", N)
                             BETWEEN("20", "1", "16") /* */
                 PAGE("7", "10", "0", "in") MOVE("10", "8", "in") PAGE("11", "13", "0", "in") MOVE("13", "12", "in")
                     SGD("2", "3", "6") MOVE("15", "17", "out") PAGE("17", "14", "1", "out") MOVE("19", "20", "out")
                         PAGE("20", "18", "1", "out"));
}

/* What one op returns another may read next: it comes for that when it is back, also where a buffer is free before. */
static void what_returns_comes_again(void **state)
{
    (void)state;
#define MATRIX                                                                                                         \
    "%1 scalar F64[8] \"step\" layer=0 in\n"                                                                           \
    "%2 gradient F32[8192,2] \"grad.w\" layer=1 in out keep\n"                                                         \
    "%3 state F32[8192] \"row\" layer=1" HOST " in keep\n"                                                             \
    "%4 state F32[2] \"col\" layer=1 in keep\n"                                                                        \
    "%5 scalar F32[128] layer=1 in\n"                                                                                  \
    "%6 scalar F64[64] layer=1 in\n"                                                                                   \
    "%7 scalar F64[64] layer=1 in\n"
#define MOMENTS " eps1=0.5 decay_rate=-0.5 rows=8192"
    text_becomes(MATRIX "adafactor_sums(row=%3 g=%2 col_sums=%5 row_sums=%6 step=%1)" MOMENTS " columns=2 layer=1\n"
                        "adafactor_squares(col=%4 g=%2 row=%3 col_sums=%5 row_sums=%6 squares=%7 step=%1)" MOMENTS
                        " layer=1\n",
                 apply, 0,
                 MATRIX "%8 workspace F32[8192] layer=1\n"
                        "%9 workspace F32[8192] layer=1 slice=%8+0\n"
                        "%10 workspace F32[8192] layer=1\n"
                        "%11 workspace F32[8192] layer=1 slice=%10+0\n"
                        "move(x=%3 y=%9) lane=in layer=1\n"
                        "adafactor_sums(row=%9 g=%2 col_sums=%5 row_sums=%6 step=%1) eps1=0.5 decay_rate=-0.5 "
                        "rows=8192 columns=2 layer=1\n"
                        "move(x=%9 y=%3) lane=out layer=1\n"
                        "move(x=%3 y=%11) lane=in layer=1\n"
                        "adafactor_squares(col=%4 g=%2 row=%11 col_sums=%5 row_sums=%6 squares=%7 step=%1) eps1=0.5 "
                        "decay_rate=-0.5 rows=8192 layer=1\n");
#undef MATRIX
#undef MOMENTS
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_near_stays), cmocka_unit_test(two_buffers_take_turns),
                                       cmocka_unit_test(room_below_the_peak_is_used),
                                       cmocka_unit_test(what_is_on_disk_comes_in_pieces),
                                       cmocka_unit_test(what_returns_comes_again)};
    return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
