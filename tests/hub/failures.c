/* What fails on this machine while something is downloaded, a hub that is busy or has moved on, and the command. */
#include "../failing_memory.h"
#include "cli/downloads/downloads.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whatever happens, a file under its final name is whole, and the next download is good. */
static void expect_good_next(struct world *w)
{
    if (io_exists(&io_posix, at(w, CACHE "/blobs/" WEIGHTS_TAG)))
        expect_bytes(at(w, CACHE "/blobs/" WEIGHTS_TAG), weights, WEIGHTS);
    if (io_exists(&io_posix, at(w, CACHE "/snapshots/" COMMIT "/model.safetensors")))
        expect_bytes(at(w, CACHE "/snapshots/" COMMIT "/config.json"), CONFIG_TEXT, CONFIG);
    w->io = io_posix;
    expect(w, 0, "");
    expect_model(w);
    remove_tree(at(w, CACHE));
    remove_tree(at(w, ".locks"));
}

static void test_no_memory(void **state)
{
    (void)state;
    struct world w;
    struct failing_memory m;
    open_world(&w);
    write_text(w.cache, "token", "hf_secret");
    long k = 1;
    for (bool failed = true; failed; k++) {
        failing_memory_set(&m, k, k % 2);
        int code = get(&w, "org/model", HUB_MODEL);
        failed = m.calls >= k;
        arena_free(&w.arena);
        mem_set_ops(NULL);
        if (code && code != SNUG_ERR_ENV)
            fail_msg("allocation %ld: %d, %s", k, code, w.err.text);
        assert_true(failed || !code);
        expect_good_next(&w);
        arena_free(&w.arena);
    }
    assert_true(k > 30);
    assert_int_equal(w.server.leaked, 0);
    close_world(&w);
}

/* Calls that change something, or read what was written. */
static int calls, fail_call;
static int fault(int errnum)
{
    if (++calls != fail_call)
        return 0;
    errno = errnum;
    return 1;
}

static int bad_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    (void)io;
    return fault(EACCES) ? -1 : io_posix.open(&io_posix, path, flags, mode);
}

static ssize_t bad_pwrite(const struct io *io, int fd, const void *bytes, size_t n, off_t to)
{
    (void)io;
    return fault(ENOSPC) ? -1 : io_posix.pwrite(&io_posix, fd, bytes, n > 9000 ? 9000 : n, to);
}

static ssize_t bad_pread(const struct io *io, int fd, void *bytes, size_t n, off_t from)
{
    (void)io;
    return fault(EIO) ? -1 : io_posix.pread(&io_posix, fd, bytes, n, from);
}

static int bad_fsync(const struct io *io, int fd)
{
    (void)io;
    return fault(EIO) ? -1 : io_posix.fsync(&io_posix, fd);
}

static int bad_rename(const struct io *io, const char *from, const char *to)
{
    (void)io;
    return fault(EIO) ? -1 : io_posix.rename(&io_posix, from, to);
}

static int bad_mkdir(const struct io *io, const char *path, mode_t mode)
{
    (void)io;
    return fault(ENOSPC) ? -1 : io_posix.mkdir(&io_posix, path, mode);
}

static int bad_symlink(const struct io *io, const char *target, const char *path)
{
    (void)io;
    return fault(EPERM) ? -1 : io_posix.symlink(&io_posix, target, path);
}

static int bad_close(const struct io *io, int fd)
{
    (void)io;
    int code = io_posix.close(&io_posix, fd);
    return fault(EIO) ? -1 : code;
}

static void test_bad_calls(void **state)
{
    (void)state;
    struct world w;
    int refused = 0;
    open_world(&w);
    fail_call = 0;
    do {
        w.io.open = bad_open;
        w.io.pwrite = bad_pwrite;
        w.io.pread = bad_pread;
        w.io.fsync = bad_fsync;
        w.io.rename = bad_rename;
        w.io.mkdir = bad_mkdir;
        w.io.symlink = bad_symlink;
        w.io.close = bad_close;
        calls = 0;
        fail_call++;
        int code = get(&w, "org/model", HUB_MODEL);
        if (code && (code != SNUG_ERR_IO || !w.err.text[0]))
            fail_msg("call %d: %d, %s", fail_call, code, w.err.text);
        refused += code != 0;
        expect_good_next(&w);
    } while (calls >= fail_call);
    assert_true(refused > 30);
    close_world(&w);
}

static void test_rate_limit(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    w.server.status = 429;
    w.server.times = 1;
    w.server.window = 1;
    expect(&w, 0, "");
    assert_non_null(strstr(w.notes, "answers with status 429; asking again in 1 s\n"));
    w.server.times = 2;
    w.server.window = 3000;
    expect(&w, 0, "");
    assert_non_null(strstr(w.notes, " does not answer; taking what the cache has"));
    remove_tree(at(&w, CACHE));
    expect(&w, SNUG_ERR_IO, "org/model: HUB takes no more requests for 3000 s (429); come back then, or set HF_TOKEN");
    close_world(&w);
}

/* The hub sends from the old name to the new one, by paths on its own host: there the token goes along. */
static void test_renamed(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    setenv("HF_TOKEN", "hf_secret", 1);
    w.server.old_name = "was/called";
    assert_int_equal(get(&w, "was/called", HUB_MODEL), 0);
    expect_bytes(in(w.paths[0], "model.safetensors"), weights, WEIGHTS);
    assert_non_null(strstr(w.paths[0], "/models--was--called/snapshots/" COMMIT));
    assert_int_equal(w.server.tokens, 2 * 7);
    w.server.old_name = "plain"; /* as gpt2 leads to openai-community/gpt2 */
    assert_int_equal(get(&w, "plain", HUB_MODEL), 0);
    expect_bytes(in(w.paths[0], "model.safetensors"), weights, WEIGHTS);
    assert_non_null(strstr(w.paths[0], "/models--plain/snapshots/" COMMIT));
    assert_int_equal(w.server.leaked, 0);
    close_world(&w);
}

/* Links of a snapshot that lead nowhere, and blobs of another size, are downloaded again. */
static void test_damaged_cache(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    expect(&w, 0, "");
    unlink(at(&w, CACHE "/blobs/" CONFIG_TAG));
    expect(&w, 0, "");
    expect_model(&w);
    unlink(at(&w, CACHE "/snapshots/" COMMIT "/model.safetensors"));
    write_text(at(&w, CACHE "/blobs"), WEIGHTS_TAG, "half");
    write_text(at(&w, CACHE "/blobs"), WEIGHTS_TAG ".incomplete", "not of this file");
    assert_int_equal(get(&w, "org/model", HUB_MODEL), SNUG_ERR_INPUT); /* the hash tells */
    expect(&w, 0, "");
    expect_model(&w);
    close_world(&w);
}

/* A branch that has moved: what both commits have is there. */
static void test_moved(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    expect(&w, 0, "");
    int bodies = w.server.bodies;
    struct served files[5];
    memcpy(files, model, sizeof files);
    files[0] = (struct served){"config.json", TOKENS_TEXT, TOKENS_TAG, TOKENS, false};
    w.server.files = files;
    w.server.commit = "ffffffffffffffffffffffffffffffffffffffff";
    expect(&w, 0, "");
    assert_string_equal(w.paths[0], at(&w, CACHE "/snapshots/ffffffffffffffffffffffffffffffffffffffff"));
    expect_bytes(in(w.paths[0], "config.json"), TOKENS_TEXT, TOKENS);
    expect_bytes(in(w.paths[0], "model.safetensors"), weights, WEIGHTS);
    expect_bytes(at(&w, CACHE "/snapshots/" COMMIT "/config.json"), CONFIG_TEXT, CONFIG);
    expect_bytes(at(&w, CACHE "/refs/main"), w.server.commit, 40);
    assert_string_equal(w.notes, "");
    assert_int_equal(w.server.bodies, bodies);
    close_world(&w);
}

static void test_line(void **state)
{
    (void)state;
    const struct hub_progress p = {.repository = "a/b",
                                   .file = "model.safetensors",
                                   .done = 100 << 20,
                                   .total = 200 << 20,
                                   .came = 50 << 20,
                                   .seconds = 25};
    static const struct {
        int columns;
        const char *line;
    } lines[] = {
        {100, "[########........] 100 MiB of 200 MiB  2.00 MiB/s  0:50 left  model.safetensors"},
        {72, "[########........] 100 MiB of 200 MiB  2.00 MiB/s  0:50 left  model.sa…"},
        {40, "100 MiB of 200 MiB  2.00 MiB/s  0:50 l…"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct str line = {0};
        downloads_line(&line, &p, lines[i].columns);
        assert_string_equal(str_text(&line), lines[i].line);
        str_free(&line);
    }
    struct str early = {0};
    downloads_line(&early,
                   &(struct hub_progress){.repository = "a/b", .done = 3, .total = 30, .came = 3, .seconds = 0.1}, 60);
    assert_string_equal(str_text(&early), "[#...............] 3 B of 30 B  a/b");
    str_free(&early);
}

/* The command resolves its options, and says what it does on stderr. */
static void test_command(void **state)
{
    (void)state;
    struct world w;
    char line[512], expected[512];
    open_world(&w);
    snprintf(line, sizeof line, "cd %s && '%s' plan --model org/model >out 2>said", w.cache, getenv("SNUG_COMMAND"));
    int status = system(line);
    assert_int_equal(WEXITSTATUS(status), SNUG_ERR_INPUT); /* config.json says too little */
    size_t n;
    char *said = read_text(at(&w, "said"), &n), *out = read_text(at(&w, "out"), &n);
    snprintf(expected, sizeof expected, "snug: note: org/model: 2 files, 42 B, from http://127.0.0.1:%d\n",
             w.server.port);
    assert_memory_equal(said, expected, strlen(expected));
    assert_non_null(strstr(said, "error: "));
    assert_non_null(strstr(said, CACHE "/snapshots/" COMMIT "/config.json: "));
    assert_int_equal(n, 0);
    free(said);
    free(out);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_bad_calls),     cmocka_unit_test(test_rate_limit),
        cmocka_unit_test(test_moved),     cmocka_unit_test(test_renamed),       cmocka_unit_test(test_line),
        cmocka_unit_test(test_command),   cmocka_unit_test(test_damaged_cache),
    };
    return cmocka_run_group_tests_name("hub/failures", tests, open_folder, close_folder);
}
