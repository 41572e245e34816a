/* forge.h: checkpoints that say something else and are whole all the same. */
#ifndef TESTS_RUN_FORGE_H
#define TESTS_RUN_FORGE_H

#include "command.h"

/* Gives the checkpoint another file of a name that it has, and a manifest that vouches for it. */
void forge_file(const char *step, const char *name, const char *text);
void forge_state(const char *step, const json_t *state); /* state.json */

#endif
