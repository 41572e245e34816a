/* Processes of a run that are killed, stopped, or asked to stop: all end by themselves, one line says why, and the run goes on from the
 * last checkpoint as if nothing had happened. SNUG_KILLS: how many times one is killed (scripts/kill-ranks). */
#include "processes.h"

#include <time.h>

/* What each process keeps alone: no bit of a run depends on it. */
static const char *const stages[] = {"0", "1", "2", "3"};
static const char *stage = "0";

/* Long enough to be interrupted: some 300 steps. */
static const char *const *long_run(const char *out, const char *more, const char *value)
{
    static const char *all[64];
    size_t n = 0;
    const char *const args[] = {"train",
                                "--output-dir",
                                out,
                                "--device",
                                a_device()->name,
                                "--dtype",
                                a_device()->dtype,
                                "--threads",
                                "1",
                                "--log-hash",
                                MODEL,
                                DROPOUT,
                                "--logging-steps",
                                "100",
                                "--max-steps",
                                "300",
                                "--save-steps",
                                "7",
                                "--save-total-limit",
                                "2",
                                "--batch-size",
                                "4",
                                "--no-report",
                                "--peer-timeout",
                                "3",
                                "--eval-data",
                                other_rows,
                                "--eval-strategy",
                                "steps",
                                "--eval-steps",
                                "50",
                                "--zero-stage",
                                stage,
                                more,
                                value};
    for (size_t i = 0; i < sizeof args / sizeof *args && args[i]; i++)
        all[n++] = args[i];
    all[n] = NULL;
    return all;
}

/* Processes of a run. */
static int several(void)
{
    return most_processes(a_device()) < 3 ? most_processes(a_device()) : 3;
}

static void pause_for(double seconds)
{
    const struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static double within(double seconds)
{
    return (double)rand() / RAND_MAX * seconds;
}

/* Waits until the run has saved something, so that there is something to go on from. */
static void wait_for_a_checkpoint(const char *out)
{
    for (int i = 0; i < 3000 && access(join(out, "step-00000007"), F_OK) && access(join(out, "step-00000014"), F_OK);
         i++)
        pause_for(0.01);
}

/* How long a run takes, and what it comes to. */
static double undisturbed(const char **out)
{
    double began = seconds_now();
    *out = join(folder, "undisturbed");
    remove_tree(*out);
    struct processes_run r = start_processes(several(), long_run(*out, NULL, NULL));
    assert_ends(&r, 0);
    return seconds_now() - began;
}

/* The killed one, and the others: 8; or 0 where the run was over before, or 4 where it had not begun, and they waited in vain. */
static void assert_ended_by_itself(struct processes_run *r, int killed, double began)
{
    int lines = 0;
    processes_wait(r);
    assert_true(seconds_now() - began < (SANITIZED ? 120 : 30));
    for (int k = 0; k < r->n; k++) {
        int s = r->status[k];
        if (k == killed ? s != 128 + SIGKILL && s != 0 : s != 8 && s != 0 && s != 4)
            fail_msg("rank %d was killed, and rank %d ended with %d", killed, k, s);
        lines += k != killed && file_has(said_by(k), "error: ");
    }
    bool told = r->status[killed] != 0 && r->status[killed ? 0 : 1] == 8;
    if (told && (lines != 1 || !file_has(said_by(killed ? 0 : 1), killed == 0   ? "rank 0: its process has ended"
                                                                  : killed == 1 ? "rank 1: its process has ended"
                                                                                : "rank 2: its process has ended")))
        fail_msg("rank %d was killed, and %d lines say so", killed, lines);
}

/* kill -9 of one at any moment; then the run goes on, and is killed again. */
static void killed_runs_go_on(void **state)
{
    (void)state;
    const char *whole, *out = join(folder, "killed");
    const char *asked = getenv("SNUG_KILLS");
    int kills = asked ? atoi(asked) : loops(6);
    double seconds = undisturbed(&whole);
    srand(17);
    remove_tree(out);
    for (int i = 0; i < kills; i++) {
        stage = stages[i % 4];
        struct processes_run r = start_processes(several(), long_run(out, "--resume-from-checkpoint", "auto"));
        int victim = rand() % several();
        pause_for(within(seconds));
        double began = seconds_now();
        kill(r.pid[victim], SIGKILL);
        assert_ended_by_itself(&r, victim, began);
        if (r.status[victim] == 0) /* over before: once more from the start */
            remove_tree(out);
    }
    struct processes_run r = start_processes(several(), long_run(out, "--resume-from-checkpoint", "auto"));
    processes_wait(&r);
    assert_int_equal(r.status[0], 0);
    assert_true(same_bytes(join(whole, "model.safetensors"), join(out, "model.safetensors")));
    stage = stages[0];
}

/* A process that does nothing any more, as where its machine hangs. */
static void a_silent_process_is_lost(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        const char *out = join(folder, "silent");
        remove_tree(out);
        struct processes_run r = start_processes(several(), long_run(out, NULL, NULL));
        wait_for_a_checkpoint(out);
        kill(r.pid[victim], SIGSTOP);
        for (int k = 0; k < r.n; k++)
            if (k != victim)
                assert_int_equal(r.status[k] = end_of(r.pid[k]), 8);
        kill(r.pid[victim], SIGKILL);
        assert_int_equal(end_of(r.pid[victim]), 128 + SIGKILL);
        const char *teller = said_by(victim ? 0 : 1);
        assert_true(file_has(teller, victim ? "rank 1: no sign of life for 3 s" : "rank 0: no sign of life for 3 s"));
        if (r.n > 2)
            assert_lines(said_by(2), 0);
        assert_true(victim == 0 || file_has(teller, "go on from step"));
    }
}

/* A signal to one of them, whichever: all stop after the same step, which is saved once. */
static void all_stop_together(void **state)
{
    (void)state;
    const char *whole;
    undisturbed(&whole);
    for (int asked = 0; asked < several(); asked++) {
        const char *out = join(folder, "stopped");
        stage = stages[asked];
        remove_tree(out);
        struct processes_run r = start_processes(several(), long_run(out, NULL, NULL));
        wait_for_a_checkpoint(out);
        kill(r.pid[asked], SIGINT);
        processes_wait(&r);
        assert_true(file_has(said_by(0), "stopped by a signal after step"));
        for (int k = 0; k < r.n; k++) {
            assert_int_equal(r.status[k], 75);
            if (k)
                assert_lines(said_by(k), 0);
        }
        r = start_processes(several(), long_run(out, "--resume-from-checkpoint", "auto"));
        assert_ends(&r, 0);
        assert_true(same_bytes(join(whole, "model.safetensors"), join(out, "model.safetensors")));
    }
    stage = stages[0];
}

/* The first process cannot write any more: the others do not wait for it, and it says what is wrong. */
static void a_failure_of_the_first_ends_all(void **state)
{
    (void)state;
    const char *out = join(folder, "gone");
    stage = stages[2];
    remove_tree(out);
    struct processes_run r = start_processes(several(), long_run(out, NULL, NULL));
    wait_for_a_checkpoint(out);
    remove_tree(out);
    processes_wait(&r);
    assert_int_equal(r.status[0], 5);
    for (int k = 1; k < r.n; k++) {
        assert_int_equal(r.status[k], 8);
        assert_lines(said_by(k), 0);
    }
}

/* The processes that one has started, by their parent; gives how many there are. */
static int children_of(pid_t parent, pid_t *of, int most)
{
    char path[64];
    long pid;
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *f = fopen(path, "re");
    while (f && n < most && fscanf(f, "%ld", &pid) == 1)
        of[n++] = (pid_t)pid;
    if (f)
        fclose(f);
    return n;
}

/* One that nobody has waited for yet runs no more. */
static bool is_running(pid_t pid)
{
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'X';
    if (f)
        fclose(f);
    return state != 'X' && state != 'Z';
}

/* A signal to the one that has started them stops all, with a checkpoint. When one of them is killed, all end. When that one is, so do they. */
static void they_end_together(void **state)
{
    (void)state;
    static const struct {
        int whom, signal; /* -1: the one that has started them */
        int ends;
    } ways[] = {{-1, SIGTERM, SNUG_STOPPED},
                {1, SIGKILL, SNUG_ERR_PEER},
                {0, SIGKILL, SNUG_ERR_PEER},
                {-1, SIGKILL, 128 + SIGKILL}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *out = join(folder, "started");
        remove_tree(out);
        pid_t of[2], pid = start_snug(said(),
                                      run_of(a_device(), out,
                                             ARGS(MODEL, "--max-steps", "100000", "--save-steps", "7", "--batch-size",
                                                  "4", "--num-processes", "2", "--no-report")),
                                      NULL);
        for (int wait = 0; wait < 6000 && access(join(out, "step-00000007"), F_OK); wait++)
            pause_for(0.01);
        assert_int_equal(children_of(pid, of, 2), 2);
        assert_int_equal(kill(ways[i].whom < 0 ? pid : of[ways[i].whom], ways[i].signal), 0);
        assert_int_equal(end_of(pid), ways[i].ends);
        for (int wait = 0; wait < 3000 && (is_running(of[0]) || is_running(of[1])); wait++)
            pause_for(0.02);
        assert_false(is_running(of[0]) || is_running(of[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_end_together), cmocka_unit_test(killed_runs_go_on),
                                       cmocka_unit_test(a_silent_process_is_lost), cmocka_unit_test(all_stop_together),
                                       cmocka_unit_test(a_failure_of_the_first_ends_all)};
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
