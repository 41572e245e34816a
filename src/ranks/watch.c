#include "ranks/watch.h"

#include "base/mem.h"
#include "base/seconds.h"
#include "ranks/kind.h"
#include "ranks/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum word { WORD_HERE, WORD_LEFT, WORD_BYE };

/* All messages have one size. */
struct message {
    int32_t word, who, code, reserved;
    char why[SNUG_ERR_TEXT + 7];
};

/* What is known of another process. */
struct peer {
    int fd;    /* -1: not connected with it, or no longer; guarded by `sending` */
    bool bye;  /* it has taken leave, or was never connected */
    double at; /* seconds_now() of the last sign of life */
    struct message message;
    size_t received; /* bytes of it */
};

struct watch {
    struct ranks *all;
    int me, n;
    double silence;
    pthread_t thread;
    int wake[2];             /* a pipe: something changed */
    pthread_mutex_t sending; /* one message at a time on a connection */
    pthread_mutex_t lock;    /* guards what follows */
    pthread_cond_t changed;
    bool ends;
    struct peer *peers; /* (n): the thread's, but for what is guarded */
};

/* ---- sending ---- */

/* A peer that takes nothing for a second will be noticed by its silence. */
static void send_to_all(struct watch *w, const struct message *m, int but)
{
    pthread_mutex_lock(&w->sending);
    for (int k = 0; k < w->n; k++)
        if (w->peers[k].fd >= 0 && k != but)
            socket_send(w->peers[k].fd, m, sizeof *m, seconds_now() + 1);
    pthread_mutex_unlock(&w->sending);
}

void watch_tell(struct watch *w, int who, int code, const char *why)
{
    struct message m = {.word = WORD_LEFT, .who = who, .code = code};
    snprintf(m.why, sizeof m.why, "%s", why);
    send_to_all(w, &m, who == w->me ? -1 : who);
}

/* ---- what others say ---- */

static void found(struct watch *w, int who, int code, const char *why)
{
    ranks_lose(w->all, who, code, why, w->me == 0); /* the first one tells those that do not know each other */
}

static void listen_to(struct watch *w, int k)
{
    struct peer *p = &w->peers[k];
    struct message *m = &p->message;
    p->at = seconds_now();
    m->why[sizeof m->why - 1] = '\0';
    if (m->word == WORD_BYE) {
        pthread_mutex_lock(&w->lock);
        p->bye = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    } else if (m->word == WORD_LEFT && m->who >= 0 && m->who < w->n) {
        found(w, m->who, m->code, m->why);
    }
}

static void end_of_connection(struct watch *w, int k)
{
    struct peer *p = &w->peers[k];
    bool expected = p->bye;
    pthread_mutex_lock(&w->sending);
    p->fd = -1;
    pthread_mutex_unlock(&w->sending);
    pthread_mutex_lock(&w->lock);
    p->bye = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (!expected)
        found(w, k, SNUG_ERR_PEER, "its process has ended, or its machine is gone");
}

static void receive(struct watch *w, int k)
{
    struct peer *p = &w->peers[k];
    for (;;) {
        ssize_t n = recv(p->fd, (char *)&p->message + p->received, sizeof p->message - p->received, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            end_of_connection(w, k);
            return;
        }
        p->received += (size_t)n;
        if (p->received < sizeof p->message)
            continue;
        p->received = 0;
        listen_to(w, k);
    }
}

/* Time that this process itself did not run, such as behind Ctrl-Z, is nobody's silence: it then waits anew. */
static void look_for_silence(struct watch *w, double *looked)
{
    double now = seconds_now();
    bool slept = now - *looked > w->silence / 2;
    *looked = now;
    for (int k = 0; k < w->n; k++) {
        struct peer *p = &w->peers[k];
        char why[96];
        if (p->fd < 0 || p->bye)
            continue;
        if (slept)
            p->at = now;
        if (now - p->at <= w->silence)
            continue;
        snprintf(why, sizeof why, "no sign of life for %.0f s: it hangs, or its machine cannot be reached", w->silence);
        p->at = now;
        found(w, k, SNUG_ERR_PEER, why);
    }
}

/* ---- the thread ---- */

static bool ends(struct watch *w)
{
    pthread_mutex_lock(&w->lock);
    bool yes = w->ends;
    pthread_mutex_unlock(&w->lock);
    return yes;
}

static void wait_for_news(struct watch *w, struct pollfd *polled, double seconds)
{
    char byte;
    for (int k = 0; k < w->n; k++)
        polled[k] = (struct pollfd){.fd = w->peers[k].fd, .events = POLLIN};
    polled[w->n] = (struct pollfd){.fd = w->wake[0], .events = POLLIN};
    if (poll(polled, (nfds_t)w->n + 1, seconds > 0 ? (int)(seconds * 1e3) + 1 : 0) <= 0)
        return;
    while (polled[w->n].revents && read(w->wake[0], &byte, 1) > 0)
        ;
    for (int k = 0; k < w->n; k++)
        if (polled[k].revents)
            receive(w, k);
}

static void *work(void *arg)
{
    struct watch *w = arg;
    const double every = w->silence / 5 < 2 ? w->silence / 5 : 2;
    double next = seconds_now(), looked = next;
    struct pollfd *polled = mem_alloc(((size_t)w->n + 1) * sizeof *polled);
    while (polled && !ends(w)) {
        if (seconds_now() >= next) {
            send_to_all(w, &(struct message){.word = WORD_HERE}, -1);
            next = seconds_now() + every;
        }
        wait_for_news(w, polled, next - seconds_now());
        look_for_silence(w, &looked);
    }
    mem_free(polled);
    return NULL;
}

/* ---- opening, closing ---- */

static int start(struct watch *w, struct snug_err *err)
{
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, NULL, work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? err_set(err, SNUG_ERR_ENV, "cannot start a thread: %s; raise the process limit (ulimit -u)",
                            strerror(failed))
                  : SNUG_OK;
}

static void free_watch(struct watch *w)
{
    close(w->wake[0]);
    close(w->wake[1]);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->sending);
    mem_free(w->peers);
    mem_free(w);
}

int watch_open(struct ranks *all, int me, int n, const int *control, double silence, struct watch **out,
               struct snug_err *err)
{
    struct watch *w = mem_alloc(sizeof *w);
    *out = NULL;
    if (!w || !(w->peers = mem_alloc((size_t)n * sizeof *w->peers))) {
        mem_free(w);
        return err_no_memory(err, (unsigned long long)n * sizeof *w->peers);
    }
    w->all = all, w->me = me, w->n = n, w->silence = silence;
    if (pipe2(w->wake, O_CLOEXEC | O_NONBLOCK)) {
        int errnum = errno;
        mem_free(w->peers);
        mem_free(w);
        return err_set(err, SNUG_ERR_ENV, "there is no pipe to be had: %s; raise the limit of open files (ulimit -n)",
                       strerror(errnum));
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->sending, NULL);
    for (int k = 0; k < n; k++) {
        int fd = k == me ? -1 : control[k];
        w->peers[k] = (struct peer){.fd = fd, .bye = fd < 0, .at = seconds_now()};
    }
    *out = w; /* before the thread begins, which may have something to tell at once */
    int code = start(w, err);
    if (code) {
        *out = NULL;
        free_watch(w);
    }
    return code;
}

static bool all_have_taken_leave(const struct watch *w)
{
    for (int k = 0; k < w->n; k++)
        if (!w->peers[k].bye)
            return false;
    return true;
}

/* A connection that is closed with messages unread is cut, and what was sent last is lost: so whoever goes waits until the others, too,
 * have taken leave, which they do at about the same time. After a failure nobody waits. */
void watch_close(struct watch *w)
{
    if (!w)
        return;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1 + (time_t)w->silence;
    send_to_all(w, &(struct message){.word = WORD_BYE}, -1);
    pthread_mutex_lock(&w->lock);
    while (ranks_left(w->all) < 0 && !all_have_taken_leave(w) && !pthread_cond_timedwait(&w->changed, &w->lock, &until))
        ;
    w->ends = true;
    pthread_mutex_unlock(&w->lock);
    ssize_t written = write(w->wake[1], "", 1);
    (void)written;
    pthread_join(w->thread, NULL);
    free_watch(w);
}
