/* snug merge: an adapter and its model become one model. */
#include "train/merge.h"
#include "cli/commands.h"

static void show(void *ctx, const char *line)
{
    (void)ctx;
    print_note(line);
}

int run_merge(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct merge_report r;
    (void)args;
    TRY(train_merge(&io_posix, o, (struct session_events){.note = show}, &r, err));
    printf("merged   %zu layers, and %zu tensors replaced; the largest rounding error is %.2g (%s)\n", r.merged,
           r.replaced, r.largest_error, dtype_name(r.dtype));
    if (o->data)
        printf("loss     %.9g with the adapter, %.9g merged, on %s\n", r.adapter_loss, r.merged_loss, o->data);
    printf("model    %s, a Hugging Face folder\n", o->output_dir);
    return SNUG_OK;
}
