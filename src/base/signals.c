#include "base/signals.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const struct {
    int signal;
    bool ignored;
} handled[] = {
    {SIGTERM, false}, {SIGINT, false}, {SIGUSR1, false}, {SIGHUP, false}, {SIGPIPE, true}, {SIGXFSZ, true},
};

enum { HANDLED = sizeof handled / sizeof *handled };

/* A handler has no argument of ours, so what belongs to the process stands here: whom to tell, when each signal came
 * first, and what was installed before. */
static struct stop_flag *_Atomic flag;
static _Atomic int64_t first[NSIG]; /* nanoseconds on the monotonic clock, 0: not yet */
static struct sigaction before[HANDLED];

/* Launchers send one signal twice within milliseconds, to the process and to its group: that asks once. */
static const int64_t apart = 1000000000;

static void on_signal(int signal)
{
    struct stop_flag *f = flag;
    struct timespec now;
    if (!f)
        return;
    sig_atomic_t none = 0;
    atomic_compare_exchange_strong(&f->signal, &none, signal);
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, before_it = 0;
    if (!atomic_compare_exchange_strong(&first[signal], &before_it, time) && time - before_it >= apart) {
        none = 0;
        atomic_compare_exchange_strong(&f->again, &none, signal);
    }
}

int stop_exit_code(const struct stop_flag *f)
{
    return f->again ? 128 + f->again : f->signal ? SNUG_STOPPED : SNUG_OK;
}

static void restore(int n)
{
    while (n-- > 0)
        sigaction(handled[n].signal, &before[n], NULL);
    flag = NULL;
}

int signals_install(struct stop_flag *f, struct snug_err *err)
{
    for (int i = 0; i < HANDLED; i++)
        first[handled[i].signal] = 0;
    flag = f;
    for (int i = 0; i < HANDLED; i++) {
        struct sigaction a = {.sa_flags = SA_RESTART};
        sigemptyset(&a.sa_mask);
        a.sa_handler = handled[i].ignored ? SIG_IGN : on_signal;
        bool failed = sigaction(handled[i].signal, NULL, &before[i]) < 0;
        if (!failed && handled[i].signal == SIGHUP && before[i].sa_handler == SIG_IGN)
            continue;
        if (failed || sigaction(handled[i].signal, &a, NULL) < 0) {
            int errnum = errno;
            restore(i);
            return err_set(err, SNUG_ERR_ENV, "signal %d: cannot install a handler: %s", handled[i].signal,
                           strerror(errnum));
        }
    }
    return SNUG_OK;
}

void signals_restore(void)
{
    restore(HANDLED);
}
