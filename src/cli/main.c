/* snug: finds the command, reads its options, runs it, and turns the result into one line and an exit code. */
#include "cli/commands.h"
#include "cli/downloads/downloads.h"
#include "cli/launch.h"
#include "cli/terminal.h"
#include "options/launched.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One line; on a terminal it is broken between words. A write error on stderr changes nothing: the exit code is the
 * command's. */
static void print_line(const char *kind, const char *text)
{
    char line[512];
    struct str wrapped = {0};
    snprintf(line, sizeof line, "snug: %s%s", kind, text);
    wrap_text(&wrapped, line, terminal_columns(STDERR_FILENO), 6);
    str_append(&wrapped, "\n");
    ssize_t written = write(STDERR_FILENO, str_text(&wrapped), wrapped.n);
    (void)written;
    str_free(&wrapped);
}

void print_note(const char *line)
{
    struct snug_err clean;
    err_set(&clean, SNUG_OK, "%s", line);
    print_line("note: ", clean.text);
}

/* A descriptor from 0 to 2 that is closed would be taken by the next file opened, and printing would write into it. */
static void open_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
            _exit(SNUG_ERR_ENV);
}

/* What a command prints is what it was run for, but for those that leave files: they go on, whatever becomes of stdout. */
static bool leaves_files(const struct command *c)
{
    return c->bit & (CMD_TRAIN | CMD_BENCH | CMD_EXPORT | CMD_MERGE | CMD_REPORT | CMD_COMPARE);
}

static bool reader_is_gone(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

/* A reader that is gone had what it wanted: `snug eval … | head` says nothing. */
static int check_printed(struct snug_err *err)
{
    int errnum = fflush(stdout) ? errno : 0;
    if (!errnum && !ferror(stdout))
        return SNUG_OK;
    if (reader_is_gone())
        return SNUG_ERR_IO;
    return err_set(err, SNUG_ERR_IO, "standard output: not all could be written%s%s", errnum ? ": " : "",
                   errnum ? strerror(errnum) : "");
}

/* The command that `argv` begins with; its name has one word, or two. *words: how many of argv it took. */
static const struct command *find_command(int argc, char *const *argv, int *words)
{
    for (size_t i = 0; i < n_commands; i++) {
        const char *name = command_name(commands[i].bit), *blank = strchr(name, ' ');
        size_t first = blank ? (size_t)(blank - name) : strlen(name);
        if (argc < (blank ? 2 : 1) || strncmp(argv[0], name, first) != 0 || argv[0][first] ||
            (blank && strcmp(argv[1], blank + 1) != 0))
            continue;
        *words = blank ? 2 : 1;
        return &commands[i];
    }
    return NULL;
}

/* Whether `word` is the first of two-word commands. */
static bool is_group(const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i < n_commands; i++) {
        const char *name = command_name(commands[i].bit);
        if (strncmp(name, word, n) == 0 && name[n] == ' ')
            return true;
    }
    return false;
}

static int unknown_command(int argc, char *const *argv, struct snug_err *err)
{
    const char *names[2 * N_COMMANDS];
    size_t n = 0, group = 0;
    if (argc == 0)
        return err_set(err, SNUG_ERR_USAGE, "no command; see 'snug --help'");
    if (is_group(argv[0]))
        group = strlen(argv[0]) + 1;
    if (group && argc == 1)
        return err_set(err, SNUG_ERR_USAGE, "%s: no command; see 'snug %s --help'", argv[0], argv[0]);
    for (size_t i = 0; i < n_commands; i++) {
        const char *name = command_name(commands[i].bit);
        if (!group && !strchr(name, ' '))
            names[n++] = name;
        else if (group && strncmp(name, argv[0], group - 1) == 0)
            names[n++] = name + group;
    }
    if (!group) {
        names[n++] = "debug";
        names[n++] = "help";
    }
    const char *typed = argv[group ? 1 : 0], *before = group ? argv[0] : "", *blank = group ? " " : "";
    const char *nearest = nearest_name(typed, names, n);
    if (nearest)
        return err_set(err, SNUG_ERR_USAGE, "%s%s%s: unknown command; did you mean %s%s%s? see 'snug --help'", before,
                       blank, typed, before, blank, nearest);
    return err_set(err, SNUG_ERR_USAGE, "%s%s%s: unknown command; see 'snug --help'", before, blank, typed);
}

static const struct topic *find_topic(const char *name)
{
    for (size_t i = 0; i < n_topics; i++)
        if (strcmp(name, topics[i].name) == 0)
            return &topics[i];
    return NULL;
}

/* Of the command, group or topic that `argv` begins with, or of the whole. */
static void print_help(int argc, char *const *argv, bool all)
{
    int words;
    const struct command *c = find_command(argc, argv, &words);
    if (c)
        help_command(stdout, c, all);
    else if (argc && is_group(argv[0]))
        help_group(stdout, argv[0]);
    else
        help_print(stdout);
}

/* --help, --help-all and --version count anywhere before "--", whatever else is on the line. */
static bool asked_for_help(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-V")) {
            puts("snug " SNUG_VERSION);
            return true;
        }
        bool all = !strcmp(argv[i], "--help-all");
        if (all || !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            print_help(argc, argv, all);
            return true;
        }
    }
    return false;
}

static int unknown_topic(const char *typed, struct snug_err *err)
{
    const char *names[N_COMMANDS + 16]; /* topics: at most 16 */
    size_t n = 0;
    for (size_t i = 0; i < n_commands; i++)
        names[n++] = command_name(commands[i].bit);
    for (size_t i = 0; i < n_topics; i++)
        names[n++] = topics[i].name;
    const char *nearest = nearest_name(typed, names, n);
    return err_set(err, SNUG_ERR_USAGE, "help %s: no such command or topic;%s%s%s see 'snug help'", typed,
                   nearest ? " did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

/* snug help [COMMAND|TOPIC] */
static int run_help(int argc, char *const *argv, struct snug_err *err)
{
    const struct topic *t = argc ? find_topic(argv[0]) : NULL;
    int words;
    if (t)
        help_topic(stdout, t);
    else if (argc && !is_group(argv[0]) && !find_command(argc, argv, &words))
        return unknown_topic(argv[0], err);
    else
        print_help(argc, argv, false);
    return check_printed(err);
}

/* `whole`: the command line with the program's name. */
static int run(const struct command *c, int argc, char *const *argv, char **whole, struct options *o,
               struct snug_err *err)
{
    int processes;
    struct arguments args = {0};
    for (int i = 0; options_env(i); i++) {
        const char *value = getenv(options_env(i));
        if (value && *value)
            TRY(options_set_env(o, options_env(i), value, err));
    }
    if (c->bit & (CMD_TRAIN | CMD_EVAL))
        TRY(options_launched(o, getenv, err));
    TRY(options_parse(o, &io_posix, argc, argv, c->most ? &args : NULL, err));
    const char *name = command_name(c->bit);
    if (args.n < c->least)
        return err_set(err, SNUG_ERR_USAGE, "%s: %s is missing; see 'snug %s --help'", name, c->arguments, name);
    if (args.n > c->most)
        return err_set(err, SNUG_ERR_USAGE, "%s: one argument too many; see 'snug %s --help'", args.items[c->most],
                       name);
    TRY(options_check(o, err));
    TRY(launch_wanted(o, &processes, err));
    if (processes) { /* which find in the cache what is downloaded here, once */
        TRY(get_downloads(o, err));
        return launch_processes(o, processes, whole, err);
    }
    for (size_t i = 0; i < o->n_notes && !options_follows(o); i++)
        print_note(o->notes[i]);
    TRY(get_downloads(o, err));
    return c->run(o, &args, err);
}

/* Threads of libgomp that wait for each other spin for milliseconds before they sleep, which starves them where other
 * programs want the cores too (measured on two busy cores: training 3 to 6 times faster with 1000 turns, and no slower
 * on idle ones). It reads this number when it is loaded, before main: so the program starts itself once more, unless
 * the user has decided. */
static void spin_briefly(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY") || setenv("GOMP_SPINCOUNT", "1000", 1))
        return;
    execv("/proc/self/exe", argv); /* where that fails, all goes on as it is */
}

int main(int argc, char **argv)
{
    open_standard_streams();
    argc -= argc > 0;
    argv++;

    struct snug_err err = {0};
    int words = 0, code;
    const struct command *c = find_command(argc, argv, &words);
    bool asked = asked_for_help(argc, argv);
    if (c && !asked && c->bit & (CMD_TRAIN | CMD_EVAL | CMD_PREDICT))
        spin_briefly(argv - 1);
    if (c && !asked && leaves_files(c))
        signal(SIGPIPE, SIG_IGN);
    if (asked) {
        code = check_printed(&err);
    } else if (argc && !strcmp(argv[0], "help")) {
        code = run_help(argc - 1, argv + 1, &err);
    } else if (!c) {
        code = unknown_command(argc, argv, &err);
    } else {
        struct options o;
        options_init(&o, c->bit);
        code = run(c, argc - words, argv + words, argv - 1, &o, &err);
        options_free(&o);
        if (!code && !leaves_files(c))
            code = check_printed(&err);
    }
    if (code && err.text[0])
        print_line(code == SNUG_STOPPED || code > 128 ? "" : "error: ", err.text);
    return code;
}
