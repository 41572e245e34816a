#include "options/launched.h"

#include "options/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How launchers name what they say, the more particular first: torchrun's names are also what users set by hand. */
static const struct launcher {
    const char *name;
    const char *index, *number, *local_number; /* of this process, and of all; of all on this machine, or NULL */
    const char *hosts;                         /* a list of them; NULL: none */
} launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", NULL},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL},
    /* Of the step that srun starts: in the script of sbatch there is one process, whatever SLURM_NTASKS says. */
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, "SLURM_STEP_NODELIST"},
};

enum { PORT = 29500 }; /* as torchrun's */

bool launched_first_host(const char *list, char *host, size_t room)
{
    size_t before = strcspn(list, "[,");
    if (!*list || list[before] != '[') {
        int n = snprintf(host, room, "%.*s", (int)before, list);
        return before && n > 0 && (size_t)n < room;
    }
    const char *first = list + before + 1, *end = strchr(first, ']');
    size_t digits = strspn(first, "0123456789");
    if (!end || !digits)
        return false;
    size_t behind = strcspn(end + 1, ",[");
    if (end[1 + behind] == '[')
        return false;
    int n = snprintf(host, room, "%.*s%.*s%.*s", (int)before, list, (int)digits, first, (int)behind, end + 1);
    return n > 0 && (size_t)n < room;
}

/* torchrun keeps MASTER_PORT for itself where its agent has a store there; the next one is ours. */
static int port_of(char *(*variable)(const char *name), struct snug_err *err, int *port)
{
    const char *text = variable("MASTER_PORT"), *own = variable("TORCHELASTIC_USE_AGENT_STORE");
    char *end;
    long n = text && *text ? strtol(text, &end, 10) : PORT;
    if (text && *text && (*end || n < 1 || n > 65535))
        return err_set(err, SNUG_ERR_ENV, "MASTER_PORT: '%s' is no port; give a number from 1 to 65535", text);
    *port = PORT;
    bool taken = own && (!strcmp(own, "True") || !strcmp(own, "1"));
    *port = (int)(taken ? n % 65535 + 1 : n);
    return SNUG_OK;
}

/* The host of the first process. */
static int host_of(const struct launcher *l, char *(*variable)(const char *name), char *host, size_t room,
                   struct snug_err *err)
{
    const char *given = variable("MASTER_ADDR"), *hosts = l->hosts ? variable(l->hosts) : NULL;
    const char *local = l->local_number ? variable(l->local_number) : NULL;
    if (given && *given)
        return snprintf(host, room, "%s", given) < (int)room
                   ? SNUG_OK
                   : err_set(err, SNUG_ERR_ENV, "MASTER_ADDR: '%.60s…' is too long for the name of a host", given);
    if (hosts && launched_first_host(hosts, host, room))
        return SNUG_OK;
    if (local && !strcmp(local, variable(l->number))) {
        snprintf(host, room, "127.0.0.1");
        return SNUG_OK;
    }
    return err_set(err, SNUG_ERR_ENV,
                   "MASTER_ADDR: is not set, and %s does not say on which host rank 0 is; set it to that host's name",
                   l->name);
}

static int take(struct options *o, const char *name, const char *from, const char *text, struct snug_err *err)
{
    struct option_meaning m = option_lookup(o, name);
    char *copy = arena_strdup(&o->arena, text);
    if (!copy)
        return err_no_memory(err, strlen(text) + 1);
    return m.kind == MEANS_OPTION ? option_assign(o, &m, FROM_ENV, from, copy, err) : SNUG_OK;
}

int options_launched(struct options *o, char *(*variable)(const char *name), struct snug_err *err)
{
    const struct launcher *l = NULL;
    char at[300], host[256];
    int port = 0;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !l; i++) {
        const char *number = variable(launchers[i].number);
        if (number && variable(launchers[i].index) && strcmp(number, "1") != 0)
            l = &launchers[i];
    }
    if (!l)
        return SNUG_OK;
    TRY(host_of(l, variable, host, sizeof host, err));
    TRY(port_of(variable, err, &port));
    snprintf(at, sizeof at, "%s:%d", host, port);
    TRY(take(o, "num_processes", l->number, variable(l->number), err));
    TRY(take(o, "process_index", l->index, variable(l->index), err));
    return take(o, "main_process", "MASTER_ADDR", at, err);
}
