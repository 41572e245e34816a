/* Sorting, as Python's sorted: by keys that have an order, and stable. */
#include "chat/value.h"

#include <string.h>

/* How many of the n that are sorted stand before the key or are its equals. */
static int place_of(struct chat_run *r, const struct chat_list *keys, const size_t *order, size_t n, bool reverse,
                    struct chat_value key, size_t *place)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c;
        TRY(chat_step(r));
        TRY(chat_compare(r, key, keys->items[order[middle]], &c));
        c = reverse ? -c : c;
        *(c < 0 ? &high : &low) = c < 0 ? middle : middle + 1;
    }
    *place = low;
    return SNUG_OK;
}

int chat_sort(struct chat_run *r, const struct chat_list *keys, bool reverse, size_t **order)
{
    void *room;
    TRY(chat_alloc(r, keys->n * sizeof **order, &room));
    *order = room;
    for (size_t i = 0, at; i < keys->n; i++) {
        TRY(place_of(r, keys, *order, i, reverse, keys->items[i], &at));
        memmove(*order + at + 1, *order + at, (i - at) * sizeof **order);
        r->steps += (int64_t)((i - at) / 64);
        (*order)[at] = i;
    }
    return SNUG_OK;
}
