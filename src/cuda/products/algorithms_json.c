/* The table as JSON, one object per product:
 *     {"op": "linear", "N": 16384, "I": 1024, "O": 4096, "in": "BF16", "out": "BF16", "bias": "BF16", "in_out": false,
 *      "add": false, "tf32": false, "act": "none", "own": false, "used": true, "align": 16, "us": 184.5, "workspace": 0,
 *      "algo": "…128 digits"}
 * "rows_pitch", "factor_pitch" and "result_pitch" (struct cuda_product) are missing where they are 0, "heads", "rows_step",
 * "factor_step" and "result_step" where there are no heads.
 * "bias" is missing where there is none. "used" is false where cuBLASLt has no algorithm, and for a form that lost
 * against another. "algo" is missing where there is none, and for products of our own. */
#include "cuda/products/algorithms_json.h"

#include "cuda/products/algorithms.h"
#include "format/json.h"

#include <stdio.h>
#include <string.h>

enum { ALGO_BYTES = sizeof(cublasLtMatmulAlgo_t) };

static void to_hex(const void *bytes, char hex[2 * ALGO_BYTES + 1])
{
    const unsigned char *b = bytes;
    for (int i = 0; i < ALGO_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", b[i]);
}

static bool from_hex(const char *hex, void *bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char *b = bytes;
    if (strlen(hex) != 2 * ALGO_BYTES)
        return false;
    for (int i = 0; i < ALGO_BYTES; i++) {
        const char *high = strchr(digits, hex[2 * i]), *low = strchr(digits, hex[2 * i + 1]);
        if (!high || !low)
            return false;
        b[i] = (unsigned char)((high - digits) * 16 + (low - digits));
    }
    return true;
}

static json_t *to_json(const struct algorithm *a)
{
    const struct cuda_product *p = &a->product;
    json_t *o = json_pack("{s:s,s:I,s:I,s:I,s:s,s:s,s:b,s:b,s:b,s:s,s:b,s:b,s:i,s:f,s:I}", "op", op_table[p->op].name,
                          "N", (json_int_t)p->N, "I", (json_int_t)p->I, "O", (json_int_t)p->O, "in", dtype_name(p->in),
                          "out", dtype_name(p->out), "in_out", (int)p->in_out, "add", (int)p->add, "tf32", (int)p->tf32,
                          "act", act_names[p->act], "own", (int)p->own, "used", (int)a->supported, "align", p->align,
                          "us", a->us, "workspace", (json_int_t)a->workspace);
    int failed = !o;
    if (o && (p->rows_pitch || p->factor_pitch || p->result_pitch))
        failed |= json_object_set_new(o, "rows_pitch", json_integer(p->rows_pitch)) ||
                  json_object_set_new(o, "factor_pitch", json_integer(p->factor_pitch)) ||
                  json_object_set_new(o, "result_pitch", json_integer(p->result_pitch));
    if (o && p->heads)
        failed |= json_object_set_new(o, "heads", json_integer(p->heads)) ||
                  json_object_set_new(o, "rows_step", json_integer(p->rows_step)) ||
                  json_object_set_new(o, "factor_step", json_integer(p->factor_step)) ||
                  json_object_set_new(o, "result_step", json_integer(p->result_step));
    if (o && p->bias != DT_U8)
        failed |= json_object_set_new(o, "bias", json_string(dtype_name(p->bias)));
    if (o && a->supported && !p->own) {
        char hex[2 * ALGO_BYTES + 1];
        to_hex(&a->algo, hex);
        failed |= json_object_set_new(o, "algo", json_string(hex));
    }
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

static bool is_wanted(const struct cuda_products *p, const struct algorithm *a, enum algorithms_which which)
{
    return which == ALGORITHMS_MEASURED ? a->us > 0 && !a->recorded
           : which == ALGORITHMS_OF_RUN ? !a->hidden && algorithms_granted(p, &a->product) >= 0
                                        : !a->hidden;
}

int algorithms_export(const struct cuda_products *p, enum algorithms_which which, json_t **out, struct snug_err *err)
{
    json_t *array = json_array();
    bool failed = !array;
    for (size_t i = 0; i < p->n_algorithms && !failed; i++)
        if (is_wanted(p, &p->algorithms[i], which))
            failed = json_array_append_new(array, to_json(&p->algorithms[i])) != 0;
    if (failed) {
        json_decref(array);
        *out = NULL;
        return err_no_memory(err, p->n_algorithms * 512);
    }
    *out = array;
    return SNUG_OK;
}

/* In any order of the table: runs measure and read their choices in different ones. */
struct hash128 algorithms_hash(const struct cuda_products *p)
{
    struct hash128 all = {0, 0};
    for (size_t i = 0; i < p->n_algorithms; i++) {
        const struct algorithm *a = &p->algorithms[i];
        char text[128 + 2 * ALGO_BYTES + 32], name[128], hex[2 * ALGO_BYTES + 1] = "";
        if (a->us <= 0 || !is_wanted(p, a, ALGORITHMS_OF_RUN))
            continue;
        cuda_product_name(&a->product, name);
        if (a->supported && !a->product.own)
            to_hex(&a->algo, hex);
        int n = snprintf(text, sizeof text, "%s %d %d %s", name, a->product.align, a->supported, hex);
        struct hash128 one = hash_bytes(text, (size_t)n);
        all.high += one.high;
        all.low += one.low;
    }
    return all;
}

static int read_type(json_t *o, const char *where, const char *key, bool required, enum dtype *out,
                     struct snug_err *err)
{
    const char *name = NULL;
    TRY(json_get_string(o, where, key, required, &name, err));
    if (!name)
        return SNUG_OK;
    int t = dtype_from_name(name);
    if (t != DT_F32 && t != DT_BF16 && t != DT_F16 && t != DT_F8_E4M3)
        return err_set(err, SNUG_ERR_INPUT, "%s: products: %s is \"%s\"; expected F32, BF16, F16 or F8_E4M3", where,
                       key, name);
    *out = (enum dtype)t;
    return SNUG_OK;
}

static int from_json(json_t *o, const char *where, struct algorithm *a, struct snug_err *err)
{
    struct cuda_product *p = &a->product;
    const char *op = NULL, *act = NULL, *algo = NULL;
    int64_t align;
    const int64_t most = INT64_C(1) << 40;
    if (!json_is_object(o))
        return err_set(err, SNUG_ERR_INPUT, "%s: products: an entry is no object", where);
    *a = (struct algorithm){.product = {.bias = DT_U8}};
    TRY(json_get_string(o, where, "op", true, &op, err));
    TRY(json_get_int(o, where, "N", true, 1, most, &p->N, err));
    TRY(json_get_int(o, where, "I", true, 1, most, &p->I, err));
    TRY(json_get_int(o, where, "O", true, 1, most, &p->O, err));
    TRY(read_type(o, where, "in", true, &p->in, err));
    TRY(read_type(o, where, "out", true, &p->out, err));
    TRY(read_type(o, where, "bias", false, &p->bias, err));
    TRY(json_get_bool(o, where, "in_out", true, &p->in_out, err));
    TRY(json_get_bool(o, where, "add", true, &p->add, err));
    TRY(json_get_bool(o, where, "tf32", true, &p->tf32, err));
    TRY(json_get_string(o, where, "act", true, &act, err));
    TRY(json_get_bool(o, where, "own", true, &p->own, err));
    TRY(json_get_bool(o, where, "used", true, &a->supported, err));
    TRY(json_get_int(o, where, "align", true, 1, 16, &align, err));
    TRY(json_get_real(o, where, "us", true, 0, 1e12, &a->us, err));
    TRY(json_get_int(o, where, "workspace", true, 0, PRODUCT_WORKSPACE_CAP, &a->workspace, err));
    TRY(json_get_string(o, where, "algo", false, &algo, err));
    TRY(json_get_int(o, where, "rows_pitch", false, 0, most, &p->rows_pitch, err));
    TRY(json_get_int(o, where, "factor_pitch", false, 0, most, &p->factor_pitch, err));
    TRY(json_get_int(o, where, "result_pitch", false, 0, most, &p->result_pitch, err));
    TRY(json_get_int(o, where, "heads", false, 0, INT32_MAX, &p->heads, err));
    TRY(json_get_int(o, where, "rows_step", false, 0, most, &p->rows_step, err));
    TRY(json_get_int(o, where, "factor_step", false, 0, most, &p->factor_step, err));
    TRY(json_get_int(o, where, "result_step", false, 0, most, &p->result_step, err));
    p->align = (int)align;
    for (enum op i = OP_linear; i <= OP_linear_dw; i++)
        if (!strcmp(op, op_table[i].name))
            p->op = i;
    if (!p->op)
        return err_set(err, SNUG_ERR_INPUT, "%s: products: \"%s\" is no matrix product", where, op);
    while (p->act < ACT_COUNT && strcmp(act, act_names[p->act]))
        p->act++;
    if (p->act == ACT_COUNT)
        return err_set(err, SNUG_ERR_INPUT, "%s: products: \"%s\" is no activation", where, act);
    if (a->supported && !p->own && (!algo || !from_hex(algo, &a->algo)))
        return err_set(err, SNUG_ERR_INPUT, "%s: products: algo \"%.40s\" is not %d hexadecimal digits", where,
                       algo ? algo : "", 2 * ALGO_BYTES);
    return SNUG_OK;
}

static int check_array(json_t *products, const char *where, struct snug_err *err)
{
    return json_is_array(products) ? SNUG_OK : err_set(err, SNUG_ERR_INPUT, "%s: products is no array", where);
}

int algorithms_import(struct cuda_products *p, json_t *products, const char *where, struct snug_err *err)
{
    size_t i;
    json_t *o;
    struct algorithm a;
    TRY(check_array(products, where, err));
    algorithms_forget(p);
    json_array_foreach(products, i, o)
    {
        TRY(from_json(o, where, &a, err));
        TRY(algorithm_put(p, &a, err));
    }
    return SNUG_OK;
}

int algorithms_merge(json_t *products, json_t *news, struct snug_err *err)
{
    static const char where[] = "products of other processes"; /* for messages */
    size_t i, at;
    json_t *o, *old;
    struct algorithm a, before;
    json_array_foreach(news, i, o) /* all or, where one cannot be read, none */
        TRY(from_json(o, where, &a, err));
    json_array_foreach(news, i, o)
    {
        TRY(from_json(o, where, &a, err));
        json_array_foreach(products, at, old)
        {
            TRY(from_json(old, where, &before, err));
            if (product_equal(&before.product, &a.product))
                break;
        }
        if (at < json_array_size(products) ? json_array_set(products, at, o) : json_array_append(products, o))
            return err_no_memory(err, 512);
    }
    return SNUG_OK;
}

int algorithms_add_recorded(struct cuda_products *p, json_t *products, const char *where, int *refused, char name[128],
                            struct snug_err *err)
{
    size_t i;
    json_t *o;
    struct algorithm a;
    *refused = 0;
    TRY(check_array(products, where, err));
    json_array_foreach(products, i, o) /* all or, where one cannot be read, none */
        TRY(from_json(o, where, &a, err));
    algorithms_forget_grants(p);
    json_array_foreach(products, i, o)
    {
        int64_t wants;
        TRY(from_json(o, where, &a, err));
        if (p->lt.handle && a.supported && !a.product.own) { /* else as recorded: of a device that is not there */
            TRY(problem_make(&p->lt, &a.product, &a.problem, err));
            a.ready = problem_takes(&p->lt, &a.problem, &a.algo, a.workspace, &wants);
            if (!a.ready) {
                problem_free(&p->lt, &a.problem);
                cuda_product_name(&a.product, name);
                ++*refused;
                continue;
            }
        }
        TRY(algorithm_put_recorded(p, &a, err));
    }
    return SNUG_OK;
}
