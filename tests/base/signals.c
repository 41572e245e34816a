/* base/signals: the table of signals, each in a process of its own. */
#include "base/signals.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* The clock that the handlers look at. */
static int64_t now_ms = 1;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){.tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000};
    return clock == CLOCK_MONOTONIC ? 0 : -1;
}

/* Stands between two signals: so many milliseconds go by. */
#define AFTER(ms) (-(ms))

/* The exit code of a child that installs the handlers, gets `signals` (up to a 0), and ends as the command would. */
static int run_child(const int *signals, bool nohup)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        static struct stop_flag f;
        signal(SIGHUP, nohup ? SIG_IGN : SIG_DFL); /* however the tests themselves were started */
        if (signals_install(&f, NULL))
            _exit(1);
        for (; *signals; signals++)
            if (*signals < 0)
                now_ms -= *signals;
            else
                raise(*signals);
        _exit(stop_exit_code(&f));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void table(void **state)
{
    (void)state;
    const int stops[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    assert_int_equal(run_child((int[]){0}, false), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(run_child((int[]){stops[i], 0}, false), 75);
        assert_int_equal(run_child((int[]){stops[i], AFTER(1000), stops[i], 0}, false), 128 + stops[i]);
    }
    assert_int_equal(run_child((int[]){SIGTERM, AFTER(1000), SIGINT, 0}, false), 75); /* not the same again */
    assert_int_equal(run_child((int[]){SIGUSR1, SIGTERM, AFTER(1000), SIGTERM, 0}, false), 128 + SIGTERM);
    assert_int_equal(run_child((int[]){SIGPIPE, SIGXFSZ, 0}, false), 0);
    assert_int_equal(run_child((int[]){SIGHUP, AFTER(1000), SIGHUP, 0}, true), 0);
}

/* As timeout(1) and other launchers send it, to a process and to its group. */
static void at_once_is_once(void **state)
{
    (void)state;
    assert_int_equal(run_child((int[]){SIGTERM, SIGTERM, 0}, false), 75);
    assert_int_equal(run_child((int[]){SIGTERM, AFTER(999), SIGTERM, 0}, false), 75);
    assert_int_equal(run_child((int[]){SIGTERM, SIGTERM, AFTER(1000), SIGTERM, 0}, false), 128 + SIGTERM);
    assert_int_equal(run_child((int[]){SIGINT, AFTER(600), SIGINT, AFTER(600), SIGINT, 0}, false), 128 + SIGINT);
    assert_int_equal(run_child((int[]){SIGINT, AFTER(1000), SIGTERM, SIGTERM, 0}, false), 75);
}

static void limits_become_errors(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        static struct stop_flag f;
        int p[2], bad = signals_install(&f, NULL) || pipe(p) || close(p[0]);
        bad |= write(p[1], "x", 1) >= 0 || errno != EPIPE;
        struct rlimit small = {4, 4};
        char name[] = "/tmp/snug-signals-XXXXXX";
        int fd = mkstemp(name);
        bad |= fd < 0 || unlink(name) || setrlimit(RLIMIT_FSIZE, &small) || write(fd, "12345678", 8) != 4 ||
               write(fd, "5678", 4) >= 0 || errno != EFBIG;
        _exit(bad ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void restored(void **state)
{
    (void)state;
    static struct stop_flag f;
    struct sigaction before, after;
    sigaction(SIGTERM, NULL, &before);
    assert_false(stop_asked(NULL) || stop_at_once(NULL));
    assert_int_equal(signals_install(&f, NULL), 0);
    raise(SIGTERM);
    assert_true(stop_asked(&f) && !stop_at_once(&f));
    now_ms += 1000;
    raise(SIGTERM);
    assert_true(stop_at_once(&f));
    signals_restore();
    sigaction(SIGTERM, NULL, &after);
    assert_true(after.sa_handler == before.sa_handler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(at_once_is_once),
        cmocka_unit_test(limits_become_errors),
        cmocka_unit_test(restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
