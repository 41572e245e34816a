/* An output folder whose name is gone, or is another's, while a run still goes on: nothing is written into the other, and
 * the run is told. */
#include "help.h"

struct fixture {
    char dir[64]; /* exists; OUT is dir/out */
    char out[80], moved[80];
    struct lines lines;
    struct ckpt_dir held;
    struct ckpt_saver *saver;
};

static int save(struct fixture *f, int64_t step, struct snug_err *err)
{
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    tiny_run_to(&t, step);
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    assert_int_equal(ckpt_save_begin(f->saver, step, -1, tensors, TINY_TENSORS, doc, err), 0);
    json_decref(doc);
    return ckpt_save_wait(f->saver, err);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    make_folder(f->dir);
    snprintf(f->out, sizeof f->out, "%s/out", f->dir);
    snprintf(f->moved, sizeof f->moved, "%s/moved", f->dir);
    assert_int_equal(ckpt_dir_open(&io_posix, f->out, CKPT_FRESH, NULL, NULL, 0, notes_of(&f->lines), &f->held, NULL),
                     0);
    struct ckpt_config config = {.io = f->held.io,
                                 .folder = f->held.folder,
                                 .output_dir = f->out,
                                 .total_limit = 2,
                                 .notes = notes_of(&f->lines)};
    assert_int_equal(ckpt_saver_new(&config, &f->saver, NULL), 0);
    for (int64_t step = 1; step <= 2; step++)
        assert_int_equal(save(f, step, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    remove_tree(f->dir);
    free(f);
    return 0;
}

static void close_run(struct fixture *f)
{
    ckpt_saver_free(f->saver);
    ckpt_dir_close(&f->held);
}

/* A second run at the same path, with checkpoints of the steps that the first would delete or replace. */
static void start_another(struct fixture *f, struct ckpt_dir *other)
{
    struct snug_err err = {0};
    if (ckpt_dir_open(&io_posix, f->out, CKPT_FRESH, NULL, NULL, 0, (struct ckpt_notes){0}, other, &err))
        fail_msg("%s", err.text);
    for (int64_t step = 1; step <= 3; step++)
        assert_int_equal(save_tiny(&io_posix, f->out, step, (struct ckpt_notes){0}, NULL), 0);
}

static void assert_untouched(struct fixture *f, struct ckpt_dir *other)
{
    assert_int_equal(count_names(f->out, ""), 7); /* . .. .lock latest and three steps */
    assert_int_equal(count_names(f->out, "step-"), 3);
    assert_int_equal(count_names(f->out, ".lock"), 1);
    ckpt_dir_close(other);
}

static void renamed(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    char text[300];
    for (int another = 0; another <= 1; another++) {
        struct ckpt_dir other;
        assert_int_equal(ckpt_folder_check(f->held.folder, &err), 0);
        assert_int_equal(rename(f->out, f->moved), 0);
        if (another)
            start_another(f, &other);
        assert_int_equal(save(f, 3, &err), SNUG_ERR_IO);
        snprintf(text, sizeof text,
                 "%s: the output folder was renamed while the run went on; nothing more is written, go on with "
                 "--output-dir %s --resume-from-checkpoint auto",
                 f->out, f->moved);
        assert_string_equal(err.text, text);
        assert_null(line_with(&f->lines, "once more"));
        ckpt_saver_retain(f->saver, 9, -1);
        assert_int_equal(count_names(f->moved, "step-"), 2);
        assert_int_equal(count_names(f->moved, ".tmp-"), 0);
        if (!another) {
            assert_int_equal(access(f->out, F_OK), -1);
            assert_int_equal(rename(f->moved, f->out), 0);
            continue;
        }
        close_run(f);
        assert_int_equal(count_names(f->moved, ".lock"), 0); /* its own lock, and not the other's, is gone */
        assert_untouched(f, &other);
    }
}

static void deleted(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    struct ckpt_dir other;
    remove_tree(f->out);
    assert_int_equal(save(f, 3, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "out: the output folder was deleted while the run went on; "));
    assert_int_equal(access(f->out, F_OK), -1);
    start_another(f, &other);
    assert_int_equal(save(f, 4, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "was deleted"));
    ckpt_saver_retain(f->saver, 9, -1);
    close_run(f);
    assert_untouched(f, &other);
}

/* Between two comparisons too: a write by the old name reaches the old folder. */
static void what_is_held_is_what_is_reached(void **state)
{
    struct fixture *f = *state;
    const struct io *io = f->held.io;
    struct stat st;
    struct ckpt_dir other;
    assert_int_equal(rename(f->out, f->moved), 0);
    start_another(f, &other);
    assert_int_equal(io->mkdir(io, in(f->out, "new"), 0777), 0);
    assert_int_equal(io->rename(io, in(f->out, "new"), in(f->out, "newer")), 0);
    assert_int_equal(io->lstat(io, in(f->out, "newer"), &st), 0);
    assert_int_equal(access(in(f->moved, "newer"), F_OK), 0);
    assert_int_equal(io->rmdir(io, in(f->out, "newer")), 0);
    assert_int_equal(io->unlink(io, in(f->out, "latest")), 0);
    assert_int_equal(io_fsync_dir(io, f->out, NULL), 0);
    close_run(f);
    assert_untouched(f, &other);
}

/* While a run starts, too: what is said is what happened, not which call failed by it. */
static const char *going;

static int rename_too_late(const struct io *io, const char *from, const char *to)
{
    remove_tree(going);
    return io_posix.rename_new(io, from, to);
}

static void deleted_at_the_start(void **state)
{
    struct fixture *f = *state;
    struct ckpt_dir dir;
    struct snug_err err = {0};
    struct io io = io_posix;
    io.rename_new = rename_too_late;
    going = in(f->dir, "late");
    assert_int_equal(ckpt_dir_open(&io, going, CKPT_FRESH, NULL, NULL, 0, (struct ckpt_notes){0}, &dir, &err),
                     SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "late: the output folder was deleted while the run went on; "));
    close_run(f);
}

/* A link named latest that is not ours stays. */
static void latest_of_the_user(void **state)
{
    struct fixture *f = *state;
    char target[16] = "";
    assert_int_equal(unlink(in(f->out, "latest")), 0);
    assert_int_equal(symlink("my-notes", in(f->out, "latest")), 0);
    assert_int_equal(save(f, 3, NULL), 0);
    assert_int_equal(ckpt_dir_clear(&f->held, NULL), 0);
    assert_int_equal(readlink(in(f->out, "latest"), target, sizeof target - 1), 8);
    assert_string_equal(target, "my-notes");
    close_run(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(renamed), TEST(deleted), TEST(what_is_held_is_what_is_reached),
                                       TEST(deleted_at_the_start), TEST(latest_of_the_user)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
