/* A device that fails in the middle of a run: one line that says where, and which checkpoint is whole; and the run goes
 * on from there. The device is the CPU with functions that fail when they are called for the n-th time. */
#include "command.h"

#include "train/train.h"

static struct backend broken;
static struct backend_arena broken_arena;
static int left; /* calls that still succeed */
static const char *rows;

static int lost(struct snug_err *err)
{
    return err_set(err, SNUG_ERR_CHECKPOINT, "gpu: a program: fell off the bus");
}

static int wait_or_fail(const struct backend *b, int flight, struct snug_err *err)
{
    (void)b, (void)flight;
    return left-- > 0 ? SNUG_OK : lost(err);
}

static int sync_or_fail(const struct backend *b, struct snug_err *err)
{
    (void)b;
    return left-- > 0 ? SNUG_OK : lost(err);
}

/* The error of a training run into `out` whose device fails after `calls` calls, of `wait` or of the wait for a node. */
static struct snug_err train(const char *out, int calls, bool nodes, const char *resume)
{
    const struct {
        const char *name, *value;
    } given[] = {{"model", fixture("golden/trainer/init")},
                 {"train_data", rows},
                 {"output_dir", out},
                 {"device", "cpu"},
                 {"per_device_train_batch_size", "4"},
                 {"max_steps", "7"},
                 {"save_steps", "2"},
                 {"resume_from_checkpoint", resume}};
    struct options o;
    struct session s;
    struct snug_summary summary;
    struct snug_err err = {0};
    options_init(&o, CMD_TRAIN);
    for (size_t i = 0; i < sizeof given / sizeof *given - !resume; i++)
        assert_int_equal(options_set(&o, given[i].name, given[i].value, &err), 0);
    assert_int_equal(options_check(&o, &err), 0);
    assert_int_equal(session_open(&s, &io_posix, &o, false, (struct session_events){0}, NULL, &err), 0);
    broken = *s.compile.backend;
    broken_arena = *broken.arena;
    broken.arena = &broken_arena;
    left = calls;
    broken.facts.one_by_one = nodes;
    if (nodes)
        broken_arena.sync = sync_or_fail;
    else
        broken_arena.wait = wait_or_fail;
    s.compile.backend = s.run.backend = &broken;
    int code = train_run(&s, (struct train_events){0}, &summary, &err);
    assert_int_equal(code, SNUG_ERR_CHECKPOINT);
    assert_int_equal(err.code, code);
    session_close(&s);
    options_free(&o);
    return err;
}

static void expect(struct snug_err err, const char *format, const char *dir)
{
    char want[256];
    snprintf(want, sizeof want, format, dir);
    assert_string_equal(err.text, want);
}

static void the_last_checkpoint_is_named(void **state)
{
    (void)state;
    const char *a = join(folder, "a"), *b = join(folder, "b");
    expect(train(a, 1, false, NULL),
           "step 2: gpu: a program: fell off the bus; there is no checkpoint to go on from, so start again", NULL);
    expect(train(b, 4, false, NULL),
           "step 5: gpu: a program: fell off the bus; go on from step 4, --resume-from-checkpoint %s", b);
    expect(train(b, 0, false, b), /* once more, before anything new is saved */
           "step 5: gpu: a program: fell off the bus; go on from step 4, --resume-from-checkpoint %s", b);
    expect(train(b, 2, false, b),
           "step 7: gpu: a program: fell off the bus; go on from step 6, --resume-from-checkpoint %s", b);
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", b,
                     "--device", "cpu", "--batch-size", "4", "--max-steps", "7", "--resume-from-checkpoint", b),
                NULL);
}

static void a_node_is_named(void **state)
{
    (void)state;
    expect(train(join(folder, "c"), 0, true, NULL),
           "step 1: embed in layer 0, node 1 of program step: gpu: a program: fell off the bus; there is no checkpoint "
           "to go on from, so start again",
           NULL);
    struct snug_err err = train(join(folder, "d"), 30, true, NULL);
    assert_non_null(strstr(err.text, "step 1: "));
    assert_non_null(
        strstr(err.text, " (backward), node 31 of program step: gpu: a program: fell off the bus; there is no "));
}

static int set_up(void **state)
{
    open_folder(state);
    rows = make_rows(folder, 40, 9, 5, true);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_checkpoint_is_named),
                                       cmocka_unit_test(a_node_is_named)};
    return cmocka_run_group_tests_name("lost", tests, set_up, close_folder);
}
