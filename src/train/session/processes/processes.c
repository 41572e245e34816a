#include "train/session/processes/processes.h"

#include "base/hash.h"
#include "base/machine.h"
#include "base/str.h"
#include "ranks/processes.h"
#include "train/session/processes/distant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- meeting ---- */

/* What may differ from process to process. */
static bool is_own(const char *name)
{
    static const char *const own[] = {"process_index", "main_process",       "threads",
                                      "cache_dir",     "in_memory_max_size", "json"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(name, own[i]))
            return true;
    return false;
}

/* A line for each option, and the version. */
static int lines_of(const struct options *o, struct str *out, struct snug_err *err)
{
    json_t *all, *value;
    const char *name;
    char flag[OPTION_NAME_MAX];
    TRY(options_to_json(o, false, &all, err));
    str_append(out, "snug " SNUG_VERSION "\n");
    json_object_foreach(all, name, value)
    {
        if (is_own(name))
            continue;
        str_printf(out, "%s ", option_flag(name, flag));
        options_json_value(value, out);
        str_append(out, "\n");
    }
    json_decref(all);
    return str_check(out, err);
}

/* Machines are told apart by their names and the time that their systems started. */
struct machine {
    char name[64], boot[64];
};

static struct machine this_machine(void)
{
    struct machine m = {{0}, {0}};
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    gethostname(m.name, sizeof m.name - 1);
    if (f && !fgets(m.boot, sizeof m.boot, f))
        m.boot[0] = '\0';
    if (f)
        fclose(f);
    return m;
}

static int find_neighbours(struct session *s, struct snug_err *err)
{
    struct machine mine = this_machine();
    int n = s->here.n;
    struct machine *all = mem_alloc((size_t)n * sizeof *all);
    if (!all)
        return err_no_memory(err, (unsigned long long)n * sizeof *all);
    bool met = ranks_gather_all(&s->here, &mine, sizeof mine, all);
    for (int k = 0; met && k < n; k++)
        if (!memcmp(&all[k], &mine, sizeof mine)) {
            s->local += k < s->here.me;
            s->beside++;
        }
    mem_free(all);
    return met ? SNUG_OK : ranks_failure(s->processes, err);
}

/* Threads are shared out, unless the launcher has given each process processors of its own. */
static void share_threads(struct session *s)
{
    bool bound = machine_cpus() < sysconf(_SC_NPROCESSORS_ONLN);
    if (!s->o->threads && !bound && s->beside > 1)
        s->compile.threads = s->compile.threads > s->beside ? s->compile.threads / s->beside : 1;
}

int processes_join(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    struct str lines = {0};
    char host[256];
    if (!(o->command & (CMD_TRAIN | CMD_EVAL)) || o->num_processes == 1)
        return SNUG_OK;
    if (!o->main_process) /* the command has started none, as it is not there */
        return err_set(err, SNUG_ERR_USAGE,
                       "--num-processes %lld: they have to meet; give --main-process HOST:PORT, the host of process 0",
                       (long long)o->num_processes);
    const char *port = strrchr(o->main_process, ':');
    snprintf(host, sizeof host, "%.*s", (int)(port - o->main_process), o->main_process);
    int code = lines_of(o, &lines, err);
    struct processes p = {.me = (int)o->process_index,
                          .n = (int)o->num_processes,
                          .host = host,
                          .port = atoi(port + 1),
                          .wait = 6 * o->peer_timeout,
                          .silence = o->peer_timeout,
                          .agree = str_text(&lines),
                          .stop = s->stop};
    if (!code)
        code = processes_open(&p, &s->processes, err);
    str_free(&lines);
    /* Where they have not met each says why, but for what the first one found. */
    if (code)
        return code;
    s->here = (struct rank){.all = s->processes, .me = p.me, .n = p.n};
    s->follows = p.me > 0;
    if (s->follows)
        s->events = (struct session_events){0};
    TRY(find_neighbours(s, err));
    share_threads(s);
    return distant_open(s, err);
}

/* ---- devices ---- */

/* What a process tells the others of its device. */
struct device {
    char name[16];
    int64_t available;
};

/* What a plan may take must not depend on whose it is: it is what all have. */
static int compare_devices(struct session *s, struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    struct device mine = {.available = b->arena->available(b)};
    struct device *all = mem_alloc((size_t)s->here.n * sizeof *all);
    if (!all)
        return err_no_memory(err, (unsigned long long)s->here.n * sizeof *all);
    snprintf(mine.name, sizeof mine.name, "%s", b->name);
    int code = ranks_gather_all(&s->here, &mine, sizeof mine, all) ? SNUG_OK : ranks_failure(s->processes, err);
    s->room = mine.available;
    for (int k = 0; !code && k < s->here.n; k++) {
        if (strcmp(all[k].name, all[0].name) != 0)
            code = err_set(err, SNUG_ERR_USAGE, "rank %d: has --device %s, rank 0 %s; give all the same", k,
                           all[k].name, all[0].name);
        s->room = all[k].available < s->room ? all[k].available : s->room;
    }
    mem_free(all);
    return code;
}

int processes_do_alike(struct session *s, struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    struct snug_err refused = {0};
    char *choices = NULL;
    if (!s->processes || !b->record)
        return SNUG_OK;
    if (!s->follows)
        TRY(b->record->give(b, &choices, err));
    uint64_t bytes = choices ? strlen(choices) + 1 : 0;
    int code = ranks_share(&s->here, &bytes, sizeof bytes) ? SNUG_OK : ranks_failure(s->processes, err);
    if (!code && s->follows && !(choices = mem_alloc(bytes)))
        code = err_no_memory(err, bytes);
    if (!code && !ranks_share(&s->here, choices, bytes))
        code = ranks_failure(s->processes, err);
    if (!code && s->follows)
        code = b->record->take(b, choices, &refused, err);
    mem_free(choices);
    return code || !refused.code ? code : err_set(err, refused.code, "GPUs that are not alike: %s", refused.text);
}

int processes_connect(struct session *s, struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    if (!s->processes)
        return SNUG_OK;
    TRY(compare_devices(s, err));
    if (!b->connect || s->o->command != CMD_TRAIN)
        return SNUG_OK;
    TRY(b->connect(b, &s->here, err));
    return compare_devices(s, err); /* of which that took something */
}

/* ---- comparing ---- */

enum { COMPARED = 24, NAME = 40, PIECE = 16 << 20 };

struct compared {
    char name[NAME];
    uint64_t value;
};

static void add(struct compared *all, int *n, const char *name, uint64_t value)
{
    if (*n == COMPARED)
        return;
    struct compared *c = &all[(*n)++];
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->value = value;
}

static int hash_memory(const struct session *s, uint64_t *out, struct snug_err *err)
{
    const struct run *r = &s->run;
    const struct backend *b = r->backend;
    const int64_t common = r->plan.owned_at[MEMORY_DEVICE]; /* behind it lies what a process has alone */
    struct hash_state *h = hash_new();
    char *piece = mem_alloc(PIECE);
    int code = h && piece ? SNUG_OK : err_no_memory(err, PIECE);
    for (int64_t at = r->plan.inputs_bytes; !code && at < common; at += PIECE) {
        int64_t bytes = common - at < PIECE ? common - at : PIECE;
        code = b->arena->download(b, piece, r->arenas.of[MEMORY_DEVICE] + at, bytes, err);
        if (!code)
            hash_add(h, piece, (size_t)bytes);
    }
    for (enum memory m = MEMORY_DEVICE + 1; !code && m < MEMORY_COUNT; m++)
        if (r->plan.owned_at[m])
            hash_add(h, r->arenas.of[m], (size_t)r->plan.owned_at[m]);
    if (h)
        *out = hash_end(h).low;
    mem_free(piece);
    return code;
}

/* Where everything lies. */
static uint64_t hash_plan(const struct plan *p)
{
    uint64_t h = (uint64_t)p->arena_bytes;
    for (int k = 0; k < p->n_programs; k++) {
        const struct program *g = &p->programs[k];
        h = h * 0x9e3779b97f4a7c15U ^ hash_bytes(g->at, (size_t)g->graph.n_values * sizeof *g->at).low;
    }
    return h;
}

static int hash_members(const json_t *doc, struct compared *all, int *n, struct snug_err *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)doc, name, value)
    {
        if (!strcmp(name, "backend") || !strcmp(name, "about"))
            continue;
        char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        if (!text)
            return err_no_memory(err, 1 << 16);
        add(all, n, name, hash_bytes(text, strlen(text)).low);
        free(text);
    }
    return SNUG_OK;
}

static int find_difference(const struct session *s, const struct compared *all, struct snug_err *err)
{
    for (int k = 1; k < s->here.n; k++)
        for (int i = 0; i < COMPARED; i++) {
            const struct compared *its = &all[k * COMPARED + i], *first = &all[i];
            if (memcmp(its, first, sizeof *its) != 0)
                return err_set(err, SNUG_ERR_USAGE,
                               "rank %d: its %s differs from that of rank 0; give all ranks the same files and memory",
                               k, *its->name ? its->name : first->name);
        }
    return SNUG_OK;
}

int processes_compare(struct session *s, const json_t *doc, struct snug_err *err)
{
    struct compared mine[COMPARED] = {0};
    uint64_t memory = 0;
    int n = 0;
    if (!s->processes)
        return SNUG_OK;
    add(mine, &n, "number of rows", s->has_train ? (uint64_t)s->train.n_rows : 0);
    add(mine, &n, "number of rows to evaluate", s->has_data ? (uint64_t)s->data.n_rows : 0);
    add(mine, &n, "number of tokens to evaluate", s->has_data ? (uint64_t)s->data.n_tokens : 0);
    add(mine, &n, "rows of a micro-batch", (uint64_t)s->micro_rows);
    if (s->compile.backend->connect) /* devices send each other what lies at the same place */
        add(mine, &n, "plan", hash_plan(&s->run.plan));
    TRY(hash_members(doc, mine, &n, err));
    TRY(hash_memory(s, &memory, err));
    add(mine, &n, "state (weights and optimizer)", memory);
    struct compared *all = mem_alloc((size_t)s->here.n * sizeof mine);
    if (!all)
        return err_no_memory(err, (unsigned long long)s->here.n * sizeof mine);
    bool met = ranks_gather_all(&s->here, mine, sizeof mine, all);
    int code = met ? find_difference(s, all, err) : ranks_failure(s->processes, err);
    mem_free(all);
    return code;
}

/* ---- going on together ---- */

bool processes_stop(const struct session *s)
{
    return s->processes ? s->stops : stop_asked(s->stop);
}

int processes_share(struct session *s, void *data, size_t bytes, struct snug_err *err)
{
    if (!s->processes)
        return SNUG_OK;
    int any = ranks_share(&s->here, data, bytes) ? ranks_any(&s->here, stop_asked(s->stop)) : -1;
    s->stops |= any > 0;
    return any < 0 ? ranks_failure(s->processes, err) : SNUG_OK;
}

int processes_end(struct session *s, int code, struct snug_err *err)
{
    if (!s->processes || !code)
        return code;
    int left = ranks_left(s->processes);
    bool has_said = code == SNUG_STOPPED || code == SNUG_ERR_PEER;
    if (left < 0 && !s->stops)
        ranks_leave(&s->here, code, err ? err->text : "");
    else if (left >= 0 && left != s->here.me && !has_said && ranks_left_code(s->processes) != code)
        code = ranks_failure(s->processes, err);                                      /* else all have found the same */
    bool first_is_gone = left == 0 && ranks_left_code(s->processes) == SNUG_ERR_PEER; /* and could not say so */
    bool says = s->here.me == (first_is_gone ? 1 : 0);
    if (!says && err)
        err->text[0] = '\0';
    return code;
}
