/* snug.h: the public interface of libsnug. C11 and C++17. */
#ifndef SNUG_H
#define SNUG_H

#ifdef __cplusplus
extern "C" {
#endif

/* What a caller can do about an error; the command uses the same numbers as exit codes. */
enum snug_code {
    SNUG_OK = 0,
    SNUG_ERR_USAGE = 2,      /* an option or argument: change the call */
    SNUG_ERR_INPUT = 3,      /* a model, tokenizer or data file: change the file */
    SNUG_ERR_ENV = 4,        /* environment, device or memory: free some, or ask for less */
    SNUG_ERR_IO = 5,         /* disk full, permission, read or write error, lock held */
    SNUG_ERR_CHECKPOINT = 6, /* checkpoint unusable, or device state lost */
    SNUG_ERR_NUMERIC = 7,    /* loss or gradient not finite */
    SNUG_ERR_PEER = 8,       /* another rank failed */
    SNUG_STOPPED = 75,       /* stopped by a signal, state saved: resume */
};

#define SNUG_ERR_TEXT 241

/* The last argument of every call that can fail: the caller owns it. `text` is one line of valid UTF-8. */
struct snug_err {
    int code;
    char text[SNUG_ERR_TEXT];
};

#ifdef __cplusplus
}
#endif
#endif
