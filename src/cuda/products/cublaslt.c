#include "cuda/products/cublaslt.h"

#include "base/str.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The first that opens, or NULL. */
static void *open_first(struct snug_err *err, int *code)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    const char *home = getenv("CUDA_HOME");
    void *library = NULL;
    for (size_t name = 0; !library && !*code && name < sizeof names / sizeof *names; name++) {
        struct str path[3] = {{0}};
        str_append(&path[0], names[name]);
        str_printf(&path[1], "%s/lib64/%s", home && *home ? home : "/usr/local/cuda", names[name]);
        str_printf(&path[2], "/usr/local/cuda/lib64/%s", names[name]);
        for (int i = 0; i < 3; i++) {
            if (!*code)
                *code = str_check(&path[i], err);
            if (!library && !*code)
                library = dlopen(str_text(&path[i]), RTLD_NOW | RTLD_LOCAL);
            str_free(&path[i]);
        }
    }
    return library;
}

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
    *lt = (struct cublaslt){0};
    int code = SNUG_OK;
    lt->library = open_first(err, &code);
    if (code)
        return code;
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
