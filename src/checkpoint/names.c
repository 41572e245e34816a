#include "checkpoint/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

bool ckpt_parse_step(const char *name, int64_t *step)
{
    if (strncmp(name, "step-", 5) || !name[5])
        return false;
    int64_t v = 0;
    for (const char *s = name + 5; *s; s++) {
        if (*s < '0' || *s > '9' || v > CKPT_MAX_STEP / 10)
            return false;
        v = v * 10 + (*s - '0');
    }
    *step = v;
    return v <= CKPT_MAX_STEP;
}

char *ckpt_unique_name(struct arena *a, const char *prefix)
{
    uint64_t bits[2];
    if (getrandom(bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits) {
        /* Before the kernel's pool is ready: unique is all that is needed. O_EXCL and mkdir tell if it is not. */
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        bits[0] = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
        bits[1] = (uint64_t)getpid();
    }
    return arena_printf(a, "%s.%016llx%016llx", prefix, (unsigned long long)bits[0], (unsigned long long)bits[1]);
}

char *ckpt_temporary(struct arena *a, const char *dir, const char *name)
{
    char *stem = arena_printf(a, "%s/.tmp-%s", dir, name);
    return stem ? ckpt_unique_name(a, stem) : NULL;
}

/* Is `s` a dot and 32 hex digits? */
static bool is_unique_suffix(const char *s)
{
    return s[0] == '.' && strlen(s) == 33 && strspn(s + 1, "0123456789abcdef") == 32;
}

bool ckpt_is_leftover(const char *name)
{
    const char *rest = NULL;
    if (!strncmp(name, ".tmp-", 5))
        rest = name + 5;
    else if (!strncmp(name, ".trash-step-", 12))
        rest = name + 7;
    return rest && strlen(rest) > 33 && is_unique_suffix(rest + strlen(rest) - 33);
}

/* One line of valid UTF-8: control bytes and invalid ones as \xNN. */
static void escape(char *out, size_t room, const char *text)
{
    size_t w = 0;
    for (size_t n = strlen(text); n > 0 && w + 5 < room;) {
        int len = (unsigned char)*text < 0x20 || *text == 0x7F ? 0 : utf8_sequence(text, n);
        if (len)
            memcpy(out + w, text, (size_t)len);
        else
            snprintf(out + w, 5, "\\x%02X", (unsigned char)*text);
        w += len ? (size_t)len : 4;
        text += len ? len : 1;
        n -= len ? (size_t)len : 1;
    }
    out[w] = 0;
}

void ckpt_note(struct ckpt_notes notes, const char *format, ...)
{
    if (!notes.fn)
        return;
    char raw[4096], line[16384]; /* no allocation: "complete" must be heard when memory is out */
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    escape(line, sizeof line, raw);
    notes.fn(notes.ctx, line);
}
