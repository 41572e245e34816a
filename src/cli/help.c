/* --help, from the table of options. */
#include "cli/commands.h"

#include "base/str.h"
#include "cli/terminal.h"

#include <string.h>

enum {
    COLUMN = 38, /* where the help lines of options begin */
    BELOW = 8,   /* the same in a narrow window, where they stand below the name */
    NARROW = 80,
    LISTED = 15, /* where the texts on commands, topics and exit codes begin */
    WIDTH = 110, /* of long lists and texts where there is no terminal */
};

/* What is printed, and how wide. */
struct page {
    FILE *f;
    int columns; /* 0: no terminal */
};

static struct page open_page(FILE *f)
{
    return (struct page){f, terminal_columns(fileno(f))};
}

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
    case OPTION_PATHS:
    case OPTION_TEXTS:
    case OPTION_KWARGS:
        return row->domain;
    case OPTION_BOOL:
    case OPTION_SECTION:
        break;
    }
    return "";
}

/* "; also --batch-size", "; --bf16: bf16": the spellings that are as good as the name. */
static void put_spellings(struct str *out, int option, unsigned bit)
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
        str_printf(out, s->value ? "; %s: %s" : "; also %s", option_flag(s->spelling, flag), s->value);
    }
}

/* Below its line, a few in each. */
static void print_words(const struct page *p, const char *words, int indent)
{
    struct str line = {0}, wrapped = {0};
    str_printf(&line, "%*s", indent, "");
    for (; *words; words++)
        if (*words == '|')
            str_append(&line, ", ");
        else
            str_append_n(&line, words, 1);
    wrap_text(&wrapped, str_text(&line), p->columns ? p->columns : WIDTH, indent);
    fprintf(p->f, "%s\n", str_text(&wrapped));
    str_free(&line);
    str_free(&wrapped);
}

static void print_option(const struct page *p, int i, unsigned bit)
{
    const struct option_row *row = &option_rows[i];
    char flag[OPTION_NAME_MAX];
    const char *value = help_value(row);
    struct str left = {0}, line = {0};
    if (row->parent < 0)
        str_printf(&left, "  %s%s%s", option_flag(row->name, flag), *value ? " " : "", value);
    else
        str_printf(&left, "      %s=%s", row->name, *value ? value : "true");
    int indent = p->columns && p->columns < NARROW ? BELOW : COLUMN;
    bool below = indent == BELOW || left.n > COLUMN - 2;
    if (below)
        fprintf(p->f, "%s\n", str_text(&left));
    str_printf(&line, "%-*s%s", indent, below ? "" : str_text(&left), row->help);
    put_spellings(&line, i, bit);
    if (row->needed & bit)
        str_append(&line, " (needed)");
    else if (strcmp(row->unset, "none") != 0 && row->type != OPTION_BOOL)
        str_printf(&line, " [%s]", row->unset);
    str_append(&line, "\n");
    print_wrapped(p->f, str_text(&line), indent);
    if (has_many_words(row))
        print_words(p, row->domain, indent);
    str_free(&left);
    str_free(&line);
}

void help_options(FILE *f, unsigned bit)
{
    struct page p = open_page(f);
    const char *title = NULL;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (option_rows[i].type == OPTION_SECTION)
            title = option_rows[i].name;
        if (!(option_rows[i].commands & bit))
            continue;
        if (title)
            fprintf(f, "\n%s\n", title);
        title = NULL;
        print_option(&p, i, bit);
    }
}

static bool has_usual(unsigned bit)
{
    for (size_t i = 0; i < n_option_usuals; i++)
        if (option_usuals[i].commands & bit)
            return true;
    return false;
}

static void print_usual(const struct page *p, unsigned bit)
{
    fputs("\nMost used options\n", p->f);
    for (size_t i = 0; i < n_option_usuals; i++)
        if (option_usuals[i].commands & bit)
            print_option(p, option_usuals[i].option, bit);
}

static int count_options(unsigned bit)
{
    int n = 0;
    for (int i = 0; i < N_OPTIONS; i++)
        n += option_rows[i].commands & bit && option_rows[i].parent < 0;
    return n;
}

static void print_usage(const struct command *c, FILE *f)
{
    char flag[OPTION_NAME_MAX];
    struct str line = {0};
    str_printf(&line, "usage: snug %s", command_name(c->bit));
    for (int i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].needed & c->bit)
            str_printf(&line, " %s %s", option_flag(option_rows[i].name, flag), help_value(&option_rows[i]));
    str_printf(&line, "%s%s%s\n", count_options(c->bit) ? " [options]" : "", *c->arguments ? " " : "", c->arguments);
    print_wrapped(f, str_text(&line), 12);
    str_free(&line);
}

/* Lines that follow one another are one paragraph; those that begin with blanks are left apart. */
static void print_paragraphs(const struct page *p, const char *lines)
{
    struct str joined = {0};
    for (const char *s = lines; *s; s++) {
        bool goes_on = *s == '\n' && s[1] && s[1] != ' ' && s[1] != '\n';
        str_append_n(&joined, goes_on ? " " : s, 1);
    }
    for (const char *s = str_text(&joined), *end; (end = strchr(s, '\n')); s = end + 1) {
        struct str line = {0}, wrapped = {0};
        str_append_n(&line, s, (size_t)(end - s));
        wrap_text(&wrapped, str_text(&line), p->columns ? p->columns : WIDTH, *s == ' ' ? 4 : 0);
        fprintf(p->f, "%s\n", str_text(&wrapped));
        str_free(&line);
        str_free(&wrapped);
    }
    str_free(&joined);
}

void help_command(FILE *f, const struct command *c, bool all)
{
    struct page p = open_page(f);
    struct str text = {0};
    bool usual = !all && has_usual(c->bit);
    print_usage(c, f);
    str_printf(&text, "\nsnug %s: %s.\n", command_name(c->bit), c->summary);
    print_wrapped(f, str_text(&text), 0);
    print_paragraphs(&p, c->about);
    if (usual)
        print_usual(&p, c->bit);
    else
        help_options(f, c->bit);
    if (*c->examples) /* as they are, since they are there to be copied */
        fprintf(f, "\nExamples\n%s", c->examples);
    text.n = 0;
    str_append(&text, count_options(c->bit) ? "\n" : "");
    if (usual)
        str_printf(&text, "snug %s --help-all lists all %d options; snug help names topics.\n", command_name(c->bit),
                   count_options(c->bit));
    if (count_options(c->bit))
        str_append(&text, "Names may have underscores for hyphens. [...] is the default.\n");
    print_wrapped(f, str_text(&text), 0);
    str_free(&text);
}

void help_topic(FILE *f, const struct topic *t)
{
    print_wrapped(f, t->text, 0);
}

static void put_commands(struct str *out, const char *group)
{
    size_t n = strlen(group);
    for (size_t i = 0; i < n_commands; i++) {
        const char *name = command_name(commands[i].bit);
        if (n ? strncmp(name, group, n) == 0 && name[n] == ' ' : !strchr(name, ' '))
            str_printf(out, "  %-12s %s\n", name, commands[i].summary);
    }
}

void help_group(FILE *f, const char *group)
{
    struct str text = {0};
    str_printf(&text, "usage: snug %s COMMAND [options]\n\n", group);
    put_commands(&text, group);
    str_printf(&text, "\nsnug %s COMMAND --help lists the options of a command.\n", group);
    print_wrapped(f, str_text(&text), LISTED);
    str_free(&text);
}

void help_print(FILE *f)
{
    struct str text = {0};
    str_append(&text, "usage: snug COMMAND [options]\n\n"
                      "snug " SNUG_VERSION " fine-tunes Hugging Face transformers that have to fit.\n\n");
    put_commands(&text, "");
    str_append(&text, "  debug        what tests and bug reports look at\n\n"
                      "snug COMMAND --help shows a command's options.\nsnug help TOPIC is a page on\n");
    for (size_t i = 0; i < n_topics; i++)
        str_printf(&text, "  %-12s %s\n", topics[i].name, topics[i].summary);
    str_append(&text, "\nExit codes\n");
    for (size_t i = 0; i < n_exit_codes; i++)
        str_printf(&text, "  %-12s %s\n", exit_codes[i].code, exit_codes[i].meaning);
    print_wrapped(f, str_text(&text), LISTED);
    str_free(&text);
}
