#include "cli/launch.h"

#include "backend/backend.h"
#include "base/seconds.h"
#include "options/gpus.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MOST = 1024, /* --num-processes */
    GRACE = 15   /* seconds beyond --peer-timeout in which processes notice that one of them is gone, and end */
};

int launch_wanted(const struct options *o, int *n, struct snug_err *err)
{
    struct gpus g = {0};
    *n = 0;
    if (!(o->command & (CMD_TRAIN | CMD_EVAL)) || o->main_process)
        return SNUG_OK;
    if (o->num_processes > 1 && !option_given(o, process_index))
        *n = (int)o->num_processes;
    else
        TRY(options_gpus(o, &g, err));
    if (g.n > 1 && !backend_cuda_reach(g.of, g.n))
        *n = g.n;
    return SNUG_OK;
}

/* ---- starting ---- */

/* A port of this machine that nobody listens on. */
static int free_port(int *port, struct snug_err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && !bind(fd, (struct sockaddr *)&at, size) && !getsockname(fd, (struct sockaddr *)&at, &size);
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    *port = ntohs(at.sin_port);
    return found ? SNUG_OK : err_set(err, SNUG_ERR_ENV, "127.0.0.1: no port to meet at: %s", strerror(errnum));
}

static int put(const char *variable, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return setenv(variable, text, 1);
}

/* What torchrun would say to process k of n. */
static int describe(int k, int n, int port)
{
    unsetenv("TORCHELASTIC_USE_AGENT_STORE"); /* in which case that port were taken */
    return put("RANK", k) || put("WORLD_SIZE", n) || put("LOCAL_WORLD_SIZE", n) || put("MASTER_PORT", port) ||
           setenv("MASTER_ADDR", "127.0.0.1", 1);
}

struct launched {
    int n, running;
    pid_t of[MOST];
    sigset_t waits;  /* for these, which are blocked here */
    sigset_t before; /* and were not */
};

/* In the new process. What it cannot do its exit code says. */
static void become(const struct launched *l, int k, int port, pid_t parent, char **argv)
{
    bool alone = prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent; /* it may have died before */
    if (alone || describe(k, l->n, port) || sigprocmask(SIG_SETMASK, &l->before, NULL))
        _exit(SNUG_ERR_ENV);
    execv("/proc/self/exe", argv);
    _exit(SNUG_ERR_ENV);
}

static void tell_all(const struct launched *l, int signal)
{
    for (int k = 0; k < l->n; k++)
        if (l->of[k] > 0)
            kill(l->of[k], signal);
}

static int start(struct launched *l, int port, char **argv, struct snug_err *err)
{
    pid_t self = getpid();
    for (int k = 0; k < l->n; k++) {
        l->of[k] = fork();
        if (l->of[k] == 0)
            become(l, k, port, self, argv);
        if (l->of[k] < 0) {
            int errnum = errno;
            tell_all(l, SIGKILL);
            return err_set(err, SNUG_ERR_ENV, "process %d of %d cannot be started: %s", k, l->n, strerror(errnum));
        }
        l->running++;
    }
    return SNUG_OK;
}

/* ---- waiting ---- */

/* Takes note of those that have ended. `failed`: the first exit code that is none of success; 0: none yet. */
static void collect(struct launched *l, int *failed, bool *killed)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int k = 0; k < l->n; k++) {
            if (l->of[k] != pid)
                continue;
            l->of[k] = 0;
            l->running--;
            *killed |= WIFSIGNALED(status);
            if (!*failed && WIFEXITED(status))
                *failed = WEXITSTATUS(status);
        }
}

/* Signals go on to all. Each stops by itself when one is gone; what does not is ended. */
static int wait_for(struct launched *l, double patience)
{
    int failed = 0;
    bool killed = false;
    double until = 0;
    while (l->running) {
        siginfo_t info;
        int signal = sigtimedwait(&l->waits, &info, &(struct timespec){.tv_sec = 1});
        if (signal > 0 && signal != SIGCHLD)
            tell_all(l, signal);
        collect(l, &failed, &killed);
        if ((failed || killed) && until == 0)
            until = seconds_now() + patience;
        if (until > 0 && seconds_now() > until)
            tell_all(l, SIGKILL);
    }
    return failed ? failed : killed ? SNUG_ERR_PEER : SNUG_OK;
}

int launch_processes(const struct options *o, int n, char **argv, struct snug_err *err)
{
    struct launched l = {.n = n};
    const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    int port;
    TRY(free_port(&port, err));
    sigemptyset(&l.waits);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&l.waits, signals[i]);
    sigprocmask(SIG_BLOCK, &l.waits, &l.before);
    int code = start(&l, port, argv, err);
    int ended = wait_for(&l, o->peer_timeout + GRACE);
    sigprocmask(SIG_SETMASK, &l.before, NULL);
    return code ? code : ended;
}
