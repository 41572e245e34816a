/* --help-all of every command names each of its options and none of another's; --help has ten and three examples, and
 * topics fit a screen. */
#include "cli/commands.h"
#include "cli/terminal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct exit_code exit_codes[1];
const size_t n_exit_codes = 0;
const struct command commands[1];
const size_t n_commands = 0;

static void help_names_every_option(void **state)
{
    (void)state;
    for (unsigned bit = 1; bit < 1u << N_COMMANDS; bit <<= 1) {
        char *text;
        size_t n;
        FILE *f = open_memstream(&text, &n);
        assert_non_null(f);
        help_options(f, bit);
        fclose(f);
        for (int i = 0; i < N_OPTIONS; i++) {
            char line[OPTION_NAME_MAX + 8], flag[OPTION_NAME_MAX];
            const struct option_row *row = &option_rows[i];
            if (row->type == OPTION_SECTION)
                continue;
            const struct option_row *whole = row->parent < 0 ? row : &option_rows[row->parent];
            snprintf(line, sizeof line, "\n  %s%s", option_flag(whole->name, flag), *help_value(whole) ? " " : "  ");
            const char *at = strstr(text, line);
            if (at &&
                row != whole) { /* one of its parts, which stand below it; another option may have one of that name */
                const char *next = strstr(at + 1, "\n  --");
                snprintf(line, sizeof line, "\n      %s=", row->name);
                at = strstr(at, line);
                at = at && (!next || at < next) ? at : NULL;
            }
            if (!at != !(row->commands & bit))
                fail_msg("snug %s --help: %s is%s there", command_name(bit), row->name, at ? "" : " not");
        }
        for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
            if (end - line > 140)
                fail_msg("%.*s", (int)(end - line), line);
        free(text);
    }
}

/* What `snug WORDS` prints, in `text`. */
static void ask(const char *words, char text[32768])
{
    char line[256];
    snprintf(line, sizeof line, "\"$SNUG_COMMAND\" %s", words);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    text[fread(text, 1, 32767, f)] = 0;
    if (pclose(f))
        fail_msg("%s", line);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

/* The commands of README's first screens have ten options in --help, and three examples whose options there are. */
static void help_is_short(void **state)
{
    (void)state;
    static const char *const names[] = {"train", "plan", "eval", "predict"};
    static char text[32768], all[32768];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s --help", names[i]);
        ask(words, text);
        assert_int_equal(count(text, "\n  --"), 10);
        assert_non_null(strstr(text, "--help-all lists all "));
        assert_in_range(count(text, "\n"), 15, 36);
        char *examples = strstr(text, "\nExamples\n");
        assert_non_null(examples);
        assert_int_equal(count(examples, "\n  snug "), 3);
        snprintf(words, sizeof words, "%s --help-all", names[i]);
        ask(words, all);
        assert_true(count(all, "\n  --") > 20);
        for (const char *line = examples, *end; (end = strchr(line, '\n')); line = end + 1)
            assert_true(end - line <= 80); /* to be copied, they are not broken for a terminal */
        for (char *word = strtok(examples, " \n"); word; word = strtok(NULL, " \n"))
            if (!strncmp(word, "--", 2) && !strstr(all, word) && strcmp(word, "--help-all") != 0)
                fail_msg("%s: %s", names[i], word);
    }
}

static void commands_without_many_options_show_all(void **state)
{
    (void)state;
    static char text[32768], all[32768];
    ask("tokenize --help", text);
    ask("tokenize --help-all", all);
    assert_string_equal(text, all);
    ask("help tokenize", all);
    assert_string_equal(text, all);
}

/* 80 columns and 24 lines, one of them for the prompt. */
static void topics_fit_a_screen(void **state)
{
    (void)state;
    assert_int_equal(n_topics, 5);
    for (size_t i = 0; i < n_topics; i++) {
        const char *line = topics[i].text;
        assert_in_range(count(line, "\n"), 15, 23);
        for (const char *end; (end = strchr(line, '\n')); line = end + 1)
            if (text_columns(line, (size_t)(end - line)) > 80)
                fail_msg("%.*s", (int)(end - line), line);
        assert_int_equal(*line, 0);
    }
}

/* What topics say of options is true of the table. */
static void topics_name_options(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_topics; i++)
        for (const char *at = topics[i].text; (at = strstr(at, "--")); at++) {
            char name[OPTION_NAME_MAX];
            size_t n = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-0123456789");
            struct options o;
            struct snug_err e;
            snprintf(name, sizeof name, "%.*s", (int)n, at + 2);
            options_init(&o, CMD_TRAIN);
            if (n && options_set(&o, name, "x", &e) && strstr(e.text, "unknown option"))
                fail_msg("%s: %s", topics[i].name, e.text);
            options_free(&o);
        }
}

/* O15: what a GPU needs is not even looked for, as opening it takes far longer than the text. */
static void help_opens_no_gpu(void **state)
{
    (void)state;
    static const char *const gpu[] = {"libcuda", "libcublas", "libcudnn", "libnvidia"};
    char line[4096];
    bool heard = false;
    FILE *f = popen("LD_DEBUG=files \"$SNUG_COMMAND\" --help 2>&1 >/dev/null", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        heard |= !!strstr(line, "file=libc.so");
        for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++)
            if (strstr(line, gpu[i]))
                fail_msg("%s", line);
    }
    assert_int_equal(pclose(f), 0);
    assert_true(heard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(help_is_short),
        cmocka_unit_test(commands_without_many_options_show_all),
        cmocka_unit_test(topics_fit_a_screen),
        cmocka_unit_test(topics_name_options),
        cmocka_unit_test(help_opens_no_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
