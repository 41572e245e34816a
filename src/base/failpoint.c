#include "base/failpoint.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 16 };

/* How often each rule's place was reached: the one thing that a failpoint has to remember. */
static atomic_int reached[MAX_RULES];

/* Does `rule`, "name:action:nth" up to a comma or the end, speak of this name? Then *action is behind the name. */
static int is_about(const char *rule, const char *name, const char **action)
{
    size_t n = strlen(name);
    *action = rule + n + 1;
    return !strncmp(rule, name, n) && rule[n] == ':';
}

int failpoint(const char *name, struct snug_err *err)
{
    const char *rule = getenv("SNUG_FP");
    for (int i = 0; rule && i < MAX_RULES; i++) {
        const char *action, *nth;
        if (is_about(rule, name, &action) && (nth = strchr(action, ':'))) {
            int count = atomic_fetch_add(&reached[i], 1) + 1;
            if (count == atoi(nth + 1)) {
                if (!strncmp(action, "kill:", 5))
                    raise(SIGKILL);
                return err_set(err, SNUG_ERR_IO, "%s: failpoint reached %d times; SNUG_FP asked for it", name, count);
            }
        }
        rule = strchr(rule, ',');
        if (rule)
            rule++;
    }
    return SNUG_OK;
}
