/* machine.h: what this process may use. Bytes; -1 or 0 as said where the system does not tell. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdint.h>

int machine_cpus(void);                 /* usable by this process */
double machine_waited_seconds(void);    /* that this process's threads, together, wanted a processor; -1: not known */
int64_t machine_memory_bytes(void);     /* installed */
int64_t machine_memory_available(void); /* without swapping, within the limit; all of it where that is not known */
int64_t machine_memory_limit(void);     /* the lowest of control group and address space; -1: none */
int64_t machine_memory_resident(void);  /* of this process now; 0: not known */

/* Of this process' control group and those above it (versions 1 and 2): the lowest limit, and the least that one of
 * them has left. -1: no limit. `root` is before every path: "", but for tests. */
struct machine_groups {
    int64_t limit, left;
};
struct machine_groups machine_groups(const char *root);

#endif
