/* data/token_cache: the folder of the cache: files of other runs and other users, calls that fail. */
#include "token_cache_help.h"

/* A file with the right key and checksum, but made with longer rows, other labels or other columns: as if two keys had one
 * hash, or somebody gave a file the name of another. */
static void files_of_other_runs_are_found(void **state)
{
    (void)state;
    static char *label_names[] = {"a", "b"}, *other_names[] = {"a", "c"};
    struct label_map given = {.n = 2, .names = label_names}, other = {.n = 2, .names = other_names};
    write_data("text,label\nworld world world world world,b\nice,a\n");
    const struct {
        const char *what;
        int32_t max_length, num_labels;
        const struct label_map *labels;
    } runs[] = {{"shorter rows", 6, 0, NULL}, {"three labels", 8, 3, NULL}, {"other labels", 8, 0, &other}};
    struct columns columns = {.n_labels = 1};
    struct snug_err why;
    struct dataset_options o = options(TASK_CLASS);
    struct dataset made, d;
    char file[512];
    empty_cache();
    made = opened(&io_posix, &o);
    assert_true(cache_file(file, 0));
    struct hash128 key;
    size_t n;
    char *bytes = read_cache(&n);
    memcpy(&key, bytes + 8, sizeof key);
    mem_free(bytes);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct dataset_options run = o;
        run.max_length = runs[i].max_length;
        run.num_labels = runs[i].num_labels;
        run.labels = runs[i].labels;
        if (token_cache_load(&io_posix, file, key, &run, TASK_CLASS, &columns, &d, &why))
            fail_msg("%s: believed", runs[i].what);
        assert_non_null(strstr(why.text, "damaged, or not of this run"));
    }
    o.labels = &given;
    assert_true(token_cache_load(&io_posix, file, key, &o, TASK_CLASS, &columns, &d, &why));
    assert_int_equal(d.n_tokens, made.n_tokens);
    dataset_close(&d);
    dataset_close(&made);
}

static int other_users_fstat(const struct io *io, int fd, struct stat *st)
{
    (void)io;
    int failed = io_posix.fstat(&io_posix, fd, st);
    st->st_uid = geteuid() + 1;
    return failed;
}

static void files_of_other_users_are_not_read(void **state)
{
    (void)state;
    empty_cache();
    write_data("text,label\nworld,b\nice,a\n");
    struct dataset_options o = options(TASK_CLASS);
    struct dataset good = opened(&io_posix, &o);
    struct io io = io_posix;
    io.fstat = other_users_fstat;
    struct dataset d = opened(&io, &o);
    assert_null(d.block);
    assert_non_null(strstr(notes, ".tokens: belongs to another user ("));
    check_same(&good, &d);
    dataset_close(&d);
    dataset_close(&good);
}

static char made_names[2][512];
static int n_made;

static int naming_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    (void)io;
    if (flags & O_CREAT) {
        assert_true(flags & O_EXCL);
        snprintf(made_names[n_made++ % 2], sizeof made_names[0], "%s", path);
    }
    return io_posix.open(&io_posix, path, flags, mode);
}

static void write_old(const char *name, int hours)
{
    char p[512];
    struct snug_err e;
    struct stat now;
    snprintf(p, sizeof p, "%s/%s", cache, name);
    assert_int_equal(io_write_file(&io_posix, p, "x", 1, &e), 0);
    assert_int_equal(stat(p, &now), 0);
    const struct timespec times[2] = {{.tv_sec = now.st_mtim.tv_sec - hours * 3600 - 60},
                                      {.tv_sec = now.st_mtim.tv_sec - hours * 3600 - 60}};
    assert_int_equal(utimensat(AT_FDCWD, p, times, 0), 0);
}

static bool is_there(const char *name)
{
    char p[512];
    snprintf(p, sizeof p, "%s/%s", cache, name);
    return access(p, F_OK) == 0;
}

/* Two stores have two names, which hold the host's; what a dead process left goes after an hour, and nothing else. */
static void temporary_files(void **state)
{
    (void)state;
    char host[256] = "";
    struct dataset_options o = options(TASK_CLASS);
    struct io io = io_posix;
    io.open = naming_open;
    gethostname(host, sizeof host - 1);
    for (int i = 0; i < 2; i++) {
        empty_cache();
        write_data(i ? "text,label\nworld,b\nice,a\n" : "text,label\nworld,b\nice,c\n");
        if (i) {
            write_old("0123.tokens.tmp-77", 1);
            write_old("4567.tokens.tmp-host-77-0123456789abcdef", 30);
            write_old("89ab.tokens.tmp-host-78-0123456789abcdef", 0);
            write_old("cdef.tokens", 30);
            write_old("profile.json", 30);
        }
        struct dataset d = opened(&io, &o);
        dataset_close(&d);
    }
    assert_int_equal(n_made, 2);
    assert_non_null(strstr(made_names[0], host));
    assert_string_not_equal(strstr(made_names[0], ".tmp-"), strstr(made_names[1], ".tmp-"));
    assert_false(is_there("0123.tokens.tmp-77"));
    assert_false(is_there("4567.tokens.tmp-host-77-0123456789abcdef"));
    assert_true(is_there("89ab.tokens.tmp-host-78-0123456789abcdef"));
    assert_true(is_there("cdef.tokens"));
    assert_true(is_there("profile.json"));
}

struct failing {
    int calls, fail_at;
};

static bool fails(const struct io *io)
{
    struct failing *f = io->ctx;
    errno = EIO;
    return f->calls++ == f->fail_at;
}

static int failing_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    return fails(io) ? -1 : io_posix.open(&io_posix, path, flags, mode);
}

static ssize_t failing_pread(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    return fails(io) ? -1 : io_posix.pread(&io_posix, fd, buf, bytes, at);
}

static ssize_t failing_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    return fails(io) ? -1 : io_posix.pwrite(&io_posix, fd, buf, bytes, at);
}

static int failing_fstat(const struct io *io, int fd, struct stat *st)
{
    return fails(io) ? -1 : io_posix.fstat(&io_posix, fd, st);
}

static int failing_rename(const struct io *io, const char *from, const char *to)
{
    return fails(io) ? -1 : io_posix.rename(&io_posix, from, to);
}

static int failing_mkdir(const struct io *io, const char *path, mode_t mode)
{
    return fails(io) ? -1 : io_posix.mkdir(&io_posix, path, mode);
}

/* Every file call fails once, without and with a cache file: the data are right, or the data file itself could not be
 * read, which is an error; never half a cache. */
static void files_fail(void **state)
{
    (void)state;
    write_data("text,label\nworld,b\nice,a\n");
    struct dataset_options o = options(TASK_CLASS), uncached = o;
    uncached.cache_dir = "";
    struct dataset good = opened(&io_posix, &uncached);
    for (int warm = 0; warm < 2; warm++) {
        struct failing f = {0};
        bool failed = true;
        for (; failed; f.fail_at++) {
            struct io io = io_posix;
            io.open = failing_open;
            io.pread = failing_pread;
            io.pwrite = failing_pwrite;
            io.fstat = failing_fstat;
            io.rename = failing_rename;
            io.mkdir = failing_mkdir;
            io.ctx = &f;
            empty_cache();
            struct dataset d;
            if (warm) {
                d = opened(&io_posix, &o);
                dataset_close(&d);
            }
            f.calls = 0;
            struct snug_err e;
            int code = dataset_open(&io, &o, &d, &e);
            failed = f.calls > f.fail_at;
            assert_true(code == 0 || (code == SNUG_ERR_IO && strstr(e.text, data)));
            if (!code) {
                check_same(&good, &d);
                dataset_close(&d);
            }
            d = opened(&io_posix, &o);
            assert_null(strstr(notes, "made again"));
            check_same(&good, &d);
            dataset_close(&d);
        }
        assert_in_range(f.fail_at, warm ? 8 : 15, 60);
    }
    dataset_close(&good);
}

static void no_place_for_a_cache(void **state)
{
    (void)state;
    struct dataset_options o = options(TASK_CLASS);
    o.cache_dir = "/proc/snug/cache";
    write_data("text,label\nworld,b\nice,a\n");
    struct dataset d = opened(&io_posix, &o);
    assert_non_null(strstr(notes, "the token cache is not kept: /proc/snug: cannot create the folder"));
    dataset_close(&d);
}

static void default_folder(void **state)
{
    (void)state;
    struct str s = {0};
    setenv("XDG_CACHE_HOME", "/x/y", 1);
    setenv("HOME", "/home/me", 1);
    assert_int_equal(cache_dir(NULL, &s, NULL), 0);
    assert_string_equal(str_text(&s), "/x/y/snug");
    str_free(&s);
    setenv("XDG_CACHE_HOME", "relative", 1);
    cache_dir(NULL, &s, NULL);
    assert_string_equal(str_text(&s), "/home/me/.cache/snug");
    str_free(&s);
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    cache_dir(NULL, &s, NULL);
    assert_string_equal(str_text(&s), "");
    str_free(&s);
    cache_dir("/given", &s, NULL);
    assert_string_equal(str_text(&s), "/given");
    str_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_other_runs_are_found),
        cmocka_unit_test(files_of_other_users_are_not_read),
        cmocka_unit_test(temporary_files),
        cmocka_unit_test(files_fail),
        cmocka_unit_test(no_place_for_a_cache),
        cmocka_unit_test(default_folder),
    };
    return cmocka_run_group_tests_name("token_cache_files", tests, set_up, tear_down);
}
