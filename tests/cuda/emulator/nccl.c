/* A library with NCCL's name for emulated devices, of one process or several of this machine: what ranks send each other goes through
 * sockets. As with NCCL, whoever waits for a rank that has died waits until it is told to abort. Of the interface there is what
 * src/cuda/nccl uses, and its own prototypes. */
#include "enqueue.h"
#include "runtime.h"

#include "cuda/nccl/library.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, LOOK_MS = 20, INVALID_USAGE = 5 };

struct ncclComm {
    int me, n;
    int fd[MOST];
    volatile int aborted;
};

#define F(name, result, parameters) result nccl##name parameters;
NCCL_FUNCTIONS(F)
#undef F

int ncclGetVersion(int *version)
{
    *version = 22809;
    return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    return result ? "an error of the emulator" : "no error";
}

const char *ncclGetLastError(struct ncclComm *comm)
{
    (void)comm;
    return "of the emulator";
}

/* ---- meeting, at sockets without files ---- */

int ncclGetUniqueId(struct nccl_id *id)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "snug-nccl-%d-%lld-%ld", (int)getpid(), (long long)now.tv_sec,
             now.tv_nsec);
    return NCCL_SUCCESS;
}

static struct sockaddr_un address_of(const struct nccl_id *id, int rank)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%.64s-%d", id->internal, rank);
    return a;
}

static int open_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        emulator_stop("no socket");
    return fd;
}

static int connect_to(const struct nccl_id *id, int rank, int me)
{
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    struct sockaddr_un a = address_of(id, rank);
    for (;;) {
        int fd = open_socket();
        if (!connect(fd, (struct sockaddr *)&a, sizeof a) && write(fd, &me, sizeof me) == sizeof me)
            return fd;
        close(fd);
        nanosleep(&pause, NULL);
    }
}

int ncclCommInitRank(struct ncclComm **out, int n, struct nccl_id id, int me)
{
    struct ncclComm *comm = emulator_zeroed(1, sizeof *comm);
    struct sockaddr_un a = address_of(&id, me);
    int listening = open_socket(), other;
    if (n > MOST || bind(listening, (struct sockaddr *)&a, sizeof a) || listen(listening, MOST))
        return INVALID_USAGE;
    comm->me = me, comm->n = n;
    for (int k = 0; k < n; k++)
        comm->fd[k] = k < me ? connect_to(&id, k, me) : -1;
    for (int k = me + 1; k < n; k++) {
        int fd = accept(listening, NULL, NULL);
        if (fd < 0 || read(fd, &other, sizeof other) != sizeof other || other <= me || other >= n)
            return INVALID_USAGE;
        comm->fd[other] = fd;
    }
    close(listening);
    *out = comm;
    return NCCL_SUCCESS;
}

int ncclCommDestroy(struct ncclComm *comm)
{
    for (int k = 0; k < comm->n; k++)
        if (comm->fd[k] >= 0)
            close(comm->fd[k]);
    free(comm);
    return NCCL_SUCCESS;
}

int ncclCommAbort(struct ncclComm *comm)
{
    comm->aborted = 1; /* whoever waits may still look at it */
    return NCCL_SUCCESS;
}

/* ---- groups of what is sent and received ---- */

struct transfer {
    char *data;
    size_t n;
    int peer, sends;
};

/* What is enqueued: the connection, and its transfers behind it. */
struct group {
    struct ncclComm *comm;
    size_t n;
    struct transfer of[];
};

static _Thread_local struct group *group;
static _Thread_local size_t room;
static _Thread_local struct CUstream_st *group_stream;

static size_t group_bytes(size_t n)
{
    return sizeof *group + n * sizeof group->of[0];
}

int ncclGroupStart(void)
{
    if (!group)
        group = emulator_resize(NULL, group_bytes(room = 16), 1);
    group->n = 0;
    return NCCL_SUCCESS;
}

static int add(struct ncclComm *comm, struct CUstream_st *stream, struct transfer t)
{
    if (!group || t.peer < 0 || t.peer >= comm->n || t.peer == comm->me)
        return INVALID_USAGE;
    if (group->n == room)
        group = emulator_resize(group, group_bytes(room *= 2), 1);
    group->comm = comm;
    group_stream = stream;
    group->of[group->n++] = t;
    return NCCL_SUCCESS;
}

int ncclSend(const void *data, size_t n, int type, int to, struct ncclComm *comm, struct CUstream_st *stream)
{
    (void)type;
    return add(comm, stream, (struct transfer){(char *)data, n, to, 1});
}

int ncclRecv(void *data, size_t n, int type, int from, struct ncclComm *comm, struct CUstream_st *stream)
{
    (void)type;
    return add(comm, stream, (struct transfer){data, n, from, 0});
}

/* Of one direction with one peer: which transfer is on its way, and how far. */
struct progress {
    size_t at, done;
};

static void find_next(const struct group *g, struct progress *p, int peer, int sends)
{
    while (p->at < g->n && (g->of[p->at].peer != peer || g->of[p->at].sends != sends || g->of[p->at].n == p->done)) {
        p->at++;
        p->done = 0;
    }
}

/* What can be done without waiting. A rank that has died is waited for. */
static void move_on(const struct group *g, struct progress *p, int fd)
{
    const struct transfer *t = &g->of[p->at];
    ssize_t n = t->sends ? send(fd, t->data + p->done, t->n - p->done, MSG_DONTWAIT | MSG_NOSIGNAL)
                         : recv(fd, t->data + p->done, t->n - p->done, MSG_DONTWAIT);
    p->done += n > 0 ? (size_t)n : 0;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        const struct timespec pause = {.tv_nsec = LOOK_MS * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
}

static void exchange(const struct group *g)
{
    struct progress p[2][MOST] = {0};
    for (int open = 1; open && !g->comm->aborted;) {
        struct pollfd polled[MOST];
        open = 0;
        for (int k = 0; k < g->comm->n; k++) {
            short events = 0;
            for (int sends = 0; sends < 2; sends++) {
                find_next(g, &p[sends][k], k, sends);
                events |= p[sends][k].at == g->n ? 0 : sends ? POLLOUT : POLLIN;
            }
            polled[k] = (struct pollfd){.fd = events ? g->comm->fd[k] : -1, .events = events};
            open |= events != 0;
        }
        if (!open || poll(polled, (nfds_t)g->comm->n, LOOK_MS) <= 0)
            continue;
        for (int k = 0; k < g->comm->n; k++)
            for (int sends = 0; sends < 2; sends++)
                if (polled[k].fd >= 0 && polled[k].revents && p[sends][k].at < g->n)
                    move_on(g, &p[sends][k], polled[k].fd);
    }
}

/* The device goes on with what other threads ask of it. */
static void run(const void *data)
{
    emulator_unlock();
    exchange(data);
    emulator_lock();
}

int ncclGroupEnd(void)
{
    if (group->n)
        emulator_enqueue(group_stream, run, group, group_bytes(group->n));
    return NCCL_SUCCESS;
}
