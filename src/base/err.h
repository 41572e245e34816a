/* err.h: how a failure travels. A fallible function returns an enum snug_code (0 is success) and takes the caller's
 * struct snug_err last; whoever finds the problem writes the text, everybody above only passes the code up. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "snug/snug.h"

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int try_code_ = (call);                                                                                        \
        if (try_code_)                                                                                                 \
            return try_code_;                                                                                          \
    } while (0)

/* For functions that own something: sets `code` (an int in scope) and jumps to the label that releases it. */
#define TRY_TO(label, call)                                                                                            \
    do {                                                                                                               \
        code = (call);                                                                                                 \
        if (code)                                                                                                      \
            goto label;                                                                                                \
    } while (0)

/* Writes "<where>: <what is wrong, with the value>; <what to do>" and returns `code`. What utf8_printable refuses
 * is escaped as \xNN; a text over 225 bytes is cut in the middle. `err` may be NULL. */
int err_set(struct snug_err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* SNUG_ERR_ENV: `bytes` of host memory could not be had. */
int err_no_memory(struct snug_err *err, unsigned long long bytes);

/* As err_set for a failed system call on `path`: text "path: cannot <verb>: <text of errnum>". */
int err_errno(struct snug_err *err, int code, const char *path, const char *verb, int errnum);

#endif
