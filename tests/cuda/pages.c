/* Copies between a file that is mapped and pinned memory, as work of a stream and of a graph. Needs an NVIDIA GPU, or the emulator in the
 * place of CUDA (emulator/). */
#include "cuda/pages.h"
#include "base/files/scratch.h"
#include "cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FLOATS = 300000, AT = 1000, TENSOR = 200000 }; /* the tensor begins and ends within pages */

static void must(cudaError_t code)
{
    if (code)
        fail_msg("CUDA: %s", cudaGetErrorString(code));
}

static float *map_file(struct mapping *m)
{
    struct scratch file;
    struct snug_err err;
    char dir[] = "/tmp/snug-test-pages-XXXXXX";
    assert_non_null(mkdtemp(dir));
    int code = scratch_open(&io_posix, dir, &file, &err);
    if (!code)
        code = scratch_reserve(&file, FLOATS * (int64_t)sizeof(float), &err);
    if (!code)
        code = scratch_map(&file, IO_MAP_SHARED, m, &err);
    if (code)
        fail_msg("%s", err.text);
    assert_int_equal(io_posix.rmdir(&io_posix, dir), 0); /* the file has no name there */
    return m->p;
}

static struct args_page args_of(float *x, float *y, bool out)
{
    struct tensor t = {.dtype = DT_F32, .ndim = 1, .shape = {TENSOR}};
    struct args_page a = {.x = t, .y = t, .out = out};
    a.x.data = x;
    a.y.data = y;
    return a;
}

/* In from the file, doubled by way of the device, and out again, twice the same graph: what else is in the file stays. */
static void pages_come_and_go(void **state)
{
    struct mapping m;
    struct snug_err err;
    struct cuda_pages pages = {0};
    struct cuda_call c = {.pages = &pages, .err = &err};
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float *file = map_file(&m), *pinned;
    (void)state;
    must(cudaHostAlloc((void **)&pinned, 2 * TENSOR * sizeof *pinned, cudaHostAllocDefault));
    must(cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking));
    for (int i = 0; i < FLOATS; i++)
        file[i] = (float)i;
    struct args_page in = args_of(file + AT, pinned, false), out = args_of(pinned + TENSOR, file + AT, true);
    must(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 2; i++) { /* the second time they are known */
        assert_int_equal(cuda_page(&in, &c), SNUG_OK);
        must(cudaMemcpyAsync(pinned + TENSOR, pinned, (TENSOR - 1) * sizeof *pinned, cudaMemcpyDefault, c.stream));
        assert_int_equal(cuda_page(&out, &c), SNUG_OK);
    }
    must(cudaStreamEndCapture(c.stream, &graph));
    assert_int_equal(pages.n, 2);
    must(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < TENSOR; i++)
            file[AT + i] = (float)(AT + round * i);
        pinned[2 * TENSOR - 1] = -1;
        must(cudaGraphLaunch(exec, c.stream));
        must(cudaStreamSynchronize(c.stream));
        for (int i = 0; i < FLOATS; i++) {
            bool inside = i >= AT && i < AT + TENSOR;
            float expected = !inside ? (float)i : i == AT + TENSOR - 1 ? -1 : (float)(AT + round * (i - AT));
            if (file[i] != expected)
                fail_msg("round %d: element %d is %g, not %g", round, i, file[i], expected);
        }
    }
    must(cudaGraphExecDestroy(exec));
    must(cudaGraphDestroy(graph));
    cuda_pages_forget(&pages);
    must(cudaStreamDestroy(c.stream));
    must(cudaFreeHost(pinned));
    mapping_close(&m);
}

int main(void)
{
    int devices;
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_come_and_go)};
    if (cudaGetDeviceCount(&devices) || !devices) {
        printf("skipped: no NVIDIA GPU here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
