#include "options/gpus.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_ELSEWHERE = 1024 };

/* present: GPUs of this machine; -1: they are elsewhere, and only counted. */
static int add(struct gpus *g, const char *text, long gpu, int present, struct snug_err *err)
{
    bool elsewhere = present < 0;
    int most = elsewhere ? GPUS_ELSEWHERE : BACKEND_GPUS;
    if (g->n == most)
        return err_set(err, SNUG_ERR_USAGE, "--gpus %s: a %s has %d GPUs at most", text, elsewhere ? "plan" : "run",
                       most);
    if (!elsewhere && gpu >= present)
        return err_set(err, SNUG_ERR_ENV, "--gpus %s: GPU %ld is not there; this machine has %d, counted from 0", text,
                       gpu, present);
    if (!elsewhere)
        g->of[g->n] = (int)gpu;
    g->n++;
    return SNUG_OK;
}

static int not_known(const char *text, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_USAGE, "--gpus %s: give how many GPUs, such as 2, a list such as 0,2, or all", text);
}

/* A comma may end a list, so that there are lists of one. */
static int read_list(const char *text, int present, struct gpus *out, struct snug_err *err)
{
    for (const char *at = text; *at; at += *at == ',') {
        char *end;
        long gpu = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (gpu < 0 || (*end && *end != ','))
            return not_known(text, err);
        TRY(add(out, text, gpu, present, err));
        at = end;
    }
    return SNUG_OK;
}

/* A number without a comma says how many. 0 may be meant as the first GPU or as none. */
static int read_count(const char *text, int present, struct gpus *out, struct snug_err *err)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (!strcmp(text, "0"))
        return err_set(err, SNUG_ERR_USAGE,
                       "--gpus 0: says how many; for GPU 0 give 0, with the comma, for none --device cpu");
    if (n < 1 || *end)
        return not_known(text, err);
    for (long i = 0; i < n; i++)
        TRY(add(out, text, i, present, err));
    return SNUG_OK;
}

static int read_gpus(const char *text, int present, struct gpus *out, struct snug_err *err)
{
    if (strchr(text, ','))
        return read_list(text, present, out, err);
    if (strcmp(text, "all"))
        return read_count(text, present, out, err);
    if (present < 0)
        return err_set(err, SNUG_ERR_USAGE,
                       "--gpus all: a plan for GPUs that are elsewhere needs their number, such as 4");
    for (int i = 0; i < present; i++)
        TRY(add(out, text, i, present, err));
    return SNUG_OK;
}

int options_gpus(const struct options *o, struct gpus *out, struct snug_err *err)
{
    bool plans = o->command == CMD_PLAN, elsewhere = plans && (o->gpu || o->device_profile);
    *out = (struct gpus){0};
    if (!o->gpus)
        return SNUG_OK;
    int code = elsewhere ? SNUG_OK : backend_check(BACKEND_CUDA, err);
    if (!code)
        code = read_gpus(o->gpus, elsewhere ? -1 : backend_cuda_count(), out, err);
    if (code == SNUG_ERR_ENV && plans)
        err_set(
            err, code,
            "--gpus %s: this machine or this build of snug has not as many; to plan for GPUs that are elsewhere name "
            "them, such as --gpu h100",
            o->gpus);
    return code;
}
