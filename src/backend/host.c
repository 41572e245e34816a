#include "backend/backend.h"
#include "base/machine.h"
#include "base/mem.h"

#include <string.h>

static int alloc(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void *images, void **p,
                 struct snug_err *err)
{
    (void)b, (void)inputs_bytes, (void)images;
    *p = mem_map((size_t)bytes);
    return *p ? SNUG_OK : err_no_memory(err, (unsigned long long)bytes);
}

static void release(const struct backend *b, void *p, int64_t bytes)
{
    (void)b, (void)bytes;
    mem_unmap(p);
}

static int inputs(const struct backend *b, void *arena, void **image, struct snug_err *err)
{
    (void)b, (void)err;
    *image = arena;
    return SNUG_OK;
}

static int send(const struct backend *b, void *arena, struct snug_err *err)
{
    (void)b, (void)arena, (void)err;
    return SNUG_OK;
}

static int alloc_host(const struct backend *b, int64_t bytes, void **p, struct snug_err *err)
{
    (void)b;
    *p = mem_alloc((size_t)bytes);
    return *p ? SNUG_OK : err_no_memory(err, (unsigned long long)bytes);
}

static void free_host(const struct backend *b, void *p)
{
    (void)b;
    mem_free(p);
}

static int copy(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    (void)b, (void)err;
    if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
    return SNUG_OK;
}

static int fetch(const struct backend *b, int flight, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    (void)flight;
    return copy(b, to, from, bytes, err);
}

static int wait(const struct backend *b, int flight, struct snug_err *err)
{
    (void)b, (void)flight, (void)err;
    return SNUG_OK;
}

static int sync(const struct backend *b, struct snug_err *err)
{
    (void)b, (void)err;
    return SNUG_OK;
}

static int64_t available(const struct backend *b)
{
    (void)b;
    return machine_memory_available();
}

const struct backend_arena host_arena = {.alloc = alloc,
                                         .free = release,
                                         .available = available,
                                         .host_available = available,
                                         .inputs = inputs,
                                         .send = send,
                                         .alloc_host = alloc_host,
                                         .free_host = free_host,
                                         .fetch = fetch,
                                         .wait = wait,
                                         .upload = copy,
                                         .download = copy,
                                         .sync = sync};
