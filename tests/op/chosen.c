/* Which kernels are taken: the fastest that the processor has, but those with an instruction for bf16 only where that is
 * worth it, or what SNUG_CPU_ISA names. The linker puts __wrap_cpu_bf16_pays in the place of what measures. The choice is
 * made once per process, so each is made in a process of its own. */
#include "cpu/isa.h"
#include "cpu/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

bool __wrap_cpu_bf16_pays(void);

static bool pays;

bool __wrap_cpu_bf16_pays(void)
{
    return pays;
}

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

static bool multiplies_bf16(const char *name)
{
    return !strcmp(name, "avx512bf16") || !strcmp(name, "neonbf16");
}

static void the_fastest(void **state)
{
    (void)state;
    int last = 0;
    while (usable(last + 1))
        last++;
    pays = true;
    takes(usable(last), NULL);
    pays = false;
    takes(usable(multiplies_bf16(usable(last)) ? last - 1 : last), NULL);
    if (!multiplies_bf16(usable(last)))
        print_message("%s: has no kernels for which that is measured\n", usable(last));
}

static void what_is_asked_for(void **state)
{
    (void)state;
    pays = false;
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
