/* failpoint.h: named places where a test can make the program fail. A build with -Dfailpoints=true reads
 *
 *     SNUG_FP=name:action:nth[,name:action:nth...]
 *
 * from the environment: the nth time (from 1) that the place `name` is reached, `kill` ends the process as kill -9
 * does, `error` makes the place fail with SNUG_ERR_IO. In every other build a failpoint is the constant 0.
 *
 *     TRY(FP("ckpt.after_rename", err));                                                                             */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#include "base/err.h"

#ifdef SNUG_FAILPOINTS
#define FP(name, err) failpoint(name, err)
#else
#define FP(name, err) 0
#endif

int failpoint(const char *name, struct snug_err *err);

#endif
