/* The table of docs/options.md on the names of transformers' TrainingArguments. */
#include "cli/commands.h"
#include "options/training_arguments.h"
#include "options/value.h"

#include <string.h>

static void print_name(FILE *f, const char *name)
{
    struct options o;
    options_init(&o, CMD_TRAIN);
    struct option_meaning m = option_lookup(&o, name);
    fprintf(f, "| `%s` | ", name);
    if (m.kind == MEANS_ACCEPTED || m.kind == MEANS_REFUSED) {
        fprintf(f, "%s | %s |\n", m.kind == MEANS_ACCEPTED ? "ignored" : "refused", m.foreign->why);
    } else {
        const struct option_row *row = &option_rows[m.option];
        fputs("taken | ", f);
        if (m.spelling)
            fprintf(f, "`%s%s%s`: ", row->name, m.spelling->value ? " " : "",
                    m.spelling->value ? m.spelling->value : "");
        fprintf(f, "%s |\n", row->help);
    }
    options_free(&o);
}

void docs_trainer(FILE *f)
{
    static const char *const names[] = {
#define NAME(name) #name,
        TRAINING_ARGUMENTS(NAME)
#undef NAME
    };
    fprintf(f,
            "\n## TrainingArguments, name by name\n\nThe %zu of transformers 5.17, in its order. Taken: the option of "
            "that name, or the one that stands for it. Ignored: with\na note, unless the value is the default. "
            "Refused: unless the value is the default. Those of 4.57 and 5.23 are known as well;\nthe lists below have "
            "them.\n\n| name | is | |\n|---|---|---|\n",
            sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        print_name(f, names[i]);
}
