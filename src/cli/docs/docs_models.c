/* The table in docs/models.md: a row for each architecture, with its tasks and the settings of config.json that it refuses. */
#include "cli/commands.h"
#include "model/model.h"
#include "model/refused.h"

static void print_tasks(FILE *f, const struct model_arch *a)
{
    const char *before = "";
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT; t++)
        if (a->heads[t].class_name) {
            fprintf(f, "%s`%s`", before, model_task_names[t]);
            before = ", ";
        }
}

static void print_words(FILE *f, const char *const *words)
{
    for (int i = 0; i < REFUSED_WORDS && words[i]; i++)
        fprintf(f, "%s`%s`", i ? ", " : "", words[i]);
}

static void print_refused(FILE *f, const struct refused *row)
{
    static const char *const conditions[] = {
        [REFUSED_TRUE] = " true",       [REFUSED_FALSE] = " false",        [REFUSED_PRESENT] = "",
        [REFUSED_ABOVE_0] = " above 0", [REFUSED_UNLIKE] = " other than ", [REFUSED_OTHER] = " other than "};
    fprintf(f, "`%s`%s", row->key, conditions[row->kind]);
    print_words(f, row->words);
    if (row->but)
        fprintf(f, " but for %s", row->but);
}

static const char *print_table(FILE *f, const struct refused *rows)
{
    const char *before = "";
    for (; rows && rows->key; rows++) {
        fputs(before, f);
        print_refused(f, rows);
        before = "; ";
    }
    return before;
}

/* What model_set_task refuses. */
static void print_tied(FILE *f, const struct model_arch *a, const char *before)
{
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT; t++)
        if (model_needs_tied(a, (enum model_task)t)) {
            fprintf(f, "%s`tie_word_embeddings` false with `%s`", before, model_task_names[t]);
            before = "; ";
        }
}

void docs_models(FILE *f)
{
    fputs("Each of them trains with each `--dtype`: ", f);
    docs_words(f, option_rows[OPTION_dtype].domain, ", ", "`");
    fputs(". `snug help precision` says which of these need a GPU.\n\nAll refuse these settings of `config.json`: ", f);
    print_table(f, refused_everywhere);
    fputs(".\n\n| `model_type` | models such as | tasks (`--task`) | refused, of `config.json` |\n|---|---|---|---|\n",
          f);
    for (int i = 0; model_archs[i]; i++) {
        const struct model_arch *a = model_archs[i];
        fprintf(f, "| `%s` | %s | ", a->model_type, a->known);
        print_tasks(f, a);
        fputs(" | ", f);
        print_tied(f, a, print_table(f, a->refused));
        fputs(" |\n", f);
    }
}
