/* launch.h: a run whose processes this one starts: --num-processes without --main-process, or --gpus of GPUs that do not reach each other's
 * memory. */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "options/options.h"

/* How many processes are to be started, for which this one only waits; 0: the run is this process. SNUG_ERR_ENV: of the GPUs. */
int launch_wanted(const struct options *o, int *n, struct snug_err *err);

/* Starts them with the same command line, as a launcher would (options/launched.h), and waits until all have ended. What ends this process
 * ends them. Gives the exit code of the first that failed, which has said why; else 0. SNUG_ERR_ENV: they cannot be started. */
int launch_processes(const struct options *o, int n, char **argv, struct snug_err *err);

#endif
