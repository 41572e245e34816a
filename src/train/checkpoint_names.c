#include "train/checkpoint_internal.h"

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
static void escape(struct str *out, const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        int len = (unsigned char)*text < 0x20 || *text == 0x7F ? 0 : utf8_sequence(text, n);
        if (len)
            str_append_n(out, text, (size_t)len);
        else
            str_printf(out, "\\x%02X", (unsigned char)*text);
        text += len ? len : 1;
        n -= len ? (size_t)len : 1;
    }
}

void ckpt_note(struct ckpt_notes notes, const char *format, ...)
{
    if (!notes.fn)
        return;
    char raw[8192];
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    struct str line = {0};
    escape(&line, raw);
    notes.fn(notes.ctx, str_text(&line)); /* without memory a part of it is better than nothing */
    str_free(&line);
}
