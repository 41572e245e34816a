/* Which options of a command may name a repository, and what is needed of it. */
#include "hub/get.h"
#include "hub/hub.h"

#include <string.h>

struct job {
    struct options *o; /* NULL: nothing is replaced */
    unsigned command;
    const struct io *io;
    const struct hub_events *events;
};

/* Without an owner only a model has a name: `train` is no data set. `snug bench` has models of its own by such names. */
static bool needs_owner(const struct job *j, enum hub_part part)
{
    return (part != HUB_MODEL && part != HUB_SETTINGS) || j->command & CMD_BENCH;
}

/* Whether `text` names a repository; a path that is here is a path, also a link that leads nowhere. */
static bool is_wish(const struct job *j, const char *text, enum hub_part part, struct hub_wish *w)
{
    struct stat st;
    *w = (struct hub_wish){.text = text, .part = part};
    return text && hub_name_read(text, needs_owner(j, part), &w->name) && j->io->lstat(j->io, text, &st) != 0;
}

static int replace(const struct job *j, const char **text, enum hub_part part, struct snug_err *err)
{
    struct hub_wish w;
    const char *const *paths;
    size_t n;
    if (!is_wish(j, *text, part, &w))
        return SNUG_OK;
    TRY(hub_get(&w, j->io, j->events, &j->o->arena, &paths, &n, err));
    if (n > 1)
        return err_set(err, SNUG_ERR_INPUT, "%s: has %d files of rows there; name one of them, such as %s:%s", w.text,
                       (int)n, w.name.repository, strrchr(paths[0], '/') + 1);
    *text = paths[0];
    return SNUG_OK;
}

struct list {
    const char **items;
    size_t n, cap;
};

static int append(struct list *l, const char *const *items, size_t n, struct snug_err *err)
{
    if (!MEM_GROW(l->items, l->cap, l->n + n))
        return err_no_memory(err, (l->n + n) * sizeof *l->items);
    memcpy(l->items + l->n, items, n * sizeof *items);
    l->n += n;
    return SNUG_OK;
}

static int expand(const struct job *j, const struct opt_paths *p, enum hub_part part, struct list *all,
                  struct snug_err *err)
{
    for (size_t i = 0; i <= p->n_more; i++) {
        const char *one = i ? p->more[i - 1] : p->first;
        const char *const *paths = &one;
        size_t n = 1;
        struct hub_wish w;
        if (is_wish(j, one, part, &w))
            TRY(hub_get(&w, j->io, j->events, &j->o->arena, &paths, &n, err));
        TRY(append(all, paths, n, err));
    }
    return SNUG_OK;
}

/* One repository may have several files. */
static int replace_paths(const struct job *j, struct opt_paths *p, enum hub_part part, struct snug_err *err)
{
    struct list all = {0};
    if (!p->first)
        return SNUG_OK;
    int code = expand(j, p, part, &all, err);
    const char **copy = code ? NULL : arena_alloc(&j->o->arena, all.n * sizeof *copy);
    if (copy) {
        memcpy(copy, all.items, all.n * sizeof *copy);
        *p = (struct opt_paths){.first = copy[0], .more = copy + 1, .n_more = all.n - 1};
    } else if (!code) {
        code = err_no_memory(err, all.n * sizeof *copy);
    }
    mem_free(all.items);
    return code;
}

/* Plans, measurements and token ids need no weights, which are most of a model. */
static enum hub_part part_of_model(const struct options *o)
{
    bool bare = o->command & (CMD_PLAN | CMD_BENCH | CMD_TOKENIZE | CMD_DEBUG_DATA | CMD_EXPORT) || o->init_from_config;
    return bare ? HUB_SETTINGS : HUB_MODEL;
}

bool hub_is_asked(const struct options *o, const struct io *io)
{
    const struct job j = {.command = o->command, .io = io};
    struct hub_wish w;
    const struct opt_paths *const lists[] = {&o->train_data, &o->eval_data};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; lists[l]->first && i <= lists[l]->n_more; i++)
            if (is_wish(&j, i ? lists[l]->more[i - 1] : lists[l]->first, HUB_TRAIN_ROWS, &w))
                return true;
    return is_wish(&j, o->model, HUB_MODEL, &w) || is_wish(&j, o->adapter, HUB_ADAPTER, &w) ||
           is_wish(&j, o->data, HUB_TEST_ROWS, &w);
}

int hub_options(struct options *o, const struct io *io, const struct hub_events *events, struct snug_err *err)
{
    const struct job j = {.o = o, .command = o->command, .io = io, .events = events};
    TRY(replace_paths(&j, &o->train_data, HUB_TRAIN_ROWS, err));
    TRY(replace_paths(&j, &o->eval_data, HUB_EVAL_ROWS, err));
    TRY(replace(&j, &o->data, HUB_TEST_ROWS, err));
    TRY(replace(&j, &o->adapter, HUB_ADAPTER, err));
    return replace(&j, &o->model, part_of_model(o), err);
}

bool hub_model_is_asked(const char *path, const struct io *io)
{
    struct hub_wish w;
    return is_wish(&(struct job){.io = io}, path, HUB_MODEL, &w);
}

int hub_model(struct options *o, const char **path, const struct io *io, const struct hub_events *events,
              struct snug_err *err)
{
    return replace(&(struct job){.o = o, .io = io, .events = events}, path, HUB_MODEL, err);
}
