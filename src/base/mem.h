/* mem.h: host memory. Everything in libsnug allocates through here, so that a test can make any allocation fail.
 * Lifetimes are arenas: process, run, graph, step. mem_* is for what grows or outlives them. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The allocator behind everything; NULL restores the C library's. Set it before any other call. */
struct mem_ops {
    void *(*realloc)(void *ctx, void *p, size_t bytes); /* p NULL allocates; NULL result: no memory */
    void (*free)(void *ctx, void *p);
    void *ctx;
    bool not_pieces; /* mem_map stays with the system's pages */
};
void mem_set_ops(const struct mem_ops *ops);

void *mem_alloc(size_t bytes); /* zeroed; NULL when memory is out */
void *mem_realloc(void *p, size_t bytes);
void mem_free(void *p); /* NULL is fine */
char *mem_strdup(const char *s);

/* One large piece, such as the memory of a whole run: zeroed, aligned to 64 bytes. Without mem_set_ops its
 * pages are the system's, which come when they are touched: neither time nor memory goes to what is not used. */
void *mem_map(size_t bytes); /* NULL when memory is out */
void mem_unmap(void *p);     /* NULL is fine */

/* Makes room for `want` items in a growing array; false when memory is out (the array is unchanged).
 *     if (!MEM_GROW(v->items, v->cap, v->n + 1)) return err_no_memory(err, ...);                                     */
int mem_grow(void **items, size_t *cap, size_t want, size_t item_bytes);
#define MEM_GROW(items, cap, want) mem_grow((void **)&(items), &(cap), (want), sizeof *(items))

/* An arena hands out zeroed memory, aligned to 16 bytes, and gives it all back at once. */
struct arena {
    struct arena_chunk *chunk; /* newest first */
};
void *arena_alloc(struct arena *a, size_t bytes); /* NULL when memory is out */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct arena *a, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
void arena_free(struct arena *a);

#endif
