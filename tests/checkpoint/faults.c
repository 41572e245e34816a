/* train/checkpoint under faults. A session is what a run does with its folder: lock it, resume from what is there,
 * train, save after every step. It is run with every file call failing, every allocation failing, and killed at every
 * file call; then a session without faults must find at least what was reported complete, and end in the same bits. */
#include "../failing_memory.h"
#include "base/failpoint.h"
#include "help.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LAST = 3, LIMIT = 2 };

/* What came out of a session: shared with child processes. */
struct report {
    _Atomic long complete; /* the highest step that was noted as complete */
    _Atomic long resumed;  /* -1: started fresh */
    _Atomic long calls;
    _Atomic int began; /* a save was begun */
};

static void watch(void *ctx, const char *line)
{
    struct report *r = ctx;
    long step;
    assert_null(strchr(line, '\n'));
    if (sscanf(line, "checkpoint of step %ld complete", &step) == 1)
        r->complete = step;
}

static int train(struct ckpt_saver *saver, struct tiny *t, int64_t last, struct report *r, struct snug_err *err)
{
    struct ckpt_tensor tensors[TINY_TENSORS];
    tiny_tensors(t, tensors);
    while (t->step < last) {
        tiny_step(t);
        json_t *doc = tiny_state(t);
        int code = ckpt_save_begin(saver, t->step, -1, tensors, TINY_TENSORS, doc, err);
        json_decref(doc);
        TRY(code);
        r->began = 1;
    }
    return ckpt_save_wait(saver, err);
}

static int resume(const struct io *io, const char *out, struct ckpt_notes notes, struct tiny *t, struct report *r,
                  struct snug_err *err)
{
    struct ckpt_found found;
    struct ckpt_tensor tensors[TINY_TENSORS];
    tiny_start(t);
    tiny_tensors(t, tensors);
    r->resumed = -1;
    TRY(ckpt_find(io, out, CKPT_AUTO, notes, &found, err));
    if (!found.path)
        return SNUG_OK;
    json_t *doc = NULL;
    int code = ckpt_load_state(&found, &doc, err);
    if (!code)
        code = ckpt_load_tensors(&found, tensors, TINY_TENSORS, err);
    json_decref(doc);
    t->step = found.step;
    r->resumed = found.step;
    ckpt_found_free(&found);
    return code;
}

static int session(const struct io *io, const char *out, int64_t last, struct tiny *t, struct report *r,
                   struct snug_err *err)
{
    struct ckpt_dir dir;
    struct ckpt_notes notes = {watch, r};
    struct ckpt_config config = {.io = io, .output_dir = out, .total_limit = LIMIT, .notes = notes};
    struct ckpt_saver *saver = NULL;
    r->complete = -1;
    r->began = 0;
    TRY(ckpt_dir_open(io, out, CKPT_RESUME, NULL, NULL, 0, notes, &dir, err));
    int code = resume(io, out, notes, t, r, err);
    if (!code)
        code = ckpt_saver_new(&config, &saver, err);
    if (!code)
        code = train(saver, t, last, r, err);
    ckpt_saver_free(saver);
    ckpt_dir_close(&dir);
    return code;
}

/* A session without faults after one with: it resumes from `at_least` or later, and ends in the right bits. */
static void recover(const char *out, long at_least, const char *what, long k)
{
    struct faulty plain;
    struct tiny t, want;
    struct report r;
    struct snug_err err = {0};
    faulty_init(&plain);
    if (session(&plain.io, out, LAST, &t, &r, &err))
        fail_msg("%s at call %ld: recovering: %s", what, k, err.text);
    if (r.resumed < at_least)
        fail_msg("%s at call %ld: step %ld was reported complete, resumed from %ld", what, k, at_least,
                 (long)r.resumed);
    tiny_run_to(&want, LAST);
    char got_hex[33], want_hex[33];
    tiny_hash(&t, got_hex);
    tiny_hash(&want, want_hex);
    assert_string_equal(got_hex, want_hex);
    if (count_names(out, ".tmp-") + count_names(out, ".trash-") + count_names(out, ".lock"))
        fail_msg("%s at call %ld: something is left behind", what, k);
    struct ckpt_found found;
    assert_int_equal(ckpt_find(&plain.io, out, 0, (struct ckpt_notes){0}, &found, &err), 0);
    assert_int_equal(found.step, LAST);
    assert_loads(&found);
    ckpt_found_free(&found);
}

static void prepare(char dir[64], int64_t last)
{
    struct faulty plain;
    struct tiny t;
    struct report r;
    make_folder(dir);
    faulty_init(&plain);
    if (last)
        assert_int_equal(session(&plain.io, dir, last, &t, &r, NULL), 0);
}

static long count_calls(int64_t from)
{
    char dir[64];
    struct faulty f;
    struct tiny t;
    struct report r;
    prepare(dir, from);
    faulty_init(&f);
    assert_int_equal(session(&f.io, dir, LAST, &t, &r, NULL), 0);
    assert_int_equal(r.complete, LAST);
    remove_tree(dir);
    return f.calls;
}

/* ---- Every file call fails. */

static void one_io_fault(long k, enum fault kind, int errnum, bool for_ever)
{
    char dir[64], what[80];
    struct faulty f;
    struct tiny t;
    struct report r;
    struct snug_err err = {0};
    prepare(dir, LAST - 1);
    faulty_init(&f);
    f.at = k, f.kind = kind, f.errnum = errnum, f.for_ever = for_ever;
    int code = session(&f.io, dir, LAST, &t, &r, &err);
    snprintf(what, sizeof what, "%s %s in %.20s", kind == FAULT_SHORT ? "short" : strerror(errnum),
             for_ever ? "for ever" : "once", f.hit);
    if (code != SNUG_OK && code != SNUG_ERR_IO)
        fail_msg("%s at call %ld: code %d: %s", what, k, code, err.text);
    if (code && (err.code != code || !err.text[0] || strchr(err.text, '\n')))
        fail_msg("%s at call %ld: no good text: '%s'", what, k, err.text);
    /* A short transfer changes nothing, and one failed call is mended by writing once more. */
    if (code && (kind == FAULT_SHORT || (!for_ever && r.began)))
        fail_msg("%s at call %ld: %s", what, k, err.text);
    if (!code && r.complete != LAST)
        fail_msg("%s at call %ld: success, but nothing was reported", what, k);
    bool may_leave = for_ever || !strcmp(f.hit, "unlink") || !strcmp(f.hit, "rmdir") || !strcmp(f.hit, "opendir") ||
                     !strcmp(f.hit, "readdir") || !strcmp(f.hit, "lstat");
    if (!may_leave && count_names(dir, ".tmp-"))
        fail_msg("%s at call %ld: a temporary folder is left", what, k);
    struct ckpt_found found;
    assert_int_equal(ckpt_find(&io_posix, in(dir, "step-00000002"), 0, (struct ckpt_notes){0}, &found, &err), 0);
    assert_loads(&found);
    ckpt_found_free(&found);
    recover(dir, code ? LAST - 1 : LAST, what, k);
    remove_tree(dir);
}

static void every_file_call_fails(void **state)
{
    (void)state;
    static const int full[] = {ENOSPC, EDQUOT, EROFS, EFBIG};
    long n = count_calls(LAST - 1);
    assert_true(n > 80);
    for (long k = 1; k <= n + 1; k++) {
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            one_io_fault(k, FAULT_ERROR, EIO, for_ever);
            one_io_fault(k, FAULT_ERROR, full[k % 4], for_ever);
        }
        one_io_fault(k, FAULT_ERROR, EINTR, false);
        one_io_fault(k, FAULT_SHORT, 0, false);
    }
    one_io_fault(1, FAULT_SHORT, 0, true);
    print_message("%ld file calls of a save and its session\n", n);
}

/* ---- Killed at every file call; then again while recovering. */

static struct report *shared;

/* A session in a child that dies at its k-th file call, or ends. */
static void child_session(const char *dir, long k)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        static struct faulty f;
        static struct tiny t;
        faulty_init(&f);
        f.kind = FAULT_KILL, f.at = k;
        _exit(session(&f.io, dir, LAST, &t, shared, NULL) ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        fail_msg("killed at call %ld: child ended with status %d", k, status);
}

static void killed_at_every_file_call(void **state)
{
    (void)state;
    long n = count_calls(0);
    for (long k = 1; k <= n; k++) {
        char dir[64];
        long reported = -1;
        prepare(dir, 0);
        for (int again = 0; again < 2; again++) {
            /* The second one at a place that differs from k to k and mostly lies in the first third, where it tidies
             * up and resumes. */
            child_session(dir, again ? 1 + k * 7919 % (k % 3 ? n / 3 : n) : k);
            if (again && shared->resumed < reported && shared->began)
                fail_msg("killed at call %ld: step %ld was reported, resumed from %ld", k, reported,
                         (long)shared->resumed);
            if (shared->complete > reported)
                reported = shared->complete;
        }
        recover(dir, reported, "killed", k);
        remove_tree(dir);
    }
    print_message("killed at each of %ld file calls, and once more while recovering\n", n);
}

/* ---- Every allocation fails. */

static long one_memory_fault(long k, bool for_ever)
{
    char dir[64];
    struct failing_memory memory;
    struct faulty plain;
    struct tiny t;
    struct report r;
    struct snug_err err = {0};
    prepare(dir, LAST - 1);
    faulty_init(&plain);
    failing_memory_set(&memory, k, for_ever);
    int code = session(&plain.io, dir, LAST, &t, &r, &err);
    mem_set_ops(NULL);
    if (code && (code != SNUG_ERR_ENV || err.code != code || !strstr(err.text, "out of host memory")))
        fail_msg("allocation %ld failed: code %d: %s", k, code, err.text);
    if (!code && r.complete != LAST)
        fail_msg("allocation %ld failed: success, but nothing was reported", k);
    recover(dir, code ? LAST - 1 : LAST, "no memory", k);
    remove_tree(dir);
    return memory.calls;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    long n = one_memory_fault(0, false);
    for (long k = 1; k <= n; k++) {
        one_memory_fault(k, false);
        one_memory_fault(k, true);
    }
    print_message("%ld allocations\n", n);
}

/* ---- Failpoints: the switch itself. The places are compiled in with -Dfailpoints=true. */

static void failpoints(void **state)
{
    (void)state;
#ifdef SNUG_FAILPOINTS /* first: a process counts how often a rule was met, from its start */
    static const char *const names[] = {"ckpt.after_tensors", "ckpt.after_manifest", "ckpt.after_rename"};
    for (int i = 0; i < 3; i++)
        for (int nth = 1; nth <= LAST; nth++) {
            char dir[64], rule[80];
            prepare(dir, 0);
            snprintf(rule, sizeof rule, "%s:kill:%d", names[i], nth);
            setenv("SNUG_FP", rule, 1);
            child_session(dir, 0);
            unsetenv("SNUG_FP");
            assert_int_equal(shared->complete, nth == 1 ? -1 : nth - 1);
            recover(dir, shared->complete, rule, nth);
            remove_tree(dir);
        }
#endif
    struct snug_err err = {0};
    setenv("SNUG_FP", "a.b:error:2,a.c:error:1", 1);
    assert_int_equal(failpoint("a.b", &err), 0);
    assert_int_equal(failpoint("a", &err), 0);
    assert_int_equal(failpoint("a.b", &err), SNUG_ERR_IO);
    assert_int_equal(failpoint("a.b", &err), 0);
    assert_int_equal(failpoint("a.c", &err), SNUG_ERR_IO);
    unsetenv("SNUG_FP");
    assert_int_equal(failpoint("a.c", &err), 0);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_call_fails),
        cmocka_unit_test(killed_at_every_file_call),
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(failpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
