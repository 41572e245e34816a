#include "fixture.h"

int fixture_open(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    make_folder(f->dir);
    faulty_init(&f->files);
    for (int64_t step = 1; step <= 3; step++)
        if (save_tiny(&f->files.io, f->dir, step, notes_of(&f->lines), NULL))
            return 1;
    *state = f;
    return 0;
}

int fixture_close(void **state)
{
    struct fixture *f = *state;
    remove_tree(f->dir);
    free(f);
    return 0;
}

void file_of(struct fixture *f, int step, const char *name, char path[300])
{
    snprintf(path, 300, "%s/step-%08d/%s", f->dir, step, name);
}

void expect_step(struct fixture *f, const char *from, int flags, int64_t step)
{
    struct ckpt_found found;
    struct snug_err err = {0};
    if (ckpt_find(&io_posix, from, flags, notes_of(&f->lines), &found, &err))
        fail_msg("%s", err.text);
    assert_non_null(found.path);
    assert_int_equal(found.step, step);
    assert_int_equal(found.n_files, 3);
    assert_loads(&found);
    ckpt_found_free(&found);
}

void damage(const char *path, long at, size_t bytes)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    while (bytes--)
        fputc(0, file);
    fclose(file);
}
