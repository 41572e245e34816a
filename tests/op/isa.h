/* isa.h: may this processor run what this test was compiled for, SNUG_ISA? If not, the test ends with 77, which Meson
 * counts as skipped. */
#ifndef TESTS_OP_ISA_H
#define TESTS_OP_ISA_H

#include "cpu/isa.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline bool isa_supported(const char *name)
{
    const struct cpu_isa *isa;
    for (int i = 0; (isa = cpu_isa_usable(i)); i++)
        if (!strcmp(isa->name, name))
            return true;
    if (!strcmp(name, "amx_emulated"))
        return true;
    printf("%s: not on this processor\n", name);
    return false;
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define ISA_SUPPORTED() isa_supported(TEXT(SNUG_ISA))

#endif
