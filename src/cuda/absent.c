/* In the place of cuda.c where the build found no CUDA compiler. */
#include "backend/backend.h"

bool backend_cuda_present(void)
{
    return false;
}

int backend_cuda_count(void)
{
    return 0;
}

bool backend_cuda_reach(const int *gpus, int n)
{
    (void)gpus;
    return n < 2;
}

int backend_cuda_arch(int i)
{
    (void)i;
    return 0;
}

int backend_cuda_open(const struct cuda_settings *s, const struct backend **out, struct snug_err *err)
{
    (void)s, (void)out;
    return err_set(
        err, SNUG_ERR_ENV,
        "--device cuda: this build has no CUDA; build with -Dcuda=enabled where nvcc is, or use --device cpu");
}
