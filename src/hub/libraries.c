#include "hub/libraries.h"

#include <dlfcn.h>
#include <string.h>

/* A function's address goes into a member as bytes: ISO C has no cast from void * to a function. */
#define FIND(so, member, name)                                                                                         \
    {                                                                                                                  \
        so, name, (char *)&l->member - (char *)l, sizeof l->member                                                     \
    }

enum { CURL_SO, CRYPTO_SO, LIBRARIES };

/* The names of a library, that of the newest first. OpenSSL 1.1, which systems of 2018 to 2022 have, is enough of libcrypto. */
static const char *const names[LIBRARIES][2] = {{"libcurl.so.4"}, {"libcrypto.so.3", "libcrypto.so.1.1"}};

static void *open_any(const char *const of_it[2])
{
    void *library = dlopen(of_it[0], RTLD_NOW | RTLD_LOCAL);
    return library || !of_it[1] ? library : dlopen(of_it[1], RTLD_NOW | RTLD_LOCAL);
}

int hub_libraries_open(struct hub_libraries *l, struct snug_err *err)
{
    const struct {
        int so;
        const char *name;
        ptrdiff_t at;
        size_t bytes;
    } functions[] = {
        FIND(CURL_SO, curl.global_init, "curl_global_init"),
        FIND(CURL_SO, curl.easy_init, "curl_easy_init"),
        FIND(CURL_SO, curl.easy_cleanup, "curl_easy_cleanup"),
        FIND(CURL_SO, curl.setopt, "curl_easy_setopt"),
        FIND(CURL_SO, curl.perform, "curl_easy_perform"),
        FIND(CURL_SO, curl.getinfo, "curl_easy_getinfo"),
        FIND(CURL_SO, curl.strerror, "curl_easy_strerror"),
        FIND(CURL_SO, curl.slist_append, "curl_slist_append"),
        FIND(CURL_SO, curl.slist_free_all, "curl_slist_free_all"),
        FIND(CRYPTO_SO, crypto.ctx_new, "EVP_MD_CTX_new"),
        FIND(CRYPTO_SO, crypto.ctx_free, "EVP_MD_CTX_free"),
        FIND(CRYPTO_SO, crypto.sha1, "EVP_sha1"),
        FIND(CRYPTO_SO, crypto.sha256, "EVP_sha256"),
        FIND(CRYPTO_SO, crypto.init, "EVP_DigestInit_ex"),
        FIND(CRYPTO_SO, crypto.update, "EVP_DigestUpdate"),
        FIND(CRYPTO_SO, crypto.final, "EVP_DigestFinal_ex"),
    };
    void *open[LIBRARIES];
    for (int i = 0; i < LIBRARIES; i++)
        if (!(open[i] = open_any(names[i])))
            return err_set(
                err, SNUG_ERR_ENV,
                "%s cannot be opened, and downloads need it; install libcurl4, or give a folder that is here",
                names[i][0]);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(open[functions[i].so], functions[i].name);
        if (!address)
            return err_set(err, SNUG_ERR_ENV, "%s has no %s; install a newer one, or give a folder that is here",
                           names[functions[i].so][0], functions[i].name);
        memcpy((char *)l + functions[i].at, &address, functions[i].bytes);
    }
    return l->curl.global_init(CURL_GLOBAL_DEFAULT)
               ? err_set(err, SNUG_ERR_ENV, "libcurl cannot be initialized; check its installation")
               : SNUG_OK;
}
