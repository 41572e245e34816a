#include "live/live.h"

#include "base/mem.h"
#include "base/seconds.h"
#include "base/str.h"
#include "live/library.h"
#include "report/report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    PATH = 2 * 16 + 3,   /* bytes of "/SECRET/" */
    SECRET = 16,         /* bytes, in the address as hexadecimal digits */
    REFRESH = 5,         /* seconds between two pages that a browser asks for, */
    SHARE = 100,         /* or so many times what making one takes, */
    REFRESH_MOST = 3600, /* and no more */
    WAIT_MOST = 15,      /* seconds for the last page */
    CONNECTIONS = 16,    /* at a time */
    IDLE = 10,           /* seconds until a connection that asks for nothing is closed */
    REQUEST_MAX = 8192   /* bytes of what a connection keeps: far more than a browser's headers */
};

struct live {
    const struct io *io;
    const char *dir;
    struct http_library http;
    struct MHD_Daemon *daemon;
    char path[PATH]; /* "/SECRET/" */
    char address[32 + PATH];
    pthread_mutex_t lock; /* of what follows; the page is made without it */
    pthread_cond_t last;
    int64_t step, steps;
    double seconds_left;
    bool ended, told; /* told: a page that says so has been sent */
    int refresh;      /* seconds until a page asks for itself again */
    double asked;     /* when a page was asked for last; 0: never */
    /* The page that was made last, and how long that took; of the library's thread, which is one. */
    struct str page;
    double made;
    bool page_ended;
};

/* ---- what is sent ---- */

static void put_standing(struct live *l, struct str *out, bool *ended)
{
    pthread_mutex_lock(&l->lock);
    int64_t step = l->step, steps = l->steps, left = llround(l->seconds_left);
    *ended = l->ended;
    pthread_mutex_unlock(&l->lock);
    if (*ended)
        str_printf(out, "The run has ended, after step %lld.", (long long)step);
    else if (!step)
        str_append(out, "The run begins.");
    else
        str_printf(out, "Step %lld of %lld, %lld:%02lld:%02lld left.", (long long)step, (long long)steps,
                   (long long)left / 3600, (long long)left / 60 % 60, (long long)left % 60);
}

/* Until there is a log: what is known, in as few words. */
static void put_waiting(const struct live *l, const char *standing, const char *why, struct str *out)
{
    str_append(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>");
    str_xml(out, l->dir);
    str_append(out,
               "</title>\n<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;padding:1rem}"
               "</style>\n</head>\n<body>\n<h1>");
    str_xml(out, l->dir);
    str_append(out, "</h1>\n<p>");
    str_append(out, standing);
    str_append(out, "</p>\n<p>");
    str_xml(out, why);
    str_append(out, "</p>\n</body>\n</html>\n");
}

static void make_page(struct live *l)
{
    struct snug_err err;
    struct str standing = {0};
    double began = seconds_now();
    str_free(&l->page);
    put_standing(l, &standing, &l->page_ended);
    pthread_mutex_lock(&l->lock);
    bool begun = l->steps > 0; /* what is in the folder before is of an older run */
    pthread_mutex_unlock(&l->lock);
    int code = begun ? report_page(l->io, &l->dir, 1, str_text(&standing), &l->page, &err) : SNUG_OK;
    if (code || !begun) {
        str_free(&l->page);
        put_waiting(l, str_text(&standing), begun && code != SNUG_ERR_INPUT ? err.text : "Nothing is logged yet.",
                    &l->page);
    }
    str_free(&standing);
    l->made = seconds_now();
    double seconds = ceil(SHARE * (l->made - began));
    pthread_mutex_lock(&l->lock);
    l->refresh = seconds < REFRESH ? REFRESH : seconds < REFRESH_MOST ? (int)seconds : REFRESH_MOST;
    pthread_mutex_unlock(&l->lock);
}

/* Many who look at once are shown the same page. Gives the seconds until it should be asked for again, 0: never. */
static int renew_page(struct live *l)
{
    pthread_mutex_lock(&l->lock);
    bool ended = l->ended;
    l->asked = seconds_now();
    int refresh = l->refresh;
    pthread_mutex_unlock(&l->lock);
    if (!l->page.n || ended != l->page_ended || seconds_now() - l->made >= refresh / 2.)
        make_page(l);
    return l->page_ended ? 0 : l->refresh; /* which this thread alone writes */
}

static enum MHD_Result send_text(const struct live *l, struct MHD_Connection *c, unsigned status, const char *type,
                                 const struct str *text, int refresh)
{
    char seconds[16];
    /* The text is copied. */
    struct MHD_Response *r = l->http.response(text->n, (void *)(uintptr_t)str_text(text), MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    snprintf(seconds, sizeof seconds, "%d", refresh);
    bool ok =
        l->http.add_header(r, "Content-Type", type) && l->http.add_header(r, "Cache-Control", "no-store") &&
        l->http.add_header(r, "Content-Security-Policy",
                           "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; "
                           "form-action 'none'; base-uri 'none'") &&
        l->http.add_header(r, "X-Content-Type-Options", "nosniff") &&
        l->http.add_header(r, "Referrer-Policy", "no-referrer") &&
        (!refresh || l->http.add_header(r, "Refresh", seconds)) &&
        (status != MHD_HTTP_METHOD_NOT_ALLOWED || l->http.add_header(r, "Allow", "GET, HEAD"));
    enum MHD_Result result = ok ? l->http.queue(c, status, r) : MHD_NO;
    l->http.destroy(r);
    return result;
}

static enum MHD_Result send_line(const struct live *l, struct MHD_Connection *c, unsigned status, const char *line)
{
    struct str text = {0};
    str_append(&text, line);
    enum MHD_Result result = send_text(l, c, status, "text/plain; charset=utf-8", &text, 0);
    str_free(&text);
    return result;
}

/* In a time that does not tell how much of it is right. */
static bool is_page(const struct live *l, const char *url)
{
    unsigned char differs = 0;
    if (strlen(url) != sizeof l->path - 1)
        return false;
    for (size_t i = 0; i < sizeof l->path; i++)
        differs |= (unsigned char)(url[i] ^ l->path[i]);
    return !differs;
}

/* `mark`: of this request: the page with the run's end is on its way. */
static enum MHD_Result answer(void *ctx, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_n, void **mark)
{
    struct live *l = ctx;
    (void)version, (void)upload, (void)upload_n;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return send_line(l, c, MHD_HTTP_METHOD_NOT_ALLOWED, "This page can only be read.\n");
    if (!is_page(l, url))
        return send_line(l, c, MHD_HTTP_NOT_FOUND, "No such page: the address is the one that snug train has told.\n");
    int refresh = renew_page(l);
    if (l->page.failed)
        return send_line(l, c, MHD_HTTP_INTERNAL_SERVER_ERROR, "There is no memory for the page.\n");
    *mark = l->page_ended && !strcmp(method, MHD_HTTP_METHOD_GET) ? l : NULL;
    return send_text(l, c, MHD_HTTP_OK, "text/html; charset=utf-8", &l->page, refresh);
}

static void answered(void *ctx, struct MHD_Connection *c, void **mark, enum MHD_RequestTerminationCode how)
{
    struct live *l = ctx;
    (void)c, (void)how;
    if (!*mark)
        return;
    pthread_mutex_lock(&l->lock);
    l->told = true;
    pthread_cond_signal(&l->last);
    pthread_mutex_unlock(&l->lock);
}

/* ---- the run's side ---- */

static int make_path(struct live *l, struct snug_err *err)
{
    unsigned char secret[SECRET];
    size_t n = 1;
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return err_set(err, SNUG_ERR_ENV, "--live: no random numbers for the address: %s", strerror(errno));
    l->path[0] = '/';
    for (size_t i = 0; i < sizeof secret; i++, n += 2)
        snprintf(l->path + n, 3, "%02x", secret[i]);
    memcpy(l->path + n, "/", 2);
    return SNUG_OK;
}

static int start(struct live *l, int port, struct snug_err *err)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    TRY(http_library_open(&l->http, err));
    TRY(make_path(l, err));
    errno = 0;
    l->daemon = l->http.start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, answer, l,
                                     MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&here, MHD_OPTION_CONNECTION_LIMIT,
                                     (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE,
                                     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MAX,
                                     MHD_OPTION_NOTIFY_COMPLETED, answered, l, MHD_OPTION_END);
    if (!l->daemon)
        return err_set(err, SNUG_ERR_USAGE,
                       "--live: port %d of 127.0.0.1 cannot be listened on: %s; give another --live-port, or 0 for any",
                       port, strerror(errno));
    const union MHD_DaemonInfo *info = l->http.daemon_info(l->daemon, MHD_DAEMON_INFO_BIND_PORT);
    snprintf(l->address, sizeof l->address, "http://127.0.0.1:%d%s", info ? info->port : port, l->path);
    return SNUG_OK;
}

int live_open(const struct io *io, const char *dir, int port, struct live **out, struct snug_err *err)
{
    pthread_condattr_t clock;
    struct live *l = *out = mem_alloc(sizeof *l);
    if (!l)
        return err_no_memory(err, sizeof *l);
    *l = (struct live){.io = io, .dir = dir, .lock = PTHREAD_MUTEX_INITIALIZER, .refresh = REFRESH};
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->last, &clock);
    pthread_condattr_destroy(&clock);
    int code = start(l, port, err);
    if (code) {
        live_close(l, false);
        *out = NULL;
    }
    return code;
}

const char *live_address(const struct live *l)
{
    return l->address;
}

void live_progress(struct live *l, int64_t step, int64_t steps, double seconds_left)
{
    pthread_mutex_lock(&l->lock);
    l->step = step;
    l->steps = steps;
    l->seconds_left = seconds_left;
    pthread_mutex_unlock(&l->lock);
}

/* Whoever has asked lately asks again; their browser's clock may be a little late. */
static void wait_for_reader(struct live *l)
{
    pthread_mutex_lock(&l->lock);
    l->ended = true;
    double until = l->asked + (l->refresh < WAIT_MOST ? l->refresh : WAIT_MOST) + 1;
    struct timespec t = {.tv_sec = (time_t)until, .tv_nsec = (long)(1e9 * (until - floor(until)))};
    int late = l->asked > 0 && seconds_now() < until ? 0 : ETIMEDOUT;
    while (!l->told && !late)
        late = pthread_cond_timedwait(&l->last, &l->lock, &t);
    pthread_mutex_unlock(&l->lock);
}

void live_close(struct live *l, bool ended)
{
    if (!l)
        return;
    if (l->daemon && ended)
        wait_for_reader(l);
    if (l->daemon)
        l->http.stop_daemon(l->daemon);
    str_free(&l->page);
    pthread_cond_destroy(&l->last);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
}
