/* launched.h: what a launcher says of the process that it has started: torchrun, mpirun (Open MPI, MPICH) or srun. */
#ifndef OPTIONS_LAUNCHED_H
#define OPTIONS_LAUNCHED_H

#include "options/options.h"

/* Where the environment says that this process is one of several, its number, their number and where they meet become options; what the
 * user gives besides goes before. `variable` is getenv, or a test's. SNUG_ERR_ENV: they could not find each other. */
int options_launched(struct options *o, char *(*variable)(const char *name), struct snug_err *err);

/* The first host of a list such as srun's: "gpu[03-05,09],login" has gpu03. False: it is no such list. */
bool launched_first_host(const char *list, char *host, size_t room);

#endif
