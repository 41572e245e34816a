/* libraries.h: libcurl and libcrypto, opened when the first download begins: linked, libcurl and the thirty libraries that it
 * brings would add 8 ms to every start of snug, and a machine without it could not start snug at all. */
#ifndef HUB_LIBRARIES_H
#define HUB_LIBRARIES_H

#include "base/err.h"

#include <curl/curl.h>
#include <openssl/evp.h>

struct curl_library {
    CURLcode (*global_init)(long flags);
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *easy);
    CURLcode (*setopt)(CURL *easy, CURLoption option, ...);
    CURLcode (*perform)(CURL *easy);
    CURLcode (*getinfo)(CURL *easy, CURLINFO info, ...);
    const char *(*strerror)(CURLcode code);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
};

struct crypto_library {
    EVP_MD_CTX *(*ctx_new)(void);
    void (*ctx_free)(EVP_MD_CTX *ctx);
    const EVP_MD *(*sha1)(void);
    const EVP_MD *(*sha256)(void);
    int (*init)(EVP_MD_CTX *ctx, const EVP_MD *type, ENGINE *engine);
    int (*update)(EVP_MD_CTX *ctx, const void *bytes, size_t n);
    int (*final)(EVP_MD_CTX *ctx, unsigned char *digest, unsigned *n);
};

struct hub_libraries {
    struct curl_library curl;
    struct crypto_library crypto;
};

/* SNUG_ERR_ENV: the machine lacks one. They stay open until the process ends. */
int hub_libraries_open(struct hub_libraries *l, struct snug_err *err);

#endif
