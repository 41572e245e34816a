#include "server.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct request {
    char text[8192];
    char *path;
    bool head, elsewhere;
    long from; /* of Range; -1: none */
};

static void put(int fd, const void *bytes, size_t n)
{
    for (ssize_t sent; n; n -= (size_t)sent, bytes = (const char *)bytes + sent)
        if ((sent = send(fd, bytes, n, MSG_NOSIGNAL)) <= 0)
            return;
}

static void answer(int fd, int status, const char *headers, const char *body, bool head)
{
    char text[2048];
    int n = snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n", status,
                     strlen(body), headers);
    put(fd, text, (size_t)n);
    if (!head)
        put(fd, body, strlen(body));
}

static bool read_request(struct server *s, int fd, struct request *r)
{
    size_t n = 0;
    while (n < sizeof r->text - 1) {
        ssize_t got = recv(fd, r->text + n, sizeof r->text - 1 - n, 0);
        if (got <= 0)
            return false;
        n += (size_t)got;
        r->text[n] = 0;
        if (strstr(r->text, "\r\n\r\n"))
            break;
    }
    const char *range = strstr(r->text, "Range: bytes=");
    r->from = range ? strtol(range + 13, NULL, 10) : -1;
    r->head = !strncmp(r->text, "HEAD ", 5);
    r->elsewhere = strstr(r->text, "Host: localhost") != NULL;
    bool token = strstr(r->text, "Authorization: Bearer hf_secret\r\n") != NULL;
    s->elsewhere += r->elsewhere;
    s->leaked += r->elsewhere && strstr(r->text, "hf_secret");
    s->tokens += !r->elsewhere && token;
    r->path = strchr(r->text, ' ') + 1;
    r->path[strcspn(r->path, " ")] = 0;
    return true;
}

static void answer_list(struct server *s, int fd)
{
    char text[4096];
    int n = snprintf(text, sizeof text, "{\"id\": \"%s\", \"sha\": \"%s\", \"siblings\": [", s->repository, s->commit);
    for (int i = 0; i < s->n_files; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s{\"rfilename\": \"%s\"}", i ? ", " : "", s->files[i].path);
    snprintf(text + n, sizeof text - (size_t)n, "]}");
    s->lists++;
    answer(fd, 200, "Content-Type: application/json\r\n", s->list ? s->list : text, false);
}

static void answer_body(struct server *s, int fd, const struct served *f, const struct request *r)
{
    char headers[512];
    long from = r->from >= 0 && !s->no_ranges ? r->from : 0, n = (long)f->n + (f->lfs ? s->more : 0) - from, sent = n;
    char *bytes = calloc(1, (size_t)(from + n) + 1);
    memcpy(bytes, f->bytes, (size_t)(from + n) < f->n ? (size_t)(from + n) : f->n);
    bytes[0] = (char)(bytes[0] ^ (s->wrong_byte && f->lfs));
    if (s->cuts > 0 && s->cuts-- && ++s->cut)
        sent = s->cut_at_once ? 0 : rand() % n;
    int length = snprintf(headers, sizeof headers,
                          "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %ld\r\nETag: \"%s\"\r\n",
                          r->from >= 0 && !s->no_ranges ? 206 : 200, n, f->lfs ? "of-the-store" : f->etag);
    if (r->from >= 0 && !s->no_ranges)
        length += snprintf(headers + length, sizeof headers - (size_t)length, "Content-Range: bytes %ld-%ld/%ld\r\n",
                           from, from + n - 1, from + n);
    put(fd, headers, (size_t)length);
    put(fd, "\r\n", 2);
    s->parts += r->from >= 0;
    s->bodies++;
    put(fd, bytes + from, (size_t)sent);
    free(bytes);
}

static void answer_file(struct server *s, int fd, const struct served *f, const struct request *r)
{
    char headers[1024];
    s->heads += r->head;
    if (f->lfs && !r->elsewhere) {
        snprintf(headers, sizeof headers,
                 "Location: http://localhost:%d/store/%s\r\nX-Linked-Etag: \"%s\"\r\nX-Linked-Size: "
                 "%zu\r\nX-Repo-Commit: %s\r\n",
                 s->port, f->path, f->etag, f->n, s->commit);
        answer(fd, 302, headers, "", r->head);
    } else if (r->head) {
        snprintf(
            headers, sizeof headers,
            "HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: %zu\r\nETag: \"%s\"\r\nX-Repo-Commit: %s\r\n\r\n",
            f->n, f->etag, s->commit);
        put(fd, headers, strlen(headers));
    } else {
        answer_body(s, fd, f, r);
    }
}

static void answer_request(struct server *s, int fd, const struct request *r)
{
    char api[256], resolve[256], headers[512] = "";
    int n = snprintf(api, sizeof api, "/api/%s/%s/revision/", s->dataset ? "datasets" : "models", s->repository);
    int m =
        snprintf(resolve, sizeof resolve, "%s/%s/resolve/%s/", s->dataset ? "/datasets" : "", s->repository, s->commit);
    const char *file = !strncmp(r->path, resolve, (size_t)m)             ? r->path + m
                       : r->elsewhere && !strncmp(r->path, "/store/", 7) ? r->path + 7
                                                                         : NULL;
    const char *old = s->old_name ? strstr(r->path, s->old_name) : NULL;
    if (old) { /* a path, not an address */
        snprintf(headers, sizeof headers, "Location: %.*s%s%s\r\n", (int)(old - r->path), r->path, s->repository,
                 old + strlen(s->old_name));
        answer(fd, 307, headers, "", r->head);
        return;
    }
    if (s->times > 0 && s->times--) {
        int length = s->error ? snprintf(headers, sizeof headers, "X-Error-Code: %s\r\n", s->error) : 0;
        if (s->retry_after >= 0)
            length +=
                snprintf(headers + length, sizeof headers - (size_t)length, "Retry-After: %d\r\n", s->retry_after);
        if (s->window >= 0)
            snprintf(headers + length, sizeof headers - (size_t)length, "RateLimit: \"api\";r=0;t=%d\r\n", s->window);
        answer(fd, s->status, headers, r->head ? "" : "{}", r->head);
        return;
    }
    for (int i = 0; file && i < s->n_files; i++)
        if (!strcmp(s->files[i].path, file)) {
            answer_file(s, fd, &s->files[i], r);
            return;
        }
    if (!strncmp(r->path, api, (size_t)n) && (!strcmp(r->path + n, "main") || !strcmp(r->path + n, s->commit)))
        answer_list(s, fd);
    else
        answer(fd, 404,
               !strncmp(r->path, api, (size_t)n) ? "X-Error-Code: RevisionNotFound\r\n"
                                                 : "X-Error-Code: RepoNotFound\r\n",
               "{}", r->head);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    while (!s->ends) {
        struct request r;
        int fd = accept(s->fd, NULL, NULL);
        if (fd >= 0 && !s->ends && read_request(s, fd, &r))
            answer_request(s, fd, &r);
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

void server_start(struct server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    s->retry_after = s->window = -1;
    assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s->fd, 16), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&a, &n), 0);
    s->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

void server_end(struct server *s)
{
    s->ends = true;
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
}
