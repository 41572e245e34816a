/* snug export: a model folder of a checkpoint. */
#include "output/export_checkpoint.h"

#include "cli/commands.h"

static void show(void *ctx, const char *line)
{
    (void)ctx;
    print_note(line);
}

int run_export(struct options *o, const struct arguments *args, struct snug_err *err)
{
    int64_t step;
    TRY(export_checkpoint(&io_posix, o, args->items[0], (struct ckpt_notes){.fn = show}, &step, err));
    printf("model    %s, a Hugging Face folder of step %lld\n", o->output_dir, (long long)step);
    return SNUG_OK;
}
