/* digest.h: what the hub says that a file's bytes are. A file's ETag is its SHA-256 where it is stored with LFS, and otherwise
 * git's name of the blob: the SHA-1 of "blob SIZE", a 0 byte and its bytes. Other servers may have other ETags, which say nothing. */
#ifndef HUB_DIGEST_H
#define HUB_DIGEST_H

#include "hub/libraries.h"

#include <stdbool.h>
#include <stdint.h>

struct digest {
    const struct crypto_library *crypto;
    EVP_MD_CTX *ctx; /* NULL: the ETag says nothing */
    bool sha256;
};

/* For a file of `size` bytes. digest_close in any case. */
int digest_open(const struct crypto_library *crypto, const char *etag, int64_t size, struct digest *d,
                struct snug_err *err);
void digest_add(struct digest *d, const void *bytes, size_t n);
/* The hexadecimal digits, of which an ETag that says nothing has none; nothing may be added after it. */
void digest_text(struct digest *d, char text[65]);
void digest_close(struct digest *d);

#endif
