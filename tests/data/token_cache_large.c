/* data/token_cache, of data that are too large for memory: the cache's file is mapped, and what is made of it is what memory would have;
 * memory stays small meanwhile; a full disk, a process that is killed and processes that do the same leave nothing wrong. */
#include "token_cache_help.h"

#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const struct {
    enum data_task task;
    const char *header, *row; /* the row's number is its text */
    int32_t block_size;
} kinds[] = {
    {TASK_CLASS, "text,label\n", "world %d ice,%d\n", 0},
    {TASK_CLASS, "sentence1,sentence2,label\n", "world %d,ice,%d\n", 0},
    {TASK_REGRESSION, "text,label\n", "world %d,%d\n", 0},
    {TASK_CAUSAL_LM, "text\n", "world %d cream %d ice\n", 0},
    {TASK_CAUSAL_LM, "text\n", "world %d cream %d ice\n", 64},
    {TASK_SEQ2SEQ, "source,target\n", "world %d,ice %d\n", 0},
};

static void write_rows(size_t kind, int rows)
{
    struct str s = {0};
    str_append(&s, kinds[kind].header);
    for (int i = 0; i < rows; i++) {
        char line[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(line, sizeof line, kinds[kind].row, i % 977, i % 2);
#pragma GCC diagnostic pop
        str_append(&s, line);
    }
    assert_false(s.failed);
    write_data(s.s);
    str_free(&s);
}

static struct dataset_options options_of(size_t kind, int64_t in_memory)
{
    struct dataset_options o = options(kinds[kind].task);
    o.in_memory = in_memory;
    o.block_size = kinds[kind].block_size;
    o.max_length = o.block_size ? o.block_size : o.max_length;
    o.max_target_length = 8;
    return o;
}

/* 20,000 rows are two blocks of the reader. */
static void mapped_is_as_in_memory(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        empty_cache();
        write_rows(k, 20000);
        struct dataset_options o = options_of(k, 1), uncached = options_of(k, 0);
        uncached.cache_dir = "";
        struct dataset memory = opened(&io_posix, &uncached), first = opened(&io_posix, &o),
                       second = opened(&io_posix, &o);
        char path[512];
        assert_int_equal(memory.files.n_maps, 0);
        assert_int_equal(first.files.n_maps, 1); /* the cache's file already, not those that it was made of */
        assert_int_equal(second.files.n_maps, 1);
        assert_true(cache_file(path, 0));
        assert_false(cache_file(path, 1));
        unlink(path); /* what is mapped stays */
        check_same(&memory, &first);
        check_same(&memory, &second);
        dataset_close(&memory);
        dataset_close(&first);
        dataset_close(&second);
    }
}

static void damage_is_found(void **state)
{
    (void)state;
    empty_cache();
    write_rows(0, 2000);
    struct dataset_options o = options_of(0, 1);
    struct dataset good = opened(&io_posix, &o);
    size_t n;
    char *bytes = read_cache(&n);
    for (size_t i = 0; i < n; i += n / 23) {
        char *bad = malloc(n);
        memcpy(bad, bytes, n);
        bad[i] ^= 4;
        write_cache(bad, i % 2 ? n : n - 1);
        struct dataset d = opened(&io_posix, &o);
        assert_non_null(strstr(notes, "the token cache is made again: "));
        check_same(&good, &d);
        dataset_close(&d);
        free(bad);
    }
    mem_free(bytes);
    dataset_close(&good);
}

/* ---- memory ---- */

static struct {
    struct mem_ops ops;
    size_t now, most;
} counted;

/* Called by several threads. */
static void *counting_realloc(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    size_t before = p ? malloc_usable_size(p) : 0;
    void *q = realloc(p, bytes);
    size_t now = __atomic_add_fetch(&counted.now, malloc_usable_size(q) - before, __ATOMIC_RELAXED);
    if (now > counted.most)
        counted.most = now;
    return q;
}

static void counting_free(void *ctx, void *p)
{
    (void)ctx;
    __atomic_sub_fetch(&counted.now, malloc_usable_size(p), __ATOMIC_RELAXED);
    free(p);
}

static size_t most_memory(int64_t in_memory, int64_t *n_tokens)
{
    counted.ops = (struct mem_ops){.realloc = counting_realloc, .free = counting_free};
    counted.now = counted.most = 0;
    mem_set_ops(&counted.ops);
    struct dataset_options o = options_of(3, in_memory);
    struct dataset d = opened(&io_posix, &o);
    *n_tokens = d.n_tokens;
    dataset_close(&d);
    mem_set_ops(NULL);
    return counted.most;
}

/* Tokens of 400,000 rows take 16 MB and more, made or recalled, where they stay in memory; else a few blocks of rows. */
static void memory_stays_small(void **state)
{
    (void)state;
    int64_t n;
    write_rows(3, 400000);
    for (int warm = 0; warm < 2; warm++) {
        if (!warm)
            empty_cache();
        size_t most = most_memory((int64_t)1 << 40, &n);
        assert_in_range(most, 4 * n, 64 * n);
        if (!warm)
            empty_cache();
        most = most_memory(1 << 20, &n);
        assert_true(4 * n > 10 << 20);
        assert_in_range(most, 1, 8 << 20);
    }
}

/* ---- what goes wrong ---- */

static void a_limit_of_file_sizes_is_said(void **state)
{
    (void)state;
    struct rlimit before, small;
    struct dataset_options o = options_of(3, 1);
    struct dataset d;
    struct snug_err e;
    empty_cache();
    write_rows(3, 20000);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &small);
    notes[0] = 0;
    int code = dataset_open(&io_posix, &o, &d, &e);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(code, SNUG_ERR_IO);
    assert_non_null(strstr(e.text, "cache: cannot write: File too large; give --cache-dir a folder with more room"));
    assert_int_equal(rmdir(cache), 0); /* nothing is left there */
}

static void no_folder_is_no_error(void **state)
{
    (void)state;
    write_rows(0, 2000);
    struct dataset_options o = options_of(0, 1), uncached = o;
    o.cache_dir = "/proc/snug/cache";
    uncached.cache_dir = "";
    struct dataset memory = opened(&io_posix, &uncached), d = opened(&io_posix, &o);
    assert_non_null(strstr(notes, "all tokens stay in memory: /proc/snug: cannot create the folder"));
    assert_int_equal(d.files.n_maps, 0);
    check_same(&memory, &d);
    dataset_close(&memory);
    dataset_close(&d);
}

/* 0: only this process's result. */
static int open_in_child(const struct io *io, const struct dataset *good)
{
    struct dataset_options o = options_of(0, 1);
    struct dataset d;
    struct snug_err e;
    if (dataset_open(io, &o, &d, &e))
        return 1;
    int code = memcmp(d.ids, good->ids, (size_t)d.n_tokens * sizeof *d.ids) ? 2 : d.files.n_maps != 1 ? 3 : 0;
    dataset_close(&d);
    return code;
}

static void processes_at_once_do_no_harm(void **state)
{
    (void)state;
    pid_t children[4];
    empty_cache();
    write_rows(0, 20000);
    struct dataset_options o = options_of(0, 1), uncached = o;
    uncached.cache_dir = "";
    struct dataset good = opened(&io_posix, &uncached);
    for (int i = 0; i < 4; i++)
        if (!(children[i] = fork()))
            _exit(open_in_child(&io_posix, &good));
    for (int i = 0; i < 4; i++) {
        int status;
        waitpid(children[i], &status, 0);
        assert_int_equal(status, 0);
    }
    char path[512];
    assert_true(cache_file(path, 0));
    assert_false(cache_file(path, 1));
    struct dataset d = opened(&io_posix, &o);
    assert_null(strstr(notes, "made again"));
    check_same(&good, &d);
    dataset_close(&d);
    dataset_close(&good);
}

static int calls, kill_at;

static ssize_t killing_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    if (calls++ == kill_at)
        raise(SIGKILL);
    return io_posix.pwrite(io, fd, buf, bytes, at);
}

/* At any write: no file that a run would take for a cache, and, until the cache's own file is written, no file at all. */
static void killed_processes_leave_no_half_cache(void **state)
{
    (void)state;
    int status = 1, empty = 0;
    write_rows(0, 20000);
    struct dataset_options o = options_of(0, 1), uncached = o;
    uncached.cache_dir = "";
    struct dataset good = opened(&io_posix, &uncached);
    for (kill_at = 0; status; kill_at++) {
        struct io io = io_posix;
        io.pwrite = killing_pwrite;
        empty_cache();
        pid_t child = fork();
        if (!child)
            _exit(open_in_child(&io, &good));
        waitpid(child, &status, 0);
        char path[512];
        if (status)
            assert_int_equal(WTERMSIG(status), SIGKILL);
        if (status && cache_file(path, 0))
            assert_non_null(strstr(path, ".tokens.tmp-"));
        else
            empty++;
        struct dataset d = opened(&io_posix, &o);
        assert_null(strstr(notes, "made again"));
        check_same(&good, &d);
        dataset_close(&d);
    }
    assert_in_range(kill_at, 7, 100);
    assert_true(empty >= 5); /* two pieces of two arrays, and the run that was not killed */
    dataset_close(&good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_is_as_in_memory),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(memory_stays_small),
        cmocka_unit_test(a_limit_of_file_sizes_is_said),
        cmocka_unit_test(no_folder_is_no_error),
        cmocka_unit_test(processes_at_once_do_no_harm),
        cmocka_unit_test(killed_processes_leave_no_half_cache),
    };
    return cmocka_run_group_tests_name("token_cache_large", tests, set_up, tear_down);
}
