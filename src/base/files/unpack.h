/* unpack.h: what a file compressed with gzip or zstd holds, read once from front to back. Members of gzip and frames of zstd that follow
 * each other are one after another, as for gunzip and unzstd. */
#ifndef BASE_FILES_UNPACK_H
#define BASE_FILES_UNPACK_H

#include "base/hash.h"
#include "base/io.h"

struct unpack;

/* Whether a file that begins so is compressed, and can be read here. */
bool unpack_knows(const char *head, size_t n);
/* How long the part of a name is that tells what a compressed file holds: all but .gz, .zst or .zstd. */
size_t unpack_name(const char *path);

/* The open file `fd`, of `size` bytes, which begins with the n bytes of `head` that unpack_knows; it stays the caller's. All that is read
 * of it is added to `hash`. `path`: for messages; it and the hash must outlive *out. SNUG_ERR_ENV. */
int unpack_open(const struct io *io, int fd, const char *path, int64_t size, const char *head, size_t n,
                struct hash_state *hash, struct unpack **out, struct snug_err *err);
/* Up to `room` bytes of what it holds; *n is 0 at the end alone. SNUG_ERR_INPUT: it is damaged, or ends too early. */
int unpack_read(struct unpack *u, void *to, size_t room, size_t *n, struct snug_err *err);
void unpack_close(struct unpack *u); /* NULL is fine */

#endif
