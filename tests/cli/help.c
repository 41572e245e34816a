/* --help of every command names each of its options and none of another's; documents are whole. */
#include "../sanitized.h"
#include "base/seconds.h"
#include "cli/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* O15: within 20 ms. The best of several runs counts, because machines that test are busy. */
static void help_is_quick(void **state)
{
    (void)state;
    if (SANITIZED)
        skip();
    double best = 1;
    for (int i = 0; i < 20 && best > 0.02; i++) {
        double start = seconds_now();
        pid_t pid = fork();
        if (pid == 0) {
            if (!freopen("/dev/null", "w", stdout))
                _exit(1);
            execl(getenv("SNUG_COMMAND"), "snug", "--help", (char *)NULL);
            _exit(1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        double s = seconds_now() - start;
        assert_int_equal(status, 0);
        best = s < best ? s : best;
    }
    assert_true(best <= 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(help_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
