/* commands.h: the sub-commands of snug. A command is a row in commands.c and a file that runs it; its options are those
 * of options/table.h that name it. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "options/options.h"

#include <stdio.h>

struct command {
    unsigned bit;          /* enum command_bit, which gives the name too: "train", "debug json" */
    const char *arguments; /* how --help shows the arguments that are not options, or "" */
    size_t least, most;    /* how many of them there may be */
    const char *summary;   /* one line, without a full stop */
    const char *about;     /* the rest of --help's introduction: whole lines, or "" */
    const char *examples;  /* three for --help: whole lines, or "" */
    /* Prints its result on stdout, and only when it succeeds. Notes of the options are already printed. */
    int (*run)(struct options *o, const struct arguments *args, struct snug_err *err);
};
extern const struct command commands[];
extern const size_t n_commands;

int run_train(struct options *o, const struct arguments *args, struct snug_err *err);
int run_eval(struct options *o, const struct arguments *args, struct snug_err *err);
int run_predict(struct options *o, const struct arguments *args, struct snug_err *err);
int run_generate(struct options *o, const struct arguments *args, struct snug_err *err);
int run_plan(struct options *o, const struct arguments *args, struct snug_err *err);
int run_bench(struct options *o, const struct arguments *args, struct snug_err *err);
int run_debug_grad(struct options *o, const struct arguments *args, struct snug_err *err);
int run_debug_optim(struct options *o, const struct arguments *args, struct snug_err *err);
int run_export(struct options *o, const struct arguments *args, struct snug_err *err);
int run_merge(struct options *o, const struct arguments *args, struct snug_err *err);
int run_report(struct options *o, const struct arguments *args, struct snug_err *err);
int run_compare(struct options *o, const struct arguments *args, struct snug_err *err);
int run_info(struct options *o, const struct arguments *args, struct snug_err *err);
int run_inspect(struct options *o, const struct arguments *args, struct snug_err *err);
int run_tokenize(struct options *o, const struct arguments *args, struct snug_err *err);
int run_debug_json(struct options *o, const struct arguments *args, struct snug_err *err);
int run_debug_data(struct options *o, const struct arguments *args, struct snug_err *err);
int run_debug_docs(struct options *o, const struct arguments *args, struct snug_err *err);

/* One line on stderr, "snug: note: …", escaped as errors are. Nothing happens when stderr is gone. */
void print_note(const char *line);

/* topics.c: what `snug help TOPIC` prints. */
struct topic {
    const char *name, *summary, *text; /* text: whole lines */
};
extern const struct topic topics[];
extern const size_t n_topics;

/* help.c. `snug --help`; `snug COMMAND --help`, with the options that are used most, or `--help-all`; what is in a group
 * such as "debug". On a terminal lines are broken between words. */
void help_print(FILE *f);
void help_command(FILE *f, const struct command *c, bool all);
void help_group(FILE *f, const char *group);
void help_topic(FILE *f, const struct topic *t);
void help_options(FILE *f, unsigned bit); /* all of them, by section */

/* What stands behind the option's name where its value goes: "N", "DIR", "a|b"; "" for a flag. */
const char *help_value(const struct option_row *row);

/* docs.c, docs_models.c, docs_ops.c, docs_trainer.c: what is generated from the tables. */
void docs_options(FILE *f);
/* "a|b|c" with other marks between and around. */
void docs_words(FILE *f, const char *words, const char *between, const char *quote);
void docs_trainer(FILE *f);
void docs_ops(FILE *f);
void docs_models(FILE *f); /* a part of docs/models.md */
void docs_man(FILE *f);
void docs_completion(FILE *f);

/* The exit codes, as in snug.h. */
struct exit_code {
    const char *code, *meaning;
};
extern const struct exit_code exit_codes[];
extern const size_t n_exit_codes;

#endif
