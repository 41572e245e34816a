/* environment.h: what the environment says of the hub, under huggingface_hub's names. */
#ifndef HUB_ENVIRONMENT_H
#define HUB_ENVIRONMENT_H

#include "base/io.h"
#include "base/str.h"

struct hub_environment {
    struct str endpoint; /* HF_ENDPOINT, else https://huggingface.co; no slash at its end */
    struct str cache;    /* HF_HUB_CACHE, else "hub" in HF_HOME */
    struct str token;    /* HF_TOKEN, else what is in HF_TOKEN_PATH, or in the file "token" of HF_HOME; empty: none */
    struct str
        certificates; /* SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE: who is trusted; empty: libcurl's own */
    bool offline;     /* HF_HUB_OFFLINE, or TRANSFORMERS_OFFLINE */
};

/* SNUG_ERR_USAGE: a value that cannot be meant. hub_environment_free in any case. */
int hub_environment_read(const struct io *io, struct hub_environment *e, struct snug_err *err);
void hub_environment_free(struct hub_environment *e);

#endif
