/* Runs whose tokens lie in the mapped cache file: the bits of a run that has them in memory, made or recalled, held out, stopped and
 * resumed either way; and what a full disk says. */
#include "here.h"

#include <sys/resource.h>
#include <unistd.h>

static const char *model, *rows, *cache, *texts, *ids;

/* With dropout, so that a row in another place would show. Log hashes are of all weights. */
#define RUN                                                                                                            \
    "--model", model, "--init-from-config", "true", "--hidden-dropout-prob", "0.1", "--cache-dir", cache, "--seed",    \
        "3", "--threads", "1", "--device", "cpu", "--batch-size", "5", "--max-steps", "12", "--log-hash", "true",      \
        "--logging-steps", "1", "--eval-split", "0.2", "--eval-strategy", "steps", "--eval-steps", "4"
#define MAPPED "--in-memory-max-size", "1B"

static int train_until(int64_t at, const char *name, const char *const *data, const char *const *more)
{
    struct snug_summary summary;
    struct snug_err err;
    int code = train_here(LISTS(ARGS(RUN, "--output-dir", join(folder, name)), data, more), at, &summary, &err);
    if (code && code != SNUG_STOPPED)
        fail_msg("%s", err.text);
    return code;
}

static void assert_same(const char *a, const char *b)
{
    json_t *x = read_log(join(folder, a)), *y = read_log(join(folder, b));
    assert_true(json_array_size(x) >= 12);
    if (!json_equal(x, y))
        fail_msg("%s and %s have other logs", a, b);
    assert_true(same_bytes(join(join(folder, a), "model.safetensors"), join(join(folder, b), "model.safetensors")));
    json_decref(x);
    json_decref(y);
}

static void bits_are_those_in_memory(void **state)
{
    (void)state;
    const char *const *const data[] = {
        ARGS("--train-data", rows), ARGS("--train-data", texts, "--task", "masked-lm"),
        ARGS("--train-data", ids), /* no cache has these */
    };
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        remove_tree(cache);
        train_until(NEVER, "memory", data[i], NULL);
        remove_tree(cache);
        train_until(NEVER, "made", data[i], ARGS(MAPPED));
        train_until(NEVER, "recalled", data[i], ARGS(MAPPED));
        assert_same("memory", "made");
        assert_same("memory", "recalled");
        assert_int_equal(train_until(5, "resumed", data[i], ARGS(MAPPED)), SNUG_STOPPED);
        assert_int_equal(train_until(8, "resumed", data[i], ARGS("--resume-from-checkpoint", "true")), SNUG_STOPPED);
        train_until(NEVER, "resumed", data[i], ARGS(MAPPED, "--resume-from-checkpoint", "true"));
        assert_same("memory", "resumed");
        static const char *const made[] = {"memory", "made", "recalled", "resumed"};
        for (size_t k = 0; k < sizeof made / sizeof *made; k++)
            remove_tree(join(folder, made[k]));
    }
}

/* The command itself, under a limit that its files hit: one line and exit code 5, and nothing left. */
static void a_full_disk_ends_the_run(void **state)
{
    (void)state;
    struct rlimit before, small;
    const char *out = join(folder, "full");
    remove_tree(cache);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1024; /* what is said is shorter, the tokens are longer */
    setrlimit(RLIMIT_FSIZE, &small);
    int status = snug(said(), ARGS("train", RUN, "--train-data", rows, "--output-dir", out), ARGS(MAPPED));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, SNUG_ERR_IO);
    assert_true(file_has(said(), "cannot write: File too large; give --cache-dir a folder with more room"));
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_equal(rmdir(cache), 0);
}

static const char *write_lines(const char *name, const char *header, const char *const *endings)
{
    const char *path = join(folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(header, f);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 3 + i * i % 7; k++)
            fputs((i + k * k) % 5 < 2 ? "a " : "b ", f);
        fputs(endings[i % 2], f);
    }
    fclose(f);
    return path;
}

static int set_up(void **state)
{
    open_folder(state);
    model = make_deeper(folder, "golden/bert", 1);
    FILE *f = fopen(join(model, "vocab.txt"), "w");
    assert_non_null(f);
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n", f);
    fclose(f);
    cache = join(folder, "cache");
    rows = write_lines("rows.csv", "text,label\n", (const char *const[]){",0\n", ",1\n"});
    ids = make_rows(folder, 90, 12, 1, true);
    texts = write_lines("texts.csv", "text\n", (const char *const[]){"\n", "a\n"});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_in_memory),
        cmocka_unit_test(a_full_disk_ends_the_run),
    };
    return cmocka_run_group_tests_name("mapped", tests, set_up, close_folder);
}
