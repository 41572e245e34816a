/* output/log: what is left of a log after a crash, and lines that could not be written. */
#include "output/log.h"

#include "../folder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#define ONE "{\"step\": 1}\n"
#define TWO "{\"step\": 2}\n"
#define THREE "{\"step\": 3}\n"

static char said[2000];
static bool full; /* the disk: half of a write is made, then it fails */

static void note(void *ctx, const char *line)
{
    (void)ctx;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static ssize_t write_or_not(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    (void)io;
    if (!full)
        return pwrite(fd, buf, bytes, at);
    if (bytes < 4096 && pwrite(fd, buf, bytes / 2, at) < 0)
        return -1;
    errno = ENOSPC;
    return -1;
}

static struct io files(void)
{
    struct io io = io_posix;
    io.pwrite = write_or_not;
    return io;
}

static char *log_path(void)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    return path;
}

static void put(const char *bytes, size_t n)
{
    FILE *f = fopen(log_path(), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void expect(const char *text)
{
    size_t n;
    char *is = read_text(log_path(), &n);
    assert_int_equal(n, strlen(text));
    assert_string_equal(is, text);
    free(is);
}

static void open_log(struct run_log *l, const struct io *io, int64_t keep)
{
    struct snug_err err;
    said[0] = 0;
    if (log_open(l, io, folder, keep, note, NULL, &err))
        fail_msg("%s", err.text);
}

/* What is behind the checkpoint goes; of a torn line nothing stays; what is missing is said. */
static void cut_to_the_checkpoint(void **state)
{
    (void)state;
    const struct {
        const char *has;
        size_t bytes;
        int64_t keep;
        const char *left;
        bool gap;
    } rows[] = {{ONE TWO THREE, 36, 24, ONE TWO, false},
                {ONE TWO, 24, 24, ONE TWO, false},
                {ONE TWO, 24, 0, "", false},
                {ONE "{\"st", 16, 24, ONE, true},       /* torn */
                {ONE TWO THREE, 36, 30, ONE TWO, true}, /* the checkpoint says what cannot be: a whole line less */
                {ONE "\0\0\0\0\0\0\0\0\0\0\0\n", 24, 24, ONE, true}, /* its size was on the disk, its bytes were not */
                {"", 0, 24, "", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run_log l;
        char after[300];
        put(rows[i].has, rows[i].bytes);
        open_log(&l, &io_posix, rows[i].keep);
        log_line(&l, THREE);
        log_close(&l);
        snprintf(after, sizeof after, "%s" THREE, rows[i].left);
        expect(after);
        snprintf(after, sizeof after,
                 "%s: has a gap: the checkpoint was saved behind %d bytes, of which %zu are left\n", log_path(),
                 (int)rows[i].keep, strlen(rows[i].left));
        assert_string_equal(said, rows[i].gap ? after : "");
    }
}

static void lines_that_come_late(void **state)
{
    (void)state;
    struct run_log l;
    struct io io = files();
    put("", 0);
    open_log(&l, &io, 0);
    log_line(&l, ONE);
    full = true;
    log_line(&l, TWO);
    assert_int_equal(l.missing, 1);
    assert_int_equal(l.bytes, strlen(ONE)); /* what a checkpoint would record: whole lines */
    log_line(&l, THREE);
    assert_int_equal(l.missing, 2);
    assert_non_null(strstr(said, "No space left on device; it is tried again with the next line\n"));
    full = false;
    said[0] = 0;
    log_line(&l, ONE);
    assert_int_equal(l.missing, 0);
    expect(ONE TWO THREE ONE);
    assert_non_null(strstr(said, "can be written again; 2 lines came late"));
    full = true;
    log_line(&l, TWO);
    log_flush(&l);
    assert_int_equal(l.missing, 1);
    log_close(&l); /* half a line was there */
    expect(ONE TWO THREE ONE);
    full = false;
}

/* On a disk that stays full for days the lines that wait do not take the memory. */
static void only_so_much_waits(void **state)
{
    (void)state;
    struct run_log l;
    struct io io = files();
    enum { LINES = 100000 };
    put("", 0);
    open_log(&l, &io, 0);
    full = true;
    for (int i = 0; i < LINES; i++)
        log_line(&l, ONE);
    assert_int_equal(l.missing, LINES);
    assert_true(l.waiting.n <= 1 << 20);
    full = false;
    log_flush(&l);
    assert_int_equal(l.missing, LINES - l.bytes / (int64_t)strlen(ONE));
    log_close(&l);
}

static void whose_it_is(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ours;
    } rows[] = {{"", true},
                {"{\"step\": 5, \"epoch\": 0.5, \"loss\": 1, \"samples_per_second\": 3}\n", true},
                {"{\"step\": 0, \"epoch\": 0, \"eval_loss\": 1, \"eval_runtime\": 3}\nanything", true},
                {"{\"step\": 5, \"ep", true}, /* torn */
                {"{\"st", true},
                {"{\"step\": 5, \"epoch\": 0.5, \"loss\": 1}\n", false}, /* another program's */
                {"{\"loss\": 5}\n", false},
                {"text\n", false},
                {"\n", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(rows[i].text, strlen(rows[i].text));
        if (log_is_ours(&io_posix, log_path()) != rows[i].ours)
            fail_msg("%s", rows[i].text);
    }
}

static void links_are_not_followed(void **state)
{
    (void)state;
    struct run_log l;
    struct snug_err err;
    char target[100];
    snprintf(target, sizeof target, "%s/target", folder);
    put(ONE, strlen(ONE));
    assert_int_equal(rename(log_path(), target), 0);
    assert_int_equal(symlink("target", log_path()), 0);
    assert_int_equal(log_open(&l, &io_posix, folder, 0, note, NULL, &err), SNUG_ERR_IO);
    log_close(&l);
    assert_int_equal(unlink(log_path()), 0);
    assert_int_equal(rename(target, log_path()), 0);
    expect(ONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_to_the_checkpoint),  cmocka_unit_test(lines_that_come_late),
        cmocka_unit_test(only_so_much_waits),     cmocka_unit_test(whose_it_is),
        cmocka_unit_test(links_are_not_followed),
    };
    return cmocka_run_group_tests_name("log", tests, open_folder, close_folder);
}
