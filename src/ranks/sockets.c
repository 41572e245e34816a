#include "ranks/sockets.h"

#include "base/seconds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- addresses ---- */

int address_find(const char *host, int port, struct address *out, struct snug_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int failed = getaddrinfo(host, NULL, &hints, &found);
    if (failed || !found)
        return err_set(err, SNUG_ERR_ENV, "host %s: cannot be found: %s; give the name or address of rank 0's host",
                       host, failed ? gai_strerror(failed) : "it has no address");
    const struct addrinfo *a = found;
    while (a->ai_family != AF_INET && a->ai_next) /* where a name has both, hosts often listen to this one alone */
        a = a->ai_next;
    a = a->ai_family == AF_INET ? a : found;
    *out = (struct address){.bytes = a->ai_addrlen};
    memcpy(&out->of, a->ai_addr, a->ai_addrlen);
    address_set_port(out, port);
    freeaddrinfo(found);
    return SNUG_OK;
}

bool address_is_here(const struct address *a)
{
    if (a->of.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&a->of)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)&a->of)->sin_addr.s_addr) >> 24 == 127;
}

void address_set_port(struct address *a, int port)
{
    if (a->of.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&a->of)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&a->of)->sin_port = htons((uint16_t)port);
}

bool address_of_peer(int fd, struct address *out)
{
    out->bytes = sizeof out->of;
    return getpeername(fd, (struct sockaddr *)&out->of, &out->bytes) == 0;
}

/* ---- sockets ---- */

static void set_up(int fd)
{
    const int yes = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static struct address any_address(bool here, int family, int port)
{
    struct address a = {.bytes = sizeof(struct sockaddr_in)};
    a.of.ss_family = (sa_family_t)family;
    if (family == AF_INET6) {
        a.bytes = sizeof(struct sockaddr_in6);
        ((struct sockaddr_in6 *)&a.of)->sin6_addr = here ? in6addr_loopback : in6addr_any;
    } else {
        ((struct sockaddr_in *)&a.of)->sin_addr.s_addr = htonl(here ? INADDR_LOOPBACK : INADDR_ANY);
    }
    address_set_port(&a, port);
    return a;
}

int socket_listen(bool here, int family, int port, int backlog, int *fd, int *bound, struct snug_err *err)
{
    const int yes = 1;
    struct address a = any_address(here, family, port);
    *fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return err_set(err, SNUG_ERR_ENV, "port %d: there is no socket to be had: %s", port, strerror(errno));
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* one that a run before has left behind */
    if (bind(*fd, (struct sockaddr *)&a.of, a.bytes) || listen(*fd, backlog) ||
        getsockname(*fd, (struct sockaddr *)&a.of, &a.bytes)) {
        int errnum = errno;
        close(*fd);
        *fd = -1;
        return err_set(err, SNUG_ERR_ENV, "port %d: rank 0 cannot listen there: %s; choose another port", port,
                       strerror(errnum));
    }
    *bound =
        ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&a.of)->sin6_port : ((struct sockaddr_in *)&a.of)->sin_port);
    return SNUG_OK;
}

bool socket_wait(int fd, short events, double until)
{
    for (;;) {
        double left = until - seconds_now();
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);
        if (n > 0)
            return true;
        if (left <= 0 || (n < 0 && errno != EINTR))
            return false;
    }
}

int socket_accept(int listening, double until)
{
    while (socket_wait(listening, POLLIN, until)) {
        int fd = accept(listening, NULL, NULL);
        if (fd >= 0) {
            set_up(fd);
            return fd;
        }
        if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
            break;
    }
    return -1;
}

/* Where nobody listens at a port that this system gives to those who connect, it can connect a socket with itself. */
static bool is_itself(int fd)
{
    struct address mine = {.bytes = sizeof mine.of}, other;
    return !getsockname(fd, (struct sockaddr *)&mine.of, &mine.bytes) && address_of_peer(fd, &other) &&
           mine.bytes == other.bytes && !memcmp(&mine.of, &other.of, mine.bytes);
}

/* One attempt: 0, or why not. */
static int try_to_connect(int fd, const struct address *to, double until)
{
    int errnum = 0;
    socklen_t bytes = sizeof errnum;
    if (!connect(fd, (const struct sockaddr *)&to->of, to->bytes))
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (!socket_wait(fd, POLLOUT, until))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &bytes) ? errno : errnum;
}

int socket_connect(const struct address *to, double until, int *errnum)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    do {
        int fd = socket(to->of.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            *errnum = errno;
            return -1;
        }
        set_up(fd);
        *errnum = try_to_connect(fd, to, until);
        if (!*errnum && !is_itself(fd))
            return fd;
        *errnum = *errnum ? *errnum : ECONNREFUSED;
        close(fd);
        nanosleep(&pause, NULL);
    } while (seconds_now() < until);
    return -1;
}

bool socket_send(int fd, const void *data, size_t bytes, double until)
{
    for (const char *at = data; bytes;) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (errno != EINTR && (errno != EAGAIN || !socket_wait(fd, POLLOUT, until))) {
            return false;
        }
    }
    return true;
}

bool socket_receive(int fd, void *data, size_t bytes, double until)
{
    for (char *at = data; bytes;) {
        ssize_t n = recv(fd, at, bytes, 0);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n == 0 || (errno != EINTR && (errno != EAGAIN || !socket_wait(fd, POLLIN, until)))) {
            return false;
        }
    }
    return true;
}
