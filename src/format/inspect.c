#include "format/inspect.h"
#include "base/size.h"

#include "format/gguf/model.h"
#include "format/model_dir.h"

#include <string.h>

/* The members of config.json that are shown, under the names that architectures give them. */
static const char *const config_facts[] = {
    "architectures",
    "base_model_name_or_path",
    "d_ff",
    "d_kv",
    "d_model",
    "dtype",
    "hidden_size",
    "intermediate_size",
    "lora_alpha",
    "max_position_embeddings",
    "model_type",
    "n_embd",
    "n_head",
    "n_layer",
    "n_positions",
    "num_attention_heads",
    "num_decoder_layers",
    "num_experts_per_tok",
    "num_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "num_layers",
    "num_local_experts",
    "peft_type",
    "r",
    "target_modules",
    "task_type",
    "tie_word_embeddings",
    "torch_dtype",
    "transformers_version",
    "use_dora",
    "vocab_size",
};

struct totals {
    size_t tensors;
    int64_t elements, bytes;
    int64_t dtype_elements[DT_COUNT];
};

static void add_total(struct totals *sum, const struct st_tensor *t)
{
    sum->tensors++;
    sum->elements += st_elements(t);
    sum->bytes += t->bytes;
    sum->dtype_elements[t->dtype] += st_elements(t);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int append_json_bytes(const char *bytes, size_t n, void *out)
{
    str_append_n(out, bytes, n);
    return 0;
}

static void append_json_value(struct str *out, json_t *v)
{
    if (json_dump_callback(v, append_json_bytes, out,
                           JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT | JSON_SORT_KEYS))
        out->failed = true; /* only memory can fail here */
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------
 */

static void json_tensor(struct str *out, const struct st_tensor *t, const char *file)
{
    str_printf(out, "{\"bytes\":%lld,\"dtype\":\"%s\",", (long long)t->bytes, dtype_name(t->dtype));
    if (file) {
        str_append(out, "\"file\":");
        str_json_printed(out, file);
        str_append(out, ",");
    }
    str_append(out, "\"name\":");
    str_json_printed(out, t->name);
    str_printf(out, ",\"offset\":%lld,\"shape\":[", (long long)t->at);
    for (int i = 0; i < t->ndim; i++)
        str_printf(out, i ? ",%lld" : "%lld", (long long)t->shape[i]);
    str_append(out, "]}");
}

static void json_file(struct str *out, const struct st_file *f)
{
    str_printf(out, "\"file_bytes\":%lld,\"header_bytes\":%lld,", (long long)f->file_bytes, (long long)f->header_bytes);
    str_append(out, "\"metadata\":{");
    for (size_t i = 0; i < f->n_metadata; i++) {
        str_append(out, i ? "," : "");
        str_json_printed(out, f->metadata[2 * i]);
        str_append(out, ":");
        str_json_printed(out, f->metadata[2 * i + 1]);
    }
    str_append(out, "},\"path\":");
    str_json_printed(out, f->path);
}

static void json_totals(struct str *out, const struct totals *sum)
{
    str_printf(out, ",\"total\":{\"bytes\":%lld,\"elements\":%lld,\"tensors\":%zu}}\n", (long long)sum->bytes,
               (long long)sum->elements, sum->tensors);
}

static void json_folder(struct str *out, const struct model_dir *d, const struct str *notes)
{
    struct totals sum = {0};
    const char *separator = "";
    str_append(out, "{\"config\":{");
    for (size_t i = 0; i < sizeof config_facts / sizeof *config_facts; i++) {
        json_t *v = json_object_get(d->config, config_facts[i]);
        if (!v)
            continue;
        str_printf(out, "%s\"%s\":", separator, config_facts[i]);
        append_json_value(out, v);
        separator = ",";
    }
    str_append(out, "},\"copies\":[");
    for (size_t i = 0; i < d->n_carried; i++)
        str_printf(out, i ? ",\"%s\"" : "\"%s\"", d->carried[i]);
    str_append(out, "],\"files\":[");
    for (size_t i = 0; i < d->n_files; i++) {
        str_append(out, i ? ",{" : "{");
        json_file(out, &d->files[i]);
        str_append(out, "}");
    }
    str_printf(out, "],\"notes\":[%s],\"path\":", str_text(notes));
    str_json_printed(out, d->path);
    str_append(out, ",\"tensors\":[");
    for (size_t i = 0; i < d->n_tensors; i++) {
        str_append(out, i ? "," : "");
        json_tensor(out, d->tensors[i].tensor, last_part(d->tensors[i].file->path));
        add_total(&sum, d->tensors[i].tensor);
    }
    str_append(out, "]");
    json_totals(out, &sum);
}

static void json_single(struct str *out, const struct st_file *f)
{
    struct totals sum = {0};
    str_append(out, "{");
    json_file(out, f);
    str_append(out, ",\"tensors\":[");
    for (size_t i = 0; i < f->n_tensors; i++) {
        str_append(out, i ? "," : "");
        json_tensor(out, &f->tensors[i], NULL);
        add_total(&sum, &f->tensors[i]);
    }
    str_append(out, "]");
    json_totals(out, &sum);
}

/* ---- Text ---------------------------------------------------------------------------------------------------------
 */

/* How wide the table of tensors is. */
struct layout {
    int name, shape;     /* columns */
    int bytes;           /* likewise; 0: left out, as it follows from dtype and shape */
    const char *between; /* behind the name */
};

static void widen(struct layout *l, const struct st_tensor *t)
{
    char text[200];
    int name = (int)strlen(t->name), shape = (int)strlen(st_shape_text(t, text));
    int bytes = snprintf(text, sizeof text, "%lld", (long long)t->bytes);
    l->name = name > l->name ? name : l->name;
    l->shape = shape > l->shape ? shape : l->shape;
    l->bytes = bytes > l->bytes ? bytes : l->bytes;
}

/* Where `columns` (0: no terminal) are too few, bytes are left out first; then the name has a line of its own. */
static void fit(struct layout *l, int columns)
{
    const int dtype = 4;
    l->name = l->name < 20 ? 20 : l->name > 72 ? 72 : l->name;
    l->between = "";
    if (!columns) {
        l->shape = 16;
        return;
    }
    if (2 + l->name + 2 + dtype + 2 + l->shape + 2 + l->bytes <= columns)
        return;
    l->bytes = 0;
    if (2 + l->name + 2 + dtype + 2 + l->shape <= columns)
        return;
    l->name = 0;
    l->between = "\n    ";
}

static void text_tensor(struct str *out, const struct st_tensor *t, const struct layout *l)
{
    char shape[200];
    size_t begin = out->n;
    str_append(out, "  ");
    str_escape(out, t->name);
    while (out->n < begin + 2 + (size_t)l->name && !out->failed)
        str_append(out, " ");
    str_printf(out, "%s  %-4s  ", l->between, dtype_name(t->dtype));
    if (l->bytes)
        str_printf(out, "%-*s  %lld\n", l->shape, st_shape_text(t, shape), (long long)t->bytes);
    else
        str_printf(out, "%s\n", st_shape_text(t, shape));
}

static void text_metadata(struct str *out, const struct st_file *f)
{
    for (size_t i = 0; i < f->n_metadata; i++) {
        str_append(out, "  metadata ");
        str_escape(out, f->metadata[2 * i]);
        str_append(out, " = ");
        str_escape(out, f->metadata[2 * i + 1]);
        str_append(out, "\n");
    }
}

static void text_totals(struct str *out, const struct totals *sum)
{
    const char *separator = " (";
    str_printf(out, "%zu tensors, %lld elements", sum->tensors, (long long)sum->elements);
    for (int t = 0; t < DT_COUNT; t++)
        if (sum->dtype_elements[t]) {
            str_printf(out, "%s%s %lld", separator, dtype_name((enum dtype)t), (long long)sum->dtype_elements[t]);
            separator = ", ";
        }
    char size[SIZE_TEXT_MAX];
    str_printf(out, "%s, %s\n", *separator == ',' ? ")" : "", size_text(sum->bytes, size));
}

static void text_single(struct str *out, const struct st_file *f, int columns)
{
    struct totals sum = {0};
    struct layout l = {0};
    str_escape(out, f->path);
    str_printf(out, ": safetensors, %lld bytes, header %lld bytes\n", (long long)f->file_bytes,
               (long long)f->header_bytes);
    text_metadata(out, f);
    for (size_t i = 0; i < f->n_tensors; i++)
        widen(&l, &f->tensors[i]);
    fit(&l, columns);
    for (size_t i = 0; i < f->n_tensors; i++) {
        text_tensor(out, &f->tensors[i], &l);
        add_total(&sum, &f->tensors[i]);
    }
    text_totals(out, &sum);
}

static void text_folder(struct str *out, const struct model_dir *d, const struct str *notes, int columns)
{
    struct totals sum = {0};
    struct layout l = {0};
    str_escape(out, d->path);
    str_append(out, d->n_made    ? ": GGUF file, seen as a Hugging Face model folder\n"
                    : d->adapter ? ": an adapter, in PEFT's form\n"
                                 : ": Hugging Face model folder\n");
    for (size_t i = 0; i < sizeof config_facts / sizeof *config_facts; i++) {
        json_t *v = json_object_get(d->config, config_facts[i]);
        if (!v)
            continue;
        str_printf(out, "  %s = ", config_facts[i]);
        append_json_value(out, v);
        str_append(out, "\n");
    }
    for (size_t i = 0; i < d->n_carried; i++)
        str_printf(out, "  has %s\n", d->carried[i]);
    str_append(out, str_text(notes));
    for (size_t i = 0; i < d->n_files; i++) {
        str_escape(out, last_part(d->files[i].path));
        str_printf(out, ": %lld bytes, header %lld bytes, %zu tensors\n", (long long)d->files[i].file_bytes,
                   (long long)d->files[i].header_bytes, d->files[i].n_tensors);
        text_metadata(out, &d->files[i]);
    }
    for (size_t i = 0; i < d->n_tensors; i++)
        widen(&l, d->tensors[i].tensor);
    fit(&l, columns);
    for (size_t i = 0; i < d->n_tensors; i++) {
        text_tensor(out, d->tensors[i].tensor, &l);
        add_total(&sum, d->tensors[i].tensor);
    }
    if (d->n_files)
        text_totals(out, &sum);
    else
        str_append(out, "no weights in safetensors form\n");
}

/* -------------------------------------------------------------------------------------------------------------------
 */

struct note_list {
    struct str text;
    bool json;
};

static void take_note(void *ctx, const char *line)
{
    struct note_list *notes = ctx;
    if (notes->json) {
        str_append(&notes->text, notes->text.n ? "," : "");
        str_json_printed(&notes->text, line);
    } else {
        str_printf(&notes->text, "  note: %s\n", line);
    }
}

/* A run's folder of an adapter has the model's config.json too, but no weights of the model. */
static bool is_adapter(const struct io *io, const char *path)
{
    static const char *const names[] = {"adapter_config.json", "model.safetensors", "model.safetensors.index.json"};
    bool there[3] = {0};
    for (int i = 0; i < 3; i++) {
        struct str name = {0};
        str_printf(&name, "%s/%s", path, names[i]);
        there[i] = !name.failed && io_exists(io, str_text(&name));
        str_free(&name);
    }
    return there[0] && !there[1] && !there[2];
}

static int inspect_folder(const struct io *io, const char *path, bool json, int columns, struct str *out,
                          struct snug_err *err)
{
    struct note_list notes = {.json = json};
    struct model_dir d = {
        .weights_optional = true, .adapter = is_adapter(io, path), .note = take_note, .note_ctx = &notes};
    int code = model_dir_open(io, path, &d, err);
    if (!code) {
        code = str_check(&notes.text, err);
        if (json)
            json_folder(out, &d, &notes.text);
        else
            text_folder(out, &d, &notes.text, columns);
        model_dir_close(&d);
    }
    str_free(&notes.text);
    return code;
}

static int inspect_file(const struct io *io, const char *path, bool json, int columns, struct str *out,
                        struct snug_err *err)
{
    struct st_file f;
    TRY(st_open(io, path, &f, err));
    if (json)
        json_single(out, &f);
    else
        text_single(out, &f, columns);
    st_close(&f);
    return SNUG_OK;
}

int inspect(const struct io *io, const char *path, bool json, int columns, struct str *out, struct snug_err *err)
{
    struct stat st;
    char *gguf;
    TRY(gguf_find_file(io, path, &gguf, err));
    bool folder = gguf || (io->stat(io, path, &st) == 0 && S_ISDIR(st.st_mode));
    mem_free(gguf);
    TRY((folder ? inspect_folder : inspect_file)(io, path, json, columns, out, err));
    return str_check(out, err);
}
