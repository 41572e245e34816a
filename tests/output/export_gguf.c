/* output/gguf: a model as a GGUF file holds what the gguf package would store (tests/format/gguf/record_models.py), reads back as the
 * same model and tokenizer, and is the same from a folder and from a GGUF file. */
#include "output/gguf/export_gguf.h"
#include "../failing_memory.h"
#include "../folder.h"
#include "base/hash.h"
#include "format/gguf/model.h"
#include "tokenizer/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const types[] = {"F32", "F16", "BF16", "Q8_0"};
enum { TYPES = 4 };

static const char *recorded(const char *name, const char *end)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/format/gguf/%s.%s", getenv("SNUG_SOURCE"), name, end);
    return path;
}

static int export_as(const char *model, const char *type, const char *file, struct snug_err *err)
{
    struct gguf_export e = {.model = model, .file = file, .type = gguf_type_named(type), .overwrite = true};
    int64_t bytes;
    return export_gguf(&io_posix, &e, &bytes, err);
}

/* Names, types and bytes of the tensors, but for rope_freqs.weight, which is compared as numbers. */
static void compare_tensors(const struct gguf_file *f, json_t *expected)
{
    const char *name;
    json_t *row;
    struct snug_err err;
    assert_int_equal(f->n_tensors - (gguf_find(f, "rope_freqs.weight") != NULL), json_object_size(expected));
    json_object_foreach(expected, name, row)
    {
        const struct gguf_tensor *t = gguf_find(f, name);
        char hex[33];
        assert_non_null(t);
        assert_string_equal(t->type->name, json_string_value(json_array_get(row, 0)));
        void *raw = malloc((size_t)t->bytes);
        assert_int_equal(io_read_at(f->io, f->fd, f->path, raw, (size_t)t->bytes, t->at, &err), 0);
        hash_hex(hash_bytes(raw, (size_t)t->bytes), hex);
        if (strcmp(hex, json_string_value(json_array_get(row, 1))))
            fail_msg("%s: %s", name, hex);
        free(raw);
    }
}

static void compare_factors(const struct gguf_file *f, const struct gguf_file *original)
{
    const struct gguf_tensor *a = gguf_find(f, "rope_freqs.weight"), *b = gguf_find(original, "rope_freqs.weight");
    float x[64], y[64];
    struct snug_err err;
    assert_true(!a == !b);
    if (!a)
        return;
    assert_int_equal(a->elements, b->elements);
    assert_int_equal(gguf_read(f, a, 0, a->elements, x, &err) | gguf_read(original, b, 0, b->elements, y, &err), 0);
    for (int64_t i = 0; i < a->elements; i++)
        assert_float_equal(x[i], y[i], 1e-6 * y[i]);
}

/* What the converter's file says is said here too, but for the model's name and the names of tokens that nothing uses. */
static void compare_metadata(const struct gguf_file *f, const struct gguf_file *original)
{
    const char *key;
    json_t *value;
    json_object_foreach(original->metadata, key, value)
    {
        json_t *own = json_object_get(f->metadata, key);
        if (!strcmp(key, "general.name") || !strcmp(key, "tokenizer.ggml.tokens") ||
            !strcmp(key, "tokenizer.ggml.scores"))
            assert_true(json_typeof(own) == json_typeof(value) && json_array_size(own) == json_array_size(value));
        else if (!json_equal(own, value))
            fail_msg("%s differs", key);
    }
}

static void stores_what_the_package_stores(void **state)
{
    static const char *const models[] = {"llama",    "gemma2", "olmo2",   "gemma3", "phi3",      "mixtral",
                                         "qwen3moe", "gemma",  "granite", "phi2",   "starcoder2"};
    json_t *expected;
    struct snug_err err = {0};
    (void)state;
    assert_int_equal(json_read_object(&io_posix, recorded("export", "json"), 1 << 20, &expected, &err), 0);
    for (int i = 0; i < (int)(sizeof models / sizeof *models) * TYPES; i++) {
        const char *model = models[i / TYPES], *type = types[i % TYPES];
        struct gguf_file f, original;
        char row[64];
        snprintf(row, sizeof row, "%s %s", model, type);
        if (export_as(recorded(model, "gguf"), type, in(folder, "out.gguf"), &err))
            fail_msg("%s: %s", row, err.text);
        assert_int_equal(gguf_open(&io_posix, in(folder, "out.gguf"), &f, &err), 0);
        assert_int_equal(gguf_open(&io_posix, recorded(model, "gguf"), &original, &err), 0);
        compare_tensors(&f, json_object_get(expected, row));
        compare_factors(&f, &original);
        compare_metadata(&f, &original);
        gguf_close(&f);
        gguf_close(&original);
    }
    json_decref(expected);
}

/* ---- read back ---- */

static void compare_ids(const struct tokenizer *t, const char *rows)
{
    FILE *f = fopen(recorded(rows, "jsonl"), "r");
    struct token_buf buf = {0};
    struct snug_err err;
    char line[4096];
    while (fgets(line, sizeof line, f)) {
        json_t *row = json_loads(line, 0, NULL), *text = json_object_get(row, "text"),
               *ids = json_object_get(row, "ids");
        assert_int_equal(tokenizer_encode(t, json_string_value(text), json_string_length(text), NULL, 0, 0, &buf, &err),
                         0);
        assert_int_equal(buf.n, json_array_size(ids));
        for (size_t i = 0; i < buf.n; i++)
            assert_int_equal(buf.ids[i], json_integer_value(json_array_get(ids, i)));
        json_decref(row);
    }
    fclose(f);
    token_buf_free(&buf);
}

static void reads_back_as_the_same_model(void **state)
{
    static const char *const models[] = {"llama",    "gemma2", "gemma3",  "phi3", "mixtral",
                                         "qwen3moe", "gemma",  "granite", "phi2", "starcoder2"},
                             *const rows[] = {"smollm", "spm", "spm",    "smollm", "smollm",
                                              "smollm", "spm", "smollm", "smollm", "smollm"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct model_dir a = {0}, b = {0};
        struct tokenizer *t;
        struct snug_err err;
        assert_int_equal(export_as(recorded(models[i], "gguf"), "F32", in(folder, "out.gguf"), &err), 0);
        assert_int_equal(model_dir_open(&io_posix, recorded(models[i], "gguf"), &a, &err), 0);
        assert_int_equal(model_dir_open(&io_posix, in(folder, "out.gguf"), &b, &err), 0);
        assert_true(json_equal(a.config, b.config));
        assert_int_equal(a.n_tensors, b.n_tensors);
        for (size_t k = 0; k < a.n_tensors; k++)
            assert_string_equal(a.tensors[k].tensor->name, b.tensors[k].tensor->name);
        model_dir_close(&a);
        model_dir_close(&b);
        assert_int_equal(tokenizer_open(&io_posix, in(folder, "out.gguf"), &t, &err), 0);
        compare_ids(t, rows[i]);
        tokenizer_close(t);
    }
}

/* ---- from a folder ---- */

/* The folder that the recorded model stands for, with this config.json or, NULL, with the file's. */
static void make_model_folder(const char *path, const char *name, json_t *other)
{
    struct model_dir d = {0};
    struct st_writer w;
    struct snug_err err;
    struct st_tensor *list;
    assert_int_equal(model_dir_open(&io_posix, recorded(name, "gguf"), &d, &err), 0);
    char *config = json_dumps(other ? other : d.config, 0);
    write_text(path, "config.json", config);
    free(config);
    for (size_t i = 0; i < d.n_made; i++)
        write_text(path, d.made[i].name, d.made[i].text);
    list = malloc(d.n_tensors * sizeof *list);
    for (size_t i = 0; i < d.n_tensors; i++)
        list[i] = *d.tensors[i].tensor;
    unlink(in(path, "model.safetensors"));
    assert_int_equal(st_create(&io_posix, in(path, "model.safetensors"), list, d.n_tensors, NULL, 0, false, &w, &err),
                     0);
    for (size_t i = 0; i < d.n_tensors; i++) {
        const struct model_tensor *t = model_dir_find(&d, list[i].name);
        void *bytes = malloc((size_t)list[i].bytes);
        assert_int_equal(st_read(t->file, t->tensor, bytes, &err), 0);
        assert_int_equal(st_write(&w, &list[i], 0, bytes, (size_t)list[i].bytes, &err), 0);
        free(bytes);
    }
    assert_int_equal(st_finish(&w, NULL, &err), 0);
    free(list);
    model_dir_close(&d);
}

/* Also where transformers has written config.json, in the spelling of today. */
static void is_the_same_from_a_folder(void **state)
{
    static const char *const names[] = {"llama",    "gemma2", "gemma3",  "phi3", "mixtral",
                                        "qwen3moe", "gemma",  "granite", "phi2", "starcoder2"};
    enum { NAMES = sizeof names / sizeof *names };
    char model[64];
    json_t *spelled;
    struct snug_err err = {0};
    (void)state;
    assert_int_equal(json_read_object(&io_posix, recorded("configs", "json"), 1 << 20, &spelled, &err), 0);
    for (int i = 0; i < 2 * NAMES; i++) {
        struct gguf_file a, b;
        const char *name = names[i % NAMES];
        make_folder(model);
        make_model_folder(model, name, i < NAMES ? NULL : json_object_get(spelled, name));
        if (export_as(model, "Q8_0", in(folder, "a.gguf"), &err))
            fail_msg("%s", err.text);
        assert_int_equal(export_as(recorded(name, "gguf"), "Q8_0", in(folder, "b.gguf"), &err), 0);
        assert_int_equal(gguf_open(&io_posix, in(folder, "a.gguf"), &a, &err), 0);
        assert_int_equal(gguf_open(&io_posix, in(folder, "b.gguf"), &b, &err), 0);
        json_object_del(a.metadata, "general.name");
        json_object_del(b.metadata, "general.name");
        assert_true(json_equal(a.metadata, b.metadata));
        assert_int_equal(a.n_tensors, b.n_tensors);
        assert_int_equal(a.file_bytes - a.data_at, b.file_bytes - b.data_at);
        char *x = malloc((size_t)(a.file_bytes - a.data_at)), *y = malloc((size_t)(a.file_bytes - a.data_at));
        size_t n = (size_t)(a.file_bytes - a.data_at);
        assert_int_equal(io_read_at(a.io, a.fd, a.path, x, n, a.data_at, &err) |
                             io_read_at(b.io, b.fd, b.path, y, n, b.data_at, &err),
                         0);
        assert_memory_equal(x, y, n);
        free(x);
        free(y);
        gguf_close(&a);
        gguf_close(&b);
        remove_tree(model);
    }
    json_decref(spelled);
}

static void note_kept(void *ctx, const char *line)
{
    snprintf(ctx, 256, "%s", line);
}

/* Gemma 3 has such a token. */
static void leaves_out_a_token_without_a_row(void **state)
{
    char model[64], note[256] = "";
    struct gguf_file f;
    struct snug_err err = {0};
    int64_t bytes;
    json_t *tokenizer;
    (void)state;
    make_folder(model);
    make_model_folder(model, "gemma3", NULL);
    assert_int_equal(json_read_object(&io_posix, in(model, "tokenizer.json"), 1 << 20, &tokenizer, &err), 0);
    json_array_append_new(json_object_get(tokenizer, "added_tokens"),
                          json_pack("{si ss sb sb sb sb sb}", "id", 419, "content", "<image>", "special", 1, "lstrip",
                                    0, "rstrip", 0, "single_word", 0, "normalized", 0));
    char *text = json_dumps(tokenizer, 0);
    write_text(model, "tokenizer.json", text);
    free(text);
    json_decref(tokenizer);
    struct gguf_export e = {.model = model,
                            .file = in(folder, "fewer.gguf"),
                            .type = gguf_type_named("F16"),
                            .note = note_kept,
                            .note_ctx = note};
    if (export_gguf(&io_posix, &e, &bytes, &err))
        fail_msg("%s", err.text);
    assert_non_null(strstr(note, "tokenizer.json: 1 added tokens have no row in the embeddings and are left out"));
    assert_int_equal(gguf_open(&io_posix, in(folder, "fewer.gguf"), &f, &err), 0);
    assert_int_equal(json_array_size(json_object_get(f.metadata, "tokenizer.ggml.tokens")), 419);
    gguf_close(&f);
    remove_tree(model);
}

/* ---- what goes wrong ---- */

/* llama.cpp would run another model: each key of config.json changes what it takes for granted. */
static void refuses_another_model(void **state)
{
    static const struct {
        const char *model, *change, *message;
    } rows[] = {
        {"gemma3", "{'layer_types':['sliding_attention','full_attention']}", "layer 1 sees everything, which has no"},
        {"gemma3", "{'query_pre_attn_scalar':48}", "query_pre_attn_scalar is 48, and llama.cpp takes it for 32"},
        {"llama",
         "{'rope_scaling':{'rope_type':'yarn','factor':4.0,'original_max_position_embeddings':32,'beta_fast':16}}",
         "beta_fast of YaRN is not the usual one"},
        {"llama",
         "{'rope_scaling':{'rope_type':'yarn','factor':4.0,'original_max_position_embeddings':32,'attention_factor':2}"
         "}",
         "attention_factor of YaRN is not the usual one"},
        {"llama",
         "{'rope_scaling':{'rope_type':'yarn','factor':4.0,'original_max_position_embeddings':32,'truncate':false}}",
         "truncate of YaRN is not the usual one"},
        {"llama",
         "{'rope_scaling':{'rope_type':'yarn','factor':4.0,'original_max_position_embeddings':32,'beta_slow':2}}",
         "beta_slow of YaRN"},
        {"llama",
         "{'rope_scaling':{'rope_type':'yarn','factor':4.0,'original_max_position_embeddings':32,'mscale':2.0,"
         "'mscale_all_dim':1.0}}",
         "mscale of YaRN"},
        {"llama",
         "{'rope_scaling':{'rope_type':'longrope','factor':4.0,'original_max_position_embeddings':32,"
         "'short_factor':[1,1,1,1],'long_factor':[1,1,1,1]}}",
         "\"longrope\" has no place in a GGUF file"},
        {"gemma3",
         "{'rope_scaling':null,'rope_parameters':{'full_attention':{'rope_type':'yarn','rope_theta':1e6,'factor':2.0}}"
         "}",
         "\"yarn\""},
        {"gemma3", "{'rope_parameters':{'sliding_attention':{'rope_type':'linear','rope_theta':1e4,'factor':2.0}}}",
         "rotary positions of layers with windows are scaled"},
        {"gemma3", "{'hidden_activation':'silu'}", "hidden_activation is another than gelu_pytorch_tanh"},
        {"gemma", "{'hidden_act':'relu'}", "hidden_act is another than gelu_pytorch_tanh"},
        {"gemma2", "{'layer_types':['full_attention']}", "layer 0 sees everything, which has no place in a GGUF file"},
        {"gemma2", "{'query_pre_attn_scalar':16}", "query_pre_attn_scalar is 16, and llama.cpp takes it for 32"},
        {"gemma2", "{'attn_logit_softcapping':null}", "attn_logit_softcapping or final_logit_softcapping is null"},
        {"phi3", "{'rope_scaling':null,'rope_parameters':{'rope_type':'linear','factor':2.0}}",
         "\"linear\" has no place in a GGUF file of phi3"},
        {"qwen3moe", "{'norm_topk_prob':false}", "norm_topk_prob is false, and llama.cpp takes it for true"},
        {"qwen3moe", "{'mlp_only_layers':[0]}", "layer 0 has no experts, which has no place in a GGUF file"},
        {"qwen3moe", "{'num_experts':5}", ".weight is there, and no tensor of expert 4; give a whole model"},
        {"phi2", "{'tie_word_embeddings':true}",
         "tie_word_embeddings is true, which has no place in a GGUF file of phi"},
        {"phi2", "{'head_dim':16}", "head_dim is 16, and llama.cpp takes it for hidden_size / num_attention_heads"},
        {"phi2", "{'hidden_act':'relu'}", "hidden_act is another than gelu_new"},
        {"starcoder2", "{'head_dim':16}", "head_dim is 16, and llama.cpp takes it"},
        {"starcoder2", "{'use_bias':false}", "use_bias is false, which has no place in a GGUF file of starcoder2"},
        {"mixtral", "{'num_local_experts':2}", "experts.2.w1.weight is not one of 2 experts of one shape"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct snug_err err = {0};
        char model[64], text[256];
        json_t *all;
        make_folder(model);
        assert_int_equal(json_read_object(&io_posix, recorded(rows[i].model, "json"), 1 << 20, &all, &err), 0);
        json_t *config = json_object_get(all, "config");
        snprintf(text, sizeof text, "%s", rows[i].change);
        for (char *c = text; *c; c++)
            *c = *c == '\'' ? '"' : *c;
        json_t *change = json_loads(text, 0, NULL);
        assert_non_null(change);
        assert_int_equal(json_object_update(config, change), 0);
        make_model_folder(model, rows[i].model, config);
        assert_int_equal(export_as(model, "F16", in(folder, "other.gguf"), &err), SNUG_ERR_INPUT);
        if (!strstr(err.text, rows[i].message))
            fail_msg("%zu: %s", i, err.text);
        assert_int_equal(count_names(folder, "other"), 0);
        json_decref(change);
        json_decref(all);
        remove_tree(model);
    }
}

static void leaves_nothing_where_it_fails(void **state)
{
    struct snug_err err = {0};
    struct failing_memory memory;
    char model[64];
    (void)state;
    make_folder(model);
    make_model_folder(model, "llama", NULL);
    for (long k = 1;; k++) {
        failing_memory_set(&memory, k, false);
        int code = export_as(model, "Q8_0", in(folder, "fails.gguf"), &err);
        bool hit = failing_memory_hit(&memory);
        mem_set_ops(NULL);
        assert_true(code == (hit ? SNUG_ERR_ENV : 0) || code == 0); /* patterns do without memory for machine code */
        if (!hit)
            break;
        assert_int_equal(count_names(folder, "fails.gguf.tmp"), 0);
        unlink(in(folder, "fails.gguf"));
    }
    write_text(model, "config.json", "{\"model_type\":\"bert\"}");
    assert_int_equal(export_as(model, "F16", in(folder, "other.gguf"), &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "config.json: model_type is \"bert\"; GGUF files are written of: llama, qwen2,"));
    assert_int_equal(count_names(folder, "other"), 0);
    remove_tree(model);
}

/* ---- biases ---- */

/* The recorded model with a bias for each product of attention, as Gemma's attention_bias gives them: 0.5 each. */
static void write_biased(const char *path, const char *name)
{
    static const char *const products[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    struct model_dir d = {0};
    struct arena names = {0};
    struct st_writer w;
    assert_int_equal(model_dir_open(&io_posix, recorded(name, "gguf"), &d, NULL), 0);
    int64_t layers = json_integer_value(json_object_get(d.config, "num_hidden_layers"));
    size_t n = d.n_tensors;
    struct st_tensor *list = malloc((n + 4 * (size_t)layers) * sizeof *list);
    for (size_t i = 0; i < d.n_tensors; i++)
        list[i] = *d.tensors[i].tensor;
    for (int64_t i = 0; i < 4 * layers; i++) {
        const char *stem = arena_printf(&names, "model.layers.%d.self_attn.%s", (int)(i / 4), products[i % 4]);
        const struct model_tensor *t = model_dir_find(&d, arena_printf(&names, "%s.weight", stem));
        list[n++] = (struct st_tensor){
            .name = arena_printf(&names, "%s.bias", stem), .dtype = DT_F32, .ndim = 1, .shape = {t->tensor->shape[0]}};
    }
    unlink(in(path, "model.safetensors"));
    assert_int_equal(st_create(&io_posix, in(path, "model.safetensors"), list, n, NULL, 0, false, &w, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        const struct model_tensor *t = model_dir_find(&d, list[i].name);
        float *x = malloc((size_t)list[i].bytes);
        for (int64_t k = 0; !t && k < list[i].shape[0]; k++)
            x[k] = 0.5F;
        if (t)
            assert_int_equal(st_read(t->file, t->tensor, x, NULL), 0);
        assert_int_equal(st_write(&w, &list[i], 0, x, (size_t)list[i].bytes, NULL), 0);
        free(x);
    }
    assert_int_equal(st_finish(&w, NULL, NULL), 0);
    free(list);
    arena_free(&names);
    model_dir_close(&d);
}

static void biases_come_back(void **state)
{
    static const char *const models[] = {"gemma", "gemma2", "gemma3", "qwen3moe", "olmo2"};
    struct snug_err err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char model[64];
        json_t *all;
        struct model_dir d = {0};
        make_folder(model);
        assert_int_equal(json_read_object(&io_posix, recorded(models[i], "json"), 1 << 20, &all, &err), 0);
        json_object_set_new(json_object_get(all, "config"), "attention_bias", json_true());
        make_model_folder(model, models[i], json_object_get(all, "config"));
        write_biased(model, models[i]);
        if (export_as(model, "F32", in(folder, "biased.gguf"), &err))
            fail_msg("%s", err.text);
        assert_int_equal(model_dir_open(&io_posix, in(folder, "biased.gguf"), &d, &err), 0);
        assert_true(json_is_true(json_object_get(d.config, "attention_bias")));
        const struct model_tensor *t = model_dir_find(&d, "model.layers.0.self_attn.o_proj.bias");
        assert_non_null(t);
        float x[256];
        assert_true(st_elements(t->tensor) <= 256);
        assert_int_equal(model_dir_read(&d, t, DT_F32, x, &err), 0);
        assert_true(x[0] == 0.5F);
        model_dir_close(&d);
        json_decref(all);
        remove_tree(model);
    }
    unlink(in(folder, "biased.gguf"));
}

/* Phi-3's factor of cosines where it is another than that of its lengths. */
static void another_factor_comes_back(void **state)
{
    struct snug_err err = {0};
    struct model_dir d = {0};
    char model[64];
    json_t *all;
    (void)state;
    make_folder(model);
    assert_int_equal(json_read_object(&io_posix, recorded("phi3", "json"), 1 << 20, &all, &err), 0);
    json_t *config = json_object_get(all, "config");
    json_object_set_new(json_object_get(config, "rope_scaling"), "attention_factor", json_real(1.75));
    make_model_folder(model, "phi3", config);
    if (export_as(model, "F32", in(folder, "factor.gguf"), &err))
        fail_msg("%s", err.text);
    assert_int_equal(model_dir_open(&io_posix, in(folder, "factor.gguf"), &d, &err), 0);
    json_t *scaling = json_object_get(d.config, "rope_scaling");
    assert_true(json_number_value(json_object_get(scaling, "attention_factor")) == 1.75);
    model_dir_close(&d);
    json_decref(all);
    unlink(in(folder, "factor.gguf"));
    remove_tree(model);
}

/* ---- tokenizers ---- */

static void refuses_another_tokenizer(void **state)
{
    static const struct {
        const char *section, *becomes, *message;
    } rows[] = {
        {"normalizer", "{'type':'Lowercase'}", "normalizer \"Lowercase\" has no place in a GGUF file"},
        {"normalizer", "{'type':'Sequence','normalizers':[{'type':'NFC'},{'type':'NFKC'}]}", "normalizer \"NFKC\""},
        {"post_processor",
         "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'A','type_id':0}},{'SpecialToken':{'id':'A',"
         "'type_id':0}},{'Sequence':{'id':'A','type_id':0}}],'pair':[{'Sequence':{'id':'A','type_id':0}},{'Sequence':"
         "{'id':'B','type_id':1}}],'special_tokens':{'A':{'id':'A','ids':[7],'tokens':['A']}}}",
         " before a text, 2 tokens, and nothing behind it, 0; a GGUF file can say the BOS token"},
        {"normalizer", "{'type':'Replace','pattern':{'String':'a'},'content':'b'}", "normalizer \"Replace\""},
        {"post_processor",
         "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'A','type_id':0}},{'Sequence':{'id':'A','type_"
         "id':0}}"
         "],'pair':[{'Sequence':{'id':'A','type_id':0}},{'Sequence':{'id':'B','type_id':1}}],'special_tokens':{'A':{'"
         "id':"
         "'A','ids':[7],'tokens':['A']}}}",
         " before a text, 1 tokens, and nothing behind it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct snug_err err = {0};
        char model[64], text[600];
        json_t *tokenizer;
        make_folder(model);
        make_model_folder(model, "llama", NULL);
        assert_int_equal(json_read_object(&io_posix, in(model, "tokenizer.json"), 1 << 20, &tokenizer, &err), 0);
        snprintf(text, sizeof text, "%s", rows[i].becomes);
        for (char *c = text; *c; c++)
            *c = *c == '\'' ? '"' : *c;
        json_object_set_new(tokenizer, rows[i].section, json_loads(text, 0, NULL));
        char *dumped = json_dumps(tokenizer, 0);
        write_text(model, "tokenizer.json", dumped);
        assert_int_equal(export_as(model, "F16", in(folder, "other.gguf"), &err), SNUG_ERR_INPUT);
        if (!strstr(err.text, rows[i].message))
            fail_msg("%s", err.text);
        free(dumped);
        json_decref(tokenizer);
        remove_tree(model);
    }
}

/* ---- with other parts beside ---- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A folder with the recorded model: alone, or as the text model of one that reads pictures. */
static void write_folder(const char *dir, struct model_dir *d, bool pictures)
{
    static const char *const metadata[] = {"format", "pt"};
    struct st_tensor *tensors = calloc(d->n_tensors + 1, sizeof *tensors);
    struct arena names = {0};
    struct st_writer w;
    char path[512];
    float none = 0;
    json_t *config = pictures ? json_pack("{ss s[s] sO}", "model_type", "gemma3", "architectures",
                                          "Gemma3ForConditionalGeneration", "text_config", d->config)
                              : json_incref(d->config);
    snprintf(path, sizeof path, "%.400s/config.json", dir);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
    for (size_t i = 0; i < d->n_made; i++) {
        snprintf(path, sizeof path, "%.400s/%s", dir, d->made[i].name);
        write_file(path, d->made[i].text);
    }
    for (size_t i = 0; i < d->n_tensors; i++) {
        tensors[i] = *d->tensors[i].tensor;
        tensors[i].dtype = DT_F32;
        tensors[i].name = arena_printf(&names, "%s%s", pictures ? "language_model." : "", tensors[i].name);
    }
    tensors[d->n_tensors] =
        (struct st_tensor){.name = "vision_tower.post_layernorm.weight", .dtype = DT_F32, .ndim = 1, .shape = {1}};
    snprintf(path, sizeof path, "%.400s/model.safetensors", dir);
    assert_int_equal(st_create(&io_posix, path, tensors, d->n_tensors + pictures, metadata, 1, false, &w, NULL), 0);
    for (size_t i = 0; i < d->n_tensors + pictures; i++) {
        const char *name = tensors[i].name + (pictures ? strlen("language_model.") : 0);
        const struct model_tensor *t = strncmp(tensors[i].name, "vision", 6) != 0 ? model_dir_find(d, name) : NULL;
        float *x = t ? malloc((size_t)tensors[i].bytes) : &none;
        if (t)
            assert_int_equal(model_dir_read(d, t, DT_F32, x, NULL), 0);
        assert_int_equal(st_write(&w, &tensors[i], 0, x, (size_t)tensors[i].bytes, NULL), 0);
        if (t)
            free(x);
    }
    assert_int_equal(st_finish(&w, NULL, NULL), 0);
    arena_free(&names);
    free(tensors);
}

/* The file is that of the text model alone. */
static void text_models_of_larger_ones(void **state)
{
    (void)state;
    struct model_dir d = {0};
    struct snug_err err = {0};
    assert_int_equal(model_dir_open(&io_posix, recorded("gemma3", "gguf"), &d, &err), 0);
    static const char *const parents[] = {"alone", "pictures"};
    char dir[2][300], file[2][320], command[800];
    for (int i = 0; i < 2; i++) {
        snprintf(dir[i], sizeof dir[i], "%.290s", in(folder, parents[i]));
        assert_int_equal(mkdir(dir[i], 0700), 0);
        snprintf(dir[i], sizeof dir[i], "%.290s/m", in(folder, parents[i]));
        assert_int_equal(mkdir(dir[i], 0700), 0);
        write_folder(dir[i], &d, i == 1);
        snprintf(file[i], sizeof file[i], "%.300s.gguf", dir[i]);
        if (export_as(dir[i], "F16", file[i], &err))
            fail_msg("%s", err.text);
    }
    snprintf(command, sizeof command, "cmp %s %s", file[0], file[1]);
    assert_int_equal(system(command), 0);
    model_dir_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_what_the_package_stores),
        cmocka_unit_test(text_models_of_larger_ones),
        cmocka_unit_test(reads_back_as_the_same_model),
        cmocka_unit_test(is_the_same_from_a_folder),
        cmocka_unit_test(refuses_another_model),
        cmocka_unit_test(leaves_out_a_token_without_a_row),
        cmocka_unit_test(biases_come_back),
        cmocka_unit_test(another_factor_comes_back),
        cmocka_unit_test(refuses_another_tokenizer),
        cmocka_unit_test(leaves_nothing_where_it_fails),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
