/* The largest micro-batch that is planned is the largest that comes, and no more: of each order of the data, cut or not, resumed or
 * not. A larger one would be an assertion in train/step.c. Rows are as long as they may be, and no longer. */
#include "here.h"

#include "train/session/session.h"

static const char *rows;

/* Trains to the end in a loop of its own. The most tokens of a micro-batch, as planned and as they came. */
static void largest_of(const char *const *args, int64_t *planned, int64_t *came)
{
    struct snug_err err;
    snug_options *o;
    snug_session *s;
    struct snug_window w;
    *came = 0;
    assert_int_equal(snug_options_new("train", &o, &err), 0);
    for (; *args; args += 2)
        if (snug_options_set(o, *args + 2, args[1], &err))
            fail_msg("%s", err.text);
    assert_int_equal(snug_open(o, SNUG_OWN_LOOP, NULL, &s, &err), 0);
    assert_int_equal(snug_load(s, &err), 0);
    *planned = ((struct session *)s)->choices.micro.T; /* its first member */
    while (!snug_next(s, &w, &err) && w.n_micro) {
        double loss, norm;
        if (w.n_micro == 1)
            *came = w.tokens > *came ? w.tokens : *came;
        for (int i = 0; i < w.n_micro; i++)
            assert_int_equal(snug_forward_backward(s, i, &loss, &err), 0);
        assert_int_equal(snug_update(s, 1e-3, &norm, &err), 0);
    }
    snug_close(s);
    snug_options_free(o);
}

#define RUN                                                                                                            \
    "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", "/proc/nowhere", "--threads",     \
        "1", "--device", "cpu"

static void each_order(void **state)
{
    (void)state;
    static const char *const orders[] = {"random", "sequential", "group_by_length"};
    int64_t planned, came, cut, whole = loops(6);
    for (int i = 0; i < 3; i++)
        for (int64_t seed = 0; seed < whole; seed++) {
            char digit[] = {(char)('1' + seed), 0};
            const char *order = orders[i];
            largest_of(ARGS(RUN, "--train-sampling-strategy", order, "--seed", digit, "--num-train-epochs", "2",
                            "--batch-size", "6"),
                       &planned, &came);
            assert_int_equal(planned, came);
            largest_of(ARGS(RUN, "--train-sampling-strategy", order, "--seed", digit, "--num-train-epochs", "2",
                            "--batch-size", "2", "--gradient-accumulation-steps", "3"),
                       &cut, &came);
            assert_true(cut < planned);
            largest_of(
                ARGS(RUN, "--train-sampling-strategy", order, "--seed", digit, "--max-steps", "1", "--batch-size", "6"),
                &cut, &came);
            assert_true(cut == came && cut <= planned); /* of the steps that are made */
        }
}

/* Where steps have other rows from some step on, they begin elsewhere than the order from the first step on says. */
static void rows_that_moved(void **state)
{
    (void)state;
    for (int i = 0; i < loops(9); i++) {
        char seed[] = {(char)('1' + i), 0};
        struct snug_err err;
        struct snug_summary summary;
        const char *out = join(folder, join("moved-", seed));
        const char *const *run =
            ARGS("--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", out, "--threads", "1",
                 "--device", "cpu", "--num-train-epochs", "1", "--seed", seed, "--resume-from-checkpoint", "auto");
        assert_int_equal(train_here(LISTS(run, ARGS("--batch-size", "8")), 3, &summary, &err), SNUG_STOPPED);
        const char *const *other = ARGS("--batch-size", "5", "--allow-option-change", "true");
        assert_int_equal(train_here(LISTS(run, other), 5, &summary, &err), SNUG_STOPPED);
        assert_non_null(strstr(notes, "resumed step 3 "));
        assert_non_null(strstr(notes, "--per-device-train-batch-size: 8 -> 5"));
        assert_int_equal(train_here(LISTS(run, ARGS("--batch-size", "5")), NEVER, &summary, &err), SNUG_OK);
    }
}

/* Kernels know how long a row can be: as --max-length has it, at most as the model does, which takes 12 tokens here. */
static void longest_is(const char *const *more, int64_t tokens)
{
    struct snug_err err;
    snug_options *o;
    snug_session *s;
    int64_t n = 0;
    assert_int_equal(snug_options_new("train", &o, &err), 0);
    for (const char *const *const *list = LISTS(ARGS(RUN), more); *list; list++)
        for (const char *const *args = *list; *args; args += 2)
            if (snug_options_set(o, *args + 2, args[1], &err))
                fail_msg("%s", err.text);
    if (snug_open(o, 0, NULL, &s, &err))
        fail_msg("%s", err.text);
    const struct plan *plan = &((struct session *)s)->run.plan;
    for (int k = 0; k < plan->n_programs; k++)
        for (int i = 1; i < plan->programs[k].graph.n_nodes; i++) {
            const struct node *node = &plan->programs[k].graph.nodes[i];
            if (node->op != OP_attention)
                continue;
            assert_int_equal(node->u.attention.longest, tokens);
            n++;
        }
    assert_true(n > 0);
    snug_close(s);
    snug_options_free(o);
}

static void rows_are_as_long_as_they_may_be(void **state)
{
    (void)state;
    longest_is(ARGS("--output-dir", join(folder, "longest")), 12);
    longest_is(ARGS("--output-dir", join(folder, "longest"), "--max-length", "7"), 7);
}

static int open_rows(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 50, 12, 1, true);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_order), cmocka_unit_test(rows_that_moved),
                                       cmocka_unit_test(rows_are_as_long_as_they_may_be)};
    return cmocka_run_group_tests(tests, open_rows, close_folder);
}
