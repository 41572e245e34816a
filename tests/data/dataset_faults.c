/* data/dataset: memory runs out at any allocation, and a signal or a change comes at any read. */
#include "../failing_memory.h"
#include "dataset_help.h"

#include <fcntl.h>

/* Every allocation fails once, in this thread or another: code 4, or nobody notices; and nothing leaks. */
static void memory_runs_out(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"m.csv", "sentence1,sentence2,label\nworld,ice,b\ncream,un,a\n"},
        {"m.jsonl", "{\"text\":\"world\",\"labels\":[\"b\",\"a\"]}\n{\"text\":\"ice\",\"labels\":[]}\n"},
        {"m.json", "[{\"text\":\"world\",\"labels\":[1,0]},{\"text\":\"ice\",\"labels\":[0,1]}]"},
        {"m.safetensors", NULL},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i][1])
            write_data(files[i][0], files[i][1]);
        else
            write_tensors(files[i][0],
                          (struct tensor_spec[]){ids_spec, mask_spec, {"labels", DT_I64, 1, {2}, classes_2}}, 3);
        struct dataset_options o = options(i == 1 || i == 2 ? TASK_MULTI_LABEL : TASK_CLASS);
        bool failed = true;
        long k = 1, errors = 0;
        for (; failed && k <= 500; k++) {
            struct snug_err e = {0};
            struct dataset d;
            struct failing_memory memory;
            failing_memory_set(&memory, k, false);
            int code = dataset_open(&io_posix, &o, &d, &e);
            if (!code)
                dataset_close(&d);
            errors += code != 0;
            mem_set_ops(NULL);
            failed = failing_memory_hit(&memory);
            /* notes and giving back spare memory may fail unseen */
            if (code != 0 && (code != SNUG_ERR_ENV || !failed))
                fail_msg("%s, allocation %ld: code %d '%s'", files[i][0], k, code, e.text);
        }
        assert_in_range(k, 15, 200);
        assert_true(errors > k - 12);
    }
}

static struct {
    struct stop_flag flag;
    int reads, stop_at;
} asking;

static ssize_t asking_pread(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    if (asking.reads++ == asking.stop_at)
        asking.flag.signal = 2;
    return io_posix.pread(io, fd, buf, bytes, at);
}

/* Opens the data with a request to stop at the first read, the second and so on: how many of them are heeded. */
static int count_stops(struct dataset_options *o)
{
    struct io io = io_posix;
    io.pread = asking_pread;
    o->stop = &asking.flag;
    int stops = 0;
    for (bool stopped = true; stopped; stops += stopped) {
        struct dataset d;
        struct snug_err e;
        asking.flag.signal = 0;
        asking.reads = 0;
        asking.stop_at = stops;
        int code = dataset_open(&io, o, &d, &e);
        stopped = code == SNUG_STOPPED;
        if (!stopped && code)
            fail_msg("%s", e.text);
        if (!code)
            dataset_close(&d);
        assert_true(!stopped || strstr(e.text, ": stopped by a signal"));
        if (stopped)
            assert_int_equal(access(o->cache_dir, F_OK) == 0 ? rmdir(o->cache_dir) : 0, 0); /* empty, if it is there */
    }
    return stops;
}

/* At any read of the file, to hash it or for its rows: an end at once, and no cache file, whole or half. */
static void stops_when_asked(void **state)
{
    (void)state;
    static char content[5 << 20];
    size_t n = (size_t)sprintf(content, "text,label\n");
    for (int i = 0; n < sizeof content - 64; i++)
        n += (size_t)sprintf(content + n, "world ice %d,%s\n", i % 1000, i % 2 ? "a" : "b");
    write_file("asked.csv", content, n);
    char cache[160];
    snprintf(cache, sizeof cache, "%s/cache-asked", dir);
    struct dataset_options o = options(TASK_CLASS);
    o.cache_dir = cache;
    o.threads = 2;
    assert_in_range(count_stops(&o), 10, 400); /* pieces of the file, twice */
    o.cache_dir = "";
    write_tensors("asked.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_I64, 1, {2}, classes_2}}, 2);
    assert_int_equal(count_stops(&o), 5); /* the header twice, the hash, two rows; the labels are the end */
    o.path = "synthetic:2x4";
    o.vocab_size = 9;
    asking.flag.signal = 2;
    struct dataset d;
    struct snug_err e;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_STOPPED);
}

/* Another program writes one label between the reads: what was read is of no file that ever was. */
static int changing_reads;

static ssize_t changing_pread(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    if (changing_reads-- == 0) {
        int to = open(path, O_WRONLY);
        assert_int_equal(pwrite(to, &(int64_t){1}, 8, lseek(to, -8, SEEK_END)), 8);
        close(to);
    }
    return io_posix.pread(io, fd, buf, bytes, at);
}

static void changes_are_noticed(void **state)
{
    (void)state;
    struct io io = io_posix;
    io.pread = changing_pread;
    struct dataset_options o = options(TASK_CLASS);
    int changes = 0;
    for (bool changed = true; changed; changes += changed) {
        write_tensors("changing.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_I64, 1, {2}, classes_2}},
                      2);
        const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
        assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
        struct dataset d;
        struct snug_err e;
        changing_reads = changes;
        int code = dataset_open(&io, &o, &d, &e);
        changed = changing_reads < 0;
        assert_int_equal(code, changed ? SNUG_ERR_IO : SNUG_OK);
        if (code)
            assert_non_null(strstr(e.text, "changing.safetensors: changed while it was read"));
        else
            dataset_close(&d);
    }
    assert_int_equal(changes, 6); /* the header twice, the hash, two rows, the labels */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_when_asked),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(changes_are_noticed),
    };
    return cmocka_run_group_tests_name("dataset_faults", tests, set_up, tear_down);
}
