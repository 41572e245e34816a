#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

enum { CHUNK_BYTES = 64 * 1024 };

static void *libc_realloc(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    return realloc(p, bytes);
}

static void libc_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static const struct mem_ops libc_ops = {libc_realloc, libc_free, NULL, true};
static const struct mem_ops *mem_hook = &libc_ops; /* the one process-wide switch, see mem_set_ops */

void mem_set_ops(const struct mem_ops *ops)
{
    mem_hook = ops ? ops : &libc_ops;
}

void *mem_realloc(void *p, size_t bytes)
{
    return mem_hook->realloc(mem_hook->ctx, p, bytes ? bytes : 1);
}

void *mem_alloc(size_t bytes)
{
    void *p = mem_realloc(NULL, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void mem_free(void *p)
{
    if (p)
        mem_hook->free(mem_hook->ctx, p);
}

char *mem_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = mem_realloc(NULL, n);
    return p ? memcpy(p, s, n) : NULL;
}

/* Stands right before a piece: where it begins, and the bytes to unmap; 0 when the hook allocated it. */
struct piece {
    void *start;
    size_t mapped;
};

enum { PIECE_ALIGN = 64 };

static void *after_header(void *start, size_t mapped, size_t room)
{
    struct piece head = {start, mapped};
    char *p = (char *)start + room;
    p -= (uintptr_t)p % PIECE_ALIGN;
    memcpy(p - sizeof head, &head, sizeof head);
    return p;
}

void *mem_map(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = PIECE_ALIGN + sizeof(struct piece);
    if (bytes > SIZE_MAX / 2)
        return NULL;
    if (!mem_hook->not_pieces) {
        void *start = mem_alloc(room + bytes);
        return start ? after_header(start, 0, room) : NULL;
    }
    void *start = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    /* Large pages where there are some: fewer faults, fewer misses; without them all works the same. */
    madvise(start, page + bytes, MADV_HUGEPAGE);
    return after_header(start, page + bytes, page);
}

void mem_unmap(void *p)
{
    struct piece head;
    if (!p)
        return;
    memcpy(&head, (char *)p - sizeof head, sizeof head);
    if (head.mapped)
        munmap(head.start, head.mapped);
    else
        mem_free(head.start);
}

int mem_grow(void **items, size_t *cap, size_t want, size_t item_bytes)
{
    if (want <= *cap)
        return 1;
    size_t n = *cap ? *cap * 2 : 16;
    if (n < want)
        n = want;
    if (n > SIZE_MAX / item_bytes)
        return 0;
    void *p = mem_realloc(*items, n * item_bytes);
    if (!p)
        return 0;
    *items = p;
    *cap = n;
    return 1;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    struct arena_chunk *c = a->chunk;
    if (!c || c->size - c->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        c = mem_realloc(NULL, sizeof *c + size);
        if (!c)
            return NULL;
        *c = (struct arena_chunk){.next = a->chunk, .size = size};
        a->chunk = c;
    }
    void *p = c->data + c->used;
    c->used += bytes;
    return memset(p, 0, bytes);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    return p ? memcpy(p, s, n) : NULL;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(struct arena *a, const char *format, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *p = arena_alloc(a, (size_t)n + 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, format, ap);
    return p;
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *p = arena_vprintf(a, format, ap);
    va_end(ap);
    return p;
}

void arena_free(struct arena *a)
{
    for (struct arena_chunk *c = a->chunk; c;) {
        struct arena_chunk *next = c->next;
        mem_free(c);
        c = next;
    }
    a->chunk = NULL;
}
