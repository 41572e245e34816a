#include "live/library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define LIBRARY "libmicrohttpd.so.12"

/* A function's address goes into a member as bytes: ISO C has no cast from void * to a function. */
#define FIND(member, name)                                                                                             \
    {                                                                                                                  \
        name, offsetof(struct http_library, member), sizeof((struct http_library *)0)->member                          \
    }

int http_library_open(struct http_library *l, struct snug_err *err)
{
    static const struct {
        const char *name;
        size_t at, bytes;
    } functions[] = {
        FIND(start_daemon, "MHD_start_daemon"),      FIND(stop_daemon, "MHD_stop_daemon"),
        FIND(daemon_info, "MHD_get_daemon_info"),    FIND(response, "MHD_create_response_from_buffer"),
        FIND(add_header, "MHD_add_response_header"), FIND(queue, "MHD_queue_response"),
        FIND(destroy, "MHD_destroy_response"),
    };
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, SNUG_ERR_ENV,
                       LIBRARY " cannot be opened, and --live needs it; install libmicrohttpd12, or leave out --live");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(library, functions[i].name);
        if (!address)
            return err_set(err, SNUG_ERR_ENV, LIBRARY " has no %s; install a newer one, or leave out --live",
                           functions[i].name);
        memcpy((char *)l + functions[i].at, &address, functions[i].bytes);
    }
    return SNUG_OK;
}
