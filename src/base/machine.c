#include "base/machine.h"

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
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

/* Linux counts it (Documentation/scheduler/sched-stats.rst): the second number is nanoseconds spent in the queue. */
double machine_waited_seconds(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *e;
    double seconds = 0;
    bool known = false;
    while (tasks && (e = readdir(tasks))) {
        char path[64 + sizeof e->d_name];
        unsigned long long ran, waited;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (f && fscanf(f, "%llu %llu", &ran, &waited) == 2) {
            seconds += 1e-9 * (double)waited;
            known = true;
        }
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return known ? seconds : -1;
}

int64_t machine_memory_bytes(void)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

/* Where the two versions of control groups have their files, and what they call them. */
struct group_files {
    const char *mount, *limit, *usage, *cold, *warm; /* the last two are of memory.stat */
};
static const struct group_files groups_v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ",
                                             "active_file "};
static const struct group_files groups_v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                             "total_inactive_file ", "total_active_file "};

static int64_t group_number(const char *root, const struct group_files *g, const char *group, const char *file,
                            const char *key)
{
    char path[8192];
    int n = snprintf(path, sizeof path, "%s%s%s/%s", root, g->mount, group, file);
    return n < (int)sizeof path ? number_in(path, key) : -1;
}

/* A group's own limit. File pages give way when memory is wanted, so they are not counted as used. */
static void look_at_group(const char *root, const struct group_files *g, const char *group, struct machine_groups *m)
{
    int64_t limit = group_number(root, g, group, g->limit, "");
    if (limit < 0)
        return;
    int64_t used = group_number(root, g, group, g->usage, ""),
            cold = group_number(root, g, group, "memory.stat", g->cold),
            warm = group_number(root, g, group, "memory.stat", g->warm);
    used -= (cold > 0 ? cold : 0) + (warm > 0 ? warm : 0);
    int64_t left = used < 0 ? limit : used > limit ? 0 : limit - used;
    m->limit = m->limit < 0 || limit < m->limit ? limit : m->limit;
    m->left = m->left < 0 || left < m->left ? left : m->left;
}

struct machine_groups machine_groups(const char *root)
{
    struct machine_groups m = {-1, -1};
    char path[4096], line[4096];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) { /* "0::/GROUP" or "4:cpu,memory:/GROUP" */
        char *rest = line, *number = strsep(&rest, ":"), *controllers = strsep(&rest, ":");
        char *group = strsep(&rest, "\n"), *name;
        bool v1 = false, v2 = strcmp(number, "0") == 0;
        while ((name = strsep(&controllers, ",")))
            v1 |= strcmp(name, "memory") == 0;
        if (!group || !(v1 || v2))
            continue;
        for (char *slash = group + strlen(group); slash; slash = strrchr(group, '/')) { /* the group and its parents */
            *slash = 0;
            look_at_group(root, v1 ? &groups_v1 : &groups_v2, group, &m);
        }
    }
    if (f)
        fclose(f);
    return m;
}

static int64_t lower(int64_t limit, int64_t other) /* where -1 is none */
{
    return limit < 0 || (other >= 0 && other < limit) ? other : limit;
}

static int64_t address_space_limit(void)
{
    struct rlimit space;
    bool limited = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
    return limited ? (int64_t)space.rlim_cur : -1;
}

int64_t machine_memory_limit(void)
{
    int64_t limit = lower(machine_groups("").limit, address_space_limit());
    return limit < machine_memory_bytes() ? limit : -1;
}

int64_t machine_memory_available(void)
{
    int64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    int64_t available = kib >= 0 ? kib * 1024 : machine_memory_bytes();
    return lower(available, lower(machine_groups("").left, address_space_limit()));
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
