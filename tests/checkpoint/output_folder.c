/* checkpoint: the output folder before training: rows O8 to O10, K10, K12, K13, free space, tidying up. */
#include "help.h"

#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/wait.h>

struct fixture {
    char dir[64]; /* exists; OUT is dir/out */
    char out[80];
    struct faulty files;
    struct lines lines;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    make_folder(f->dir);
    snprintf(f->out, sizeof f->out, "%s/out", f->dir);
    faulty_init(&f->files);
    f->files.fs_type = EXT4_SUPER_MAGIC; /* whatever this machine has */
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

static int open_dir(struct fixture *f, const char *path, enum ckpt_use use, struct ckpt_dir *dir, struct snug_err *err)
{
    return ckpt_dir_open(&f->files.io, path, use, NULL, NULL, 0, notes_of(&f->lines), dir, err);
}

static void expect_refused(struct fixture *f, const char *path, enum ckpt_use use, int code, const char *part)
{
    struct ckpt_dir dir;
    struct snug_err err = {0};
    assert_int_equal(open_dir(f, path, use, &dir, &err), code);
    if (!strstr(err.text, part))
        fail_msg("'%s' is not in '%s'", part, err.text);
    ckpt_dir_close(&dir);
}

static void expect_opened(struct fixture *f, const char *path, enum ckpt_use use)
{
    struct ckpt_dir dir;
    struct snug_err err = {0};
    if (open_dir(f, path, use, &dir, &err))
        fail_msg("%s", err.text);
    assert_int_equal(access(in(path, ".lock"), F_OK), 0);
    ckpt_dir_close(&dir);
}

static void a_folder_that_stays_empty_goes(void **state)
{
    struct fixture *f = *state;
    struct ckpt_dir dir;
    assert_int_equal(open_dir(f, f->out, CKPT_FRESH, &dir, NULL), 0);
    assert_int_equal(count_names(f->out, ""), 3); /* . .. .lock */
    assert_int_equal(f->lines.n, 0);
    ckpt_dir_close(&dir);
    assert_int_equal(access(f->out, F_OK), -1);
    assert_int_equal(open_dir(f, f->out, CKPT_FRESH, &dir, NULL), 0);
    assert_int_equal(save_tiny(&io_posix, f->out, 1, dir.notes, NULL), 0);
    ckpt_dir_close(&dir);
    assert_int_equal(count_names(f->out, ""), 4); /* . .. step-00000001 latest */
    mkdir(f->dir, 0777);
    mkdir(in(f->dir, "mine"), 0777);
    expect_opened(f, in(f->dir, "mine"), CKPT_FRESH);
    assert_int_equal(access(in(f->dir, "mine"), F_OK), 0); /* was there before */
}

/* mkdir -p, and gone again where nothing came into them. */
static void parents_are_made(void **state)
{
    struct fixture *f = *state;
    static const char *const paths[] = {"a/b/c", "a//b/c//", "a/../a/b/c", "./a/b/c"};
    struct ckpt_dir dir;
    for (int i = 0; i < 4; i++) {
        const char *path = in(f->dir, paths[i]);
        if (i == 2)
            assert_int_equal(mkdir(in(f->dir, "a"), 0777), 0);
        assert_int_equal(open_dir(f, path, CKPT_FRESH, &dir, NULL), 0);
        assert_int_equal(access(in(f->dir, "a/b/c/.lock"), F_OK), 0);
        ckpt_dir_close(&dir);
        assert_int_equal(access(in(f->dir, "a"), F_OK), i == 2 ? 0 : -1);
        rmdir(in(f->dir, "a"));
    }
    assert_int_equal(open_dir(f, in(f->dir, "a/b/c"), CKPT_FRESH, &dir, NULL), 0);
    write_text(f->dir, "a/b/mine", "");
    ckpt_dir_close(&dir);
    assert_int_equal(access(in(f->dir, "a/b/mine"), F_OK), 0);
    assert_int_equal(access(in(f->dir, "a/b/c"), F_OK), -1);
}

/* What is added to a checkpoint makes it none. */
static void not_in_a_checkpoint(void **state)
{
    struct fixture *f = *state;
    mkdir(f->out, 0777);
    assert_int_equal(save_tiny(&f->files.io, f->out, 1, notes_of(&f->lines), NULL), 0);
    assert_int_equal(symlink(in(f->out, "step-00000001"), in(f->dir, "link")), 0);
    const char *const places[] = {in(f->out, "step-00000001"), in(f->out, "step-00000001/"),
                                  in(f->out, "step-00000001/x"), in(f->out, "step-00000001/x/y"), in(f->dir, "link/x")};
    for (int i = 0; i < 5; i++)
        for (enum ckpt_use use = CKPT_FRESH; use <= CKPT_OVERWRITE; use++)
            expect_refused(f, places[i], use, SNUG_ERR_USAGE, "lies in a checkpoint");
    struct ckpt_found found;
    assert_int_equal(ckpt_find(&io_posix, f->out, 0, notes_of(&f->lines), &found, NULL), 0);
    assert_int_equal(found.step, 1);
    ckpt_found_free(&found);
}

static void o8_another_run(void **state)
{
    struct fixture *f = *state;
    static const char *const marks[] = {"step-00000005", "config.json", "model.safetensors"};
    for (int i = 0; i < 3; i++) {
        mkdir(f->out, 0777);
        i ? write_text(f->out, marks[i], "{}") : (void)mkdir(in(f->out, marks[i]), 0777);
        expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_USAGE,
                       "use --resume-from-checkpoint, another --output-dir, or --overwrite-output-dir");
        assert_int_equal(count_names(f->out, ""), 3); /* nothing added, nothing gone */
        expect_opened(f, f->out, CKPT_RESUME);
        expect_opened(f, f->out, CKPT_OVERWRITE);
        assert_int_equal(count_names(f->out, ""), 3);
        remove_tree(f->out);
    }
    mkdir(f->out, 0777);
    write_text(f->out, "log.jsonl", "{}"); /* a run that ended before its first save */
    expect_opened(f, f->out, CKPT_FRESH);
}

static void overwriting(void **state)
{
    struct fixture *f = *state;
    struct ckpt_dir dir;
    mkdir(f->out, 0777);
    for (int step = 1; step <= 3; step++)
        assert_int_equal(save_tiny(&f->files.io, f->out, step, (struct ckpt_notes){0}, NULL), 0);
    write_text(in(f->out, "step-00000002"), "notes.txt", "mine");
    write_text(f->out, "other.txt", "mine");
    assert_int_equal(open_dir(f, f->out, CKPT_OVERWRITE, &dir, NULL), 0);
    assert_int_equal(count_names(f->out, "step-"), 3);
    assert_int_equal(count_names(f->out, "latest"), 1);
    assert_int_equal(ckpt_dir_clear(&dir, NULL), 0);
    assert_int_equal(count_names(f->out, "step-"), 0);
    assert_int_equal(count_names(f->out, "latest"), 0);
    assert_int_equal(count_names(f->out, ".trash-"), 0);
    assert_int_equal(count_names(f->out, ".bad-step-00000002."), 1);
    assert_non_null(line_with(&f->lines, "moved to"));
    assert_int_equal(access(in(f->out, "other.txt"), F_OK), 0);
    ckpt_dir_close(&dir);
}

static void o9_bad_places(void **state)
{
    struct fixture *f = *state;
    struct ckpt_dir dir;
    struct snug_err err = {0};
    expect_refused(f, "/", CKPT_FRESH, SNUG_ERR_USAGE, "root folder");
    expect_refused(f, "/tmp/..", CKPT_FRESH, SNUG_ERR_USAGE, "root folder");
    expect_refused(f, "", CKPT_FRESH, SNUG_ERR_USAGE, "--output-dir");
    write_text(f->dir, "file", "x");
    expect_refused(f, in(f->dir, "file"), CKPT_FRESH, SNUG_ERR_USAGE, "is a file");

    char model[100], data[100], inside[120];
    snprintf(model, sizeof model, "%s/model", f->dir);
    snprintf(data, sizeof data, "%s/data", f->dir);
    mkdir(model, 0777);
    mkdir(data, 0777);
    assert_int_equal(symlink(model, in(f->dir, "link")), 0);
    const char *same[] = {model, in(f->dir, "model/"), in(f->dir, "data/../model"), in(f->dir, "link")};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            ckpt_dir_open(&f->files.io, same[i], CKPT_FRESH, model, NULL, 0, (struct ckpt_notes){0}, &dir, &err),
            SNUG_ERR_USAGE);
        assert_non_null(strstr(err.text, "model folder"));
    }
    snprintf(inside, sizeof inside, "%s/model/out", f->dir); /* beside the weights is allowed */
    assert_int_equal(
        ckpt_dir_open(&f->files.io, inside, CKPT_FRESH, model, NULL, 0, (struct ckpt_notes){0}, &dir, &err), 0);
    ckpt_dir_close(&dir);

    const char *paths[] = {in(f->dir, "file"), data};
    mkdir(in(data, "a"), 0777);
    static const char *const places[] = {"data", "data/new", "data/a", "data/a/new", "data/a/new/"};
    for (int i = 0; i < 5; i++) {
        snprintf(inside, sizeof inside, "%s/%s", f->dir, places[i]);
        assert_int_equal(
            ckpt_dir_open(&f->files.io, inside, CKPT_FRESH, model, paths, 2, (struct ckpt_notes){0}, &dir, &err),
            SNUG_ERR_USAGE);
        assert_non_null(strstr(err.text, "data folder"));
    }
    assert_int_equal(
        ckpt_dir_open(&f->files.io, f->out, CKPT_FRESH, model, paths, 2, (struct ckpt_notes){0}, &dir, &err), 0);
    ckpt_dir_close(&dir);
}

static void o10_no_way_to_write(void **state)
{
    struct fixture *f = *state;
    write_text(f->dir, "file", "x");
    expect_refused(f, in(f->dir, "file/out"), CKPT_FRESH, SNUG_ERR_IO, "Not a directory");
    expect_refused(f, in(f->dir, "file/a/out"), CKPT_FRESH, SNUG_ERR_IO, "Not a directory");
    assert_int_equal(symlink("nowhere", in(f->dir, "link")), 0);
    expect_refused(f, in(f->dir, "link"), CKPT_FRESH, SNUG_ERR_USAGE, "is a link to nothing");
    char name[400];
    snprintf(name, sizeof name, "%s/%0300d", f->dir, 1);
    expect_refused(f, name, CKPT_FRESH, SNUG_ERR_IO, "File name too long");

    /* Read-only, whoever runs the test: every creation fails. */
    f->files.kind = FAULT_ERROR, f->files.errnum = EROFS, f->files.for_ever = true;
    f->files.calls = 0;
    f->files.at = 3; /* after the first questions */
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO, "Read-only file system");
    assert_int_equal(access(f->out, F_OK), -1);

    struct ckpt_dir dir;
    struct snug_err err = {0};
    f->files.kind = FAULT_NONE;
    assert_int_equal(open_dir(f, f->out, CKPT_FRESH, &dir, NULL), 0);
    f->files.fs_free = 3999;
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, 3, 0, &err), SNUG_ERR_IO);
    assert_non_null(
        strstr(err.text, "4 checkpoints of 0.977 KiB and the model in the end need 3.91 KiB, and 3.91 KiB are free"));
    f->files.fs_free = 4000;
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, 3, 0, &err), 0);
    assert_int_equal(ckpt_dir_need_bytes(&dir, INT64_MAX / 2, 5, 0, &err), SNUG_ERR_IO);
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, 2, 1000, &err), 0);
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, 2, 1001, &err), SNUG_ERR_IO);
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, -1, 4000, &err), 0); /* nothing is saved */
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, -1, 4001, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "the model in the end needs 3.91 KiB, and 3.91 KiB are free"));
    for (int step = 1; step <= 2; step++) /* two of the three kept are there already */
        assert_int_equal(save_tiny(&f->files.io, f->out, step, (struct ckpt_notes){0}, NULL), 0);
    f->files.fs_free = 2000;
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, 3, 0, &err), 0);
    f->files.fs_free = 1999;
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, 3, 0, &err), SNUG_ERR_IO);
    assert_int_equal(ckpt_dir_need_bytes(&dir, 1000, 1, 0, &err), 0);
    ckpt_dir_close(&dir);
}

/* What ckpt_disk_bytes says is enough, and not absurd. */
static void size_on_disk(void **state)
{
    struct fixture *f = *state;
    mkdir(f->out, 0777);
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct ckpt_found found;
    tiny_tensors(&t, tensors);
    assert_int_equal(save_tiny(&f->files.io, f->out, 1, notes_of(&f->lines), NULL), 0);
    assert_int_equal(ckpt_find(&io_posix, f->out, 0, notes_of(&f->lines), &found, NULL), 0);
    int64_t said = ckpt_disk_bytes(tensors, TINY_TENSORS, 200);
    assert_true(said >= found.bytes && said < found.bytes + 70000);
    ckpt_found_free(&found);
}

/* ---- The lock. */

/* A child that holds the lock of f->out until it is killed. */
static pid_t hold_lock(struct fixture *f)
{
    int p[2];
    char ready;
    assert_int_equal(pipe(p), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        struct ckpt_dir dir;
        int code = open_dir(f, f->out, CKPT_FRESH, &dir, NULL);
        if (code || write(p[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(p[1]);
    assert_int_equal(read(p[0], &ready, 1), 1);
    close(p[0]);
    return pid;
}

static void k12_two_at_once(void **state)
{
    struct fixture *f = *state;
    pid_t pid = hold_lock(f);
    char text[300], host[200] = "";
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "locked by pid %d on host %s since 20", (int)pid, host);
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO, text);
    expect_refused(f, f->out, CKPT_RESUME, SNUG_ERR_IO, text);
    assert_int_equal(access(in(f->out, ".lock"), F_OK), 0); /* still there */

    kill(pid, SIGKILL); /* K13: stale after kill -9 */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(access(in(f->out, ".lock"), F_OK), 0);
    expect_opened(f, f->out, CKPT_FRESH);
    snprintf(text, sizeof text, "took over the lock of pid %d on host %s", (int)pid, host);
    assert_non_null(line_with(&f->lines, text));
    expect_opened(f, f->out, CKPT_FRESH);
    assert_int_equal(f->lines.n, 0); /* a clean end leaves no lock */
}

static void k13_other_hosts(void **state)
{
    struct fixture *f = *state;
    const char *other = "{\"pid\": 12, \"host\": \"elsewhere\", \"start\": \"2026-01-02T03:04:05Z\"}\n";
    mkdir(f->out, 0777);
    write_text(f->out, ".lock", other);
    f->files.fs_type = NFS_SUPER_MAGIC;
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO,
                   "locked by pid 12 on host elsewhere since 2026-01-02T03:04:05Z; if that process is gone, delete");
    f->files.fs_type = 0x12345678; /* unknown: not proved either */
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO, "on host elsewhere");
    size_t n;
    char *text = read_text(in(f->out, ".lock"), &n);
    assert_int_equal(n, strlen(other)); /* untouched */
    assert_memory_equal(text, other, n);
    free(text);
    f->files.fs_type = EXT4_SUPER_MAGIC; /* a disk that only this host has mounted */
    expect_opened(f, f->out, CKPT_FRESH);
    assert_non_null(line_with(&f->lines, "took over the lock of pid 12 on host elsewhere"));

    char text_here[400], host[200] = "";
    gethostname(host, sizeof host - 1);
    snprintf(text_here, sizeof text_here, "{\"pid\": 12, \"host\": \"%s\", \"start\": \"x\"}\n", host);
    write_text(f->out, ".lock", text_here); /* of this host: a free lock is proof, over NFS too */
    f->files.fs_type = NFS_SUPER_MAGIC;
    expect_opened(f, f->out, CKPT_FRESH);
    assert_non_null(line_with(&f->lines, "took over the lock of pid 12 on host "));

    static const char *const odd[] = {"", "{\"p", "{\"pid\": -1}", "{\"pid\": 5}"}; /* torn, or of an old version */
    f->files.fs_type = NFS_SUPER_MAGIC;
    for (int i = 0; i < 4; i++) {
        write_text(f->out, ".lock", odd[i]);
        expect_opened(f, f->out, CKPT_FRESH);
        assert_non_null(line_with(&f->lines, "is on NFS"));
    }
    /* No locks at all. */
    f->files.flock_errnum = ENOLCK;
    expect_opened(f, f->out, CKPT_FRESH);
    assert_non_null(line_with(&f->lines, "no locks"));
    write_text(f->out, ".lock", other);
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO, "on host elsewhere");
    f->files.flock_errnum = EIO;
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO, "Input/output error");
    f->files.flock_errnum = 0;
    static const char *const users[] = {"garbage", "[]", "{\"name\": \"x\"}", "\n"};
    for (int i = 0; i < 4; i++) { /* an editor's, or a package manager's */
        write_text(f->out, ".lock", users[i]);
        expect_refused(f, f->out, CKPT_OVERWRITE, SNUG_ERR_IO, "is not a lock that snug wrote");
        text = read_text(in(f->out, ".lock"), &n);
        assert_string_equal(text, users[i]);
        free(text);
    }
    unlink(in(f->out, ".lock"));

    assert_int_equal(symlink("/etc/passwd", in(f->out, ".lock")), 0);
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO, ".lock");
    unlink(in(f->out, ".lock"));
    assert_int_equal(mkfifo(in(f->out, ".lock"), 0666), 0);
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO, "not a regular file");
}

/* Between our open and our flock the owner ends, and takes its lock file away: the lock we get is of no file. */
static const char *vanishing;

static int flock_late(const struct io *io, int fd, int operation)
{
    (void)io;
    if (vanishing)
        assert_int_equal(unlink(vanishing), 0);
    vanishing = NULL;
    return flock(fd, operation);
}

static void lock_vanishes(void **state)
{
    struct fixture *f = *state;
    struct ckpt_dir dir;
    struct io io = io_posix;
    io.flock = flock_late;
    mkdir(f->out, 0777);
    write_text(f->out, ".lock", "");
    vanishing = in(f->out, ".lock");
    assert_int_equal(ckpt_dir_open(&io, f->out, CKPT_FRESH, NULL, NULL, 0, notes_of(&f->lines), &dir, NULL), 0);
    expect_refused(f, f->out, CKPT_FRESH, SNUG_ERR_IO, "locked by pid");
    ckpt_dir_close(&dir);
}

/* ---- Tidying up. */

static void leftovers(void **state)
{
    struct fixture *f = *state;
    static const char *const gone[] = {".tmp-step-00000004.0123456789abcdef0123456789abcdef",
                                       ".trash-step-00000001.0123456789abcdef0123456789abcdef"};
    static const char *const gone_files[] = {".tmp-probe.0123456789abcdef0123456789abcdef",
                                             ".tmp-export-model.safetensors.0123456789abcdef0123456789abcdef"};
    static const char *const kept[] = {".tmp-step-00000004",
                                       ".tmp-step-00000004.0123456789abcdef0123456789abcdeg",
                                       ".tmp-step-00000004.0123456789abcdef0123456789abcde",
                                       ".bad-step-00000004.0123456789abcdef0123456789abcdef",
                                       ".tmp",
                                       ".trash-x",
                                       "step-x"};
    mkdir(f->out, 0777);
    for (int i = 0; i < 2; i++) {
        mkdir(in(f->out, gone[i]), 0777);
        write_text(in(f->out, gone[i]), "rank-0000.safetensors", "half");
        write_text(in(f->out, gone[i]), "rank-0012.safetensors", "");
        write_text(in(f->out, gone[i]), "state.json", "");
        write_text(in(f->out, gone[i]), "MANIFEST.json", "{");
        write_text(f->out, gone_files[i], "half");
    }
    for (int i = 0; i < 7; i++)
        mkdir(in(f->out, kept[i]), 0777);
    expect_opened(f, f->out, CKPT_FRESH);
    assert_int_equal(f->lines.n, 1);
    assert_non_null(line_with(&f->lines, "removed 4 unfinished items of an earlier run"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(access(in(f->out, gone[i]), F_OK), -1);
        assert_int_equal(access(in(f->out, gone_files[i]), F_OK), -1);
    }
    for (int i = 0; i < 7; i++)
        assert_int_equal(access(in(f->out, kept[i]), F_OK), 0);

    /* Something of the user's in it. */
    mkdir(in(f->out, gone[0]), 0777);
    mkdir(in(in(f->out, gone[0]), "sub"), 0777);
    write_text(in(f->out, gone[0]), "rank-x.safetensors", "mine");
    expect_opened(f, f->out, CKPT_FRESH);
    assert_int_equal(f->lines.n, 1);
    assert_non_null(line_with(&f->lines, "holds other files"));
    assert_int_equal(access(in(in(f->out, gone[0]), "rank-x.safetensors"), F_OK), 0);
}

static void careful_file_systems(void **state)
{
    struct fixture *f = *state;
    static const struct {
        long type;
        const char *name;
    } fs[] = {{NFS_SUPER_MAGIC, "NFS"}, {FUSE_SUPER_MAGIC, "FUSE"}, {OVERLAYFS_SUPER_MAGIC, "overlay"}};
    for (int i = 0; i < 3; i++) {
        f->files.fs_type = fs[i].type;
        expect_opened(f, f->out, CKPT_FRESH);
        assert_int_equal(f->lines.n, 1);
        assert_non_null(line_with(&f->lines, fs[i].name));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_folder_that_stays_empty_goes),
        TEST(parents_are_made),
        TEST(not_in_a_checkpoint),
        TEST(o8_another_run),
        TEST(overwriting),
        TEST(o9_bad_places),
        TEST(o10_no_way_to_write),
        TEST(size_on_disk),
        TEST(k12_two_at_once),
        TEST(k13_other_hosts),
        TEST(lock_vanishes),
        TEST(leftovers),
        TEST(careful_file_systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
