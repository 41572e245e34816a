/* An event file against that of tensorboard's own classes (events.py), byte for byte; and writes that fail. */
#include "output/tensorboard.h"

#include "../folder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The lines of events.py's EVENTS, as log.jsonl has them. */
#define LONG                                                                                                           \
    "eval_a very long name of a metric of a metric of a metric of a metric of a metric of a metric of a metric of a "  \
    "metric of a metric of a metric of a metric of a metric"
static const struct {
    double time;
    const char *json;
} lines[] = {
    {1763805607.25,
     "{\"step\": 10, \"epoch\": 0.5, \"loss\": 0.6931471806, \"grad_norm\": 2.5, \"learning_rate\": 4.5e-05}\n"},
    {1763805608.5, "{\"step\": 10, \"eval_loss\": 0.25, \"eval_accuracy\": 1, \"eval_f1\": 0}\n"},
    {1763805609.0, "{\"step\": 300, \"loss\": \"NaN\", \"grad_norm\": \"Infinity\", \"memory\": 123456789, "
                   "\"state_hash\": \"0123\"}\n"},
    {1763805610.0, "{\"step\": 5000000000, \"loss\": \"-Infinity\", \"" LONG "\": -0.1}\n"},
};
enum { N_LINES = sizeof lines / sizeof *lines };

static void count_note(void *ctx, const char *line)
{
    assert_non_null(strstr(line, "events.out.tfevents."));
    ++*(int *)ctx;
}

static struct tensorboard opened(const struct io *io, const char *dir, int *notes)
{
    struct tensorboard t;
    struct snug_err err;
    if (tensorboard_open(&t, io, dir, 1763805600.5, 7, count_note, notes, &err))
        fail_msg("%s", err.text);
    return t;
}

static void assert_recorded(const char *path)
{
    char recorded[512];
    snprintf(recorded, sizeof recorded, "%s/tests/output/events.bin", getenv("SNUG_SOURCE"));
    assert_true(same_bytes(path, recorded));
}

static void bytes_are_those_of_tensorboard(void **state)
{
    (void)state;
    char dir[128], path[512];
    snprintf(dir, sizeof dir, "%s/a/runs/now", folder);
    struct tensorboard t = opened(&io_posix, dir, NULL);
    snprintf(path, sizeof path, "%s", t.path);
    for (int i = 0; i < N_LINES; i++)
        tensorboard_line(&t, lines[i].time, lines[i].json);
    tensorboard_close(&t);
    assert_recorded(path);
}

static void each_file_has_a_name_of_its_own(void **state)
{
    (void)state;
    struct tensorboard a = opened(&io_posix, folder, NULL), b = opened(&io_posix, folder, NULL);
    char name[80], path[512];
    assert_string_not_equal(a.path, b.path);
    snprintf(path, sizeof path, "%s", b.path);
    tensorboard_close(&a);
    tensorboard_remove(&b);
    assert_false(io_exists(&io_posix, path));
    tensorboard_run_name(1763805600.5, name);
    assert_non_null(strstr(name, "Nov2"));
    assert_null(strchr(name, '/'));
}

/* Fails so many times, having written a part. */
static ssize_t failing_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    int *left = io->ctx;
    if (*left == 0)
        return io_posix.pwrite(&io_posix, fd, buf, bytes, at);
    --*left;
    assert_true(io_posix.pwrite(&io_posix, fd, buf, bytes / 2, at) >= 0);
    errno = ENOSPC;
    return -1;
}

/* Told of once; with the next line that can be written, or at the end, everything is there. */
static void what_fails_is_written_later(void **state)
{
    (void)state;
    for (int first = 0; first < N_LINES; first++)
        for (int times = 1; times <= N_LINES - first; times++) {
            int left = 0, notes = 0;
            struct io io = io_posix;
            char dir[128], path[512];
            io.pwrite = failing_pwrite;
            io.ctx = &left;
            snprintf(dir, sizeof dir, "%s/failing", folder);
            struct tensorboard t = opened(&io, dir, &notes);
            snprintf(path, sizeof path, "%s", t.path);
            for (int i = 0; i < N_LINES; i++) {
                left = i == first ? times : left;
                tensorboard_line(&t, lines[i].time, lines[i].json);
            }
            assert_int_equal(left, 0);
            assert_int_equal(notes, 1);
            tensorboard_close(&t);
            assert_recorded(path);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_those_of_tensorboard),
                                       cmocka_unit_test(each_file_has_a_name_of_its_own),
                                       cmocka_unit_test(what_fails_is_written_later)};
    return cmocka_run_group_tests_name("tensorboard", tests, open_folder, close_folder);
}
