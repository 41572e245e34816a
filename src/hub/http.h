/* http.h: requests to the hub and to the hosts that it redirects to. The token goes to the hub alone. */
#ifndef HUB_HTTP_H
#define HUB_HTTP_H

#include "base/stop.h"
#include "hub/libraries.h"

#include <stdbool.h>
#include <stdint.h>

struct http {
    const struct curl_library *curl;
    CURL *easy;
    const char *endpoint; /* borrowed, as the token, "" for none */
    const char *token;
    const char *certificates; /* a file of those who are trusted; "": libcurl's own */
    const struct stop_flag *stop;
    void (*note)(void *ctx, const char *line); /* NULL: nobody listens */
    void *note_ctx;
    double pause;     /* seconds, before a request that failed is made once more; each time twice as long */
    bool answered;    /* some server has, to this request or an earlier one */
    bool unreachable; /* the last request failed as no server has answered, or with errors of its own only */
};

/* What the last server of a chain of redirects has answered. */
struct http_answer {
    long status;         /* 0: none yet */
    int64_t length;      /* of the body; -1: not said */
    int64_t from;        /* a part of the file: its first byte; else 0 */
    char etag[128];      /* without quotes; that of the file behind a redirect where the hub tells it. "": not said */
    int64_t size;        /* of the file behind a redirect; -1: not said */
    char error[64];      /* the hub's word: GatedRepo, RepoNotFound, … */
    int64_t retry_after; /* seconds; -1: not said */
};

/* Where a body goes; bodies of other answers than 200 and 206 are dropped. */
struct http_sink {
    int64_t (*from)(void *ctx); /* the first byte that is wanted, asked before each attempt */
    int (*begin)(void *ctx, const struct http_answer *a, struct snug_err *err);
    int (*add)(void *ctx, const char *bytes, size_t n, struct snug_err *err);
    void *ctx;
};

int http_open(struct http *h, struct snug_err *err); /* `curl` and what the caller decides are set */
void http_close(struct http *h);

/* GET into `sink`, or HEAD where that is NULL. `what` names it in messages. An answer of the client's fault (401, 404, …) is
 * SNUG_OK: *a says so. Attempts that fail for a while (a connection that is cut, 429, 5xx) are repeated; a body goes on where it
 * was cut, however often, as long as bytes come. SNUG_ERR_IO where it is given up. Errors of the sink end it at once. */
int http_request(struct http *h, const char *url, const char *what, const struct http_sink *sink, struct http_answer *a,
                 struct snug_err *err);

/* Appends `text` as a part of an address: all but letters, digits and "-._~" is %XX, and a slash too unless it may stay. */
struct str;
void http_escape(struct str *out, const char *text, bool slashes);

#endif
