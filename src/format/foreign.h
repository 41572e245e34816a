/* foreign.h: naming files that are not what they should be. */
#ifndef FORMAT_FOREIGN_H
#define FORMAT_FOREIGN_H

#include <stddef.h>

/* What a file seems to be, from its first bytes (64 are enough), with advice: "a Git LFS pointer ...; run ...". NULL
 * when nothing is recognised. */
const char *foreign_kind(const void *head, size_t bytes);

#endif
