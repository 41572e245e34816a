/* snug inspect: what a safetensors file or a model folder holds. */
#include "format/inspect.h"

#include "cli/commands.h"
#include "cli/terminal.h"

#include <unistd.h>

int run_inspect(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct str out = {0};
    int code = inspect(&io_posix, args->items[0], o->json, terminal_columns(STDOUT_FILENO), &out, err);
    if (!code && o->json)
        fputs(str_text(&out), stdout);
    else if (!code)
        print_wrapped(stdout, str_text(&out), 6);
    str_free(&out);
    return code;
}
