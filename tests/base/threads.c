/* base/threads: E15, a limit under which the threads of a run cannot be started. */
#include "base/threads.h"

#include "../folder.h"
#include "../sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void they_can_be_had(void **state)
{
    (void)state;
    struct snug_err err;
    for (int n = 0; n <= 8; n++)
        assert_int_equal(threads_check(n, &err), SNUG_OK);
}

/* The stacks alone are more than the limit of the address space: for the second thread there is no room. (A limit of
 * processes, ulimit -u, fails in the same way, but does not hold for root.) */
static void limit_threads(void)
{
    const rlim_t gib = (rlim_t)1 << 30;
    if (setrlimit(RLIMIT_STACK, &(struct rlimit){4 * gib, RLIM_INFINITY}) ||
        setrlimit(RLIMIT_AS, &(struct rlimit){6 * gib, 6 * gib}))
        _exit(99);
}

/* One line and the exit code, where OpenMP would have said "Thread creation failed" and ended the process. */
static void a_run_says_so(void **state)
{
    (void)state;
    char said[100], model[600], out[100];
    size_t n;
    if (SANITIZED)
        skip();
    make_folder(folder);
    snprintf(said, sizeof said, "%s/said", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(model, sizeof model, "%s/tests/golden/trainer/init", getenv("SNUG_SOURCE"));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        limit_threads();
        if (!freopen(said, "w", stderr))
            _exit(98);
        execl(getenv("SNUG_COMMAND"), "snug", "train", "--model", model, "--train-data", "synthetic:8x4", "--threads",
              "4", "--output-dir", out, "--device", "cpu", NULL);
        _exit(97);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    char *text = read_text(said, &n);
    assert_string_equal(text,
                        "snug: error: only 1 of 5 threads can be started: Resource temporarily unavailable; raise "
                        "the limit (ulimit -u), or give fewer --threads\n");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SNUG_ERR_ENV);
    assert_int_equal(access(out, F_OK), -1);
    free(text);
    remove_tree(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_can_be_had), cmocka_unit_test(a_run_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
