/* port.h: a port of this machine for a test to listen at. */
#ifndef TESTS_PORT_H
#define TESTS_PORT_H

#include "ranks/sockets.h"

#include <netinet/in.h>
#include <unistd.h>

/* One that nobody listens on, below those that the system gives to whoever connects: it would soon be another's. */
static inline int free_port(void)
{
    static int tried;
    for (;;) {
        int fd, got, port = 10000 + getpid() % 200 * 100 + tried++ % 100; /* not those of a test beside it */
        if (!socket_listen(true, AF_INET, port, 1, &fd, &got, NULL)) {
            close(fd);
            return port;
        }
    }
}

#endif
