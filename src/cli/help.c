/* --help, from the table of options. */
#include "cli/commands.h"

#include <string.h>

enum { COLUMN = 38 }; /* where the help lines of options begin */

/* Too many for the line of their option. */
static bool has_many_words(const struct option_row *row)
{
    return row->type == OPTION_WORD && strlen(row->domain) > 80;
}

const char *help_value(const struct option_row *row)
{
    switch (row->type) {
    case OPTION_INT:
    case OPTION_UINT:
    case OPTION_STEPS:
        return "N";
    case OPTION_REAL:
        return "X";
    case OPTION_BYTES:
        return "SIZE";
    case OPTION_CHAR:
    case OPTION_WORD:
        return has_many_words(row) ? "NAME" : row->domain;
    case OPTION_STR:
    case OPTION_KWARGS:
        return row->domain;
    case OPTION_BOOL:
    case OPTION_SECTION:
        break;
    }
    return "";
}

/* ", also --batch-size", ", --bf16 is short for it with bf16": the spellings that are as good as the name. */
static void print_spellings(FILE *f, int option, unsigned bit)
{
    char flag[OPTION_NAME_MAX];
    for (size_t i = 0; i < n_option_spellings; i++) {
        const struct option_spelling *s = &option_spellings[i];
        if (s->option != option || s->kind != SPELLING_SHORT)
            continue;
        bool first = true; /* of its name that this command takes */
        for (size_t k = 0; k < i; k++)
            if (strcmp(option_spellings[k].spelling, s->spelling) == 0 &&
                option_rows[option_spellings[k].option].commands & bit)
                first = false;
        if (!first || (s->value && !word_in(s->value, option_rows[option].domain, NULL)))
            continue;
        fprintf(f, s->value ? "; %s: %s" : "; also %s", option_flag(s->spelling, flag), s->value);
    }
}

/* Below its line, a few in each. */
static void print_words(FILE *f, const char *words)
{
    enum { WIDTH = 70 };
    int n = WIDTH;
    while (*words) {
        int length = (int)strcspn(words, "|");
        if (n + length > WIDTH)
            n = fprintf(f, "\n%*s", COLUMN, "") - COLUMN;
        n += fprintf(f, "%s%.*s%s", n > 1 ? " " : "", length, words, words[length] ? "," : "");
        words += length + (words[length] == '|');
    }
}

static void print_option(FILE *f, int i, unsigned bit)
{
    const struct option_row *row = &option_rows[i];
    char left[256], flag[OPTION_NAME_MAX];
    const char *value = help_value(row);
    if (row->parent < 0)
        snprintf(left, sizeof left, "  %s%s%s", option_flag(row->name, flag), *value ? " " : "", value);
    else
        snprintf(left, sizeof left, "      %s=%s", row->name, *value ? value : "true");
    int n = fprintf(f, "%s", left);
    if (n > COLUMN - 2) {
        fputc('\n', f);
        n = 0;
    }
    fprintf(f, "%*s%s", COLUMN - n, "", row->help);
    print_spellings(f, i, bit);
    if (row->needed & bit)
        fputs(" (needed)", f);
    else if (strcmp(row->unset, "none") != 0 && row->type != OPTION_BOOL)
        fprintf(f, " [%s]", row->unset);
    if (has_many_words(row))
        print_words(f, row->domain);
    fputc('\n', f);
}

void help_options(FILE *f, unsigned bit)
{
    const char *title = NULL;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (option_rows[i].type == OPTION_SECTION)
            title = option_rows[i].name;
        if (!(option_rows[i].commands & bit))
            continue;
        if (title)
            fprintf(f, "\n%s\n", title);
        title = NULL;
        print_option(f, i, bit);
    }
}

void help_command(FILE *f, const struct command *c)
{
    const char *name = command_name(c->bit);
    char flag[OPTION_NAME_MAX];
    bool any = false;
    fprintf(f, "usage: snug %s", name);
    for (int i = 0; i < N_OPTIONS; i++) {
        any = any || option_rows[i].commands & c->bit;
        if (option_rows[i].needed & c->bit)
            fprintf(f, " %s %s", option_flag(option_rows[i].name, flag), help_value(&option_rows[i]));
    }
    fprintf(f, "%s%s%s\n\nsnug %s: %s.\n%s", any ? " [options]" : "", *c->arguments ? " " : "", c->arguments, name,
            c->summary, c->about);
    help_options(f, c->bit);
    if (any)
        fputs("\nNames may have underscores for hyphens. [...] is the default.\n", f);
}

static void print_commands(FILE *f, const char *group)
{
    size_t n = strlen(group);
    for (size_t i = 0; i < n_commands; i++) {
        const char *name = command_name(commands[i].bit);
        if (n ? strncmp(name, group, n) == 0 && name[n] == ' ' : !strchr(name, ' '))
            fprintf(f, "  %-12s %s\n", name, commands[i].summary);
    }
}

void help_group(FILE *f, const char *group)
{
    fprintf(f, "usage: snug %s COMMAND [options]\n\n", group);
    print_commands(f, group);
    fprintf(f, "\nsnug %s COMMAND --help lists the options of a command.\n", group);
}

void help_print(FILE *f)
{
    fputs("usage: snug COMMAND [options]\n\n"
          "snug " SNUG_VERSION " fine-tunes Hugging Face transformers that have to fit.\n\n",
          f);
    print_commands(f, "");
    fputs("  debug        what tests and bug reports look at\n\n"
          "snug COMMAND --help lists the options of a command.\n\nExit codes\n",
          f);
    for (size_t i = 0; i < n_exit_codes; i++)
        fprintf(f, "  %-6s %s\n", exit_codes[i].code, exit_codes[i].meaning);
}
