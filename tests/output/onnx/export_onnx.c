/* output/onnx: the models of tests/golden as ONNX files, run by an interpreter of ONNX in this folder, give the logits of transformers.
 * (check.py, beside, runs them with ONNX Runtime.) */
#include "output/onnx/export_onnx.h"
#include "../../folder.h"
#include "format/safetensors.h"
#include "interpret.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#define LOGITS "logits"
#define ANSWERS "start_logits,end_logits"
#define TYPES "input_ids,attention_mask,token_type_ids"
#define MASK "input_ids,attention_mask"
static const struct model {
    const char *name, *inputs, *outputs;
} models[] = {
    {"albert", TYPES, LOGITS},
    {"albert_answers", TYPES, ANSWERS},
    {"albert_mlm", TYPES, LOGITS},
    {"albert_tags", TYPES, LOGITS},
    {"bert", TYPES, LOGITS},
    {"bert_answers", TYPES, ANSWERS},
    {"bert_mlm", TYPES, LOGITS},
    {"bert_multilabel", TYPES, LOGITS},
    {"bert_regression", TYPES, LOGITS},
    {"bert_tags", TYPES, LOGITS},
    {"deberta", MASK, LOGITS},
    {"deberta_1", MASK, LOGITS},
    {"deberta_1_answers", MASK, ANSWERS},
    {"deberta_1_mlm", MASK, LOGITS},
    {"deberta_1_newer_mlm", MASK, LOGITS},
    {"deberta_1_own", TYPES, LOGITS},
    {"deberta_1_tags", MASK, LOGITS},
    {"deberta_answers", MASK, ANSWERS},
    {"deberta_c2p_tags", MASK, LOGITS},
    {"deberta_conv", MASK, LOGITS},
    {"deberta_conv_one", MASK, LOGITS},
    {"deberta_conv_tags", MASK, LOGITS},
    {"deberta_mlm", MASK, LOGITS},
    {"deberta_newer_mlm", MASK, LOGITS},
    {"deberta_own", TYPES, LOGITS},
    {"deberta_tags", MASK, LOGITS},
    {"distilbert", MASK, LOGITS},
    {"distilbert_answers", MASK, ANSWERS},
    {"distilbert_mlm", MASK, LOGITS},
    {"distilbert_multilabel", MASK, LOGITS},
    {"distilbert_regression", MASK, LOGITS},
    {"distilbert_tags", MASK, LOGITS},
    {"electra", TYPES, LOGITS},
    {"electra_answers", TYPES, ANSWERS},
    {"electra_mlm", TYPES, LOGITS},
    {"electra_tags", TYPES, LOGITS},
    {"ernie", TYPES, LOGITS},
    {"ernie_mlm", TYPES, LOGITS},
    {"megatron_bert", TYPES, LOGITS},
    {"megatron_bert_mlm", TYPES, LOGITS},
    {"megatron_bert_tags", TYPES, LOGITS},
    {"data2vec_text", MASK, LOGITS},
    {"data2vec_text_mlm", MASK, LOGITS},
    {"roberta_prelayernorm", MASK, LOGITS},
    {"roberta_prelayernorm_mlm", MASK, LOGITS},
    {"xlm_roberta_xl", MASK, LOGITS},
    {"xlm_roberta_xl_mlm", MASK, LOGITS},
    {"nomic_bert", TYPES, LOGITS},
    {"nomic_bert_mlm", TYPES, LOGITS},
    {"nomic_bert_tags", TYPES, LOGITS},
    {"eurobert", MASK, LOGITS},
    {"eurobert_bos", MASK, LOGITS},
    {"eurobert_mlm", MASK, LOGITS},
    {"eurobert_tied_mlm", MASK, LOGITS},
    {"eurobert_tags", MASK, LOGITS},
    {"esm", MASK, LOGITS},
    {"esm_mlm", MASK, LOGITS},
    {"esm_tags", MASK, LOGITS},
    {"modernbert", MASK, LOGITS},
    {"modernbert_answers", MASK, ANSWERS},
    {"modernbert_cls", MASK, LOGITS},
    {"modernbert_mlm", MASK, LOGITS},
    {"modernbert_tags", MASK, LOGITS},
    {"mpnet", MASK, LOGITS},
    {"mpnet_answers", MASK, ANSWERS},
    {"mpnet_mlm", MASK, LOGITS},
    {"mpnet_tags", MASK, LOGITS},
    {"roberta", MASK, LOGITS},
    {"roberta_answers", MASK, ANSWERS},
    {"roberta_mlm", MASK, LOGITS},
    {"roberta_multilabel", MASK, LOGITS},
    {"roberta_regression", MASK, LOGITS},
    {"roberta_tags", MASK, LOGITS},
    {"camembert", MASK, LOGITS},
    {"xlm_roberta", MASK, LOGITS},
};
enum { N_MODELS = sizeof models / sizeof *models };

static const char *golden(const char *model)
{
    static char path[4][512];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/tests/golden/%s", getenv("SNUG_SOURCE"), model);
    return p;
}

static int export_as(const char *model, const char *dir, int64_t limit, struct onnx_report *r, struct snug_err *err)
{
    struct onnx_export e = {.model = model, .dir = dir, .overwrite = true, .limit = limit};
    return export_onnx(&io_posix, &e, r, err);
}

static void open_file(const char *model, const char *name, struct st_file *f)
{
    char path[600];
    struct snug_err err;
    snprintf(path, sizeof path, "%s/%s", model, name);
    assert_int_equal(st_open(&io_posix, path, f, &err), 0);
}

/* A tensor of a fixture, as doubles. */
static struct array numbers(const struct st_file *f, const char *name)
{
    const struct st_tensor *t = st_find(f, name);
    struct snug_err err;
    assert_non_null(t);
    struct array a = {.rank = t->ndim, .n = st_elements(t)};
    void *raw = malloc((size_t)t->bytes + 1);
    assert_int_equal(st_read(f, t, raw, &err), 0);
    a.x = calloc((size_t)a.n + 1, sizeof *a.x);
    for (int i = 0; i < t->ndim; i++)
        a.shape[i] = t->shape[i];
    if (t->dtype != DT_I64)
        dtype_convert(a.x, DT_F64, raw, t->dtype, a.n);
    for (int64_t i = 0; t->dtype == DT_I64 && i < a.n; i++)
        a.x[i] = (double)((const int64_t *)raw)[i];
    free(raw);
    return a;
}

static void expect_names(const struct end *ends, int n, const char *names)
{
    char all[400] = "";
    for (int i = 0; i < n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "," : "", ends[i].name);
    assert_string_equal(all, names);
}

/* Some columns more, which are padding: whatever stands there. */
static struct array widened(const struct array *a, int64_t columns, double with)
{
    struct array y = *a;
    y.shape[1] += columns;
    y.n = y.shape[0] * y.shape[1];
    y.x = malloc((size_t)y.n * sizeof *y.x);
    for (int64_t i = 0; i < y.n; i++) {
        int64_t row = i / y.shape[1], column = i % y.shape[1];
        y.x[i] = column < a->shape[1] ? a->x[row * a->shape[1] + column] : with;
    }
    return y;
}

/* The logits, one behind the other where there are two outputs, of what is no padding. Columns behind `width` are left out. */
static struct array real_logits(const struct array *out, int n, const struct array *mask, int64_t width)
{
    struct array y = {0};
    bool by_token = n == 2 || out->rank == 3;
    int64_t columns = out->rank == 3 ? out->shape[2] : 1, length = mask->shape[1];
    y.x = calloc((size_t)(out->n * n) + 1, sizeof *y.x);
    for (int64_t i = 0; i < out->n; i++)
        for (int k = 0; k < n; k++) {
            int64_t token = i / columns;
            if (!by_token || (token % length < width && mask->x[token] > 0))
                y.x[y.n++] = out[k].x[i];
        }
    return y;
}

/* Norm-wise: the interpreter computes in double, transformers did in double too; weights and constants are floats. */
static void compare(const struct array *got, const struct array *want)
{
    double apart = 0, norm = 0;
    assert_int_equal(got->n, want->n);
    for (int64_t i = 0; i < want->n; i++) {
        apart += pow(got->x[i] - want->x[i], 2);
        norm += pow(want->x[i], 2);
    }
    assert_true(norm > 0);
    if (!(sqrt(apart) <= 1e-6 * sqrt(norm)))
        fail_msg("off by %g of %g", sqrt(apart), sqrt(norm));
}

static bool is_read(const struct onnx_file *f, const char *name)
{
    for (int i = 0; i < f->n_outputs; i++)
        if (!strcmp(f->outputs[i].name, name))
            return true;
    for (size_t i = 0; i < f->n_nodes; i++)
        for (int k = 0; k < f->nodes[i].n_in; k++)
            if (!strcmp(f->nodes[i].in[k], name))
                return true;
    return false;
}

/* Nothing is there in vain, and weights, which are all but small constants, have the names of the model's file. */
static void check_structure(const struct onnx_file *f, const char *model)
{
    struct st_file weights;
    open_file(model, "model.safetensors", &weights);
    for (size_t i = 0; i < f->n_nodes; i++) {
        bool read = false;
        for (int k = 0; k < f->nodes[i].n_out; k++)
            read |= is_read(f, f->nodes[i].out[k]);
        if (!read)
            fail_msg("nobody reads %s", f->nodes[i].out[0]);
    }
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct array *t = &f->tensors[i];
        if (!is_read(f, t->name))
            fail_msg("nobody reads %s", t->name);
        if (t->type == FLOAT && t->rank && !strstr(t->name, "rotary_frequencies") && !st_find(&weights, t->name))
            fail_msg("no tensor of the file: %s", t->name);
    }
    st_close(&weights);
}

struct fixture {
    struct onnx_file f;
    struct array inputs[3], want;
};

static void open_fixture(const struct model *m, const char *dir, struct fixture *x)
{
    struct st_file in, expected;
    read_onnx(dir, &x->f);
    assert_int_equal(x->f.opset, 17);
    assert_int_equal(x->f.ir, 8);
    expect_names(x->f.inputs, x->f.n_inputs, m->inputs);
    expect_names(x->f.outputs, x->f.n_outputs, m->outputs);
    open_file(golden(m->name), "inputs.safetensors", &in);
    open_file(golden(m->name), "expected.safetensors", &expected);
    for (int i = 0; i < x->f.n_inputs; i++)
        x->inputs[i] = numbers(&in, x->f.inputs[i].name);
    struct array logits = numbers(&expected, "logits");
    x->want = real_logits(&logits, 1, &x->inputs[1], x->inputs[1].shape[1]);
    free(logits.x);
    st_close(&in);
    st_close(&expected);
}

static void close_fixture(struct fixture *x)
{
    for (int i = 0; i < x->f.n_inputs; i++)
        free(x->inputs[i].x);
    free(x->want.x);
    free_onnx(&x->f);
}

static void run_and_compare(struct fixture *x, struct array *inputs, int64_t width)
{
    struct array *out = interpret(&x->f, inputs);
    struct array got = real_logits(out, x->f.n_outputs, &inputs[1], width);
    compare(&got, &x->want);
    free(got.x);
    free_arrays(out, x->f.n_outputs);
}

static void computes_what_transformers_did(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_MODELS; m++) {
        struct onnx_report r;
        struct snug_err err = {0};
        struct fixture x;
        print_message("%s\n", models[m].name);
        if (export_as(golden(models[m].name), in(folder, "out"), 0, &r, &err))
            fail_msg("%s", err.text);
        assert_true(same_bytes(in(folder, "out/config.json"), in(golden(models[m].name), "config.json")));
        open_fixture(&models[m], in(folder, "out"), &x);
        check_structure(&x.f, golden(models[m].name));
        int64_t width = x.inputs[0].shape[1];
        run_and_compare(&x, x.inputs, width);
        struct array wider[3]; /* id 0 is the padding token's, but of RoBERTa's kind, where it is 1 */
        bool one = !strncmp(models[m].name, "roberta", 7) || !strcmp(models[m].name, "camembert") ||
                   !strncmp(models[m].name, "xlm", 3) || !strncmp(models[m].name, "esm", 3) ||
                   !strncmp(models[m].name, "data2vec", 8) || !strncmp(models[m].name, "mpnet", 5);
        for (int i = 0; i < x.f.n_inputs; i++)
            wider[i] = widened(&x.inputs[i], 2, i == 0 ? one : 0);
        run_and_compare(&x, wider, width);
        for (int i = 0; i < x.f.n_inputs; i++)
            free(wider[i].x);
        close_fixture(&x);
    }
}

static void copy_file(const char *from, const char *dir, const char *name)
{
    size_t n;
    char *text = read_text(in(from, name), &n);
    FILE *f = fopen(in(dir, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(text);
}

/* A model whose config.json names no class with a head, as that of a sentence-embedding model does. */
static void make_bare(const char *model, char dir[64])
{
    make_folder(dir);
    copy_file(model, dir, "model.safetensors");
    json_t *config = json_load_file(in(model, "config.json"), 0, NULL);
    assert_non_null(config);
    json_object_del(config, "architectures");
    assert_int_equal(json_dump_file(config, in(dir, "config.json"), 0), 0);
    json_decref(config);
}

/* hidden.py has recorded what transformers' bare models give. */
static void bare_models_give_embeddings(void **state)
{
    struct st_file recorded;
    char path[600];
    struct snug_err err = {0};
    (void)state;
    snprintf(path, sizeof path, "%s/tests/output/onnx/hidden.safetensors", getenv("SNUG_SOURCE"));
    assert_int_equal(st_open(&io_posix, path, &recorded, &err), 0);
    assert_int_equal(recorded.n_tensors, 8);
    for (size_t i = 0; i < recorded.n_tensors; i++) {
        const char *name = recorded.tensors[i].name;
        struct model m = {name, NULL, "last_hidden_state"};
        struct onnx_report r;
        struct fixture x;
        char bare[64];
        for (size_t k = 0; k < N_MODELS; k++)
            if (!strcmp(models[k].name, name))
                m.inputs = models[k].inputs;
        make_bare(golden(name), bare);
        if (export_as(bare, in(folder, "out"), 0, &r, &err))
            fail_msg("%s", err.text);
        assert_string_equal(r.of + strlen(r.of) - 5, "Model");
        open_fixture(&m, in(folder, "out"), &x);
        free(x.want.x);
        struct array hidden = numbers(&recorded, name);
        x.want = real_logits(&hidden, 1, &x.inputs[1], x.inputs[1].shape[1]);
        free(hidden.x);
        run_and_compare(&x, x.inputs, x.inputs[1].shape[1]);
        close_fixture(&x);
        remove_tree(bare);
    }
    st_close(&recorded);
}

/* With room for few bytes the weights are in a file of their own, with the same numbers. */
static void large_models_have_weights_beside(void **state)
{
    struct onnx_report r;
    struct snug_err err = {0};
    struct fixture x;
    size_t n, beside = 0;
    (void)state;
    assert_int_equal(export_as(golden("bert"), in(folder, "out"), 25000, &r, &err), 0);
    assert_true(r.beside > 0 && r.bytes < 25000);
    free(read_text(in(folder, "out/model.onnx_data"), &n));
    assert_int_equal(n, r.beside);
    open_fixture(&models[4], in(folder, "out"), &x);
    for (size_t i = 0; i < x.f.n_tensors; i++) {
        assert_int_equal(x.f.tensors[i].beside, x.f.tensors[i].type == FLOAT && x.f.tensors[i].n >= 256);
        beside += x.f.tensors[i].beside;
    }
    assert_true(beside > 5);
    run_and_compare(&x, x.inputs, x.inputs[0].shape[1]);
    close_fixture(&x);
    /* Exported again, with all in one file, nothing of the other is left. */
    assert_int_equal(export_as(golden("bert"), in(folder, "out"), 0, &r, &err), 0);
    assert_int_equal(r.beside, 0);
    assert_int_equal(count_names(in(folder, "out"), "model.onnx"), 1);
}

/* The limit itself: a file of as many bytes is whole, with one less it has no room. */
static void the_limit_is_that_of_a_message(void **state)
{
    struct onnx_report r;
    struct snug_err err = {0};
    size_t n;
    (void)state;
    assert_int_equal(export_as(golden("bert"), in(folder, "out"), 0, &r, &err), 0);
    free(read_text(in(folder, "out/model.onnx"), &n));
    assert_true((int64_t)n >= r.bytes && (int64_t)n <= r.bytes + 256);
    assert_int_equal(export_as(golden("bert"), in(folder, "out"), r.bytes + 256, &r, &err), 0);
    assert_int_equal(r.beside, 0);
    assert_int_equal(export_as(golden("bert"), in(folder, "out"), r.bytes + 255, &r, &err), 0);
    assert_true(r.beside > 0);
}

static void decoders_are_refused(void **state)
{
    static const char *const others[] = {"bart", "gpt2", "llama_classes", "qwen3", "t5"};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct onnx_report r;
        struct snug_err err = {0};
        assert_int_equal(export_as(golden(others[i]), in(folder, "refused"), 0, &r, &err), SNUG_ERR_INPUT);
        assert_non_null(strstr(err.text, "--onnx is for encoders: docs/models.md lists them"));
        assert_int_equal(count_names(folder, "refused"), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes_what_transformers_did),
        cmocka_unit_test(bare_models_give_embeddings),
        cmocka_unit_test(large_models_have_weights_beside),
        cmocka_unit_test(the_limit_is_that_of_a_message),
        cmocka_unit_test(decoders_are_refused),
    };
    return cmocka_run_group_tests_name("export_onnx", tests, open_folder, close_folder);
}
