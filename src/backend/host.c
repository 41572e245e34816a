#include "backend/backend.h"
#include "base/machine.h"
#include "base/mem.h"

#include <string.h>

int host_inputs(const struct backend *b, void *arena, void **image, struct snug_err *err)
{
    (void)b, (void)err;
    *image = arena;
    return SNUG_OK;
}

int host_send(const struct backend *b, void *arena, struct snug_err *err)
{
    (void)b, (void)arena, (void)err;
    return SNUG_OK;
}

int host_alloc(const struct backend *b, int64_t bytes, void **p, struct snug_err *err)
{
    (void)b;
    *p = mem_alloc((size_t)bytes);
    return *p ? SNUG_OK : err_no_memory(err, (unsigned long long)bytes);
}

void host_free(const struct backend *b, void *p)
{
    (void)b;
    mem_free(p);
}

int host_copy(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    (void)b, (void)err;
    if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
    return SNUG_OK;
}

int host_fetch(const struct backend *b, int turn, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    (void)turn;
    return host_copy(b, to, from, bytes, err);
}

int host_wait(const struct backend *b, int turn, struct snug_err *err)
{
    (void)b, (void)turn, (void)err;
    return SNUG_OK;
}

int host_sync(const struct backend *b, struct snug_err *err)
{
    (void)b, (void)err;
    return SNUG_OK;
}

int64_t host_available(const struct backend *b)
{
    (void)b;
    return machine_memory_available();
}
