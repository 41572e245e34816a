#include "hub/digest.h"

#include <stdio.h>
#include <string.h>

int digest_open(const struct crypto_library *crypto, const char *etag, int64_t size, struct digest *d,
                struct snug_err *err)
{
    size_t n = strlen(etag);
    *d = (struct digest){.crypto = crypto, .sha256 = n == 64};
    if (strspn(etag, "0123456789abcdef") != n || (n != 64 && n != 40))
        return SNUG_OK;
    d->ctx = crypto->ctx_new();
    if (!d->ctx || crypto->init(d->ctx, d->sha256 ? crypto->sha256() : crypto->sha1(), NULL) != 1)
        return err_set(err, SNUG_ERR_ENV, "libcrypto has no %s here; downloads need it to check files",
                       d->sha256 ? "SHA-256" : "SHA-1");
    if (!d->sha256) {
        char header[40];
        int bytes = snprintf(header, sizeof header, "blob %lld", (long long)size);
        digest_add(d, header, (size_t)bytes + 1);
    }
    return SNUG_OK;
}

void digest_add(struct digest *d, const void *bytes, size_t n)
{
    if (d->ctx)
        d->crypto->update(d->ctx, bytes, n);
}

void digest_text(struct digest *d, char text[65])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    text[0] = 0;
    if (!d->ctx || d->crypto->final(d->ctx, bytes, &n) != 1)
        return;
    for (unsigned i = 0; i < n && i < 32; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", bytes[i]);
}

void digest_close(struct digest *d)
{
    if (d->ctx)
        d->crypto->ctx_free(d->ctx);
    d->ctx = NULL;
}
