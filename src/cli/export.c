/* snug export: a model folder of a checkpoint, or an ONNX model or a GGUF file of a model folder. */
#include "base/size.h"
#include "cli/commands.h"
#include "cli/downloads/downloads.h"
#include "output/export_checkpoint.h"
#include "output/gguf/export_gguf.h"
#include "output/onnx/export_onnx.h"

#include <string.h>

static void show(void *ctx, const char *line)
{
    (void)ctx;
    print_note(line);
}

static int to_gguf(struct options *o, const char *model, struct snug_err *err)
{
    static const char *const types[] = {
        [OPT_OUTTYPE_F16] = "F16", [OPT_OUTTYPE_BF16] = "BF16", [OPT_OUTTYPE_Q8_0] = "Q8_0", [OPT_OUTTYPE_F32] = "F32"};
    TRY(get_model(o, &model, err));
    struct gguf_export e = {.model = model,
                            .file = o->output,
                            .type = gguf_type_named(types[o->outtype]),
                            .overwrite = o->overwrite_output,
                            .note = show};
    char size[SIZE_TEXT_MAX];
    int64_t bytes = 0;
    TRY(export_gguf(&io_posix, &e, &bytes, err));
    printf("model    %s, a GGUF file of %s, %s\n", o->output, types[o->outtype], size_text(bytes, size));
    return SNUG_OK;
}

static int to_onnx(struct options *o, const char *model, struct snug_err *err)
{
    struct onnx_export e = {.model = model, .dir = o->output_dir, .overwrite = o->overwrite_output_dir, .note = show};
    struct onnx_report r;
    char size[SIZE_TEXT_MAX];
    if (option_given(o, dtype))
        return err_set(err, SNUG_ERR_USAGE, "--dtype: an ONNX model has its weights in fp32; leave it out");
    if (o->model)
        return err_set(err, SNUG_ERR_USAGE, "--model: no effect with --onnx, which reads %s; leave it out", model);
    TRY(get_model(o, &e.model, err));
    TRY(export_onnx(&io_posix, &e, &r, err));
    printf("model    %s/model.onnx, %s%s, %s\n", o->output_dir, size_text(r.bytes + r.beside, size),
           r.beside ? " with model.onnx_data" : "", r.of);
    printf("outputs  %s\n", r.gives);
    return SNUG_OK;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end);
}

int run_export(struct options *o, const struct arguments *args, struct snug_err *err)
{
    int64_t step;
    if (o->output && (o->onnx || ends_in(o->output, ".onnx")))
        return err_set(err, SNUG_ERR_USAGE, "--output %s: an ONNX model is a folder; give --onnx --output-dir DIR",
                       o->output);
    if (o->onnx)
        return to_onnx(o, args->items[0], err);
    if (o->output && option_given(o, dtype))
        return err_set(err, SNUG_ERR_USAGE, "--dtype: is for --output-dir; of a GGUF file say --outtype");
    if (o->output)
        return to_gguf(o, args->items[0], err);
    if (ends_in(o->output_dir, ".gguf"))
        return err_set(err, SNUG_ERR_USAGE, "--output-dir %s: becomes a folder; for a GGUF file give --output %s",
                       o->output_dir, o->output_dir);
    TRY(export_checkpoint(&io_posix, o, args->items[0], (struct ckpt_notes){.fn = show}, &step, err));
    printf("model    %s, a Hugging Face folder of step %lld\n", o->output_dir, (long long)step);
    return SNUG_OK;
}
