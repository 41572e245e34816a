/* A crash storm over whole runs, as they are installed: the process is killed at every file operation, at random moments,
 * and a folder is deleted or renamed under it at every file operation, with another run started at its path. Resumed runs
 * must end in the same bits, and nothing that is somebody else's may have changed.
 *
 * In the suite a few of the operations are taken; SNUG_STORM=N takes each N-th, and 300 moments (scripts/crash-storm). */
#include "few_rows.h"
#include "here.h"

#include "base/philox.h"
#include "base/seconds.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PTRACE_GET_SYSCALL_INFO
#define PTRACE_GET_SYSCALL_INFO 0x420E
#endif

/* The first members of the kernel's struct ptrace_syscall_info, which not every libc has. */
struct stop_info {
    uint8_t op; /* 1: a call begins */
    uint8_t pad[3];
    uint32_t arch;
    uint64_t instruction_pointer, stack_pointer;
    uint64_t nr, args[6];
};

static const char *out, *alone, *moved;
static long every; /* operations from one that is taken to the next; 0: some at random */
static uint32_t drawn;

static double chance(void)
{
    struct philox r = philox4x32((struct philox){{drawn++, 0, 0, 0}}, 1234, 0);
    return r.w[0] * 0x1p-32;
}

/* ---- The run. */

#define RUN                                                                                                            \
    "train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--eval-data", rows, "--output-dir",     \
        out, "--eval-strategy", "steps", "--eval-steps", "2", "--save-steps", "2", "--save-total-limit", "2",          \
        "--load-best-model-at-end", "--hidden-dropout-prob", "0.1", "--learning-rate", "1e-3", "--logging-steps", "1", \
        "--log-hash", "--max-steps", "8", "--threads", "1", "--device", "cpu"

static const char *const *run_args(void)
{
    static const char *list[64];
    const char *const *args = ARGS(RUN);
    size_t n = 0;
    for (; args[n]; n++)
        list[n] = args[n];
    list[n] = NULL;
    return list;
}

/* What is in the folder beside the run's files, and stays. */
static void put_users_files(void)
{
    assert_int_equal(mkdir(out, 0777), 0);
    assert_int_equal(mkdir(join(out, "mine"), 0777), 0);
    write_text(join(out, "mine"), "step-00000002", "mine");
    write_text(out, "notes.txt", "mine");
    write_text(out, ".tmp-notes", "mine");
    write_text(out, "model.safetensors.bak", "mine");
    assert_int_equal(symlink("mine", join(out, "link")), 0);
}

static void assert_users_files(const char *dir)
{
    static const char *const names[] = {"notes.txt", ".tmp-notes", "model.safetensors.bak", "mine/step-00000002",
                                        "link/step-00000002"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n;
        char *text = read_text(join(dir, names[i]), &n);
        assert_string_equal(text, "mine");
        free(text);
    }
}

static void assert_same_result(const char *dir)
{
    json_t *x = read_log(alone), *y = read_log(dir);
    if (!json_equal(x, y))
        fail_msg("%s: another log than left alone", dir);
    json_decref(x);
    json_decref(y);
    assert_true(same_bytes(join(alone, "model.safetensors"), join(dir, "model.safetensors")));
    assert_true(same_bytes(join(alone, "config.json"), join(dir, "config.json")));
}

/* ---- Stopped at a file operation. */

/* Whether the call changes files, or is the opening or closing of one. */
static bool is_file_call(uint64_t nr)
{
    static const long calls[] = {
        SYS_openat, SYS_close,    SYS_pwrite64,  SYS_write,    SYS_fsync,   SYS_ftruncate, SYS_fallocate,
        SYS_flock,  SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_mkdirat, SYS_symlinkat, SYS_fdatasync,
#ifdef SYS_rename
        SYS_rename, SYS_unlink,   SYS_mkdir,     SYS_rmdir,    SYS_symlink, SYS_open,
#endif
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (nr == (uint64_t)calls[i])
            return true;
    return false;
}

struct storm {
    long at;               /* the file operation, from 1, before which something happens; 0: nothing does */
    void (*happens)(void); /* what; NULL: the process is killed */
    bool after_lock;       /* operations count from the one on before which the folder is locked */
    long calls;            /* counted so far */
};

/* Runs until the end. -1: tracing is not allowed here. */
static int run_traced(struct storm *s, const char *const *more)
{
    setenv("GOMP_SPINCOUNT", "1000", 1); /* else the program starts itself once more */
    s->calls = 0;
    pid_t pid = start_snug_traced(said(), run_args(), more);
    int status, result = -1;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return -1;
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    ptrace(PTRACE_SYSCALL, pid, 0, 0);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0)
            return result;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (tid == pid)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80)) {
            struct stop_info info = {0};
            signal = 0;
            if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) > 0 && info.op == 1 && is_file_call(info.nr) &&
                (!s->after_lock || s->calls || !access(join(out, ".lock"), F_OK)) && ++s->calls == s->at) {
                if (s->happens)
                    s->happens();
                else
                    kill(pid, SIGKILL);
            }
        } else if (signal == SIGTRAP || signal == SIGSTOP)
            signal = 0; /* a thread began, or the program */
        ptrace(PTRACE_SYSCALL, tid, 0, signal);
    }
}

/* Every operation of a run that has n, or some. */
static long next_operation(long at, long n, int some)
{
    return every ? at + every : at + 1 + (long)((double)(n / some) * 2 * chance());
}

/* ---- Killed. */

static void resume_and_compare(const char *what, long at)
{
    expect_snug(0, said(), run_args(), ARGS("--resume-from-checkpoint", "auto"));
    assert_users_files(out);
    assert_same_result(out);
    assert_true(same_bytes(join(alone, "README.md"), join(out, "README.md")));
    if (access(join(out, ".lock"), F_OK) == 0)
        fail_msg("%s %ld: the lock is still there", what, at);
}

static void killed_at_file_operations(void **state)
{
    (void)state;
    struct storm s = {0};
    long killed = 0;
    put_users_files();
    if (run_traced(&s, NULL) != 0)
        skip();
    assert_same_result(out);
    long n = s.calls;
    remove_tree(out);
    for (s.at = next_operation(0, n, 9); s.at <= n; s.at = next_operation(s.at, n, 9)) {
        long at = s.at;
        put_users_files();
        int status = run_traced(&s, NULL);
        if (status == 0 && s.calls < at) { /* runs differ by a few: this one had ended */
            remove_tree(out);
            break;
        }
        assert_int_equal(status, 128 + SIGKILL);
        killed++;
        if (killed % 3 == 0) { /* and once more, while it resumes */
            s.at = 1 + (long)((double)n * chance());
            killed += run_traced(&s, ARGS("--resume-from-checkpoint", "auto")) == 128 + SIGKILL;
            s.at = at;
        }
        resume_and_compare("killed at operation", at);
        remove_tree(out);
    }
    print_message("%ld file operations, killed %ld times at one: same bits\n", n, killed);
}

static void killed_at_random_moments(void **state)
{
    (void)state;
    int kills = 0, wanted = every ? 300 : 4, runs = 0;
    double start = seconds_now();
    put_users_files();
    expect_snug(0, said(), run_args(), NULL);
    double whole = seconds_now() - start;
    remove_tree(out);
    while (kills < wanted) {
        put_users_files();
        for (int status = 128 + SIGKILL; status == 128 + SIGKILL && kills < wanted;) {
            pid_t pid = start_snug(said(), run_args(), ARGS("--resume-from-checkpoint", "auto"));
            double seconds = chance() * whole;
            nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)}, NULL);
            kill(pid, SIGKILL);
            status = end_of(pid);
            kills += status == 128 + SIGKILL;
        }
        resume_and_compare("kill", kills);
        remove_tree(out);
        runs++;
    }
    print_message("killed at %d random moments, %d runs finished: same bits\n", kills, runs);
}

/* ---- The folder goes. */

static struct str listing; /* of the other run's folder when it had ended */

static void list_folder(const char *dir, struct str *to)
{
    struct arena a = {0};
    const char *const *names;
    size_t n;
    struct stat st;
    assert_int_equal(io_list(&io_posix, dir, &a, &names, &n, NULL), SNUG_OK);
    for (size_t i = 0; i < n; i++) {
        const char *path = arena_printf(&a, "%s/%s", dir, names[i]);
        assert_int_equal(lstat(path, &st), 0);
        str_printf(to, "%s %llu %lld %lld.%09ld\n", path, (unsigned long long)st.st_ino, (long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        if (S_ISDIR(st.st_mode))
            list_folder(path, to);
    }
    arena_free(&a);
}

static void another_run(void)
{
    put_users_files();
    expect_snug(0, join(folder, "other"), run_args(), NULL);
    list_folder(out, &listing);
}

static void rename_it(void)
{
    assert_int_equal(rename(out, moved), 0);
    another_run();
}

static void delete_it(void)
{
    remove_tree(out);
    another_run();
}

/* The folder goes at an operation between the lock and the end, and another run is made at its path meanwhile. */
static void folder_goes(void (*how)(void), const char *word)
{
    struct storm s = {.after_lock = true, .happens = how};
    long told = 0, late = 0;
    put_users_files();
    if (run_traced(&s, NULL) != 0)
        skip();
    long n = s.calls;
    remove_tree(out);
    for (s.at = next_operation(1, n, 3); s.at <= n; s.at = next_operation(s.at, n, 3)) {
        struct str now = {0};
        put_users_files();
        int status = run_traced(&s, NULL);
        if (status == 0 && s.calls < s.at) { /* runs differ by a few: this one had ended */
            remove_tree(out);
            break;
        }
        if (status == SNUG_ERR_IO && file_has(said(), word))
            told++;
        else if (status == 0 && s.at > n - 40) /* behind the last comparison there is nothing but closing */
            late++;
        else
            fail_msg("operation %ld of %ld: exit %d: %s", s.at, n, status, read_text(said(), &(size_t){0}));
        list_folder(out, &now);
        if (strcmp(str_text(&now), str_text(&listing)) != 0)
            fail_msg("operation %ld of %ld: the other run's folder has changed: was\n%sis\n%s", s.at, n,
                     str_text(&listing), str_text(&now));
        assert_same_result(out);
        assert_users_files(out);
        str_free(&now);
        str_free(&listing);
        remove_tree(out);
        if (how == rename_it) { /* what was renamed goes on there */
            assert_int_equal(rename(moved, out), 0);
            resume_and_compare("renamed at operation", s.at);
            remove_tree(out);
        }
    }
    print_message("%s at %ld of %ld operations: exit 5, the other run untouched (%ld after the end)\n", word, told, n,
                  late);
}

static void renamed_at_file_operations(void **state)
{
    (void)state;
    folder_goes(rename_it, "renamed");
}

static void deleted_at_file_operations(void **state)
{
    (void)state;
    folder_goes(delete_it, "deleted");
}

static int set_up(void **state)
{
    const char *storm = getenv("SNUG_STORM");
    open_few_rows(state);
    every = storm ? strtol(storm, NULL, 10) : 0;
    out = join(folder, "out"), alone = join(folder, "alone"), moved = join(folder, "moved");
    expect_snug(0, said(), run_args(), NULL);
    return rename(out, alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_file_operations),
        cmocka_unit_test(killed_at_random_moments),
        cmocka_unit_test(renamed_at_file_operations),
        cmocka_unit_test(deleted_at_file_operations),
    };
    if (SANITIZED) /* which do not bear being traced */
        return 0;
    return cmocka_run_group_tests_name("storm", tests, set_up, close_folder);
}
