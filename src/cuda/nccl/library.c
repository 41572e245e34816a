#include "cuda/nccl/library.h"

#include "cuda/libraries/open.h"

#include <dlfcn.h>
#include <string.h>

int nccl_library_open(struct nccl_library *nccl, struct snug_err *err)
{
    static const char *const name[] = {"libnccl.so.2"};
    const char *missing = NULL;
    void *f;
    *nccl = (struct nccl_library){0};
    TRY(cuda_library_open(name, 1, &nccl->handle, err));
    if (!nccl->handle)
        return err_set(
            err, SNUG_ERR_ENV,
            "cuda: libnccl.so.2, by which GPUs of several processes exchange, cannot be opened; install NCCL "
            "(libnccl2), or name its folder in LD_LIBRARY_PATH");
        /* POSIX gives functions as void *; memcpy is how ISO C lets one be stored. */
#define F(name, result, parameters)                                                                                    \
    f = dlsym(nccl->handle, "nccl" #name);                                                                             \
    memcpy(&nccl->name, &f, sizeof f);                                                                                 \
    if (!f)                                                                                                            \
        missing = "nccl" #name;
    NCCL_FUNCTIONS(F)
#undef F
    if (missing || nccl->GetVersion(&nccl->version))
        return err_set(err, SNUG_ERR_ENV, "cuda: libnccl.so.2 has no %s; install NCCL 2.13 or later",
                       missing ? missing : "version");
    return SNUG_OK;
}
