/* quantize_fp8 and linear_fp8 (op/codes/fp8.c). No processor multiplies such numbers: factors are widened to the result's type, which rounds
 * nothing, and multiplied as those of linear are. Slower than a product of 16 bits by what that takes. */
#include "cpu/codes/fp8.h"

#include "op/codes/fp8.h"

#include "cpu/product/product.h"

enum { WIDEN_PIECE = 64 }; /* numbers that are looked up before they are multiplied */

/* What y[r,i] is made of. */
static float number_at(const struct args_quantize_fp8 *a, int64_t r, int64_t i)
{
    int64_t n = a->transposed ? i : r, at = n * tensor_pitch(&a->x) + (a->transposed ? r : i);
    if (a->x.dtype == DT_F8_E4M3)
        return e4m3_to_float(((const uint8_t *)a->x.data)[at]) * ((const float *)a->x_scale.data)[n];
    return a->x.dtype == DT_BF16 ? bf16_to_float(((const uint16_t *)a->x.data)[at]) : ((const float *)a->x.data)[at];
}

static void quantize_row(const struct args_quantize_fp8 *a, int64_t r)
{
    int64_t columns = a->y.shape[1];
    uint8_t *y = (uint8_t *)a->y.data + r * columns;
    float largest = 0;
    for (int64_t i = 0; i < columns; i++)
        largest = fmaxf(largest, fabsf(number_at(a, r, i)));
    float scale = fp8_scale(largest);
    for (int64_t i = 0; i < columns; i++)
        y[i] = e4m3_from_float(number_at(a, r, i) / scale);
    ((float *)a->scale.data)[r] = scale;
}

void ISA(cpu_quantize_fp8)(const struct args_quantize_fp8 *a, const struct call *c)
{
    int64_t rows = a->y.shape[0];
#pragma omp parallel for schedule(static) num_threads(tensor_elements(&a->y) < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t r = 0; r < rows; r++)
        quantize_row(a, r);
}

void ISA(fp8_widen)(const struct tensor *codes, const struct tensor *scale, void *to, enum dtype type, int threads)
{
    int64_t n = tensor_elements(codes), rows = tensor_elements(scale), columns = rows ? n / rows : 0;
    float numbers[256];
    for (int i = 0; i < 256; i++)
        numbers[i] = e4m3_to_float((uint8_t)i);
#pragma omp parallel for schedule(static) num_threads(n < PARALLEL_FROM ? 1 : threads)
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *row = (const uint8_t *)codes->data + r * columns;
        float by = ((const float *)scale->data)[r], piece[WIDEN_PIECE];
        for (int64_t first = 0; first < columns; first += WIDEN_PIECE) {
            int64_t count = columns - first < WIDEN_PIECE ? columns - first : WIDEN_PIECE;
            for (int64_t i = 0; i < count; i++)
                piece[i] = numbers[row[first + i]];
            for (int64_t i = 0; i < count; i += VF_LANES)
                vf_put_upto(to, r * columns + first + i, vf_get_upto(piece, i, count - i, false) * by, count - i,
                            type == DT_BF16);
        }
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
    ISA(fp8_widen)(&a->x, &a->x_scale, x, p.in, c->threads);
    ISA(fp8_widen)(&a->w, &a->w_scale, w, p.in, c->threads);
    p.a = x;
    p.b = w;
    ISA(product_run)(&p, w + widened_bytes(&a->w, p.in), c->threads);
}
