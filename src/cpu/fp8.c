/* quantize_fp8 and linear_fp8 (op/fp8.c). No processor multiplies such numbers: factors are widened to the result's type, which rounds
 * nothing, and multiplied as those of linear are. Slower than a product of 16 bits by what that takes. */
#include "op/fp8.h"

#include "cpu/kernels.h"
#include "cpu/product/product.h"

static float number_at(const struct tensor *x, int64_t i)
{
    return x->dtype == DT_BF16 ? bf16_to_float(((const uint16_t *)x->data)[i]) : ((const float *)x->data)[i];
}

static void quantize_row(const struct args_quantize_fp8 *a, int64_t r)
{
    int64_t pitch = tensor_pitch(&a->x), columns = a->y.shape[1];
    int64_t row = a->transposed ? 1 : pitch, column = a->transposed ? pitch : 1;
    uint8_t *y = (uint8_t *)a->y.data + r * columns;
    float largest = 0;
    for (int64_t i = 0; i < columns; i++)
        largest = fmaxf(largest, fabsf(number_at(&a->x, r * row + i * column)));
    float scale = fp8_scale(largest);
    for (int64_t i = 0; i < columns; i++)
        y[i] = e4m3_from_float(number_at(&a->x, r * row + i * column) / scale);
    ((float *)a->scale.data)[r] = scale;
}

void ISA(cpu_quantize_fp8)(const struct args_quantize_fp8 *a, const struct call *c)
{
    int64_t rows = a->y.shape[0];
#pragma omp parallel for schedule(static) num_threads(tensor_elements(&a->y) < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t r = 0; r < rows; r++)
        quantize_row(a, r);
}

/* What the codes of rows stand for, in `type`. */
static void widen(const struct tensor *codes, const struct tensor *scale, void *to, enum dtype type, int threads)
{
    int64_t rows = codes->shape[0], columns = codes->shape[1];
    float numbers[256];
    for (int i = 0; i < 256; i++)
        numbers[i] = e4m3_to_float((uint8_t)i);
#pragma omp parallel for schedule(static) num_threads(rows *columns < PARALLEL_FROM ? 1 : threads)
    for (int64_t i = 0; i < rows * columns; i++) {
        float x = numbers[((const uint8_t *)codes->data)[i]] * ((const float *)scale->data)[i / columns];
        if (type == DT_BF16)
            ((uint16_t *)to)[i] = bf16_from_float(x);
        else
            ((float *)to)[i] = x;
    }
}

static struct product product_of(const struct args_linear_fp8 *a)
{
    return (struct product){.M = a->x.shape[0],
                            .N = a->w.shape[0],
                            .K = a->x.shape[1],
                            .a_by_k = true,
                            .b_by_k = true,
                            .in = a->y.dtype,
                            .c = a->y.data,
                            .c_pitch = a->y.pitch,
                            .out = a->y.dtype,
                            .add = a->y.add,
                            .bias = a->b.data,
                            .addend = a->add.data,
                            .addend_pitch = a->add.pitch};
}

static int64_t widened_bytes(const struct tensor *codes, enum dtype type)
{
    return (dtype_bytes(type, tensor_elements(codes)) + 63) / 64 * 64;
}

int64_t ISA(cpu_linear_fp8_workspace)(const struct args_linear_fp8 *a, int threads)
{
    struct product p = product_of(a);
    return widened_bytes(&a->x, p.in) + widened_bytes(&a->w, p.in) + ISA(product_workspace)(&p, threads);
}

void ISA(cpu_linear_fp8)(const struct args_linear_fp8 *a, const struct call *c)
{
    struct product p = product_of(a);
    char *x = c->workspace, *w = x + widened_bytes(&a->x, p.in);
    widen(&a->x, &a->x_scale, x, p.in, c->threads);
    widen(&a->w, &a->w_scale, w, p.in, c->threads);
    p.a = x;
    p.b = w;
    ISA(product_run)(&p, w + widened_bytes(&a->w, p.in), c->threads);
}
