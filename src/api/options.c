/* The process, options and stopping: the functions of snug.h that need no session. */
#include "snug/snug.h"

#include "api/handles.h"
#include "options/options.h"

#include <string.h>

/* ---- process ---- */

const char *snug_version(void)
{
    return SNUG_VERSION;
}

void snug_free(void *p)
{
    mem_free(p);
}

void snug_set_allocator(const struct snug_allocator *a)
{
    static struct mem_ops ops; /* a copy, so that the caller's may go; part of the one process-wide switch in mem.c */
    if (a)
        ops = (struct mem_ops){.realloc = a->realloc, .free = a->free, .ctx = a->ctx, .not_pieces = true};
    mem_set_ops(a ? &ops : NULL);
}

/* ---- options ---- */

int snug_options_new(const char *command, snug_options **out, struct snug_err *err)
{
    static const unsigned bits[] = {CMD_TRAIN, CMD_EVAL, CMD_PREDICT, CMD_PLAN, CMD_GENERATE};
    *out = NULL;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        if (strcmp(command_name(bits[i]), command))
            continue;
        *out = mem_alloc(sizeof **out);
        if (!*out)
            return err_no_memory(err, sizeof **out);
        options_init(&(*out)->o, bits[i]);
        return SNUG_OK;
    }
    return err_set(err, SNUG_ERR_USAGE, "%s: no such command; use train, eval, predict, plan or generate", command);
}

int snug_options_set(snug_options *o, const char *name, const char *value, struct snug_err *err)
{
    return options_set(&o->o, name, value, err);
}

int snug_options_read(snug_options *o, const char *path, struct snug_err *err)
{
    return options_read_config(&o->o, &io_posix, path, err);
}

void snug_options_free(snug_options *o)
{
    if (o)
        options_free(&o->o);
    mem_free(o);
}

/* ---- stopping ---- */

int snug_stop_new(snug_stop **out, struct snug_err *err)
{
    *out = mem_alloc(sizeof **out);
    return *out ? SNUG_OK : err_no_memory(err, sizeof **out);
}

void snug_stop_ask(snug_stop *s, int signal_number)
{
    if (s->flag.signal == signal_number)
        s->flag.again = signal_number;
    else if (!s->flag.signal)
        s->flag.signal = signal_number;
}

int snug_stop_on_signals(snug_stop *s, struct snug_err *err)
{
    TRY(signals_install(&s->flag, err));
    s->installed = true;
    return SNUG_OK;
}

int snug_stop_exit_code(const snug_stop *s)
{
    return stop_exit_code(&s->flag);
}

void snug_stop_free(snug_stop *s)
{
    if (s && s->installed)
        signals_restore();
    mem_free(s);
}
