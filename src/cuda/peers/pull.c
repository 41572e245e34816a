/* pull: a rank reads from another's memory what that one alone has, which does not change meanwhile: nobody waits. By copy engines, which
 * take no multiprocessor. Bound by the links between devices. */
#include "cuda/errors.h"
#include "cuda/kernels.h"

#include <cuda_runtime_api.h>

int cuda_pull(const struct args_pull *a, const struct cuda_call *c)
{
    size_t bytes = (size_t)dtype_bytes(a->y.dtype, tensor_room(&a->y));
    return cuda_check((int)cudaMemcpyAsync(a->y.data, a->x.data, bytes, cudaMemcpyDefault, c->stream), "pull", c->err);
}
