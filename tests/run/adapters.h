/* adapters.h: the adapters that peft has recorded (tests/golden/lora.py, lora_older.py), for tests of the command. */
#ifndef TESTS_RUN_ADAPTERS_H
#define TESTS_RUN_ADAPTERS_H

#include "command.h"

const char *golden(const char *name);
const char *golden_adapter(const char *name);

/* The recorded adapter with a member of its configuration replaced, in one folder for all. Takes the reference. */
const char *changed(const char *adapter, const char *key, json_t *value);

bool same_adapter(const char *a, const char *b); /* to the bit */

/* How far a recorded adapter's gradients may be off there, norm-wise relative. */
double gradient_bound(const char *adapter, const struct device *on);
/* The loss and every gradient; no others are there. */
void compare_adapter_gradients(const char *got, const char *expected, double bound);

/* A short run on the CPU with a new adapter, which saves now and then; gives its folder, folder/NAME. */
const char *train_adapter(const char *rows, const char *name, const char *const *more);

#endif
