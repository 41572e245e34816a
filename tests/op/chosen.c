/* Which kernels are taken: the fastest that the processor has, but those for vdpbf16ps only on AMD's, or what SNUG_CPU_ISA names.
 * The choice is made once per process, so each is made in a process of its own. */
#include "cpu/isa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Asserts that a process takes these; asked: what SNUG_CPU_ISA says, or NULL. */
static void takes(const char *name, const char *asked)
{
    int status;
    pid_t child = fork();
    if (!child) {
        if (asked)
            setenv("SNUG_CPU_ISA", asked, 1);
        else
            unsetenv("SNUG_CPU_ISA");
        const char *chosen = cpu_isa_chosen()->name;
        if (strcmp(chosen, name))
            print_message("%s is taken, not %s\n", chosen, name);
        _exit(strcmp(chosen, name) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static const char *usable(int i)
{
    const struct cpu_isa *isa = i < 0 ? NULL : cpu_isa_usable(i);
    return isa ? isa->name : NULL;
}

/* As Linux prints it, not as the code under test asks for it. */
static bool is_amd(void)
{
    char line[256];
    bool amd = false;
    FILE *f = fopen("/proc/cpuinfo", "r");
    assert_non_null(f);
    while (!amd && fgets(line, sizeof line, f))
        amd = !strncmp(line, "vendor_id", 9) && strstr(line, "AuthenticAMD");
    fclose(f);
    return amd;
}

static void the_fastest(void **state)
{
    (void)state;
    int last = 0;
    while (usable(last + 1))
        last++;
    bool slow = !strcmp(usable(last), "avx512bf16") && !is_amd();
    for (int i = 0; i < 100; i++) /* each process the same */
        takes(usable(slow ? last - 1 : last), NULL);
}

static void what_is_asked_for(void **state)
{
    (void)state;
    for (int i = 0; usable(i); i++)
        takes(usable(i), usable(i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest),
        cmocka_unit_test(what_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
