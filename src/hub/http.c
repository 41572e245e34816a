#include "hub/http.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { FAILURES = 5, REDIRECTS = 8, LONGEST_WAIT = 300 };

/* One attempt. */
struct attempt {
    struct http *h;
    const struct http_sink *sink;
    struct http_answer *a;
    struct snug_err *err;
    bool begun;    /* the sink was told of the answer */
    int sink_code; /* the sink's error; 0: none */
};

int http_open(struct http *h, struct snug_err *err)
{
    h->easy = h->curl->easy_init();
    return h->easy ? SNUG_OK
                   : err_set(err, SNUG_ERR_ENV, "libcurl cannot make a connection's state; memory may be out");
}

void http_close(struct http *h)
{
    if (h->easy)
        h->curl->easy_cleanup(h->easy);
    h->easy = NULL;
}

void http_escape(struct str *out, const char *text, bool slashes)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text; text++) {
        if (strchr(plain, *text) || (slashes && *text == '/'))
            str_append_n(out, text, 1);
        else
            str_printf(out, "%%%02X", (unsigned char)*text);
    }
}

/* The value of a header line, if it is `name`'s. */
static bool header_is(const char *line, size_t n, const char *name, char *value, size_t room)
{
    size_t length = strlen(name);
    if (n <= length || strncasecmp(line, name, length) != 0 || line[length] != ':')
        return false;
    const char *from = line + length + 1, *end = line + n;
    while (from < end && (*from == ' ' || *from == '\t'))
        from++;
    while (end > from && strchr(" \t\r\n", end[-1]))
        end--;
    size_t bytes = (size_t)(end - from) < room - 1 ? (size_t)(end - from) : room - 1;
    memcpy(value, from, bytes);
    value[bytes] = 0;
    return true;
}

/* A whole number that is not negative; -1 for anything else. */
static int64_t number_of(const char *text)
{
    if (!*text || strlen(text) > 18 || strspn(text, "0123456789") != strlen(text))
        return -1;
    return strtoll(text, NULL, 10);
}

/* "abc", W/"abc" and abc are abc. */
static void take_etag(char to[128], const char *value)
{
    if (!strncmp(value, "W/", 2))
        value += 2;
    value += *value == '"';
    size_t n = strcspn(value, "\"");
    if (n < 128) {
        memcpy(to, value, n);
        to[n] = 0;
    }
}

static void no_answer(struct http_answer *a)
{
    *a = (struct http_answer){.length = -1, .size = -1, .retry_after = -1};
}

static size_t on_header(char *line, size_t one, size_t n, void *ctx)
{
    struct attempt *t = ctx;
    struct http_answer *a = t->a;
    char value[160];
    n *= one;
    if (n > 5 && !strncmp(line, "HTTP/", 5)) { /* of each answer, those with status 1xx among them */
        no_answer(a);
        const char *blank = memchr(line, ' ', n);
        a->status = blank ? strtol(blank, NULL, 10) : 0;
    } else if (header_is(line, n, "content-length", value, sizeof value)) {
        a->length = number_of(value);
    } else if (header_is(line, n, "x-linked-size", value, sizeof value)) {
        a->size = number_of(value);
    } else if (header_is(line, n, "x-linked-etag", value, sizeof value)) {
        take_etag(a->etag, value);
    } else if (header_is(line, n, "etag", value, sizeof value) && !a->etag[0]) {
        take_etag(a->etag, value);
    } else if (header_is(line, n, "x-error-code", value, sizeof value)) {
        snprintf(a->error, sizeof a->error, "%.63s", value);
    } else if (header_is(line, n, "retry-after", value, sizeof value)) {
        a->retry_after = number_of(value);
    } else if (header_is(line, n, "ratelimit", value, sizeof value) && a->status == 429 && a->retry_after < 0) {
        const char *seconds = strstr(value, "t="); /* "api";r=0;t=55 */
        a->retry_after = seconds ? strtoll(seconds + 2, NULL, 10) : -1;
    } else if (header_is(line, n, "content-range", value, sizeof value) && !strncasecmp(value, "bytes ", 6)) {
        a->from = strtoll(value + 6, NULL, 10);
    }
    return n;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *ctx)
{
    struct attempt *t = ctx;
    n *= one;
    if (!t->sink || (t->a->status != 200 && t->a->status != 206))
        return n;
    if (!t->begun && (t->sink_code = t->sink->begin(t->sink->ctx, t->a, t->err)))
        return 0;
    t->begun = true;
    return (t->sink_code = t->sink->add(t->sink->ctx, bytes, n, t->err)) ? 0 : n;
}

static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t to_send, curl_off_t sent)
{
    const struct attempt *t = ctx;
    (void)total, (void)now, (void)to_send, (void)sent;
    return stop_asked(t->h->stop);
}

/* Whether `url` is on the endpoint's host: the same scheme, host and port. */
static bool is_own(const struct http *h, const char *url)
{
    const char *slashes = strstr(h->endpoint, "://");
    size_t n = slashes ? (size_t)(slashes + 3 - h->endpoint) + strcspn(slashes + 3, "/") : strlen(h->endpoint);
    return !strncasecmp(url, h->endpoint, n) && (!url[n] || strchr("/?#", url[n]));
}

/* One request without redirects. */
static CURLcode perform(struct attempt *t, const char *url, bool with_token, struct curl_slist *headers, int64_t from)
{
    struct http *h = t->h;
    const struct curl_library *c = h->curl;
    struct curl_slist *all = headers, *with = NULL;
    char range[32];
    c->setopt(h->easy, CURLOPT_URL, url);
    c->setopt(h->easy, CURLOPT_NOBODY, t->sink ? 0L : 1L);
    if (t->sink)
        c->setopt(h->easy, CURLOPT_HTTPGET, 1L);
    c->setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
    if (h->certificates[0])
        c->setopt(h->easy, CURLOPT_CAINFO, h->certificates);
    c->setopt(h->easy, CURLOPT_BUFFERSIZE, 256L << 10);
    c->setopt(h->easy, CURLOPT_FOLLOWLOCATION, 0L); /* http_request follows, and knows where the token may go */
    c->setopt(h->easy, CURLOPT_USERAGENT, "snug/" SNUG_VERSION);
    c->setopt(h->easy, CURLOPT_CONNECTTIMEOUT, 30L);
    c->setopt(h->easy, CURLOPT_LOW_SPEED_LIMIT, 1L); /* a connection that brings nothing for a minute is cut */
    c->setopt(h->easy, CURLOPT_LOW_SPEED_TIME, 60L);
    c->setopt(h->easy, CURLOPT_HEADERFUNCTION, on_header);
    c->setopt(h->easy, CURLOPT_HEADERDATA, t);
    c->setopt(h->easy, CURLOPT_WRITEFUNCTION, on_body);
    c->setopt(h->easy, CURLOPT_WRITEDATA, t);
    c->setopt(h->easy, CURLOPT_NOPROGRESS, 0L);
    c->setopt(h->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    c->setopt(h->easy, CURLOPT_XFERINFODATA, t);
    snprintf(range, sizeof range, "%" PRId64 "-", from);
    c->setopt(h->easy, CURLOPT_RANGE, from ? range : NULL);
    if (with_token && h->token[0]) {
        struct str line = {0};
        str_printf(&line, "Authorization: Bearer %s", h->token);
        with = line.failed ? NULL : c->slist_append(NULL, str_text(&line));
        str_free(&line);
        if (!with)
            return CURLE_OUT_OF_MEMORY;
        with->next = headers;
        all = with;
    }
    c->setopt(h->easy, CURLOPT_HTTPHEADER, all);
    CURLcode code = c->perform(h->easy);
    c->setopt(h->easy, CURLOPT_HTTPHEADER, NULL);
    if (with) {
        with->next = NULL;
        c->slist_free_all(with);
    }
    return code;
}

/* Follows redirects. */
static int attempt(struct attempt *t, const char *first, const char *what, CURLcode *curl)
{
    struct http *h = t->h;
    struct curl_slist *headers = h->curl->slist_append(NULL, "Accept-Encoding: identity"); /* lengths are the file's */
    struct str url = {0};
    bool own = true;
    int code = headers ? SNUG_OK : err_no_memory(t->err, 64);
    str_append(&url, first);
    if (!code)
        code = str_check(&url, t->err);
    for (int i = 0; !code; i++) {
        char *next = NULL;
        own = own && is_own(h, str_text(&url)); /* once it has left the hub a chain has lost the token for good */
        no_answer(t->a);
        *curl = perform(t, str_text(&url), own, headers, t->sink ? t->sink->from(t->sink->ctx) : 0);
        if (*curl || t->a->status < 300 || t->a->status > 399 || t->a->status == 304)
            break;
        h->curl->getinfo(h->easy, CURLINFO_REDIRECT_URL, &next);
        if (!t->sink && t->a->etag[0] && next && !is_own(h, next))
            break; /* the hub has told what the file is; the store behind it has other words */
        bool web = next && (!strncasecmp(next, "https://", 8) ||
                            (!strncasecmp(next, "http://", 7) && strncasecmp(str_text(&url), "https://", 8) != 0));
        if (!web || i == REDIRECTS) {
            code = err_set(t->err, SNUG_ERR_IO,
                           "%s: the hub sends from one address to another, the last of them %s; check HF_ENDPOINT",
                           what, next && !web ? "not a safe one" : "one too many");
            break;
        }
        struct str copy = {0};
        str_append(&copy, next); /* libcurl's until the next request */
        str_free(&url);
        url = copy;
        code = str_check(&url, t->err);
    }
    str_free(&url);
    h->curl->slist_free_all(headers);
    return code;
}

static int stopped(struct snug_err *err)
{
    return err_set(err, SNUG_STOPPED, "stopped; what was downloaded is kept, and the same command goes on from there");
}

static int wait_seconds(const struct http *h, double seconds, struct snug_err *err)
{
    for (; seconds > 0; seconds -= 0.05) {
        struct timespec t = {.tv_nsec = (long)(1e9 * (seconds < 0.05 ? seconds : 0.05))};
        if (stop_asked(h->stop))
            return stopped(err);
        nanosleep(&t, NULL);
    }
    return SNUG_OK;
}

static void say(const struct http *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct http *h, const char *format, ...)
{
    struct str line = {0};
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    str_escape(&line, text);
    if (h->note)
        h->note(h->note_ctx, str_text(&line));
    str_free(&line);
}

/* Failures that another attempt may not have. */
static bool may_pass(const struct http *h, CURLcode curl, long status)
{
    switch (curl) {
    case CURLE_OK:
        return status == 408 || status == 429 || status >= 500;
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WEIRD_SERVER_REPLY:
        return true;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
        return h->answered;
    default:
        return false;
    }
}

static int give_up(struct http *h, const char *what, CURLcode curl, const struct http_answer *a, struct snug_err *err)
{
    h->unreachable = (curl && curl != CURLE_OUT_OF_MEMORY) || a->status == 429 || a->status >= 500;
    if (curl == CURLE_OUT_OF_MEMORY)
        return err_no_memory(err, 1 << 16);
    if (curl == CURLE_PEER_FAILED_VERIFICATION || curl == CURLE_SSL_CACERT_BADFILE)
        return err_set(err, SNUG_ERR_IO, "%s: %s is not trusted (%s); install ca-certificates, or set SSL_CERT_FILE",
                       what, h->endpoint, h->curl->strerror(curl));
    if (curl == CURLE_COULDNT_RESOLVE_HOST || curl == CURLE_COULDNT_CONNECT || curl == CURLE_COULDNT_RESOLVE_PROXY ||
        curl == CURLE_SSL_CONNECT_ERROR || curl == CURLE_URL_MALFORMAT)
        return err_set(err, SNUG_ERR_IO,
                       "%s: no such path here, and %s cannot be reached (%s); check the path or the network", what,
                       h->endpoint, h->curl->strerror(curl));
    if (curl)
        return err_set(err, SNUG_ERR_IO,
                       "%s: the connection to %s was cut off (%s); run the same again, downloads go on where they were",
                       what, h->endpoint, h->curl->strerror(curl));
    if (a->status == 429 && a->retry_after > LONGEST_WAIT)
        return err_set(err, SNUG_ERR_IO,
                       "%s: %s takes no more requests for %lld s (429); come back then, or set HF_TOKEN", what,
                       h->endpoint, (long long)a->retry_after);
    if (a->status == 429)
        return err_set(err, SNUG_ERR_IO, "%s: %s takes no more requests now (429); try again later, or set HF_TOKEN",
                       what, h->endpoint);
    return err_set(err, SNUG_ERR_IO, "%s: %s fails with status %ld; try again later", what, h->endpoint, a->status);
}

/* Before each attempt after the first. */
static int pause_for(const struct http *h, const char *what, CURLcode curl, const struct http_answer *a, double seconds,
                     struct snug_err *err)
{
    if (seconds >= 1 && !curl)
        say(h, "%s: %s answers with status %ld; asking again in %.0f s", what, h->endpoint, a->status, seconds);
    else if (seconds >= 1)
        say(h, "%s: %s; trying again in %.0f s", what, h->curl->strerror(curl), seconds);
    return wait_seconds(h, seconds, err);
}

int http_request(struct http *h, const char *url, const char *what, const struct http_sink *sink, struct http_answer *a,
                 struct snug_err *err)
{
    int64_t furthest = sink ? sink->from(sink->ctx) : 0; /* a server that begins anew each time brings nothing */
    h->unreachable = false;
    for (int failures = 0;;) {
        struct attempt t = {.h = h, .sink = sink, .a = a, .err = err};
        CURLcode curl = CURLE_OK;
        if (stop_asked(h->stop))
            return stopped(err);
        TRY(attempt(&t, url, what, &curl));
        if (t.sink_code)
            return t.sink_code;
        if (stop_asked(h->stop))
            return stopped(err);
        h->answered = h->answered || a->status;
        if (!curl && !may_pass(h, curl, a->status))
            return SNUG_OK;
        int64_t now = sink ? sink->from(sink->ctx) : 0;
        bool further = now > furthest;
        failures = further ? 1 : failures + 1;
        furthest = further ? now : furthest;
        if (!may_pass(h, curl, a->status) || failures > FAILURES || a->retry_after > LONGEST_WAIT)
            return give_up(h, what, curl, a, err);
        double seconds = a->retry_after >= 0 ? (double)a->retry_after
                         : further           ? 0
                                             : h->pause * (double)(1 << (failures - 1));
        TRY(pause_for(h, what, curl, a, seconds, err));
    }
}
