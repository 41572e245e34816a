#include "cli/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 100, LONGEST_LINE = 1 << 20 };

/* One stream of the child, cut into lines. */
struct stream {
    int fd; /* -1: at its end */
    struct str line;
    void (*take)(void *ctx, const char *line);
    void *ctx;
};

struct child {
    pid_t pid;
    struct stream streams[2]; /* its stdout and stderr */
};

/* The last "snug: error: …" on its stderr; a stop or a signal says "snug: …". */
static void keep_error(void *ctx, const char *line)
{
    static const char start[] = "snug: error: ";
    char *error = ctx;
    if (!strncmp(line, start, sizeof start - 1))
        snprintf(error, SNUG_ERR_TEXT, "%s", line + sizeof start - 1);
}

/* In the child: streams, and an end together with its parent. */
static _Noreturn void become(const char *const *argv, int out, int err, pid_t parent)
{
    int null = open("/dev/null", O_RDONLY);
    /* A group of its own: an interrupt from the terminal is for the parent, who decides. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(127);
    execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int start(struct child *c, const char *const *argv, struct snug_err *err)
{
    int out[2], errors[2];
    if (pipe2(out, O_CLOEXEC) < 0)
        return err_errno(err, SNUG_ERR_ENV, argv[1], "make a pipe for", errno);
    if (pipe2(errors, O_CLOEXEC) < 0) {
        int errnum = errno;
        close(out[0]);
        close(out[1]);
        return err_errno(err, SNUG_ERR_ENV, argv[1], "make a pipe for", errnum);
    }
    fflush(NULL); /* or the child would write it again */
    pid_t parent = getpid();
    c->pid = fork();
    int errnum = errno;
    if (c->pid == 0)
        become(argv, out[1], errors[1], parent);
    close(out[1]);
    close(errors[1]);
    if (c->pid < 0) {
        close(out[0]);
        close(errors[0]);
        return err_errno(err, SNUG_ERR_ENV, argv[1], "start a process for", errnum);
    }
    c->streams[0].fd = out[0];
    c->streams[1].fd = errors[0];
    return SNUG_OK;
}

static void end_line(struct stream *s)
{
    if (s->take)
        s->take(s->ctx, str_text(&s->line));
    s->line.n = 0;
    if (s->line.s)
        s->line.s[0] = 0;
}

static void read_stream(struct stream *s)
{
    char bytes[4096];
    ssize_t n = read(s->fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        if (s->line.n)
            end_line(s);
        close(s->fd);
        s->fd = -1;
        return;
    }
    for (const char *at = bytes, *end = bytes + n; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        if (s->line.n < LONGEST_LINE)
            str_append_n(&s->line, at, (size_t)(stop - at));
        if (newline)
            end_line(s);
        at = stop + (newline != NULL);
    }
}

/* Until both streams are at their ends, or the parent is asked to stop. */
static bool follow(struct child *c, const struct child_events *events, const snug_stop *stop)
{
    while (c->streams[0].fd >= 0 || c->streams[1].fd >= 0) {
        struct pollfd fds[2] = {{.fd = c->streams[0].fd, .events = POLLIN}, {.fd = c->streams[1].fd, .events = POLLIN}};
        int ready = poll(fds, 2, TICK_MS);
        if (snug_stop_exit_code(stop))
            return false;
        if (events->tick)
            events->tick(events->ctx);
        for (int i = 0; i < 2 && ready > 0; i++)
            if (fds[i].revents)
                read_stream(&c->streams[i]);
    }
    return true;
}

int child_run(const char *const *argv, const struct child_events *events, const snug_stop *stop, int *exit_code,
              char error[SNUG_ERR_TEXT], struct snug_err *err)
{
    struct child c = {.streams = {{.fd = -1, .take = events->line, .ctx = events->ctx},
                                  {.fd = -1, .take = keep_error, .ctx = error}}};
    int status = 0;
    *error = 0;
    TRY(start(&c, argv, err));
    bool ended = follow(&c, events, stop);
    if (!ended)
        kill(c.pid, SIGKILL);
    while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < 2; i++) {
        if (c.streams[i].fd >= 0)
            close(c.streams[i].fd);
        str_free(&c.streams[i].line);
    }
    *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ended ? SNUG_OK : err_set(err, SNUG_STOPPED, "stopped by a signal");
}
