/* library.h: libmicrohttpd, opened when a page is to be served: who does not want one needs no such library. */
#ifndef LIVE_LIBRARY_H
#define LIVE_LIBRARY_H

#include "base/err.h"

#include <microhttpd.h>

struct http_library {
    struct MHD_Daemon *(*start_daemon)(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept, void *accept_ctx,
                                       MHD_AccessHandlerCallback handler, void *handler_ctx, ...);
    void (*stop_daemon)(struct MHD_Daemon *d);
    const union MHD_DaemonInfo *(*daemon_info)(struct MHD_Daemon *d, enum MHD_DaemonInfoType type, ...);
    struct MHD_Response *(*response)(size_t n, void *bytes, enum MHD_ResponseMemoryMode mode);
    enum MHD_Result (*add_header)(struct MHD_Response *r, const char *name, const char *value);
    enum MHD_Result (*queue)(struct MHD_Connection *c, unsigned status, struct MHD_Response *r);
    void (*destroy)(struct MHD_Response *r);
};

/* SNUG_ERR_ENV: the machine lacks it. It stays open until the process ends. */
int http_library_open(struct http_library *l, struct snug_err *err);

#endif
