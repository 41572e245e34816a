/* modules.h: functions and variables of the PTX that was read. */
#ifndef EMULATOR_MODULES_H
#define EMULATOR_MODULES_H

#include "words.h"

struct place {
    struct word name;
    const char *text, *body; /* behind the name; behind the opening brace, for a function */
    bool function;
    int module;
    uint64_t address; /* of a variable */
    struct function *parsed;
};

/* NULL: there is none of that name. */
struct place *module_variable(int module, struct word name);
struct place *module_function(int module, struct word name); /* module 0: any */

#endif
