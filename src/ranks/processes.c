/* How processes meet. All but the first connect to it and say who they are, what they were asked for, and where they listen; when all are
 * there, and agree, it tells each where the others listen. Then each connects with those before it. That second connection is for data; the
 * first one stays, for signs of life. */
#include "ranks/processes.h"

#include "base/mem.h"
#include "base/seconds.h"
#include "ranks/kind.h"
#include "ranks/sockets.h"
#include "ranks/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

struct process_ranks {
    struct ranks all;
    int me;
    double silence;
    int *control, *data; /* (n): connections to the others; -1: none */
    int listening;       /* for data connections, while processes meet */
    struct watch *watch;
    uint32_t exchanges;
    struct transfer *transfers; /* (n) */
    struct pollfd *polled;      /* (n) */
};

/* ---- exchange ---- */

enum { LOOK_MS = 200 }; /* how often who waits looks whether a rank has left */

/* In front of what is sent: both sides count exchanges, so a rank that makes other calls than the rest is noticed. */
struct header {
    uint32_t exchange, reserved;
    uint64_t bytes;
};

/* What goes to a rank and comes from it, and how far that is. */
struct transfer {
    struct header out, in;
    size_t sent, received; /* bytes, headers included */
};

static size_t left_to_send(const struct transfer *t)
{
    return sizeof t->out + (size_t)t->out.bytes - t->sent;
}

static size_t left_to_receive(const struct transfer *t, const struct piece *in)
{
    return sizeof t->in + in->bytes - t->received;
}

/* The rank is not to be had any more: -1. */
static int send_some(int fd, struct transfer *t, const struct piece *out)
{
    size_t of_header = t->sent < sizeof t->out ? sizeof t->out - t->sent : 0;
    size_t of_data = left_to_send(t) - of_header;
    struct iovec parts[2] = {{(char *)&t->out + t->sent, of_header},
                             {(char *)out->data + (out->bytes - of_data), of_data}};
    struct msghdr m = {.msg_iov = of_header ? parts : parts + 1, .msg_iovlen = of_header ? 2 : 1};
    ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -1;
    t->sent += (size_t)n;
    return 0;
}

static int receive_some(int fd, struct transfer *t, const struct piece *in)
{
    bool header = t->received < sizeof t->in;
    size_t at = t->received - (header ? 0 : sizeof t->in);
    ssize_t n = header ? recv(fd, (char *)&t->in + at, sizeof t->in - at, 0)
                       : recv(fd, (char *)in->data + at, in->bytes - at, 0);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -1;
    t->received += (size_t)n;
    return n ? 0 : -1;
}

/* The watch knows more of why a connection ended, and soon; where it does not, that the connection ended has to do. */
static bool lost(struct process_ranks *p, int who)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2 + (time_t)p->silence;
    pthread_mutex_lock(&p->all.lock);
    while (p->all.left < 0 && !pthread_cond_timedwait(&p->all.changed, &p->all.lock, &until))
        ;
    pthread_mutex_unlock(&p->all.lock);
    ranks_lose(&p->all, who, SNUG_ERR_PEER, "its connection has ended", true);
    return false;
}

static bool out_of_step(struct process_ranks *p, int who)
{
    ranks_lose(&p->all, who, SNUG_ERR_PEER, "it does something else than the others; give all the same snug and files",
               true);
    return false;
}

/* What rank k and this one can do without waiting. */
static bool move_on(struct process_ranks *p, int k, short ready, const struct piece *out, const struct piece *in)
{
    struct transfer *t = &p->transfers[k];
    if (ready & POLLOUT && left_to_send(t) && send_some(p->data[k], t, out))
        return lost(p, k);
    if (!(ready & (POLLIN | POLLHUP | POLLERR)) || !left_to_receive(t, in))
        return !(ready & (POLLERR | POLLHUP)) || lost(p, k);
    if (receive_some(p->data[k], t, in))
        return lost(p, k);
    if (t->received >= sizeof t->in && (t->in.exchange != p->exchanges || t->in.bytes != in->bytes))
        return out_of_step(p, k);
    return true;
}

/* Which connections something can still be done on; none: all is done. */
static int still_open(struct process_ranks *p, const struct piece *in)
{
    int open = 0;
    for (int k = 0; k < p->all.n; k++) {
        struct transfer *t = &p->transfers[k];
        short events =
            k == p->me ? 0 : (short)((left_to_send(t) ? POLLOUT : 0) | (left_to_receive(t, &in[k]) ? POLLIN : 0));
        p->polled[k] = (struct pollfd){.fd = events ? p->data[k] : -1, .events = events};
        open += events != 0;
    }
    return open;
}

static bool exchange(const struct rank *r, const struct piece *out, const struct piece *in)
{
    struct process_ranks *p = (struct process_ranks *)r->all;
    p->exchanges++;
    for (int k = 0; k < r->n; k++)
        p->transfers[k] = (struct transfer){.out = {.exchange = p->exchanges, .bytes = out[k].bytes}};
    if (out[p->me].bytes && out[p->me].data != in[p->me].data)
        memcpy(in[p->me].data, out[p->me].data, out[p->me].bytes);
    while (still_open(p, in)) {
        int ready = poll(p->polled, (nfds_t)r->n, LOOK_MS);
        if (ready < 0 && errno != EINTR)
            return lost(p, p->me);
        if (ready == 0 && ranks_left(r->all) >= 0) /* what a rank has sent before it left still counts */
            return false;
        for (int k = 0; ready > 0 && k < r->n; k++)
            if (p->polled[k].fd >= 0 && p->polled[k].revents && !move_on(p, k, p->polled[k].revents, &out[k], &in[k]))
                return false;
    }
    return true;
}

static void tell(struct ranks *all, int who)
{
    struct process_ranks *p = (struct process_ranks *)all;
    if (p->watch)
        watch_tell(p->watch, who, all->left_code, all->why);
}

static void close_processes(struct ranks *all)
{
    struct process_ranks *p = (struct process_ranks *)all;
    watch_close(p->watch);
    for (int k = 0; k < all->n; k++) {
        if (p->control && p->control[k] >= 0)
            close(p->control[k]);
        if (p->data && p->data[k] >= 0)
            close(p->data[k]);
    }
    if (p->listening >= 0)
        close(p->listening);
    ranks_end(all);
    mem_free(p->control);
    mem_free(p->data);
    mem_free(p->transfers);
    mem_free(p->polled);
    mem_free(p);
}

static const struct ranks_kind processes = {.exchange = exchange, .tell = tell, .close = close_processes};

/* ---- meeting ---- */

enum { AGREE_MOST = 64 << 10, COOKIE = 16, HELLO_SECONDS = 5 };
static const char magic[8] = "snug 1\n"; /* of this way of meeting */

/* What a process says on its first connection, its lines behind it. */
struct hello {
    char magic[8];
    int32_t rank, n, port; /* where it listens for data */
    uint32_t agree_bytes;
};

/* What the first one answers: why there will be no run; or where the others listen, (n) places. */
struct answer {
    int32_t code, reserved;
    char why[SNUG_ERR_TEXT + 7];
    unsigned char cookie[COOKIE]; /* that the processes of this run know */
};

/* `with_first`: on the machine of the first one, whose address everybody knows. */
struct place {
    struct address address;
    int32_t port, with_first;
};

/* The first word on a data connection. */
struct introduction {
    unsigned char cookie[COOKIE];
    int32_t rank, reserved;
};

/* Who meets, while they do. */
struct gathering {
    const struct processes *of;
    struct process_ranks *p;
    double until;
    struct address first;
    unsigned char cookie[COOKIE];
    struct place *places; /* (n) */
};

/* Whoever waits looks for a signal ten times a second. */
static bool goes_on(const struct gathering *g)
{
    return seconds_now() < g->until && !stop_asked(g->of->stop);
}

static int in_vain(const struct gathering *g, struct snug_err *err, const char *what)
{
    if (stop_asked(g->of->stop))
        return err_set(err, SNUG_STOPPED, "stopped by a signal while ranks met; nothing was done yet");
    return err_set(err, SNUG_ERR_ENV, "%s:%d: %s", g->of->host, g->of->port, what);
}

/* The first line in which two texts differ, from `a`, as "name: value"; false: they are equal. */
static bool first_difference(const char *a, const char *b, char *line_a, char *line_b, size_t room)
{
    while (*a || *b) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || memcmp(a, b, n) != 0) {
            snprintf(line_a, room, "%.*s", (int)n, a);
            snprintf(line_b, room, "%.*s", (int)m, b);
            return true;
        }
        a += n + (a[n] != 0);
        b += m + (b[m] != 0);
    }
    return false;
}

static int check_agreement(const struct gathering *g, const struct hello *h, const char *agree, struct snug_err *err)
{
    char ours[64], theirs[64];
    if (h->n != g->of->n)
        return err_set(err, SNUG_ERR_USAGE, "rank %d was started as one of %d, rank 0 as one of %d; start all alike",
                       h->rank, h->n, g->of->n);
    if (h->rank < 1 || h->rank >= g->of->n)
        return err_set(err, SNUG_ERR_USAGE, "rank %d is none of 0 to %d; start each rank once", h->rank, g->of->n - 1);
    if (g->p->control[h->rank] >= 0)
        return err_set(err, SNUG_ERR_USAGE, "two processes are rank %d; start each rank once", h->rank);
    if (first_difference(g->of->agree, agree, ours, theirs, sizeof ours))
        return err_set(err, SNUG_ERR_USAGE, "rank %d has %s, rank 0 %s; start all alike", h->rank,
                       *theirs ? theirs : "nothing", *ours ? ours : "nothing");
    return SNUG_OK;
}

/* On a connection that somebody has opened. A stranger is sent away: *known stays false. */
static int welcome(struct gathering *g, int fd, bool *known, struct snug_err *err)
{
    struct hello h;
    double until = seconds_now() + HELLO_SECONDS;
    *known = false;
    if (!socket_receive(fd, &h, sizeof h, until) || memcmp(h.magic, magic, sizeof magic) != 0 ||
        h.agree_bytes > AGREE_MOST)
        return SNUG_OK;
    char *agree = mem_alloc(h.agree_bytes + 1);
    if (!agree)
        return err_no_memory(err, h.agree_bytes);
    int code = SNUG_OK;
    if (socket_receive(fd, agree, h.agree_bytes, until)) {
        code = check_agreement(g, &h, agree, err);
        *known = !code;
    }
    mem_free(agree);
    if (!*known)
        return code;
    struct place *place = &g->places[h.rank];
    g->p->control[h.rank] = fd;
    if (!address_of_peer(fd, &place->address))
        return err_set(err, SNUG_ERR_ENV, "rank %d: its connection has ended", h.rank);
    place->port = h.port;
    place->with_first = address_is_here(&place->address);
    return SNUG_OK;
}

static void answer(struct gathering *g, int fd, int code, const char *why)
{
    struct answer a = {.code = code};
    snprintf(a.why, sizeof a.why, "%s", why);
    memcpy(a.cookie, g->cookie, sizeof a.cookie);
    if (socket_send(fd, &a, sizeof a, seconds_now() + 1) && !code)
        socket_send(fd, g->places, (size_t)g->of->n * sizeof *g->places, seconds_now() + HELLO_SECONDS);
}

static void answer_all(struct gathering *g, int code, const char *why)
{
    for (int k = 1; k < g->of->n; k++)
        if (g->p->control[k] >= 0)
            answer(g, g->p->control[k], code, why);
}

/* Those that come only now, too, learn that there will be no run, and leave the telling to the first. */
static void turn_away(struct gathering *g, int listening, int missing, int code, const char *why)
{
    int fd;
    for (double until = seconds_now() + 1; missing > 0 && (fd = socket_accept(listening, until)) >= 0; missing--) {
        struct hello h;
        if (socket_receive(fd, &h, sizeof h, until))
            answer(g, fd, code, why);
        close(fd);
    }
}

static int not_all_came(const struct gathering *g, int here, struct snug_err *err)
{
    int missing = 1;
    char what[160];
    while (missing < g->of->n && g->p->control[missing] >= 0)
        missing++;
    snprintf(what, sizeof what, "after %.0f s %d of %d ranks have come, and rank %d has not; start all of them",
             g->of->wait, here, g->of->n, missing);
    return in_vain(g, err, what);
}

/* The first process: until all are there. */
static int receive_all(struct gathering *g, int listening, struct snug_err *err)
{
    int code = SNUG_OK, here = 1;
    while (!code && here < g->of->n && goes_on(g)) {
        bool known;
        int fd = socket_accept(listening, seconds_now() + 0.1);
        if (fd < 0)
            continue;
        code = welcome(g, fd, &known, err);
        here += known;
        if (code && !known)
            answer(g, fd, code, err ? err->text : "");
        if (!known)
            close(fd);
    }
    if (!code && here < g->of->n)
        code = not_all_came(g, here, err);
    answer_all(g, code, code && err ? err->text : "");
    if (code)
        turn_away(g, listening, g->of->n - 1 - here, code, err ? err->text : "");
    return code;
}

/* Whether the name says that all are on one machine; a host's own name may stand for a loopback address there, too. */
static bool only_here(const char *host)
{
    return !strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "::1");
}

static int be_first(struct gathering *g, struct snug_err *err)
{
    int listening, port;
    if (getrandom(g->cookie, sizeof g->cookie, 0) != sizeof g->cookie)
        return err_set(err, SNUG_ERR_ENV, "there are no random numbers to be had: %s", strerror(errno));
    TRY(socket_listen(only_here(g->of->host), g->first.of.ss_family, g->of->port, g->of->n, &listening, &port, err));
    int code = receive_all(g, listening, err);
    close(listening);
    return code;
}

static int say_hello(struct gathering *g, int fd, int port, struct snug_err *err)
{
    struct hello h = {.rank = g->of->me, .n = g->of->n, .port = port, .agree_bytes = (uint32_t)strlen(g->of->agree)};
    struct answer a;
    memcpy(h.magic, magic, sizeof magic);
    if (!socket_send(fd, &h, sizeof h, g->until) || !socket_send(fd, g->of->agree, h.agree_bytes, g->until))
        return in_vain(g, err, "rank 0 has ended the connection; see what it says");
    while (!socket_wait(fd, POLLIN, seconds_now() + 0.1))
        if (!goes_on(g))
            return in_vain(g, err, "rank 0 does not answer; start all ranks, and look at what rank 0 says");
    if (!socket_receive(fd, &a, sizeof a, g->until))
        return in_vain(g, err, "rank 0 has ended the connection; see what it says");
    a.why[sizeof a.why - 1] = '\0';
    if (a.code) /* which rank 0 tells the user */
        return err_set(err, a.code, "%s", "");
    memcpy(g->cookie, a.cookie, sizeof g->cookie);
    if (!socket_receive(fd, g->places, (size_t)g->of->n * sizeof *g->places, g->until))
        return in_vain(g, err, "rank 0 has ended the connection; see what it says");
    return SNUG_OK;
}

static int be_another(struct gathering *g, int port, struct snug_err *err)
{
    int errnum = 0, fd = -1;
    char what[160];
    while (fd < 0 && goes_on(g))
        fd = socket_connect(&g->first, seconds_now() + 0.1 < g->until ? seconds_now() + 0.1 : g->until, &errnum);
    snprintf(what, sizeof what,
             "rank 0 is not there: %s; start all ranks, and give its host's name and a port that is open",
             strerror(errnum));
    if (fd < 0)
        return in_vain(g, err, what);
    g->p->control[0] = fd;
    return say_hello(g, fd, port, err);
}

/* ---- each with each ---- */

static int connect_to(struct gathering *g, int k, struct snug_err *err)
{
    struct introduction i = {.rank = g->of->me};
    struct address to = k == 0 || g->places[k].with_first ? g->first : g->places[k].address;
    int errnum = 0;
    memcpy(i.cookie, g->cookie, sizeof i.cookie);
    address_set_port(&to, g->places[k].port);
    int fd = g->p->data[k] = socket_connect(&to, g->until, &errnum);
    if (fd < 0 || !socket_send(fd, &i, sizeof i, g->until))
        return err_set(err, SNUG_ERR_ENV,
                       "rank %d cannot connect to rank %d, port %d: %s; open that port between hosts", g->of->me, k,
                       g->places[k].port, strerror(errnum));
    return SNUG_OK;
}

static int accept_from_others(struct gathering *g, struct snug_err *err)
{
    for (int missing = g->of->n - 1 - g->of->me; missing > 0;) {
        struct introduction i;
        int fd = socket_accept(g->p->listening, seconds_now() + 0.1);
        if (fd < 0 && !goes_on(g))
            return in_vain(g, err, "not all ranks have connected with each other; open the ports between hosts");
        if (fd < 0)
            continue;
        bool ours = socket_receive(fd, &i, sizeof i, seconds_now() + HELLO_SECONDS) &&
                    !memcmp(i.cookie, g->cookie, sizeof i.cookie) && i.rank > g->of->me && i.rank < g->of->n &&
                    g->p->data[i.rank] < 0;
        if (!ours) {
            close(fd);
            continue;
        }
        g->p->data[i.rank] = fd;
        missing--;
    }
    return SNUG_OK;
}

static int meet(struct gathering *g, struct snug_err *err)
{
    struct process_ranks *p = g->p;
    int port;
    TRY(address_find(g->of->host, g->of->port, &g->first, err));
    TRY(socket_listen(only_here(g->of->host), g->first.of.ss_family, 0, g->of->n, &p->listening, &port, err));
    g->places[0] = (struct place){.port = port};
    TRY(g->of->me ? be_another(g, port, err) : be_first(g, err));
    for (int k = 0; k < g->of->me; k++)
        TRY(connect_to(g, k, err));
    TRY(accept_from_others(g, err));
    close(p->listening);
    p->listening = -1;
    return watch_open(&p->all, p->me, p->all.n, p->control, p->silence, &p->watch, err);
}

static int allocate(struct process_ranks *p, int n, struct snug_err *err)
{
    p->control = mem_alloc((size_t)n * sizeof *p->control);
    p->data = mem_alloc((size_t)n * sizeof *p->data);
    p->transfers = mem_alloc((size_t)n * sizeof *p->transfers);
    p->polled = mem_alloc((size_t)n * sizeof *p->polled);
    for (int k = 0; p->control && p->data && k < n; k++)
        p->control[k] = p->data[k] = -1;
    if (p->control && p->data && p->transfers && p->polled)
        return SNUG_OK;
    return err_no_memory(err, (unsigned long long)n * sizeof *p->transfers);
}

int processes_open(const struct processes *of, struct ranks **out, struct snug_err *err)
{
    struct process_ranks *p = mem_alloc(sizeof *p);
    *out = NULL;
    if (!p)
        return err_no_memory(err, sizeof *p);
    p->me = of->me;
    p->silence = of->silence;
    p->listening = -1;
    struct gathering g = {.of = of, .p = p, .until = seconds_now() + of->wait};
    int code = ranks_init(&p->all, &processes, of->n, err);
    if (!code)
        code = allocate(p, of->n, err);
    if (!code && !(g.places = mem_alloc((size_t)of->n * sizeof *g.places)))
        code = err_no_memory(err, (unsigned long long)of->n * sizeof *g.places);
    if (!code)
        code = meet(&g, err);
    mem_free(g.places);
    if (code)
        close_processes(&p->all);
    else
        *out = &p->all;
    return code;
}
