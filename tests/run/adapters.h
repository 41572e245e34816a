/* adapters.h: the adapters that peft has recorded (tests/golden/lora.py, lora_older.py), for tests of the command. */
#ifndef TESTS_RUN_ADAPTERS_H
#define TESTS_RUN_ADAPTERS_H

#include "command.h"

const char *golden(const char *name);
const char *golden_adapter(const char *name);

/* The recorded adapter with a member of its configuration replaced, in one folder for all. Takes the reference. */
const char *changed(const char *adapter, const char *key, json_t *value);

bool same_adapter(const char *a, const char *b); /* to the bit */

#endif
