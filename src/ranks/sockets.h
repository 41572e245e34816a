/* sockets.h: TCP between processes that know each other. Sockets do not block, are closed on exec, and send at once. That a peer's host is
 * gone they do not tell: whoever waits has to ask for a sign of life (ranks/watch.h). Times are seconds_now(). */
#ifndef RANKS_SOCKETS_H
#define RANKS_SOCKETS_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/socket.h>

/* Of an IPv4 or IPv6 address, with its port. */
struct address {
    struct sockaddr_storage of;
    socklen_t bytes;
};

/* SNUG_ERR_ENV: nobody knows the host. */
int address_find(const char *host, int port, struct address *out, struct snug_err *err);
bool address_is_here(const struct address *a); /* a loopback address, which other machines cannot reach */
void address_set_port(struct address *a, int port);
bool address_of_peer(int fd, struct address *out);

/* Port 0: any free one. `here`: only for this machine. *port: which it has become. SNUG_ERR_ENV: taken. */
int socket_listen(bool here, int family, int port, int backlog, int *fd, int *bound, struct snug_err *err);
int socket_accept(int listening, double until); /* -1: nobody came */
/* Tries again and again, since the other side may not be there yet. -1: in vain; *errnum says why. */
int socket_connect(const struct address *to, double until, int *errnum);

bool socket_send(int fd, const void *data, size_t bytes, double until);
bool socket_receive(int fd, void *data, size_t bytes, double until);
bool socket_wait(int fd, short events, double until);

#endif
