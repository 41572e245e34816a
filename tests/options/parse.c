#include "parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_WORDS = 48 };

int options_of(struct options *o, unsigned command, const char *line, struct snug_err *err)
{
    static char copy[4096];
    char *argv[MAX_WORDS];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " ")) {
        for (char *s = w; *s; s++)
            *s = *s == '~' ? ' ' : *s;
        argv[argc++] = w;
    }
    options_init(o, command);
    *err = (struct snug_err){0};
    int code = options_parse(o, &io_posix, argc, argv, NULL, err);
    return code ? code : options_check(o, err);
}

void refused(const char *line, const char *text)
{
    struct options o;
    struct snug_err e;
    char whole[4096];
    snprintf(whole, sizeof whole, TRAIN_LINE "%s", line);
    int code = options_of(&o, CMD_TRAIN, whole, &e);
    if (code != SNUG_ERR_USAGE || strcmp(e.text, text) != 0)
        fail_msg("%s\n  gave     %d %s\n  expected 2 %s", line, code, e.text, text);
    options_free(&o);
}

struct options accepted(const char *line)
{
    struct options o;
    struct snug_err e;
    char whole[4096];
    snprintf(whole, sizeof whole, TRAIN_LINE "%s", line);
    if (options_of(&o, CMD_TRAIN, whole, &e))
        fail_msg("%s\n  gave %s", line, e.text);
    return o;
}

void expect_notes(const struct options *o, const char *text)
{
    char all[2048] = "";
    for (size_t i = 0; i < o->n_notes; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "\n" : "", o->notes[i]);
    assert_string_equal(all, text);
}

static char folder[] = "/tmp/snug-options-XXXXXX";
char config_file[64];

int make_config_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(config_file, sizeof config_file, "%s/args", folder);
    return 0;
}

int remove_config_folder(void **state)
{
    (void)state;
    unlink(config_file);
    return rmdir(folder);
}

void write_config(const char *text)
{
    FILE *f = fopen(config_file, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

void config_refused(const char *json, int expected, const char *text)
{
    struct options o;
    struct snug_err e;
    char whole[256];
    write_config(json);
    snprintf(whole, sizeof whole, TRAIN_LINE "--config %s", config_file);
    int code = options_of(&o, CMD_TRAIN, whole, &e);
    if (code != expected || strncmp(e.text, config_file, strlen(config_file)) != 0 ||
        strcmp(e.text + strlen(config_file), text) != 0)
        fail_msg("%s\n  gave     %d %s\n  expected %d FILE%s", json, code, e.text, expected, text);
    options_free(&o);
}
