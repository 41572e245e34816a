/* snug inspect: what a safetensors file or a model folder holds. */
#include "format/inspect.h"

#include "cli/commands.h"

int run_inspect(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct str out = {0};
    int code = inspect(&io_posix, args->items[0], o->json, &out, err);
    if (!code)
        fwrite(str_text(&out), 1, out.n, stdout);
    str_free(&out);
    return code;
}
