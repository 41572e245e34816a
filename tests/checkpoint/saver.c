/* checkpoint: saving in a thread of its own, beside training: what comes back from it and when, and how it ends. */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>

/* The disk answers when whoever waits for it has been told that it takes long. */
static void answers_when_told(void *ctx, const char *line)
{
    struct fixture *f = ctx;
    collect(&f->lines, line);
    if (strstr(line, "still writing"))
        f->files.hangs = false;
}

static struct ckpt_notes answering(struct fixture *f)
{
    notes_of(&f->lines);
    return (struct ckpt_notes){answers_when_told, f};
}

static void training_goes_on(void **state)
{
    struct fixture *f = *state;
    struct ckpt_config config = {
        .io = &f->files.io, .output_dir = f->dir, .notes = answering(f), .patience_s = 0.15, .read_back = true};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    tiny_run_to(&t, 4);
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    f->files.hangs = true; /* the writer has not even looked at the copy when we change the original */
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    json_object_clear(doc);
    tiny_step(&t);
    assert_true(ckpt_save_busy(saver));
    assert_int_equal(ckpt_saved_step(saver), -1);
    json_decref(doc);
    doc = tiny_state(&t);
    assert_int_equal(ckpt_save_begin(saver, 5, -1, tensors, TINY_TENSORS, doc, &err), 0); /* waits for step 4 */
    assert_true(ckpt_saved_step(saver) >= 4);
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    assert_int_equal(count_lines(&f->lines, "checkpoint of step 4 still writing after 0 s"), 1);
    assert_false(ckpt_save_busy(saver));
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    ckpt_saver_free(saver);
    json_decref(doc);
    expect_step(f, in(f->dir, "step-00000004"), 0, 4);
    expect_step(f, f->dir, 0, 5);
}

/* The error of a background save comes back once, at the next call, and then the next save works. */
static void errors_come_back(void **state)
{
    struct fixture *f = *state;
    struct ckpt_config config = {.io = &f->files.io, .output_dir = f->dir, .notes = notes_of(&f->lines)};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    tiny_run_to(&t, 4);
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    f->files.calls = 0;
    f->files.at = 1, f->files.for_ever = true, f->files.kind = FAULT_ERROR, f->files.errnum = ENOSPC;
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "No space left on device"));
    assert_int_equal(count_lines(&f->lines, "once more"), 1);
    assert_int_equal(count_lines(&f->lines, "complete"), 0);
    f->files.kind = FAULT_NONE;
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    ckpt_saver_free(saver);
    json_decref(doc);
    expect_step(f, f->dir, 0, 4);
}

/* A second signal abandons the save: the temporary folder goes, older checkpoints stand. */
static void second_signal(void **state)
{
    struct fixture *f = *state;
    struct stop_flag flag = {0};
    struct ckpt_config config = {
        .io = &f->files.io, .output_dir = f->dir, .notes = answering(f), .patience_s = 0.15, .stop = &flag};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    tiny_run_to(&t, 4);
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    f->files.hangs = true;
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    flag.signal = flag.again = SIGTERM;
    assert_int_equal(ckpt_save_wait(saver, &err), SNUG_STOPPED);
    assert_non_null(strstr(err.text, "abandoned"));
    assert_int_equal(ckpt_save_in_place(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), SNUG_STOPPED);
    ckpt_saver_free(saver);
    json_decref(doc);
    assert_int_equal(count_names(f->dir, ".tmp-"), 0);
    assert_int_equal(count_lines(&f->lines, "complete"), 0);
    expect_step(f, f->dir, 0, 3);
}

/* ---- A disk that hangs, until it is let go: */

/* All that a writer that is left behind may still look at: one for each, and for good. */
struct hanging {
    struct io io;
    char at[300]; /* looking for this folder, or the fsync of this one */
    atomic_bool let_go;
    struct lines lines;
    struct stop_flag flag;
    struct tiny t;
};

static void hang(const struct io *io)
{
    while (!((const struct hanging *)io)->let_go)
        usleep(1000);
}

static int hanging_lstat(const struct io *io, const char *path, struct stat *st)
{
    if (!strcmp(path, ((const struct hanging *)io)->at))
        hang(io);
    return io_posix.lstat(&io_posix, path, st);
}

static int hanging_fsync(const struct io *io, int fd)
{
    struct stat a, b;
    if (fstat(fd, &a) == 0 && stat(((const struct hanging *)io)->at, &b) == 0 && a.st_ino == b.st_ino)
        hang(io);
    return 0;
}

/* Waiting ends two seconds after the second signal. The writer that is left behind touches neither the flag nor the
 * listener any more (here they still exist, and would show it), and changes nothing in a folder whose lock is gone. */
static void leave_behind(struct fixture *f, struct hanging *h)
{
    struct ckpt_config config = {
        .io = &h->io, .output_dir = f->dir, .notes = notes_of(&h->lines), .stop = &h->flag, .total_limit = 2};
    struct ckpt_saver *saver;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    char newest[64] = {0};
    h->io = io_posix;
    h->io.lstat = hanging_lstat;
    h->io.fsync = hanging_fsync;
    tiny_run_to(&h->t, 4);
    tiny_tensors(&h->t, tensors);
    json_t *doc = tiny_state(&h->t);
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    json_decref(doc);
    usleep(200000); /* it hangs */
    h->flag.signal = h->flag.again = SIGTERM;
    assert_int_equal(ckpt_save_wait(saver, &err), SNUG_STOPPED);
    ckpt_saver_free(saver);
    h->flag.signal = h->flag.again = 0; /* what comes to lie there says nothing of stopping */
    h->let_go = true;
    while (count_names(f->dir, ".tmp-"))
        usleep(1000);
    usleep(500000);
    assert_int_equal(h->lines.n, 0);
    assert_int_equal(count_names(f->dir, "step-0000000"),
                     !strcmp(h->at, f->dir) ? 4 : 3); /* the oldest is not deleted */
    assert_int_equal(count_names(f->dir, ".tmp-"), 0);
    assert_true(readlink(in(f->dir, "latest"), newest, sizeof newest - 1) > 0);
    assert_string_equal(newest, "step-00000003");
}

/* The writer hangs at folder/NAME; `newest` is the step that is found afterwards. */
static void left_behind_at(struct fixture *f, struct hanging *h, const char *name, int64_t newest)
{
    snprintf(h->at, sizeof h->at, "%s%s", f->dir, name);
    leave_behind(f, h);
    expect_step(f, f->dir, 0, newest);
}

static void left_behind_before_it_writes(void **state)
{
    static struct hanging h;
    left_behind_at(*state, &h, "/step-00000004", 3);
}

static void left_behind_after_the_rename(void **state)
{
    static struct hanging h;
    left_behind_at(*state, &h, "", 4);
}

/* The same files as with a copy, from the caller's own memory, and afterwards a copy can be made again. */
static void saved_in_place(void **state)
{
    struct fixture *f = *state;
    char dir[64];
    struct ckpt_config config = {.io = &f->files.io, .output_dir = dir};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    make_folder(dir);
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    for (int64_t step = 2; step <= 3; step++) {
        tiny_run_to(&t, step);
        tiny_tensors(&t, tensors);
        json_t *doc = tiny_state(&t);
        int (*save)(struct ckpt_saver *, int64_t, int64_t, const struct ckpt_tensor *, size_t, const json_t *,
                    struct snug_err *) = step == 2 ? ckpt_save_in_place : ckpt_save_begin;
        assert_int_equal(save(saver, step, -1, tensors, TINY_TENSORS, doc, &err), 0);
        assert_true(step == 3 || !ckpt_save_busy(saver));
        json_decref(doc);
    }
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    ckpt_saver_free(saver);
    expect_step(f, in(dir, "step-00000002"), 0, 2);
    expect_step(f, in(dir, "step-00000003"), 0, 3);
    static const char *const files[] = {"step-00000002/rank-0000.safetensors", "step-00000002/state.json",
                                        "step-00000002/MANIFEST.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t n, m;
        char *a = read_text(in(dir, files[i]), &n), *b = read_text(in(f->dir, files[i]), &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
    }
    remove_tree(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(training_goes_on),
        TEST(errors_come_back),
        TEST(saved_in_place),
        TEST(second_signal),
        TEST(left_behind_before_it_writes),
        TEST(left_behind_after_the_rename),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
