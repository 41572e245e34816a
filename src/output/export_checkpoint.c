#include "output/export_checkpoint.h"
#include "output/languages.h"

#include "base/str.h"
#include "checkpoint/internal.h"
#include "format/json.h"
#include "format/model_dir.h"
#include "model/model.h"
#include "output/export.h"
#include "output/whose_files.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT = 256 << 20 };

struct source {
    const struct io *io;
    const struct options *o;
    struct ckpt_found found;
    json_t *doc;
    struct st_file file;
    bool opened;
    struct ckpt_dir out;
    struct arena arena;
    char *beside; /* the folder that the step folder lies in */
    struct {
        const char *in_file; /* what the result calls it */
        const struct st_tensor *tensor;
    } * weights; /* (n_weights) of the checkpoint */
    size_t n_weights;
    const char *tokenizer;                  /* the folder to copy from; NULL: the run had none, or it is made */
    struct model_made made[MODEL_DIR_MADE]; /* (n_made) out of a GGUF file */
    size_t n_made;
    char *languages[LANGUAGES_FILES]; /* texts of files that the run's languages have changed */
    struct model_config model; /* of the result; without an architecture where the checkpoint has no config.json */
    struct model_dir base;     /* where what the result takes over beside its weights is */
    bool opened_base;
    char *config;  /* malloc'd */
    char *adapter; /* the same: adapter_config.json of a run that trained an adapter, else NULL */
    void *wide;    /* a piece of a tensor as it is in the checkpoint */
    size_t wide_bytes;
};

/* ---- What the checkpoint says. */

static const json_t *recorded(const struct source *s, const char *key)
{
    return json_object_get(json_object_get(json_object_get(s->doc, "about"), "result"), key);
}

/* Whether it is the run's tokenizer that the folder has, with the run's languages; then what its files say of those. */
static int has_tokenizer(struct source *s, const char *folder, bool *has, struct snug_err *err)
{
    const char *wanted = json_string_value(json_object_get(s->doc, "tokenizer"));
    const char *source = json_string_value(recorded(s, "source_lang"));
    const char *target = json_string_value(recorded(s, "target_lang"));
    struct tokenizer *t;
    char hex[33];
    int code = SNUG_OK;
    *has = false;
    if (!folder || tokenizer_open(s->io, folder, &t, NULL))
        return SNUG_OK;
    if (!(source || target) || !tokenizer_set_languages(t, source, target, NULL)) {
        hash_hex(tokenizer_hash(t), hex);
        *has = wanted && !strcmp(hex, wanted);
    }
    if (*has)
        code = languages_texts(s->io, folder, t, source, target, s->languages, err);
    tokenizer_close(t);
    return code;
}

static int find_tokenizer(struct source *s, struct snug_err *err)
{
    const char *const places[] = {s->o->model, json_string_value(recorded(s, "source")), s->beside};
    if (!json_object_get(s->doc, "tokenizer"))
        return SNUG_OK;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bool has;
        TRY(has_tokenizer(s, places[i], &has, err));
        if (has) {
            TRY(model_made_read(s->io, places[i], s->made, &s->n_made, err));
            s->tokenizer = s->n_made ? NULL : places[i];
            return SNUG_OK;
        }
    }
    return err_set(err, SNUG_ERR_USAGE,
                   "%s: the run's tokenizer is not in %s; give --model with the folder that the run started from",
                   s->found.path,
                   s->o->model ? s->o->model
                   : places[1] ? places[1]
                               : s->beside);
}

/* Of the weights: as the run would have ended with, unless another is asked for. */
static enum dtype export_type(const struct source *s)
{
    const json_t *config = recorded(s, "config"), *type = json_object_get(config, "dtype");
    const char *name = json_string_value(type ? type : json_object_get(config, "torch_dtype"));
    bool bf16 = name && !strcmp(name, "bfloat16") && !option_given(s->o, dtype);
    return bf16 ? DT_BF16 : options_dtype(s->o);
}

/* The result's config.json, in the precision that is asked for. */
static int make_config(struct source *s, struct snug_err *err)
{
    static const char *const names[] = {[DT_F32] = "float32", [DT_BF16] = "bfloat16", [DT_F16] = "float16"};
    const json_t *known = recorded(s, "config");
    json_t *config = known ? json_deep_copy(known) : NULL;
    if (!known) {
        char *path = arena_printf(&s->arena, "%s/config.json", s->beside);
        if (!path)
            return err_no_memory(err, strlen(s->beside));
        if (!io_exists(s->io, path))
            return err_set(
                err, SNUG_ERR_CHECKPOINT,
                "%s: is of a version that did not record the result's config.json; end a run there: resume it "
                "with --max-steps %lld into another --output-dir",
                s->found.path, (long long)s->found.step);
        TRY(json_read_file(s->io, path, CONFIG_LIMIT, &config, err));
    }
    if (config && !json_is_object(config)) {
        json_decref(config);
        return err_set(err, SNUG_ERR_CHECKPOINT,
                       "%s: the result's config.json is no object in it; take another checkpoint", s->found.path);
    }
    const char *key = json_object_get(config, "dtype") ? "dtype" : "torch_dtype";
    if (config && model_config_read(config, s->found.path, &s->model, NULL))
        s->model = (struct model_config){0}; /* none that this version trains: no more than names follow from it */
    int failed = !config || json_object_set_new(config, key, json_string(names[export_type(s)]));
    s->config = failed ? NULL : json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(config);
    const json_t *adapter = recorded(s, "adapter");
    s->adapter = adapter ? json_dumps(adapter, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(15)) : NULL;
    if (adapter && !s->adapter)
        return err_no_memory(err, 1 << 12);
    return s->config ? SNUG_OK : err_no_memory(err, 1 << 16);
}

/* ---- The weights. */

/* A state is named after its weight: exp_avg.NAME. */
static bool is_state(const struct st_file *f, const char *name)
{
    const char *dot = strchr(name, '.');
    return dot && st_find(f, dot + 1);
}

/* Of n weights in fp16, the first that has become infinite and was not. */
static int check_range(const char *name, const uint16_t *half, const void *wide, enum dtype type, size_t n,
                       struct snug_err *err)
{
    for (size_t i = 0; i < n; i++) {
        double x;
        if ((half[i] & 0x7FFF) != 0x7C00)
            continue;
        dtype_convert(&x, DT_F64, (const char *)wide + dtype_bytes(type, (int64_t)i), type, 1);
        if (isfinite(x))
            return err_set(err, SNUG_ERR_USAGE, "%s: %g is beyond fp16, whose largest number is 65504; use --bf16",
                           name, x);
    }
    return SNUG_OK;
}

/* What the result calls a weight; NULL: no memory. */
static const char *file_name(struct source *s, const char *weight)
{
    char name[MODEL_NAME_MAX];
    if (s->adapter)
        return arena_printf(&s->arena, ADAPTER_PREFIX "%s", weight);
    if (!s->model.arch)
        return weight;
    model_file_name(&s->model, weight, name);
    return arena_strdup(&s->arena, name);
}

/* The weight of the checkpoint that a tensor of the result is; NULL: it is taken over. */
static const struct st_tensor *find_weight(const struct source *s, const char *in_file)
{
    for (size_t i = 0; i < s->n_weights; i++)
        if (!strcmp(s->weights[i].in_file, in_file))
            return s->weights[i].tensor;
    return NULL;
}

static int read_weight(void *ctx, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                       struct snug_err *err)
{
    struct source *s = ctx;
    const struct st_tensor *in = find_weight(s, t->name);
    int64_t size = dtype_bytes(t->dtype, 1), first = offset / size, n = (int64_t)bytes / size;
    if (!in)
        return model_dir_read_part(&s->base, model_dir_find(&s->base, t->name), t->dtype, first, n, to, err);
    size_t wide_bytes = (size_t)dtype_bytes(in->dtype, n);
    if (wide_bytes > s->wide_bytes) {
        mem_free(s->wide);
        s->wide = mem_alloc(wide_bytes);
        s->wide_bytes = s->wide ? wide_bytes : 0;
        if (!s->wide)
            return err_no_memory(err, wide_bytes);
    }
    TRY(st_read_part(&s->file, in, dtype_bytes(in->dtype, first), s->wide, wide_bytes, err));
    dtype_convert(to, t->dtype, s->wide, in->dtype, n);
    return t->dtype == DT_F16 ? check_range(t->name, to, s->wide, in->dtype, (size_t)n, err) : SNUG_OK;
}

/* ---- Where it goes. */

static int open_output(struct source *s, struct snug_err *err)
{
    const char *const never[] = {NULL};
    struct whose_file files[MODEL_DIR_CARRIED + 2 + 1] = {
        {"config.json", FILE_RESULT}, {s->adapter ? "adapter_model.safetensors" : "model.safetensors", FILE_RESULT}};
    size_t n = 2;
    if (s->adapter)
        files[n++] = (struct whose_file){"adapter_config.json", FILE_RESULT};
    for (size_t i = 0; s->tokenizer && i < MODEL_DIR_CARRIED; i++)
        files[n++] = (struct whose_file){model_dir_carried[i], FILE_CARRIED};
    for (size_t i = 0; i < s->n_made; i++)
        files[n++] = (struct whose_file){s->made[i].name, FILE_RESULT};
    TRY(ckpt_dir_open(s->io, s->o->output_dir, CKPT_OVERWRITE, s->o->model, NULL, 0, (struct ckpt_notes){0}, &s->out,
                      err));
    if (!s->o->overwrite_output_dir && ckpt_dir_has_steps(&s->out))
        return err_set(err, SNUG_ERR_USAGE, "%s: has checkpoints of a run; give another --output-dir",
                       s->o->output_dir);
    struct whose_folder f = {.io = s->out.io,
                             .path = s->o->output_dir,
                             .source = s->tokenizer,
                             .never = never,
                             .model = true,
                             .overwrite = s->o->overwrite_output_dir};
    return whose_files_check(&f, files, n, err);
}

/* Where the parts beside the weights are: the folder that the run started from, which may have had none. */
static int open_base(struct source *s, struct snug_err *err)
{
    const json_t *options = json_object_get(s->doc, "options");
    const char *folder = s->o->model ? s->o->model : json_string_value(recorded(s, "source"));
    if (!s->model.arch || !s->model.arch->beside || s->adapter)
        return SNUG_OK;
    if (!folder)
        return err_set(
            err, SNUG_ERR_USAGE,
            "%s: a result has parts beside its weights; give --model with the folder that the run started from",
            s->found.path);
    s->base.weights_optional = json_is_true(json_object_get(options, "init_from_config"));
    TRY(model_dir_open(s->io, folder, &s->base, err));
    s->opened_base = true;
    return SNUG_OK;
}

static void list_tensor(const struct source *s, const char *name, const struct st_tensor *like, struct st_tensor *to)
{
    *to = (struct st_tensor){.name = name, .dtype = export_type(s), .ndim = like->ndim};
    memcpy(to->shape, like->shape, sizeof like->shape);
}

/* The result's tensors, in the arena: the checkpoint's weights, then what the base has beside them. */
static int list_tensors(struct source *s, struct st_tensor **tensors, size_t *n, struct snug_err *err)
{
    size_t most = s->file.n_tensors + s->base.n_tensors + 1;
    *tensors = arena_alloc(&s->arena, most * sizeof **tensors);
    s->weights = arena_alloc(&s->arena, most * sizeof *s->weights);
    if (!*tensors || !s->weights)
        return err_no_memory(err, most * sizeof **tensors);
    for (size_t i = 0; i < s->file.n_tensors; i++) {
        const struct st_tensor *t = &s->file.tensors[i];
        if (is_state(&s->file, t->name))
            continue;
        const char *name = file_name(s, t->name);
        if (!name)
            return err_no_memory(err, strlen(t->name));
        s->weights[s->n_weights].in_file = name;
        s->weights[s->n_weights++].tensor = t;
        list_tensor(s, name, t, &(*tensors)[(*n)++]);
    }
    for (size_t i = 0; i < s->base.n_tensors; i++) {
        const struct st_tensor *t = s->base.tensors[i].tensor;
        if (model_carries(&s->model, t->name))
            list_tensor(s, t->name, t, &(*tensors)[(*n)++]);
    }
    return SNUG_OK;
}

static int write_folder(struct source *s, struct snug_err *err)
{
    struct st_tensor *tensors;
    size_t n = 0;
    int64_t bytes = 1 << 20;
    TRY(open_base(s, err));
    TRY(list_tensors(s, &tensors, &n, err));
    for (size_t i = 0; i < n; i++)
        bytes += dtype_bytes(tensors[i].dtype, st_elements(&tensors[i]));
    TRY(ckpt_dir_need_bytes(&s->out, 0, -1, bytes, err));
    struct export_model m = {.tensors = tensors,
                             .n_tensors = n,
                             .read = read_weight,
                             .ctx = s,
                             .texts = {{"config.json", s->config},
                                       {"adapter_config.json", s->adapter},
                                       {language_files[0], s->languages[0]},
                                       {language_files[1], s->languages[1]}},
                             .weights_name = s->adapter ? "adapter_model.safetensors" : NULL,
                             .replaces = s->o->overwrite_output_dir,
                             .source_dir = s->tokenizer ? s->tokenizer : "",
                             .files = model_dir_carried,
                             .n_files = s->tokenizer ? MODEL_DIR_CARRIED : 0};
    for (size_t i = 0; i < s->n_made; i++)
        m.texts[EXPORT_OWN + i] = (struct export_text){s->made[i].name, s->made[i].text};
    return export_folder(s->out.io, s->o->output_dir, &m, err);
}

static int export_found(struct source *s, struct snug_err *err)
{
    char *path = arena_printf(&s->arena, "%s/" CKPT_TENSORS, s->found.path);
    s->beside = arena_printf(&s->arena, "%s/..", s->found.path);
    if (!path || !s->beside)
        return err_no_memory(err, strlen(s->found.path));
    TRY(ckpt_load_state(&s->found, &s->doc, err));
    TRY(find_tokenizer(s, err));
    TRY(make_config(s, err));
    TRY(open_output(s, err));
    int code = st_open(s->io, path, &s->file, err);
    if (code == SNUG_ERR_INPUT && err)
        err->code = SNUG_ERR_CHECKPOINT;
    TRY(code == SNUG_ERR_INPUT ? SNUG_ERR_CHECKPOINT : code);
    s->opened = true;
    return write_folder(s, err);
}

int export_checkpoint(const struct io *io, const struct options *o, const char *from, struct ckpt_notes notes,
                      int64_t *step, struct snug_err *err)
{
    struct source s = {.io = io, .o = o, .out = {.lock_fd = -1}};
    if (o->dtype == OPT_DTYPE_TF32)
        return err_set(err, SNUG_ERR_USAGE, "--tf32: weights are stored in fp32, bf16 or fp16; give one of these");
    TRY(ckpt_find(io, from, CKPT_READ, notes, &s.found, err));
    *step = s.found.step;
    int code = export_found(&s, err);
    if (s.opened)
        st_close(&s.file);
    if (s.opened_base)
        model_dir_close(&s.base);
    if (s.out.path)
        ckpt_dir_close(&s.out);
    ckpt_found_free(&s.found);
    model_made_free(s.made, s.n_made);
    json_decref(s.doc);
    free(s.config);
    free(s.adapter);
    mem_free(s.wide);
    for (int i = 0; i < LANGUAGES_FILES; i++)
        mem_free(s.languages[i]);
    arena_free(&s.arena);
    return code;
}
