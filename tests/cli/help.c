/* --help of every command names each of its options and none of another's; documents are whole. */
#include "cli/commands.h"

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
            if (row->parent < 0)
                snprintf(line, sizeof line, "\n  %s%s", option_flag(row->name, flag), *help_value(row) ? " " : "  ");
            else
                snprintf(line, sizeof line, "\n      %s=", row->name);
            const char *at = strstr(text, line);
            if (!at != !(row->commands & bit))
                fail_msg("snug %s --help: %s is%s there", command_name(bit), row->name, at ? "" : " not");
        }
        for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
            if (end - line > 140)
                fail_msg("%.*s", (int)(end - line), line);
        free(text);
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
        cmocka_unit_test(help_opens_no_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
