#include "cuda/products/product.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool product_same_layer(const struct cuda_product *a, const struct cuda_product *b)
{
    return a->op == b->op && a->I == b->I && a->O == b->O && a->in == b->in && a->out == b->out &&
           a->in_out == b->in_out && a->tf32 == b->tf32;
}

bool product_same_form(const struct cuda_product *a, const struct cuda_product *b)
{
    return product_same_layer(a, b) && a->bias == b->bias && a->add == b->add && a->act == b->act && a->own == b->own &&
           a->align == b->align && a->rows_pitch == b->rows_pitch && a->factor_pitch == b->factor_pitch &&
           a->result_pitch == b->result_pitch && a->heads == b->heads && a->rows_step == b->rows_step &&
           a->factor_step == b->factor_step && a->result_step == b->result_step;
}

bool product_equal(const struct cuda_product *a, const struct cuda_product *b)
{
    return product_same_form(a, b) && a->N == b->N;
}

void cuda_product_name(const struct cuda_product *p, char name[128])
{
    snprintf(name, 128, "%s %" PRId64 "x%" PRId64 "x%" PRId64 " %s>%s%s%s%s%s%s%s%s%s", op_table[p->op].name, p->N,
             p->I, p->O, dtype_name(p->in), dtype_name(p->out), p->in_out ? " in_out" : "", p->add ? " add" : "",
             p->tf32 ? " tf32" : "", p->bias == DT_U8 ? "" : " b ", p->bias == DT_U8 ? "" : dtype_name(p->bias),
             p->act ? " " : "", p->act ? act_names[p->act] : "", p->own ? " own" : "");
    size_t n = strlen(name);
    if (p->rows_pitch || p->factor_pitch || p->result_pitch)
        snprintf(name + n, 128 - n, " pitches %" PRId64 ",%" PRId64 ",%" PRId64, p->rows_pitch, p->factor_pitch,
                 p->result_pitch);
    n = strlen(name);
    if (p->heads)
        snprintf(name + n, 128 - n, " heads %" PRId64, p->heads);
}
