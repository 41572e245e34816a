#include "base/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int machine_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* The number behind `key` in a file, or alone in it when key is ""; -1 when there is none. */
static int64_t number_in(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    char line[256];
    long long x = -1;
    while (f && x < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%lld", &x) != 1)
            x = -1;
    if (f)
        fclose(f);
    return x;
}

int64_t machine_memory_bytes(void)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

int64_t machine_memory_limit(void)
{
    int64_t total = machine_memory_bytes(), lowest = -1;
    int64_t limits[] = {number_in("/sys/fs/cgroup/memory.max", ""),
                        number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", ""), -1};
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        limits[2] = (int64_t)space.rlim_cur;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i] > 0 && limits[i] < total && (lowest < 0 || limits[i] < lowest))
            lowest = limits[i];
    return lowest;
}

int64_t machine_memory_available(void)
{
    int64_t kib = number_in("/proc/meminfo", "MemAvailable:"), limit = machine_memory_limit();
    int64_t available = kib >= 0 ? kib * 1024 : machine_memory_bytes();
    return limit >= 0 && limit < available ? limit : available;
}

int64_t machine_memory_resident(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    if (fscanf(f, "%*d %lld", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}
