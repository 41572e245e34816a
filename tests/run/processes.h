/* processes.h: runs of several processes, started as torchrun starts them: by variables of the environment. */
#ifndef TESTS_RUN_PROCESSES_H
#define TESTS_RUN_PROCESSES_H

#include "../port.h"
#include "runs_help.h"

#include <signal.h>
#include <sys/wait.h>

enum { MOST_PROCESSES = 4 };

struct processes_run {
    int n;
    pid_t pid[MOST_PROCESSES];
    int status[MOST_PROCESSES]; /* after processes_wait */
};

/* For what is the same on all: the CPU, or the GPU that is tested. */
static inline const struct device *a_device(void)
{
    return device(n_devices() > 1);
}

/* Of a GPU each process has its own. Where they are emulated each process has one, whatever this program finds. */
static inline int most_processes(const struct device *on)
{
    int gpus = backend_cuda_count(), there = is_host(on) || gpus > MOST_PROCESSES ? MOST_PROCESSES : gpus;
    return there ? there : 2;
}

/* Arguments of a run, and where it goes. */
static inline const char *const *run_of(const struct device *on, const char *out, const char *const *args)
{
    static const char *all[64];
    size_t n = 0;
    const char *const common[] = {"train",   "--output-dir", out,          "--device",  on->name,
                                  "--dtype", on->dtype,      "--log-hash", "--threads", "1"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        all[n++] = common[i];
    for (; *args; args++)
        all[n++] = *args;
    all[n] = NULL;
    remove_tree(out);
    return all;
}

/* folder/said-K: what process k says. */
static inline const char *said_by(int k)
{
    static const char *const names[MOST_PROCESSES] = {"said-0", "said-1", "said-2", "said-3"};
    return join(folder, names[k]);
}

/* `differs`: arguments that the last process gets besides; NULL: none. */
static inline struct processes_run start_processes_but(int n, const char *const *args, const char *const *differs)
{
    struct processes_run r = {.n = n};
    char number[16], port[16];
    snprintf(port, sizeof port, "%d", free_port());
    snprintf(number, sizeof number, "%d", n);
    setenv("WORLD_SIZE", number, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    for (int k = 0; k < n; k++) {
        snprintf(number, sizeof number, "%d", k);
        setenv("RANK", number, 1);
        r.pid[k] = start_snug(said_by(k), args, k == n - 1 ? differs : NULL);
    }
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    return r;
}

static inline struct processes_run start_processes(int n, const char *const *args)
{
    return start_processes_but(n, args, NULL);
}

static inline void processes_wait(struct processes_run *r)
{
    for (int k = 0; k < r->n; k++)
        r->status[k] = end_of(r->pid[k]);
}

/* Lines of a file; what it says is printed where they are not as many as they must be. */
static inline void assert_lines(const char *path, size_t lines)
{
    size_t n, found = 0;
    char *text = read_text(path, &n);
    for (size_t i = 0; i < n; i++)
        found += text[i] == '\n';
    if (found != lines)
        fail_msg("%s has %zu lines, not %zu:\n%s", path, found, lines, text);
    free(text);
}

/* Process k ends with `status`, and says nothing unless it is the first. */
static inline void assert_ends(struct processes_run *r, int status)
{
    processes_wait(r);
    for (int k = 0; k < r->n; k++) {
        size_t n;
        if (r->status[k] != status)
            fail_msg("process %d of %d ended with %d, not %d, and said: %s", k, r->n, r->status[k], status,
                     read_text(said_by(k), &n));
        if (k)
            assert_lines(said_by(k), 0);
    }
}

#endif
