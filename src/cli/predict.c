/* snug predict: the rows' predictions, in their order, on the standard output or in a file. */
#include "base/out_file.h"
#include "cli/commands.h"
#include "cli/predictions.h"
#include "cli/screen.h"
#include "cli/terminal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct output {
    struct predictions lines;
    struct out_file file; /* path NULL: the standard output */
    bool at_once;         /* somebody waits for each line */
    int64_t rows;
    struct snug_err *err;
};

static int put_row(void *ctx, int64_t index, const double *values)
{
    struct output *o = ctx;
    const struct str *line = &o->lines.line;
    o->lines.columns = o->lines.terminal ? terminal_columns(STDOUT_FILENO) : 0; /* windows change */
    TRY(predictions_add(&o->lines, index, values, o->err));
    o->rows++;
    if (o->file.path)
        return out_file_write(&o->file, str_text(line), line->n, o->err);
    if (fwrite(str_text(line), 1, line->n, stdout) == line->n && !(o->at_once && fflush(stdout)))
        return SNUG_OK;
    if (errno == EPIPE) { /* the reader has what it wanted: nothing to say */
        err_set(o->err, SNUG_ERR_IO, "%s", "");
        return SNUG_ERR_IO;
    }
    return err_set(o->err, SNUG_ERR_IO, "standard output: not all could be written: %s", strerror(errno));
}

/* What the ending of the file's name says. */
static int choose_format(const struct options *o, bool *json, struct snug_err *err)
{
    const char *dot = o->output ? strrchr(o->output, '.') : NULL;
    bool csv = dot && !strcasecmp(dot, ".csv"),
         jsonl = dot && (!strcasecmp(dot, ".jsonl") || !strcasecmp(dot, ".ndjson"));
    *json = o->output ? jsonl : o->json;
    if (o->output && !csv && !jsonl)
        return err_set(err, SNUG_ERR_USAGE, "--output %s: its ending is neither .csv nor .jsonl; give one of them",
                       o->output);
    if (csv && o->json)
        return err_set(err, SNUG_ERR_USAGE, "--output %s: CSV by its ending, which --json contradicts; leave one out",
                       o->output);
    return SNUG_OK;
}

/* Before the model is looked at: that the file can be written, and is not what is read. */
static int open_file(const struct options *o, struct out_file *f, struct snug_err *err)
{
    struct stat in, out;
    if (!o->output)
        return SNUG_OK;
    if (o->data && !io_posix.stat(&io_posix, o->data, &in) && !io_posix.stat(&io_posix, o->output, &out) &&
        in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return err_set(err, SNUG_ERR_USAGE, "--output %s: is what --data reads; give another name", o->output);
    return out_file_open(&io_posix, o->output, o->overwrite_output, f, err);
}

static int check_top(const struct output *o, struct snug_err *err)
{
    if (o->lines.top && snug_text(o->lines.s))
        return err_set(err, SNUG_ERR_USAGE, "--top-k: no effect on a model that writes a text; leave it out");
    bool words = snug_words(o->lines.s) >= 0;
    bool idle =
        o->lines.top && !words && snug_answers(o->lines.s) < 0 && snug_problem_type(o->lines.s) == SNUG_REGRESSION;
    if (o->lines.top && words)
        return err_set(err, SNUG_ERR_USAGE,
                       "--top-k: no effect on token classification, which tells the likeliest tag of "
                       "each word; leave it out");
    return idle ? err_set(err, SNUG_ERR_USAGE, "--top-k: no effect on regression, which has no labels; leave it out")
                : SNUG_OK;
}

static void say_written(const struct output *o, const char *path)
{
    char line[PATH_MAX + 64];
    snprintf(line, sizeof line, "%lld row%s written to %s", (long long)o->rows, o->rows == 1 ? "" : "s", path);
    print_note(line);
}

int run_predict(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {0};
    struct output out = {.lines = {.threshold = o->threshold, .top = o->top_k}, .err = err};
    (void)args;
    TRY(choose_format(o, &out.lines.json, err));
    TRY(open_file(o, &out.file, err));
    int code = cli_open(&c, o, err);
    out.lines.s = c.session;
    out.lines.terminal = !o->output && isatty(STDOUT_FILENO);
    out.at_once = o->data && !strcmp(o->data, "-");
    if (!code)
        code = check_top(&out, err);
    if (!code)
        code = snug_predict(c.session, put_row, &out, err);
    if (!code && out.file.path)
        code = out_file_publish(&out.file, err);
    if (!code && o->output)
        say_written(&out, o->output);
    out_file_drop(&out.file);
    predictions_free(&out.lines);
    return cli_close(&c, code);
}
