#include "cuda/products/cublaslt.h"

#include "cuda/libraries/open.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

static int start(struct cublaslt *lt, struct snug_err *err)
{
    lt->version = (int64_t)lt->GetVersion();
    cublasStatus_t s = lt->Create(&lt->handle);
    if (!s)
        return SNUG_OK;
    int code =
        err_set(err, SNUG_ERR_ENV, "cuda: cuBLASLt %" PRId64 " cannot start: %s; check the driver with nvidia-smi",
                lt->version, lt->GetStatusString(s));
    lt->handle = NULL;
    cublaslt_close(lt);
    return code;
}

int cublaslt_open(struct cublaslt *lt, struct snug_err *err)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    *lt = (struct cublaslt){0};
    TRY(cuda_library_open(names, sizeof names / sizeof *names, &lt->library, err));
    if (!lt->library)
        return err_set(err, SNUG_ERR_ENV,
                       "cuda: neither libcublasLt.so.13 nor .so.12 can be opened; install CUDA's cuBLAS, or name its "
                       "folder in LD_LIBRARY_PATH or CUDA_HOME");
    const char *missing = NULL;
    void *f;
    /* POSIX gives functions as void *; memcpy is how ISO C lets one be stored. */
#define F(name)                                                                                                        \
    f = dlsym(lt->library, "cublasLt" #name);                                                                          \
    memcpy(&lt->name, &f, sizeof f);                                                                                   \
    if (!f)                                                                                                            \
        missing = "cublasLt" #name;
    CUBLASLT_FUNCTIONS(F)
#undef F
    if (missing) {
        cublaslt_close(lt);
        return err_set(err, SNUG_ERR_ENV, "cuda: libcublasLt has no %s; install cuBLAS of CUDA 12.1 or later", missing);
    }
    return start(lt, err);
}

void cublaslt_close(struct cublaslt *lt)
{
    if (lt->handle)
        lt->Destroy(lt->handle);
    if (lt->library)
        dlclose(lt->library);
    *lt = (struct cublaslt){0};
}
