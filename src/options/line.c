/* The command line. */
#include "options/value.h"

#include <stdio.h>
#include <string.h>

/* One option as it stands on the line. */
struct token {
    struct option_meaning meaning;
    const char *from;  /* as typed, without the value */
    const char *text;  /* NULL: a bare flag */
    char *const *more; /* (n_more): arguments behind it that are values too, of an option that takes several */
    size_t n_more;
};

/* Files, or a list of names, which may be arguments of their own as well as one with commas. */
static bool takes_several(const struct option_row *row)
{
    size_t n = strlen(row->domain);
    return row->type == OPTION_PATHS || (row->type == OPTION_STR && n > 4 && strcmp(row->domain + n - 4, ",...") == 0);
}

static void take_more(int argc, char *const *argv, int *i, struct token *t)
{
    if (t->meaning.kind != MEANS_OPTION || !takes_several(&option_rows[t->meaning.option]))
        return;
    t->more = argv + *i + 1;
    while (*i + 1 < argc && argv[*i + 1][0] != '-')
        ++*i, t->n_more++;
}

static int assign(struct options *o, const struct token *t, struct snug_err *err)
{
    const char *text = t->text;
    bool paths = t->n_more && option_rows[t->meaning.option].type == OPTION_PATHS;
    for (size_t k = 0; k < t->n_more && !paths; k++)
        if (!(text = arena_printf(&o->arena, "%s,%s", text, t->more[k])))
            return err_no_memory(err, strlen(t->more[k]));
    TRY(option_assign(o, &t->meaning, FROM_LINE, t->from, text, err));
    return paths ? option_add_paths(o, t->meaning.option, t->more, t->n_more, err) : SNUG_OK;
}

/* argv[*i] starts with --; *i moves on to the value if that is an argument of its own. */
static int read_token(struct options *o, int argc, char *const *argv, int *i, struct token *t, struct snug_err *err)
{
    const char *word = argv[*i], *equals = strchr(word, '=');
    char *from = arena_strndup(&o->arena, word, equals ? (size_t)(equals - word) : strlen(word));
    if (!from)
        return err_no_memory(err, strlen(word));
    *t = (struct token){.meaning = option_lookup(o, from + 2), .from = from, .text = equals ? equals + 1 : NULL};
    if (!t->meaning.foreign)
        TRY(option_refuse(o, &t->meaning, from, from + 2, err));
    if (t->text)
        return SNUG_OK;
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    bool on;
    if (option_is_flag(&t->meaning)) {
        if (next && flag_read(next, &on))
            t->text = argv[++*i];
    } else if (next && strncmp(next, "--", 2) != 0) {
        t->text = argv[++*i];
        take_more(argc, argv, i, t);
    } else if (!t->meaning.foreign) {
        return err_set(err, SNUG_ERR_USAGE, "%s: its value is missing; give %s VALUE, see 'snug %s --help'", from, from,
                       command_name(o->command));
    }
    return SNUG_OK;
}

/* What the Trainer knows and snug does not: refused, or noted once the line is known to be good, unless it asks for what is so
 * anyway. */
static int refuse_foreign(struct options *o, const struct token *t, int kind, struct snug_err *err)
{
    if ((int)t->meaning.kind != kind || option_asks_nothing(&t->meaning, t->text))
        return SNUG_OK;
    return option_refuse(o, &t->meaning, t->from, t->from + 2, err);
}

static int add_argument(struct options *o, struct arguments *args, const char *word, struct snug_err *err)
{
    if (!args)
        return err_set(err, SNUG_ERR_USAGE, "%s: unexpected argument; options begin with --, see 'snug %s --help'",
                       word, command_name(o->command));
    args->items[args->n++] = word;
    return SNUG_OK;
}

int options_parse(struct options *o, const struct io *io, int argc, char *const *argv, struct arguments *args,
                  struct snug_err *err)
{
    struct token *tokens = arena_alloc(&o->arena, (size_t)(argc + 1) * sizeof *tokens);
    const char **items = arena_alloc(&o->arena, (size_t)(argc + 1) * sizeof *items);
    size_t n = 0;
    if (!tokens || !items)
        return err_no_memory(err, (size_t)(argc + 1) * sizeof *tokens);
    if (args)
        *args = (struct arguments){items, 0};
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        if (ended || argv[i][0] != '-' || !argv[i][1])
            TRY(add_argument(o, args, argv[i], err));
        else if (strcmp(argv[i], "--") == 0)
            ended = true;
        else if (argv[i][1] != '-')
            return err_set(err, SNUG_ERR_USAGE, "%s: unknown option; options begin with --, see 'snug %s --help'",
                           argv[i], command_name(o->command));
        else {
            TRY(read_token(o, argc, argv, &i, &tokens[n], err));
            TRY(refuse_foreign(o, &tokens[n++], MEANS_REFUSED, err));
        }
    }
    for (size_t k = 0; k < n; k++)
        if (tokens[k].meaning.kind == MEANS_OPTION && tokens[k].meaning.option == OPTION_config) {
            TRY(option_assign(o, &tokens[k].meaning, FROM_LINE, tokens[k].from, tokens[k].text, err));
            TRY(options_read_config(o, io, o->config, err));
        }
    for (int ratios = 0; ratios < 2; ratios++) /* ratios come last, because they yield */
        for (size_t k = 0; k < n; k++) {
            const struct option_spelling *s = tokens[k].meaning.spelling;
            if (tokens[k].meaning.kind == MEANS_OPTION && tokens[k].meaning.option != OPTION_config &&
                ratios == (s && s->kind == SPELLING_RATIO))
                TRY(assign(o, &tokens[k], err));
        }
    for (size_t k = 0; k < n; k++)
        TRY(refuse_foreign(o, &tokens[k], MEANS_ACCEPTED, err));
    return options_read_deepspeed(o, io, err);
}
