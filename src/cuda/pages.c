#include "cuda/pages.h"

#include "base/mem.h"
#include "cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct page_copy {
    void *to;
    const void *from;
    size_t bytes;
    bool out; /* `to` is in the file */
};

#ifndef MADV_POPULATE_READ /* since Linux 5.14; before, pages come as they are touched */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* Runs on a thread of the driver's, and calls nothing of CUDA. What of the file was mapped for it goes out of the process's memory again;
 * the system keeps what it has room for. */
static void copy(void *data)
{
    const struct page_copy *x = data;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *file = x->out ? x->to : x->from;
    char *first = (char *)((uintptr_t)file & -page);
    size_t bytes = (size_t)(file + x->bytes - first);
    madvise(first, bytes, x->out ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    memcpy(x->to, x->from, x->bytes);
    madvise(first, bytes, MADV_DONTNEED);
}

static int compare(const struct page_copy *a, const struct page_copy *b)
{
    if (a->to != b->to)
        return (const char *)a->to < (const char *)b->to ? -1 : 1;
    return a->from == b->from ? 0 : (const char *)a->from < (const char *)b->from ? -1 : 1;
}

/* The same one if it was asked for before; NULL: no memory. */
static struct page_copy *find_or_add(struct cuda_pages *p, const struct page_copy *wanted)
{
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(p->items[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < p->n && !compare(p->items[low], wanted) && p->items[low]->bytes == wanted->bytes)
        return p->items[low];
    struct page_copy *x = MEM_GROW(p->items, p->cap, p->n + 1) ? mem_alloc(sizeof *x) : NULL;
    if (!x)
        return NULL;
    *x = *wanted;
    memmove(p->items + low + 1, p->items + low, (p->n - low) * sizeof *p->items);
    p->items[low] = x;
    p->n++;
    return x;
}

int cuda_page(const struct args_page *a, const struct cuda_call *c)
{
    const struct page_copy wanted = {.to = a->y.data,
                                     .from = a->x.data,
                                     .bytes = (size_t)dtype_bytes(a->x.dtype, tensor_elements(&a->x)),
                                     .out = a->out};
    if (!wanted.bytes)
        return SNUG_OK;
    struct page_copy *x = find_or_add(c->pages, &wanted);
    if (!x)
        return err_no_memory(c->err, sizeof *x);
    return cuda_check(cudaLaunchHostFunc(c->stream, copy, x), "page", c->err);
}

void cuda_pages_forget(struct cuda_pages *p)
{
    for (size_t i = 0; i < p->n; i++)
        mem_free(p->items[i]);
    mem_free(p->items);
    *p = (struct cuda_pages){0};
}
