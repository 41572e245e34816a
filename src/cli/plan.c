/* snug plan: what a run will allocate, before anything runs. */
#include "cli/commands.h"
#include "cli/screen.h"
#include "cli/terminal.h"

static const char *const passes[] = {
#define WORD(id, text) text,
    WORDS_DUMP(WORD)
#undef WORD
};

static int print_plan(const snug_session *s, bool json, struct snug_err *err)
{
    char *summary, *table = NULL;
    TRY(json ? snug_plan_json(s, &summary, err) : snug_plan_summary(s, &summary, err));
    int code = json ? SNUG_OK : snug_plan_text(s, &table, err);
    if (!code && json)
        printf("%s\n", summary);
    if (!code && !json) {
        print_wrapped(stdout, summary, PLAN_INDENT);
        print_wrapped(stdout, table, 2);
    }
    snug_free(summary);
    snug_free(table);
    return code;
}

int run_plan(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {.screen = {.dump = o->dump == OPT_DUMP_NONE ? NULL : passes[o->dump]}};
    (void)args;
    int code = cli_open(&c, o, err);
    if (!code && !c.screen.dump)
        code = print_plan(c.session, o->json, err);
    return cli_close(&c, code);
}
