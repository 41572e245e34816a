/* checkpoint: which steps are kept, names that are taken, and file systems that say one thing and do another. */
#include "fixture.h"

#include <errno.h>

/* Saves steps first..last with one saver. */
static void save_steps(struct fixture *f, int64_t limit, int64_t best, int64_t first, int64_t last)
{
    struct ckpt_config config = {
        .io = &f->files.io, .output_dir = f->dir, .total_limit = limit, .notes = notes_of(&f->lines)};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    tiny_run_to(&t, first);
    tiny_tensors(&t, tensors);
    for (int64_t step = first; step <= last; step++) {
        json_t *doc = tiny_state(&t);
        if (ckpt_save_begin(saver, step, best, tensors, TINY_TENSORS, doc, &err))
            fail_msg("%s", err.text);
        json_decref(doc);
        tiny_step(&t); /* while it is being written */
    }
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    ckpt_saver_free(saver);
}

static bool has_step(struct fixture *f, int step)
{
    char name[32];
    snprintf(name, sizeof name, "step-%08d", step);
    return access(in(f->dir, name), F_OK) == 0;
}

static void retention(void **state)
{
    struct fixture *f = *state;
    save_steps(f, 2, 2, 4, 6); /* 2 is the best */
    assert_true(has_step(f, 2) && has_step(f, 5) && has_step(f, 6));
    assert_int_equal(count_names(f->dir, "step-"), 3);
    assert_int_equal(count_names(f->dir, ".t"), 0);
    assert_int_equal(count_lines(&f->lines, " complete: "), 3);
    assert_int_equal(count_lines(&f->lines, "deleted"), 3);
    expect_step(f, f->dir, 0, 6);
    expect_step(f, in(f->dir, "latest"), 0, 6);

    save_steps(f, 1, -1, 7, 7); /* 1 keeps 2, and says so */
    assert_non_null(line_with(&f->lines, "two are kept"));
    assert_true(has_step(f, 6) && has_step(f, 7));
    assert_int_equal(count_names(f->dir, "step-"), 2);

    save_steps(f, 0, -1, 8, 10); /* 0 keeps all */
    assert_int_equal(count_names(f->dir, "step-"), 5);
}

/* What is not whole, not ours or not of this run's past is neither counted nor deleted. */
static void retention_leaves_the_rest(void **state)
{
    struct fixture *f = *state;
    char path[300];
    file_of(f, 1, "MANIFEST.json", path);
    assert_int_equal(unlink(path), 0);
    file_of(f, 2, "", path);
    write_text(path, "my notes.txt", "keep");
    mkdir(in(f->dir, "step-12abc"), 0777);
    mkdir(in(f->dir, "step-0"), 0777);
    assert_int_equal(symlink("step-00000003", in(f->dir, "step-00000001x")), 0);
    save_tiny(&io_posix, f->dir, 50, notes_of(&f->lines), NULL); /* of a run that was gone back on */
    save_steps(f, 2, -1, 4, 6);
    assert_true(has_step(f, 1) && has_step(f, 2) && has_step(f, 5) && has_step(f, 6) && has_step(f, 50));
    assert_false(has_step(f, 3) || has_step(f, 4));
    assert_int_equal(access(in(f->dir, "step-00000002/my notes.txt"), F_OK), 0);
    assert_int_equal(access(in(f->dir, "step-12abc"), F_OK) | access(in(f->dir, "step-0"), F_OK), 0);
}

/* The final name is taken: the same state, a damaged one, another state, a file. */
static void name_is_taken(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    struct stat before, after;
    assert_int_equal(stat(in(f->dir, "step-00000003/state.json"), &before), 0);
    assert_int_equal(save_tiny(&f->files.io, f->dir, 3, notes_of(&f->lines), &err), 0);
    assert_int_equal(stat(in(f->dir, "step-00000003/state.json"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(f->lines.n, 1);
    assert_non_null(line_with(&f->lines, "already there"));

    char path[300];
    file_of(f, 3, "state.json", path);
    damage(path, 5, 1);
    assert_int_equal(save_tiny(&f->files.io, f->dir, 3, notes_of(&f->lines), &err), 0);
    assert_int_equal(count_names(f->dir, ".bad-step-00000003."), 1);
    expect_step(f, f->dir, 0, 3);

    /* Step 2's files under the name of step 3 with a manifest that says 3 cannot happen by chance; another state of
     * step 3 can: train differently. */
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct ckpt_config config = {.io = &f->files.io, .output_dir = f->dir, .notes = notes_of(&f->lines)};
    struct ckpt_saver *saver;
    tiny_run_to(&t, 3);
    t.bias[3] += 1;
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    assert_int_equal(ckpt_save_begin(saver, 3, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    assert_int_equal(count_names(f->dir, ".bad-step-00000003."), 2);
    char hex[33];
    tiny_hash(&t, hex);
    struct ckpt_found found;
    assert_int_equal(ckpt_find(&io_posix, f->dir, 0, notes_of(&f->lines), &found, &err), 0);
    assert_string_equal(found.state_hash, hex);
    ckpt_found_free(&found);

    write_text(f->dir, "step-00000008", "a file");
    assert_int_equal(ckpt_save_begin(saver, 8, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    assert_int_equal(count_names(f->dir, ".bad-step-00000008."), 1);
    assert_int_equal(count_names(f->dir, "step-00000008"), 1);
    ckpt_saver_free(saver);
    json_decref(doc);

    /* Something of the user's called latest stays. */
    unlink(in(f->dir, "latest"));
    write_text(f->dir, "latest", "mine");
    assert_int_equal(save_tiny(&f->files.io, f->dir, 9, notes_of(&f->lines), &err), 0);
    size_t n;
    char *text = read_text(in(f->dir, "latest"), &n);
    assert_int_equal(n, 4);
    free(text);
}

/* A network file system that renames and then says that there is nothing to rename. */
static void rename_lies(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    f->files.rename_lies = true;
    assert_int_equal(save_tiny(&f->files.io, f->dir, 4, notes_of(&f->lines), &err), 0);
    assert_int_equal(count_lines(&f->lines, "complete"), 1);
    expect_step(f, f->dir, 0, 4);
}

/* Where a network file system says that a write failed: only at close. */
static void close_fails(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    f->files.close_errnum = EDQUOT;
    for (int small = 0; small < 2; small++) { /* each file; state.json alone */
        f->files.close_below = small ? 1000 : 0;
        assert_int_equal(save_tiny(&f->files.io, f->dir, 4, notes_of(&f->lines), &err), SNUG_ERR_IO);
        assert_non_null(strstr(err.text, small ? "state.json: cannot close" : "rank-0000.safetensors: cannot close"));
        assert_int_equal(count_lines(&f->lines, "complete"), 0);
        assert_int_equal(count_names(f->dir, ".tmp-"), 0);
        expect_step(f, f->dir, 0, 3);
    }
}

/* The rename is done and the output folder cannot be synced: it may be lost, so the name is taken back. */
static void output_folder_cannot_be_synced(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    struct stat st;
    assert_int_equal(stat(f->dir, &st), 0);
    f->files.unsyncable = st.st_ino;
    assert_int_equal(save_tiny(&f->files.io, f->dir, 4, notes_of(&f->lines), &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "cannot fsync"));
    assert_int_equal(count_lines(&f->lines, "complete"), 0);
    assert_int_equal(count_names(f->dir, ".tmp-") + count_names(f->dir, ".bad-"), 0);
    assert_int_equal(count_names(f->dir, "step-00000004"), 0);
    expect_step(f, f->dir, 0, 3);
    f->files.unsyncable = 0;
    assert_int_equal(save_tiny(&f->files.io, f->dir, 4, notes_of(&f->lines), &err), 0);
    expect_step(f, f->dir, 0, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(retention),   TEST(retention_leaves_the_rest),      TEST(name_is_taken), TEST(rename_lies),
        TEST(close_fails), TEST(output_folder_cannot_be_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
