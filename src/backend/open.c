#include "backend/backend.h"

int backend_check(enum backend_kind k, struct snug_err *err)
{
    if (k == BACKEND_CUDA && !backend_cuda_arch(0))
        return backend_cuda_open(NULL, NULL, err); /* says why not */
    return k == BACKEND_CPU ? backend_cpu_check(err) : SNUG_OK;
}

int backend_open(enum backend_kind k, const struct cuda_settings *cuda, const struct backend **out,
                 struct snug_err *err)
{
    if (k == BACKEND_AUTO)
        k = backend_cuda_present() ? BACKEND_CUDA : BACKEND_CPU;
    if (k == BACKEND_CUDA)
        return backend_cuda_open(cuda, out, err);
    if (k == BACKEND_CPU)
        TRY(backend_cpu_check(err));
    *out = k == BACKEND_REFERENCE ? backend_reference() : backend_cpu();
    return SNUG_OK;
}
