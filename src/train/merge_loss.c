#include "train/evaluation/evaluate.h"
#include "train/merge.h"

#include <math.h>
#include <string.h>

static void take_loss(void *ctx, const char *name, double value)
{
    if (!strcmp(name, "loss"))
        *(double *)ctx = value;
}

static int evaluate_session(struct session *s, double *loss, struct snug_err *err)
{
    struct metrics m;
    double seconds;
    TRY(session_load(s, err));
    TRY(evaluate_metrics(s, &m, err));
    int code = evaluate(s, &m, NULL, &seconds, err);
    if (!code)
        metrics_report(&m, take_loss, loss);
    metrics_close(&m);
    return code;
}

int merge_loss(const struct io *io, const struct options *o, const char *model, const char *adapter,
               struct session_events events, double *loss, struct snug_err *err)
{
    struct options of_eval = *o;
    struct session s;
    of_eval.command = CMD_EVAL;
    of_eval.model = model;
    of_eval.adapter = adapter;
    *loss = NAN;
    int code = session_open(&s, io, &of_eval, false, events, NULL, err);
    if (!code)
        code = evaluate_session(&s, loss, err);
    session_close(&s);
    return code;
}
