/* snug plan: what a run will allocate, before anything runs. */
#include "base/out_file.h"
#include "cli/commands.h"
#include "cli/screen.h"
#include "cli/terminal.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

static const char *const passes[] = {
#define WORD(id, text) text,
    WORDS_DUMP(WORD)
#undef WORD
};

static int print_plan(const snug_session *s, const struct options *o, struct snug_err *err)
{
    char *summary, *table = NULL, *more = NULL;
    TRY(o->json ? snug_plan_json(s, &summary, err) : snug_plan_summary(s, &summary, err));
    int code = o->json ? SNUG_OK : snug_plan_text(s, &table, err);
    if (!code && o->anatomy && !o->json)
        code = snug_plan_anatomy(s, &more, err);
    if (!code && o->json)
        printf("%s\n", summary);
    if (!code && !o->json) {
        print_wrapped(stdout, summary, PLAN_INDENT);
        print_wrapped(stdout, table, 2);
    }
    if (more && !code)
        print_wrapped(stdout, more, 2);
    snug_free(summary);
    snug_free(table);
    snug_free(more);
    return code;
}

/* Before the plan is made, which may take seconds: that the file can be written. */
static int open_picture(const struct options *o, struct out_file *f, struct snug_err *err)
{
    const char *dot = o->picture ? strrchr(o->picture, '.') : NULL;
    if (!o->picture)
        return SNUG_OK;
    if (!dot || strcasecmp(dot, ".svg"))
        return err_set(err, SNUG_ERR_USAGE, "--picture %s: its ending is not .svg; give a name that ends so",
                       o->picture);
    if (o->dump != OPT_DUMP_NONE)
        return err_set(err, SNUG_ERR_USAGE, "--picture %s: --dump makes no plan to draw; leave one out", o->picture);
    return out_file_open(&io_posix, o->picture, o->overwrite_output, f, err);
}

static int draw(const snug_session *s, const char *path, struct out_file *f, struct snug_err *err)
{
    char *svg, line[PATH_MAX + 64];
    TRY(snug_plan_picture(s, &svg, err));
    int code = out_file_write(f, svg, strlen(svg), err);
    snug_free(svg);
    if (!code)
        code = out_file_publish(f, err);
    snprintf(line, sizeof line, "picture written to %s", path);
    fflush(stdout);
    if (!code)
        print_note(line);
    return code;
}

int run_plan(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {.screen = {.dump = o->dump == OPT_DUMP_NONE ? NULL : passes[o->dump]}};
    struct out_file picture = {0};
    (void)args;
    TRY(open_picture(o, &picture, err));
    int code = cli_open(&c, o, err);
    if (!code && !c.screen.dump)
        code = print_plan(c.session, o, err);
    if (!code && o->picture)
        code = draw(c.session, o->picture, &picture, err);
    out_file_drop(&picture);
    return cli_close(&c, code);
}
