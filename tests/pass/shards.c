/* reduce, update, share and pull with matrices of more than a chunk, which are dealt to the ranks, text in and text out. */
#include "text.h"

static struct pass_settings settings(int stage)
{
    return (struct pass_settings){.ranks = 2,
                                  .zero_stage = stage,
                                  .update = {.optimizer = OPTIM_LION_8BIT, .min_8bit_size = 1, .state_type = DT_F32},
                                  .precision.narrow = DT_BF16,
                                  .choices.updates_at_end = true};
}

static void update(struct graph *g, int stage)
{
    struct pass_settings s = settings(stage);
    s.program = PROGRAM_UPDATE;
    pass_reduce(g, &s);
    pass_update(g, &s);
    pass_share(g, &s);
}

static void update_factored(struct graph *g, int stage)
{
    struct pass_settings s = settings(stage);
    s.program = PROGRAM_UPDATE;
    s.update.optimizer = OPTIM_ADAFACTOR;
    s.update.adafactor.beta1 = -1;
    s.update.adafactor.scale_parameter = true;
    pass_reduce(g, &s);
    pass_update(g, &s);
    pass_share(g, &s);
}

/* A group of a weight that is larger than a chunk of 65536 elements and of one that is not. */
#define NAMED                                                                                                          \
    "%1 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%2 weight F32[301,256] \"group\" layer=1 in keep group\n"                                                         \
    "%3 weight F32[300,256] \"query\" layer=1 slice=%2+0 in keep\n"                                                    \
    "%4 weight F32[1,256] \"key\" layer=1 slice=%2+76800 in keep\n"
#define SUMS                                                                                                           \
    "%5 gradient F32[301,256] \"grad.group\" layer=1 of=grad:%2 in out group\n"                                        \
    "%6 gradient F32[300,256] \"grad.query\" layer=1 slice=%5+0 of=grad:%3 in out\n"                                   \
    "%7 gradient F32[1,256] \"grad.key\" layer=1 slice=%5+76800 of=grad:%4 in out\n"                                   \
    "%8 copy BF16[301,256] \"copy.group\" layer=1 of=copy:%2 in keep\n"                                                \
    "%9 copy BF16[300,256] \"copy.query\" layer=1 slice=%8+0 of=copy:%3 in keep\n"
#define LION " beta1=0 beta2=0 weight_decay=0 noise=0 layer=1\n"

/* States of each tensor are in shards, the largest magnitudes of blocks with the blocks. Nodes are all ranks', and see their shards of what
 * is whole. What they have made of the norm, of weights and of copies goes to all. */
static void states_are_dealt(void **state)
{
    (void)state;
    text_becomes(NAMED SUMS, update, 1,
                 NAMED SUMS
                 "%10 scalar F64[3] layer=1 in\n"
                 "%11 gradient F32[1,256] layer=1 slice=%7+0 shards=2x65536 in view\n"
                 "%12 gradient F32[300,256] layer=1 slice=%6+0 shards=2x65536 in view\n"
                 "%13 scalar F64[2] layer=1 slice=%10+0\n"
                 "%14 scalar F64[1] layer=1 slice=%10+2\n"
                 "%17 state U8[300,256] \"exp_avg.query\" layer=1 of=exp_avg:%3 shards=2x65536 in keep\n"
                 "%18 state F32[300] \"exp_avg_absmax.query\" layer=1 of=exp_avg_absmax:%3 shards=2x256 in keep\n"
                 "%19 weight F32[300,256] layer=1 slice=%3+0 shards=2x65536 in keep view\n"
                 "%20 copy BF16[300,256] layer=1 slice=%9+0 shards=2x65536 in keep view\n"
                 "%21 state U8[1,256] \"exp_avg.key\" layer=1 of=exp_avg:%4 shards=2x65536 in keep\n"
                 "%22 state F32[1] \"exp_avg_absmax.key\" layer=1 of=exp_avg_absmax:%4 shards=2x256 in keep\n"
                 "%23 weight F32[1,256] layer=1 slice=%4+0 shards=2x65536 in keep view\n"
                 "all_reduce(g=%6) to=0 chunk=65536 layer=1\n"
                 "all_reduce(g=%7) to=0 chunk=65536 layer=1\n"
                 "sumsq(g=%11 partials=%10) at=2 layer=1\n"
                 "sumsq(g=%12 partials=%10) at=0 layer=1\n"
                 "broadcast(x=%13) from=0 chunk=1 layer=1\n"
                 "broadcast(x=%14) from=0 chunk=1 layer=1\n"
                 "%15 activation F32[1] \"grad_norm\" layer=1 exact out\n"
                 "%16 activation F32[1] layer=1 exact\n"
                 "clip(partials=%10 norm=%15 coef=%16) max_norm=0 layer=1\n"
                 "lion8bit(p=%19 g=%12 m=%17 absmax_m=%18 step=%1 coef=%16 copy=%20)" LION
                 "lion8bit(p=%23 g=%11 m=%21 absmax_m=%22 step=%1 coef=%16)" LION
                 "broadcast(x=%3) from=0 chunk=65536 layer=1\n"
                 "broadcast(x=%9) from=0 chunk=65536 layer=1\n"
                 "broadcast(x=%4) from=0 chunk=65536 layer=1\n");
}

static void leave(struct graph *g, int program)
{
    struct pass_settings s = settings(2);
    s.program = (enum program_kind)program;
    pass_reduce(g, &s);
}

#define PARTS                                                                                                          \
    "%5 input F32[T,301] \"dy\" layer=1 in keep\n"                                                                     \
    "%6 input F32[T,256] \"x\" layer=1 in keep\n"                                                                      \
    "%7 gradient F32[301,256] \"grad_part.group\" layer=1 of=grad_part:%2 group\n"                                     \
    "%8 gradient F32[300,256] \"grad_part.query\" layer=1 slice=%7+0 of=grad_part:%3\n"                                \
    "%9 gradient F32[1,256] \"grad_part.key\" layer=1 slice=%7+76800 of=grad_part:%4\n"
#define MAKES_PARTS "linear_dw(dy=%5 x=%6 dw=%7) in_out=0 layer=1 backward\n"

/* Of a micro-batch's gradients each rank keeps the sum of its shard of each tensor. */
static void gradients_are_dealt(void **state)
{
    (void)state;
    text_becomes(NAMED PARTS MAKES_PARTS, leave, PROGRAM_FIRST,
                 NAMED PARTS "%10 gradient F32[300,256] \"grad.query\" layer=1 of=grad:%3 shards=2x65536 out keep\n"
                             "%11 gradient F32[300,256] layer=1 slice=%8+0 shards=2x65536 view\n"
                             "%12 gradient F32[1,256] \"grad.key\" layer=1 of=grad:%4 shards=2x65536 out keep\n"
                             "%13 gradient F32[1,256] layer=1 slice=%9+0 shards=2x65536 view\n" MAKES_PARTS
                             "all_reduce(g=%8) to=0 chunk=65536 layer=1 backward\n"
                             "all_reduce(g=%9) to=0 chunk=65536 layer=1 backward\n"
                             "add_bwd(dy=%11 da=%10) layer=1 backward\n"
                             "add_bwd(dy=%13 da=%12) layer=1 backward\n");
}

static void pull(struct graph *g, int stage)
{
    struct pass_settings s = settings(stage);
    pass_pull(g, &s);
}

#define USES_GROUP(group)                                                                                              \
    "%6 activation F32[T,301] layer=1\n"                                                                               \
    "linear(x=%5 w=" group " y=%6) act=none in_out=0 layer=1\n"
#define USES_QUERY(query)                                                                                              \
    "%7 activation F32[T,300] layer=1\n"                                                                               \
    "linear(x=%5 w=" query " y=%7) act=none in_out=0 layer=1\n"

/* A weight of a group lies by itself then. All of the group comes once, each of its weights to its place; who reads one of them reads that
 * part. */
static void weights_are_dealt(void **state)
{
    (void)state;
    text_becomes(NAMED "%5 input F32[T,256] \"x\" layer=1 in keep\n" USES_GROUP("%2") USES_QUERY("%3"), pull, 3,
                 "%1 input F64[8] \"step\" layer=0 in keep\n"
                 "%2 weight F32[301,256] \"group\" layer=1 group\n"
                 "%3 weight F32[300,256] \"query\" layer=1 shards=2x65536 in keep\n"
                 "%4 weight F32[1,256] \"key\" layer=1 shards=2x65536 in keep\n"
                 "%5 input F32[T,256] \"x\" layer=1 in keep\n"
                 "%8 activation F32[301,256] layer=1 exact\n"
                 "%9 activation F32[300,256] layer=1 slice=%8+0 exact\n"
                 "pull(x=%3 y=%9) from=0 chunk=65536 layer=1\n"
                 "%10 activation F32[1,256] layer=1 slice=%8+76800 exact\n"
                 "pull(x=%4 y=%10) from=0 chunk=65536 layer=1\n" USES_GROUP(
                     "%8") "%11 activation F32[300,256] layer=1 slice=%8+0 exact\n" USES_QUERY("%11"));
}

static void stage(struct graph *g, int n)
{
    (void)n;
    pass_stage(g, &(struct pass_settings){.program = PROGRAM_UPDATE, .ranks = 2, .zero_stage = 2});
}

#define FAR                                                                                                            \
    "%1 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%2 weight F32[300,256] \"one\" layer=1 shards=2x65536 in keep\n"                                                  \
    "%3 weight F32[300,256] \"two\" layer=2 shards=2x65536 in keep\n"                                                  \
    "%4 weight F32[64,100] \"small\" layer=3 in keep\n"                                                                \
    "%5 gradient F32[300,256] \"grad.one\" layer=1 of=grad:%2 shards=2x65536 in out keep\n"                            \
    "%6 gradient F32[300,256] \"grad.two\" layer=2 of=grad:%3 shards=2x65536 in out keep\n"                            \
    "%7 gradient F32[64,100] \"grad.small\" layer=3 of=grad:%4 rank=1 in out keep\n"                                   \
    "%8 state F32[300,256] \"momentum_buffer.one\" layer=1 of=momentum_buffer:%2 shards=2x65536 memory=host in keep\n" \
    "%9 state F32[300,256] \"exp_avg.two\" layer=2 of=exp_avg:%3 shards=2x65536 memory=host in keep\n"                 \
    "%10 state F32[64,100] \"momentum_buffer.small\" layer=3 of=momentum_buffer:%4 rank=1 memory=host in keep\n"
#define SGD " momentum=0.5 dampening=0 weight_decay=0 nesterov=0 noise=0"

/* A shard comes to a buffer as large as the largest. An owner does what all ranks do, too: its own state waits for their buffer. */
static void shards_come_from_the_host(void **state)
{
    (void)state;
    text_becomes(FAR "sgd(p=%2 g=%5 buf=%8 step=%1)" SGD " layer=1\n"
                     "lion(p=%3 g=%6 m=%9 step=%1) beta1=0 beta2=0 weight_decay=0 noise=0 layer=2\n"
                     "sgd(p=%4 g=%7 buf=%10 step=%1)" SGD " rank=1 layer=3\n",
                 stage, 0,
                 FAR "%11 workspace F32[65536] layer=1\n"
                     "%12 workspace F32[300,256] layer=1 slice=%11+0 shards=2x65536\n"
                     "%13 workspace F32[65536] layer=2\n"
                     "%14 workspace F32[300,256] layer=2 slice=%13+0 shards=2x65536\n"
                     "%15 workspace F32[64,100] layer=1 slice=%11+0\n"
                     "move(x=%8 y=%12) lane=in layer=1\n"
                     "move(x=%9 y=%14) lane=in layer=2\n"
                     "sgd(p=%2 g=%5 buf=%12 step=%1)" SGD " layer=1\n"
                     "move(x=%12 y=%8) lane=out layer=1\n"
                     "move(x=%10 y=%15) rank=1 lane=in layer=3\n"
                     "lion(p=%3 g=%6 m=%14 step=%1) beta1=0 beta2=0 weight_decay=0 noise=0 layer=2\n"
                     "move(x=%14 y=%9) lane=out layer=2\n"
                     "sgd(p=%4 g=%7 buf=%15 step=%1)" SGD " rank=1 layer=3\n"
                     "move(x=%15 y=%10) rank=1 lane=out layer=3\n");
}

/* Adafactor's shards are of whole tiles of 128 rows, here 256 rows, of which states and sums follow. Each rank gets the others' sums before it
 * goes on. */
static void adafactor_is_dealt_by_tiles(void **state)
{
    (void)state;
#define WEIGHT                                                                                                         \
    "%1 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%2 weight F32[1000,256] \"w\" layer=1 in keep\n"                                                                  \
    "%3 gradient F32[1000,256] \"grad.w\" layer=1 of=grad:%2 in out\n"
    text_becomes(WEIGHT, update_factored, 1,
                 WEIGHT "%4 scalar F64[4] layer=1 in\n"
                        "%5 gradient F32[1000,256] layer=1 slice=%3+0 shards=2x65536 in view\n"
                        "%6 scalar F64[4] layer=1 slice=%4+0\n"
                        "%9 state F32[1000] \"exp_avg_sq_row.w\" layer=1 of=exp_avg_sq_row:%2 shards=2x256 in keep\n"
                        "%10 state F32[256] \"exp_avg_sq_col.w\" layer=1 of=exp_avg_sq_col:%2 in keep\n"
                        "%11 scalar F32[2048] layer=1 in\n"
                        "%12 scalar F32[2048] layer=1 slice=%11+0 shards=2x512 in view\n"
                        "%13 scalar F64[8] layer=1 in\n"
                        "%14 scalar F64[8] layer=1 slice=%13+0 shards=2x2 in view\n"
                        "%15 scalar F64[8] layer=1 in\n"
                        "%16 scalar F64[8] layer=1 slice=%15+0 shards=2x2 in view\n"
                        "%17 scalar F64[8] layer=1 in\n"
                        "%18 scalar F64[8] layer=1 slice=%17+0 shards=2x2 in view\n"
                        "%19 weight F32[1000,256] layer=1 slice=%2+0 shards=2x65536 in keep view\n"
                        "all_reduce(g=%3) to=0 chunk=65536 layer=1\n"
                        "sumsq(g=%5 partials=%4) at=0 layer=1\n"
                        "broadcast(x=%6) from=0 chunk=1 layer=1\n"
                        "%7 activation F32[1] \"grad_norm\" layer=1 exact out\n"
                        "%8 activation F32[1] layer=1 exact\n"
                        "clip(partials=%4 norm=%7 coef=%8) max_norm=0 layer=1\n"
                        "adafactor_sums(row=%9 g=%5 p=%19 col_sums=%12 row_sums=%14 weight_sums=%18 step=%1 coef=%8) "
                        "eps1=0 decay_rate=0 rows=1000 columns=256 layer=1\n"
                        "broadcast(x=%11) from=0 chunk=512 layer=1\n"
                        "broadcast(x=%13) from=0 chunk=2 layer=1\n"
                        "broadcast(x=%17) from=0 chunk=2 layer=1\n"
                        "adafactor_squares(col=%10 g=%5 row=%9 col_sums=%11 row_sums=%13 squares=%16 step=%1 coef=%8) "
                        "eps1=0 decay_rate=0 rows=1000 layer=1\n"
                        "broadcast(x=%15) from=0 chunk=2 layer=1\n"
                        "adafactor_apply(p=%19 g=%5 row=%9 col=%10 row_sums=%13 weight_sums=%17 squares=%15 step=%1 "
                        "coef=%8) eps2=0 clip_threshold=0 beta1=-1 weight_decay=0 scale_parameter=1 relative_step=0 "
                        "warmup_init=0 rows=1000 noise=0 layer=1\n"
                        "broadcast(x=%2) from=0 chunk=65536 layer=1\n");
#undef WEIGHT
}

static void has_owner(struct pass_settings s, const char *text)
{
    struct graph g;
    struct snug_err err;
    s.program = PROGRAM_UPDATE;
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    assert_int_equal(graph_parse(&g, text, &err), SNUG_OK);
    pass_reduce(&g, &s);
    pass_update(&g, &s);
    pass_share(&g, &s);
    assert_int_equal(graph_check(&g, "the test", &err), SNUG_OK);
    for (int i = 1; i < g.n_values; i++)
        assert_int_equal(graph_value(&g, i)->shards, 0);
    assert_int_equal(g.nodes[1].op, OP_all_reduce);
    assert_true(g.nodes[1].u.all_reduce.to > 0);
    graph_free(&g);
}

/* An optimizer that must see whole tensors has an owner for each, and so have states on disk. So has what Adafactor's tiles cut into few
 * chunks: here a chunk is 131072 elements, and one rank would have two of three. */
static void some_are_whole(void **state)
{
    (void)state;
    struct pass_settings stable = settings(1), on_disk = settings(1), factored = settings(1);
    stable.update.optimizer = OPTIM_STABLE_ADAMW;
    has_owner(stable, NAMED SUMS);
    on_disk.update.optimizer = OPTIM_ADAMW;
    on_disk.choices.states_on_disk = true;
    has_owner(on_disk, NAMED SUMS);
    factored.update.optimizer = OPTIM_ADAFACTOR;
    factored.update.adafactor.beta1 = -1;
    has_owner(factored, "%1 input F64[8] \"step\" layer=0 in keep\n"
                        "%2 weight F32[384,1024] \"w\" layer=1 in keep\n"
                        "%3 gradient F32[384,1024] \"grad.w\" layer=1 of=grad:%2 in out\n");
}

/* A node that knows nothing of shards gets none. */
static void others_get_no_shard(void **state)
{
    (void)state;
    struct graph g;
    struct snug_err err;
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    int code = graph_parse(&g,
                           "%1 input F32[T,256] \"x\" layer=1 in keep\n"
                           "%2 weight F32[300,256] \"w\" layer=1 shards=2x65536 in keep\n"
                           "%3 activation F32[T,300] layer=1\n"
                           "linear(x=%1 w=%2 y=%3) act=none in_out=0 layer=1\n",
                           &err);
    assert_int_equal(code, SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "is a shard, which this op does not know"));
    graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(states_are_dealt),
                                       cmocka_unit_test(gradients_are_dealt),
                                       cmocka_unit_test(weights_are_dealt),
                                       cmocka_unit_test(shards_come_from_the_host),
                                       cmocka_unit_test(adafactor_is_dealt_by_tiles),
                                       cmocka_unit_test(some_are_whole),
                                       cmocka_unit_test(others_get_no_shard)};
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
