/* pages.h: copies between a file that is mapped and the host's memory, as work of a stream: the driver has a thread of the host do them. */
#ifndef CUDA_PAGES_H
#define CUDA_PAGES_H

#include <stddef.h>

struct page_copy;

/* Each copy that was asked for, which a graph may ask for again as long as it lives. */
struct cuda_pages {
    struct page_copy **items; /* sorted by where they copy to and from */
    size_t n, cap;
};

void cuda_pages_forget(struct cuda_pages *p); /* nothing that was asked for is still to be done */

#endif
