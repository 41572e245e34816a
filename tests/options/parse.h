/* parse.h: what tests of the options share: reading a line of them, and a --config file. */
#ifndef TESTS_OPTIONS_PARSE_H
#define TESTS_OPTIONS_PARSE_H

#include "options/options.h"

#define TRAIN_LINE "--model m --train-data d.csv --output-dir out "

/* Parses `line`, cut at blanks (a ~ stands for one inside a word), as the options of `command` and checks them. */
int options_of(struct options *o, unsigned command, const char *line, struct snug_err *err);

/* Expects `line`, behind what train needs, to be refused with exactly this text; or to be taken. */
void refused(const char *line, const char *text);
struct options accepted(const char *line);
void expect_notes(const struct options *o, const char *text); /* all of them, a line each */

/* The --config file, in a folder that lives as long as the group of tests. */
extern char config_file[64];
int make_config_folder(void **state);
int remove_config_folder(void **state);
void write_config(const char *text);
/* With this code and text behind the file's name. */
void config_refused(const char *text, int expected, const char *message);

#endif
