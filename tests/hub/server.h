/* server.h: a Hugging Face hub of one repository, on the loopback address, in a thread of the test. It answers as the hub does:
 * /api/KIND/REPOSITORY/revision/REVISION lists files; a small file is answered itself, with git's name of it as its ETag; one of LFS
 * is a redirect to another host, here from 127.0.0.1 to localhost, with its SHA-256 and its size beside it. It can misbehave. */
#ifndef TESTS_HUB_SERVER_H
#define TESTS_HUB_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct served {
    const char *path, *bytes, *etag;
    size_t n;
    bool lfs;
};

struct server {
    int fd, port;
    pthread_t thread;
    atomic_bool ends;

    /* What it has, set before requests. */
    const char *repository, *commit;
    bool dataset;
    const struct served *files;
    int n_files;

    /* Misbehaviour. */
    int status, times;    /* the next `times` requests get this status */
    const char *error;    /* with this X-Error-Code, or NULL */
    int retry_after;      /* and this Retry-After; -1: none */
    int cuts;             /* the next `cuts` bodies of files are cut off, each somewhere in what is left */
    bool cut_at_once;     /* before their first byte */
    bool no_ranges;       /* a part that is asked for is the whole file */
    bool wrong_byte;      /* the first byte of each file of LFS is another one */
    int more;             /* bytes that files of LFS are longer, or shorter, than is said */
    const char *old_name; /* of the repository: redirects to what it is called now; NULL: none */
    int window;           /* with 429: the seconds of "RateLimit", as the hub has it; -1: no such header */
    const char *list;     /* what the API answers */

    /* What was asked for. */
    atomic_int lists, heads, bodies, parts, cut;
    atomic_int tokens;    /* requests with the token, to the hub */
    atomic_int leaked;    /* to the other host */
    atomic_int elsewhere; /* all to the other host */
};

void server_start(struct server *s);
void server_end(struct server *s);

#endif
