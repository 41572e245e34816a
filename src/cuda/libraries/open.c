#include "cuda/libraries/open.h"

#include "base/str.h"

#include <dlfcn.h>
#include <stdlib.h>

int cuda_library_open(const char *const *names, size_t n, void **out, struct snug_err *err)
{
    const char *home = getenv("CUDA_HOME");
    int code = SNUG_OK;
    *out = NULL;
    for (size_t name = 0; !*out && !code && name < n; name++) {
        struct str path[3] = {{0}};
        str_append(&path[0], names[name]);
        str_printf(&path[1], "%s/lib64/%s", home && *home ? home : "/usr/local/cuda", names[name]);
        str_printf(&path[2], "/usr/local/cuda/lib64/%s", names[name]);
        for (int i = 0; i < 3; i++) {
            if (!code)
                code = str_check(&path[i], err);
            if (!*out && !code)
                *out = dlopen(str_text(&path[i]), RTLD_NOW | RTLD_LOCAL);
            str_free(&path[i]);
        }
    }
    return code;
}
