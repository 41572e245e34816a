#include "cuda/products/tuner.h"

#include "base/mem.h"
#include "base/philox.h"
#include "cuda/errors.h"
#include "cuda/launch.h"

#include <math.h>

enum {
    PATTERN_BYTES = 1 << 20, /* of random numbers, repeated over all operands */
    MAX_SETS = 64,           /* copies of the operands */
    MIN_LAUNCHES = 4,        /* in one graph, but 1 of a product that is long enough by itself, */
    MAX_LAUNCHES = 16,       /* unless there are more sets */
};

/* Half a millisecond at least: what a launch costs is nothing beside it. */
static const double LONG_FLOPS = 4e11;

/* ---- the device ---- */

int tuner_check(struct tuner *t, int code)
{
    t->no_memory |= code == cudaErrorMemoryAllocation;
    return cuda_check(code, "tuning of products", t->err);
}

int tuner_open(struct tuner *t)
{
    int device, l2;
    TRY(tuner_check(t, cudaGetDevice(&device)));
    TRY(tuner_check(t, (cudaError_t)cuda_call_device(&t->device, device)));
    TRY(tuner_check(t, cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device)));
    t->l2_bytes = l2;
    TRY(tuner_check(t, cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking)));
    TRY(tuner_check(t, cudaEventCreate(&t->start)));
    return tuner_check(t, cudaEventCreate(&t->stop));
}

void tuner_close(struct tuner *t)
{
    if (t->stop)
        cudaEventDestroy(t->stop);
    if (t->start)
        cudaEventDestroy(t->start);
    if (t->stream)
        cudaStreamDestroy(t->stream);
    mem_free(t->pattern);
}

/* ---- operands ---- */

static int64_t tensor_bytes(const struct tensor *t)
{
    return dtype_bytes(t->dtype, tensor_room(t));
}

/* Normal numbers of a size that sums of many of them stay finite in F16. */
static int make_pattern(struct tuner *t, enum dtype type)
{
    if (t->pattern && t->pattern_type == type)
        return SNUG_OK;
    int64_t n = PATTERN_BYTES / dtype_bytes(type, 1);
    float *normal = mem_alloc((size_t)n * sizeof *normal);
    if (!t->pattern)
        t->pattern = mem_alloc(PATTERN_BYTES);
    if (!normal || !t->pattern) {
        mem_free(normal);
        return err_no_memory(t->err, (unsigned long long)n * sizeof *normal);
    }
    for (int64_t i = 0; i < n; i += 2) {
        struct philox r = philox4x32((struct philox){{(uint32_t)i, 0, 0, 0}}, 1, 2);
        float radius = 0.05f * sqrtf(-2 * logf(((float)(r.w[0] >> 8) + 0.5f) * 0x1p-24f));
        float angle = 6.2831853f * (float)(r.w[1] >> 8) * 0x1p-24f;
        normal[i] = radius * cosf(angle);
        normal[i + 1] = radius * sinf(angle);
    }
    if (type == DT_F8_E4M3) /* as rows that are scaled to its range */
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)t->pattern)[i] = e4m3_from_float(2000 * normal[i]);
    else
        dtype_convert(t->pattern, type, normal, DT_F32, n);
    t->pattern_type = type;
    mem_free(normal);
    return SNUG_OK;
}

double operands_flops(const struct operands *o)
{
    return op_table[o->node.op].flops(&o->node.args);
}

static void add_tensor(struct operands *o, const struct tensor *t)
{
    if (!t->ndim)
        return;
    o->tensors[o->n_tensors] = t;
    o->at[o->n_tensors++] = o->set_bytes;
    o->set_bytes += (tensor_bytes(t) + 255) / 256 * 256;
}

struct cuda_call tuner_call(const struct tuner *t, const struct operands *o)
{
    struct cuda_call c = t->device;
    c.stream = t->stream;
    c.workspace = o->workspace;
    c.tf32 = t->tf32;
    c.products = t->p;
    c.err = t->err;
    return c;
}

/* Random numbers in all of the pool's first `bytes`. */
static int fill(struct tuner *t, enum dtype type, int64_t bytes)
{
    TRY(make_pattern(t, type));
    int64_t filled = bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES;
    TRY(tuner_check(t, cudaMemcpyAsync(t->pool, t->pattern, (size_t)filled, cudaMemcpyHostToDevice, t->stream)));
    for (int64_t more; filled < bytes; filled += more) {
        more = bytes - filled < filled ? bytes - filled : filled;
        TRY(tuner_check(t,
                        cudaMemcpyAsync(t->pool + filled, t->pool, (size_t)more, cudaMemcpyDeviceToDevice, t->stream)));
    }
    return SNUG_OK;
}

/* All sets, and behind them any algorithm's workspace with room for the bias (linear.cu), or what the node wants beside a
 * product. */
static int allocate(struct tuner *t, struct operands *o)
{
    struct cuda_call c = tuner_call(t, o);
    int64_t wants = cuda_launch_workspace(o->node.op, &o->node.args, &c), bytes = o->n_sets * o->set_bytes;
    o->workspace_bytes = wants > 2 * PRODUCT_WORKSPACE_CAP ? wants : 2 * PRODUCT_WORKSPACE_CAP;
    TRY(tuner_check(t, cudaMalloc((void **)&t->pool, (size_t)(bytes + o->workspace_bytes))));
    o->workspace = t->pool + bytes;
    return fill(t, o->node.args.slot[0].dtype, bytes); /* of x, or dy */
}

int operands_make(struct tuner *t, const struct cuda_product_node *node, struct operands *o)
{
    *o = (struct operands){.node = *node};
    const union args_any *a = &o->node.args;
    for (int i = 0; i < op_table[node->op].n_slots; i++)
        add_tensor(o, &a->slot[i]);
    double flops = operands_flops(o);
    int64_t n = 1 + 2 * t->l2_bytes / o->set_bytes;
    o->n_sets = n < MAX_SETS ? (int)n : MAX_SETS;
    bool fp32 = a->slot[0].dtype == DT_F32 && !t->tf32;
    double enough = (fp32 ? 1e10 : 8e10) / (flops + 1); /* for 0.2 ms at 50 or 400 TFLOP/s */
    int least = flops < LONG_FLOPS ? MIN_LAUNCHES : 1;
    o->launches = enough < least ? least : enough > MAX_LAUNCHES ? MAX_LAUNCHES : (int)enough;
    if (o->launches < o->n_sets)
        o->launches = o->n_sets;
    return allocate(t, o);
}

void operands_release(struct tuner *t)
{
    cudaStreamSynchronize(t->stream);
    cudaFree(t->pool);
    t->pool = NULL;
}

void operands_use(const struct tuner *t, struct operands *o, int i)
{
    for (int k = 0; k < o->n_tensors; k++)
        ((struct tensor *)o->tensors[k])->data = t->pool + (i % o->n_sets) * o->set_bytes + o->at[k];
}
