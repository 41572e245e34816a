/* internal.h: what the files of a download share. */
#ifndef HUB_INTERNAL_H
#define HUB_INTERNAL_H

#include "hub/cache.h"
#include "hub/environment.h"
#include "hub/http.h"

/* One repository, asked for one thing. */
struct repository {
    const struct hub_wish *wish;
    const struct io *io;
    const struct hub_events *events;
    struct arena *arena;
    struct hub_environment env;
    struct hub_libraries libraries;
    struct http http;
    struct hub_cache cache;
    char commit[COMMIT_MAX];
    double began; /* seconds, on the clock of base/seconds.h */
};

/* A file there. */
struct remote {
    const char *name;
    char etag[128];
    int64_t size; /* -1: the hub does not say */
};

/* list.c: the commit that the revision is, and the names of its files. */
int repository_list(struct repository *r, struct file_names *all, struct snug_err *err);
/* Both from an answer's body; of *r it takes the arena and sets the commit. */
int repository_read_list(struct repository *r, const char *url, const char *text, size_t n, struct file_names *all,
                         struct snug_err *err);

/* refused.c: the error for an answer that is none, about `what`; a file, or else the repository. */
int repository_refused(const struct repository *r, const char *what, bool file, const struct http_answer *a,
                       struct snug_err *err);

/* download.c: what the file is. */
int remote_ask(struct repository *r, const char *name, struct remote *f, struct snug_err *err);
/* Brings its blob. *p is told of, with more bytes done. SNUG_ERR_INPUT: it is not what the hub says that it is. */
int remote_get(struct repository *r, const struct remote *f, struct hub_progress *p, struct snug_err *err);

void repository_note(const struct repository *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
