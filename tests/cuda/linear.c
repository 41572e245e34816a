/* The products of linear layers on a GPU against the reference kernels in double on the same numbers, and what
 * kernel.cuh and products.h promise besides. Nothing outside an output is written, and the bits are the same every
 * time, also out of a captured graph and beside another stream's work. */
#include "products_help.h"

/* ---- tests ---- */

static void forward(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < SIZES; i++)
            for (int v = 0; v < 4; v++) {
                struct form f = {.type = types[t].type,
                                 .wide = types[t].type,
                                 .tf32 = types[t].tf32,
                                 .in_out = v & 1,
                                 .bias = v != 1,
                                 .narrow_bias = v == 3,
                                 .act = (enum act)(v == 1 ? ACT_none : (v + i) % ACT_COUNT),
                                 .slope = v == 2 && (v + i) % ACT_COUNT != ACT_none};
                check_linear(sizes[i][0], sizes[i][1], sizes[i][2], &f);
            }
}

static void backward(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int i = 0; i < SIZES; i++)
            for (int v = 0; v < 4; v++) {
                struct form f = {.type = types[t].type,
                                 .wide = (i + v / 2) % 2 ? types[t].type : DT_F32,
                                 .tf32 = types[t].tf32,
                                 .in_out = v & 1,
                                 .add = v & 2};
                check_dx(sizes[i][0], sizes[i][1], sizes[i][2], &f);
                check_dw(sizes[i][0], sizes[i][1], sizes[i][2], &f);
            }
}

/* Our own kernel, where there is one for the device: all edges of its tiles of 160 rows and 128 columns, its stages of 64
 * terms, more tiles than blocks, and less. */
static void own_kernel(void **state)
{
    (void)state;
    static const int64_t own_sizes[][3] = {{1, 8, 8},     {160, 64, 256},  {161, 72, 264},  {320, 256, 512},
                                           {319, 320, 8}, {200, 1024, 40}, {3000, 64, 1288}};
    if (!device.sm90)
        skip();
    for (size_t i = 0; i < sizeof own_sizes / sizeof *own_sizes; i++)
        for (int act = 0; act < ACT_COUNT; act++)
            for (int v = 0; v < 8; v++) {
                enum dtype type = v & 1 ? DT_F16 : DT_BF16;
                struct form f = {.type = type,
                                 .wide = type,
                                 .in_out = v & 2,
                                 .bias = act != ACT_silu,
                                 .narrow_bias = v & 2,
                                 .act = (enum act)act,
                                 .slope = v & 4 && act,
                                 .own = true};
                if (act != ACT_relu && act != ACT_tanh)
                    check_linear(own_sizes[i][0], own_sizes[i][1], own_sizes[i][2], &f);
                if (f.slope && act == ACT_gelu)
                    check_dx(own_sizes[i][0], own_sizes[i][1], own_sizes[i][2], &f);
            }
}

/* Slices of weights and of stacked tensors start anywhere. */
static void unaligned(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int offset = 1; offset <= 4; offset *= 2) {
            struct form f = {.type = types[t].type,
                             .wide = types[t].type,
                             .tf32 = types[t].tf32,
                             .bias = true,
                             .act = ACT_gelu,
                             .slope = true,
                             .offset = offset};
            check_linear(96, 64, 80, &f);
            check_dx(96, 64, 80, &f);
            f.in_out = f.add = true;
            check_dx(96, 64, 80, &f);
            check_dw(96, 64, 80, &f);
        }
}

static void no_rows(void **state)
{
    (void)state;
    for (int add = 0; add < 2; add++) {
        struct form f = {.type = DT_BF16, .wide = DT_F32, .add = add};
        check_dw(0, 16, 24, &f);
        check_dx(0, 16, 24, &f);
        f.bias = true;
        f.act = ACT_gelu;
        check_dx(0, 16, 24, &f);
        check_linear(0, 16, 24, &f);
    }
}

/* A plan asks for the largest N; smaller ones and other forms of the layer get by with that. */
static void workspace_is_one_per_layer(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        struct args_linear_dw a = {.dy = {.shape = {4096, 512}, .dtype = types[t].type, .ndim = 2},
                                   .x = {.shape = {4096, 256}, .dtype = types[t].type, .ndim = 2},
                                   .dw = {.shape = {512, 256}, .dtype = DT_F32, .ndim = 2},
                                   .db = {.shape = {512}, .dtype = DT_F32, .ndim = 1}};
        struct snug_err err = {0};
        struct cuda_call c = call(NULL, NULL, types[t].tf32, &err);
        int64_t most = cuda_linear_dw_workspace(&a, &c);
        assert_true(most <= 40 << 20);
        a.dy.shape[0] = a.x.shape[0] = 160;
        assert_true(cuda_linear_dw_workspace(&a, &c) <= most);
        struct form f = {.type = types[t].type, .wide = DT_F32, .tf32 = types[t].tf32};
        check_dw(160, 256, 512, &f);
        f.add = true;
        check_dw(160, 256, 512, &f);
    }
}

/* 100 runs, alone, from a graph and with another stream at work: the same bits. The sum is long enough to be split. */
static void the_same_bits(void **state)
{
    (void)state;
    enum { N = 16384, I = 256, O = 192 };
    for (int t = 0; t < TYPES; t++) {
        struct slot dy, x, dw, db;
        fill(&dy, types[t].type, 2, N, O, 6, 1, 0);
        fill(&x, types[t].type, 2, N, I, 1, 1, 0);
        fill(&dw, DT_F32, 2, O, I, 8, 1, 0);
        fill(&db, DT_F32, 1, O, 1, 9, 1, 0);
        upload(&dy), upload(&x), upload(&dw), upload(&db);
        struct args_linear_dw a = {.dy = on_device(&dy, false),
                                   .x = on_device(&x, false),
                                   .dw = on_device(&dw, false),
                                   .db = on_device(&db, false)};
        struct snug_err err = {0};
        cudaStream_t stream, other;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
        assert_int_equal(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), 0);
        struct cuda_call c = call(stream, NULL, types[t].tf32, &err);
        int64_t bytes = cuda_linear_dw_workspace(&a, &c);
        assert_int_equal(cudaMalloc(&c.workspace, (size_t)bytes + 256), 0);
        char *busy, *first = mem_alloc((size_t)(dw.bytes + db.bytes)), *now = mem_alloc((size_t)(dw.bytes + db.bytes));
        assert_int_equal(cudaMalloc((void **)&busy, 64 << 20), 0);
        for (int i = 0; i < 100; i++) {
            poison(&dw), poison(&db);
            assert_int_equal(cudaMemset(c.workspace, 0xFF, (size_t)bytes), 0);
            cudaDeviceSynchronize();
            for (int k = 0; i % 3 == 1 && k < 8; k++)
                cudaMemcpyAsync(busy, busy + (32 << 20), 32 << 20, cudaMemcpyDeviceToDevice, other);
            if (i % 3 == 2) {
                assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), 0);
                must(cuda_linear_dw(&a, &c), &err, "captured");
                assert_int_equal(cudaStreamEndCapture(stream, &graph), 0);
                assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), 0);
                assert_int_equal(cudaGraphLaunch(exec, stream), 0);
                cudaDeviceSynchronize();
                cudaGraphExecDestroy(exec);
                cudaGraphDestroy(graph);
            } else {
                must(cuda_linear_dw(&a, &c), &err, "launched");
            }
            must(cuda_check(cudaDeviceSynchronize(), "linear_dw", &err), &err, "the same bits");
            char *to = i ? now : first;
            cudaMemcpy(to, dw.device, (size_t)dw.bytes, cudaMemcpyDeviceToHost);
            cudaMemcpy(to + dw.bytes, db.device, (size_t)db.bytes, cudaMemcpyDeviceToHost);
            if (i)
                assert_memory_equal(first, now, (size_t)(dw.bytes + db.bytes));
        }
        mem_free(first), mem_free(now);
        cudaFree(busy), cudaFree(c.workspace);
        cudaStreamDestroy(stream), cudaStreamDestroy(other);
        release(&dy), release(&x), release(&dw), release(&db);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),    cmocka_unit_test(backward),      cmocka_unit_test(unaligned),
        cmocka_unit_test(no_rows),    cmocka_unit_test(the_same_bits), cmocka_unit_test(workspace_is_one_per_layer),
        cmocka_unit_test(own_kernel),
    };
    return with_products(tests, sizeof tests / sizeof *tests);
}
