/* Questions and their answers in columns of their own, as instruction data on the hub have them. A language model learns a prompt
 * and its completion, so a line of jq is offered that makes these. Which mark stands between both is the user's choice. */
#include "data/files/answers.h"

#include "base/str.h"

#include <string.h>

static const struct {
    const char *question, *more, *answer; /* more: what the question is about; often empty, and it may be absent */
} usual[] = {
    {"instruction", "input", "output"},
    {"instruction", "context", "response"},
    {"instruction", "input", "response"},
    {"instruction", "input", "answer"},
    {"prompt", NULL, "completion"},
    {"prompt", "input", "response"},
    {"prompt", NULL, "answer"},
    {"prompt", NULL, "output"},
    {"prompt", NULL, "chosen"},
    {"question", "context", "answer"},
    {"question", NULL, "response"},
    {"query", NULL, "response"},
    {"query", NULL, "answer"},
    {"input", NULL, "output"},
    {"input", NULL, "response"},
    {"problem", NULL, "solution"},
    {"user", NULL, "assistant"},
    {"human", NULL, "assistant"},
};

struct found {
    const char *question, *more, *answer; /* columns, as the file calls them */
};

static bool find(const struct columns *c, struct found *f)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        int question = columns_find_usual(c, usual[i].question), answer = columns_find_usual(c, usual[i].answer);
        int more = usual[i].more ? columns_find_usual(c, usual[i].more) : -1;
        if (question < 0 || answer < 0)
            continue;
        *f = (struct found){c->names[question], more < 0 ? NULL : c->names[more], c->names[answer]};
        return c->text < 0 || c->text == question || c->text == answer || c->text == more;
    }
    return false;
}

static void append_jq(struct str *s, const struct found *f, const char *rows)
{
    str_printf(s, "jq -c '%s{prompt: (.[\"%s\"] + \"\\n\"", rows, f->question);
    if (f->more)
        str_printf(s, " + .[\"%s\"] + \"\\n\"", f->more);
    str_printf(s, "), completion: .[\"%s\"]}'", f->answer);
}

int answers_refuse(const struct table *t, struct snug_err *err)
{
    struct found f;
    struct str line = {0};
    if (!find(&t->columns, &f))
        return SNUG_OK;
    if (table_has_objects(t) && objects_jq(&t->objects))
        append_jq(&line, &f, objects_jq(&t->objects));
    int code = str_check(&line, err);
    if (!code)
        code = err_set(
            err, SNUG_ERR_INPUT,
            "%s: '%s' and '%s' look like a prompt and its answer; name one with --text-column, or join both%s%s",
            t->path, f.question, f.answer, line.n ? ": " : " in JSON lines of \"prompt\" and \"completion\"",
            str_text(&line));
    str_free(&line);
    return code;
}
