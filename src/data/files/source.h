/* source.h: a text file of data, read once from front to back in pieces of bounded size; one that is compressed (unpack.h) is unpacked on
 * the way. Bytes are handed out only after they have been found to be UTF-8 without NUL. A BOM is skipped; UTF-16 and binary files are
 * named. */
#ifndef DATA_FILES_SOURCE_H
#define DATA_FILES_SOURCE_H

#include "base/hash.h"
#include "base/io.h"
#include "base/stop.h"

enum { SOURCE_ROW_BYTES = 64 << 20 }; /* a row of data may have this many bytes */

struct source {
    const struct io *io;
    const char *path;
    int fd;
    int64_t file_size;
    struct timespec mtime;
    struct unpack *packed; /* NULL: it is not compressed */
    int64_t size;          /* of the text: INT64_MAX until its end is seen, where nothing tells it before */
    int64_t offset;        /* of buf[0] in the text */
    char *buf;             /* (room) */
    size_t room;
    size_t i, n;    /* bytes [i, n) are ready; the reader advances i */
    size_t held;    /* bytes behind them that are not yet checked */
    int64_t line;   /* kept by the reader, from 1: for messages, and so is */
    int64_t row;    /* the row being read, from 1 */
    bool is_stream; /* a pipe or a terminal: read once, as it comes, and not closed */
    int (*before_waiting)(void *ctx, struct snug_err *err);
    void *waiting_ctx;
    const struct stop_flag *stop; /* that waiting listens to */
    struct hash_state *hash;
};

int source_open(const struct io *io, const char *path, struct source *s, struct snug_err *err);
/* The open descriptor `fd`, called `path` in messages, of which a read gives what there is. */
int source_open_stream(const struct io *io, int fd, const char *path, const struct stop_flag *stop, struct source *s,
                       struct snug_err *err);
/* Of a stream: `fn` is called before a read that has to wait, and its failure is that of source_fill. */
void source_before_waiting(struct source *s, int (*fn)(void *ctx, struct snug_err *err), void *ctx);
/* Reads on, without using anything up, until a whole line is ready or no more fits: *bytes of it, without its end. */
int source_first_line(struct source *s, size_t *bytes, struct snug_err *err);
/* Makes i < n, or i == n at the end of the file. Call it when i == n. SNUG_ERR_INPUT for a byte that is no text;
 * SNUG_ERR_IO when reading fails, or at the end when the file has changed since source_open. */
int source_fill(struct source *s, struct snug_err *err);
struct hash128 source_hash(const struct source *s); /* of the file's bytes read so far */
void source_close(struct source *s);

/* SNUG_ERR_IO when the open file no longer has this size and time of change. */
int source_check_unchanged(const struct io *io, int fd, const char *path, int64_t size, struct timespec mtime,
                           struct snug_err *err);

/* XXH3-128 of any regular file, or of the `size` bytes of an open one, read once. SNUG_STOPPED when `stop` asks for it.
 */
int source_hash_open(const struct io *io, int fd, const char *path, int64_t size, const struct stop_flag *stop,
                     struct hash128 *hash, struct snug_err *err);
int source_hash_file(const struct io *io, const char *path, const struct stop_flag *stop, struct hash128 *hash,
                     struct snug_err *err);

/* SNUG_STOPPED, with a message, when `stop` asks for it. */
int source_check_stop(const struct stop_flag *stop, const char *path, struct snug_err *err);

/* Where in a data file something stands, for messages. */
struct place {
    const char *path;
    int64_t n;   /* line from 1, or an index from 0 */
    bool is_row; /* n is the index of a row */
};

/* As err_set, with "path:line: " or "path: row n: " before it. */
int err_at(struct snug_err *err, int code, struct place p, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
