/* data/dataset: token ids and labels from safetensors, what is refused there, and "synthetic:" data. */
#include "dataset_help.h"

#include <math.h>

static void tokens_from_safetensors(void **state)
{
    (void)state;
    write_tensors("c.safetensors",
                  (struct tensor_spec[]){ids_spec, mask_spec, types_spec, {"labels", DT_I64, 1, {2}, classes_2}}, 4);
    struct dataset_options o = options(TASK_AUTO);
    struct dataset d = opened(&o);
    assert_int_equal(d.task, TASK_CLASS);
    assert_int_equal(d.n_rows, 2);
    assert_int_equal(d.n_tokens, 6);
    assert_memory_equal(d.ids, ((const int32_t[]){5, 6, 7, 8, 9, 10}), 24);
    assert_memory_equal(d.types, ((const uint8_t[]){0, 0, 1, 1, 0, 1}), 6);
    assert_memory_equal(d.offsets, ((const int64_t[]){0, 4, 6}), 24);
    assert_memory_equal(d.classes, ((const int32_t[]){2, 0}), 8);
    assert_int_equal(d.num_labels, 3);
    assert_int_equal(d.max_id, 10);
    assert_int_equal(d.max_type, 1);
    dataset_close(&d);
    o.max_length = 3;
    o.task = TASK_UNLABELED;
    d = opened(&o);
    assert_memory_equal(d.offsets, ((const int64_t[]){0, 3, 5}), 24);
    assert_int_equal(d.truncated, 1);
    assert_null(d.classes);
    dataset_close(&d);
    /* padding before the tokens, and 32-bit numbers */
    const int32_t left[] = {0, 0, 3, 4, 5, 6, 7, 8};
    const uint8_t left_mask[] = {0, 0, 1, 1, 1, 1, 1, 1};
    write_tensors("l.safetensors",
                  (struct tensor_spec[]){{"input_ids", DT_I32, 2, {2, 4}, left},
                                         {"attention_mask", DT_BOOL, 2, {2, 4}, left_mask}},
                  2);
    o = options(TASK_CAUSAL_LM);
    d = opened(&o);
    assert_memory_equal(d.ids, ((const int32_t[]){3, 4, 5, 6, 7, 8}), 24);
    assert_memory_equal(d.offsets, ((const int64_t[]){0, 2, 6}), 24);
    assert_null(d.targets);
    dataset_close(&d);
}

static void labels_from_safetensors(void **state)
{
    (void)state;
    const float numbers[] = {0.5f, -2}, vectors[] = {1, 0, 1, 0, 1, 0};
    const double wide[] = {0.5, -2};
    const int64_t targets[] = {-100, 6, -100, 8, 9, -100, -100, -100};
    write_tensors("r.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_F32, 1, {2}, numbers}}, 2);
    struct dataset_options o = options(TASK_AUTO);
    struct dataset d = opened(&o);
    assert_int_equal(d.task, TASK_REGRESSION);
    check_values(&d, numbers, 2);
    dataset_close(&d);
    write_tensors("r.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_F64, 1, {2}, wide}}, 2);
    d = opened(&o);
    check_values(&d, numbers, 2);
    dataset_close(&d);
    write_tensors("m.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_F32, 2, {2, 3}, vectors}}, 2);
    d = opened(&o);
    assert_int_equal(d.task, TASK_MULTI_LABEL);
    assert_int_equal(d.num_labels, 3);
    check_values(&d, vectors, 6);
    dataset_close(&d);
    /* whole numbers, as many as there are tokens: only when asked for (refused below when not) */
    write_tensors("w.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_I64, 2, {2, 4}, mask_2x4}}, 2);
    o.task = TASK_MULTI_LABEL;
    d = opened(&o);
    assert_int_equal(d.num_labels, 4);
    check_values(&d, ((const float[]){1, 1, 1, 1, 1, 1, 0, 0}), 8);
    dataset_close(&d);
    write_tensors("t.safetensors", (struct tensor_spec[]){ids_spec, mask_spec, {"labels", DT_I64, 2, {2, 4}, targets}},
                  3);
    o.task = TASK_MASKED_LM;
    d = opened(&o);
    assert_memory_equal(d.targets, ((const int32_t[]){-100, 6, -100, 8, 9, -100}), 24);
    dataset_close(&d);
}

struct refused_tensors {
    enum data_task task;
    int32_t vocab_size, num_labels;
    struct tensor_spec specs[3];
    const char *message;
};

static void check_refused(const struct refused_tensors *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t tensors = 0;
        while (tensors < 3 && cases[i].specs[tensors].name)
            tensors++;
        write_tensors("x.safetensors", cases[i].specs, tensors);
        struct dataset_options o = options(cases[i].task);
        o.vocab_size = cases[i].vocab_size;
        o.num_labels = cases[i].num_labels;
        struct dataset d;
        struct snug_err e = {0};
        int code = dataset_open(&io_posix, &o, &d, &e);
        if (code != SNUG_ERR_INPUT || !strstr(e.text, cases[i].message))
            fail_msg("wanted '%s', got %d '%s'", cases[i].message, code, e.text);
    }
}

static void tokens_refused(void **state)
{
    (void)state;
    const int64_t negative[] = {5, 6, 7, 8, 9, -3, 0, 0}, hole[] = {1, 0, 1, 1, 1, 1, 0, 0},
                  none[] = {1, 1, 1, 1, 0, 0, 0, 0}, two[] = {1, 1, 1, 1, 0, 2, 1, 0},
                  types_of_256[] = {0, 0, 0, 0, 0, 0, 256, 0};
    const struct refused_tensors cases[] = {
        {TASK_AUTO, 0, 0, {{"ids", DT_I64, 2, {2, 4}, ids_2x4}}, "no tensor 'input_ids'"},
        {TASK_AUTO, 0, 0, {{"input_ids", DT_F32, 2, {2, 4}, ids_2x4}}, "input_ids is F32 (2,4); two dimensions"},
        {TASK_AUTO, 0, 0, {{"input_ids", DT_I64, 1, {8}, ids_2x4}}, "input_ids is I64 (8); two dimensions"},
        {TASK_AUTO, 0, 0, {{"input_ids", DT_I64, 2, {0, 4}, ids_2x4}}, "at least one row and one token"},
        {TASK_UNLABELED,
         0,
         0,
         {ids_spec, {"attention_mask", DT_I64, 2, {4, 2}, mask_2x4}},
         "the shape of input_ids is wanted"},
        {TASK_UNLABELED,
         0,
         0,
         {{"input_ids", DT_I64, 2, {2, 4}, negative}},
         "row 1: token id -3 at position 1 is outside"},
        {TASK_UNLABELED, 8, 0, {ids_spec}, "row 0: token id 8 at position 3 is outside [0, 8)"},
        {TASK_UNLABELED,
         0,
         0,
         {ids_spec, {"attention_mask", DT_I64, 2, {2, 4}, hole}},
         "row 0: attention_mask is 1 at position 2, behind padding"},
        {TASK_UNLABELED,
         0,
         0,
         {ids_spec, {"attention_mask", DT_I64, 2, {2, 4}, none}},
         "row 1: attention_mask is 0 everywhere"},
        {TASK_UNLABELED,
         0,
         0,
         {ids_spec, {"attention_mask", DT_I64, 2, {2, 4}, two}},
         "row 1: attention_mask is 2 at position 1; write 1 for tokens"},
        {TASK_UNLABELED,
         0,
         0,
         {ids_spec, {"token_type_ids", DT_I64, 2, {2, 4}, types_of_256}},
         "row 1: token type 256 at position 2 is outside [0, 256)"},
    };
    check_refused(cases, sizeof cases / sizeof *cases);
}

static void labels_refused(void **state)
{
    (void)state;
    const int64_t bad_targets[] = {-100, 6, -1, 8, 9, -100, -100, -100}, one_class[] = {1, 1}, high[] = {0, 300};
    const float nan_label[] = {1, NAN}, big[] = {0, 2, 1, 0, 1, 0};
    const struct tensor_spec wide_labels = {"labels", DT_I64, 2, {2, 4}, ids_2x4};
    const struct refused_tensors cases[] = {
        {TASK_CLASS, 0, 0, {ids_spec}, "no tensor 'labels'"},
        {TASK_CLASS, 0, 0, {ids_spec, wide_labels}, "labels is I64 (2,4); one integer per row"},
        {TASK_AUTO, 0, 0, {ids_spec, wide_labels}, "labels is I64 (2,4); a number for each label"},
        {TASK_CLASS, 0, 0, {ids_spec, {"labels", DT_I64, 1, {2}, one_class}}, "all 2 rows have one label, '1'"},
        {TASK_CLASS, 0, 3, {ids_spec, {"labels", DT_I64, 1, {2}, high}}, "row 1: label 300 is out of range: 3 labels"},
        {TASK_MASKED_LM, 0, 0, {ids_spec, {"labels", DT_I64, 2, {2, 3}, ids_2x4}}, "one integer per token is wanted"},
        {TASK_MASKED_LM,
         0,
         0,
         {ids_spec, {"labels", DT_I64, 2, {2, 4}, bad_targets}},
         "row 0: label -1 at position 2 is neither -100 nor"},
        {TASK_REGRESSION, 0, 0, {ids_spec, {"labels", DT_F32, 1, {2}, nan_label}}, "row 1: label nan is not finite"},
        {TASK_MULTI_LABEL,
         0,
         0,
         {ids_spec, {"labels", DT_F32, 2, {2, 3}, big}},
         "row 0: label 2 is not between 0 and 1"},
        {TASK_MULTI_LABEL,
         0,
         5,
         {ids_spec, {"labels", DT_F32, 2, {2, 3}, ids_2x4}},
         "rows have 3 labels where 5 are expected"},
    };
    check_refused(cases, sizeof cases / sizeof *cases);
}

/* Files that transformers' tensors were saved in (tests/golden/make.py): four rows of lengths 10, 4, 7, 1. */
static void tensors_of_transformers(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        enum data_task asked, task;
        int32_t num_labels;
    } cases[] = {
        {"bert", TASK_AUTO, TASK_CLASS, 0},
        {"bert_regression", TASK_AUTO, TASK_REGRESSION, 1},
        {"bert_multilabel", TASK_AUTO, TASK_MULTI_LABEL, 4},
        {"bert_mlm", TASK_MASKED_LM, TASK_MASKED_LM, 0},
        {"gpt2", TASK_CAUSAL_LM, TASK_CAUSAL_LM, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char p[4096];
        snprintf(p, sizeof p, "%s/tests/golden/%s/inputs.safetensors", getenv("SNUG_SOURCE"), cases[i].model);
        struct dataset_options o = options(cases[i].asked);
        o.path = p;
        o.vocab_size = 199;
        struct dataset d = opened(&o);
        const int32_t lengths[] = {10, 4, 7, 1};
        assert_int_equal(d.task, cases[i].task);
        assert_int_equal(d.n_rows, 4);
        for (int row = 0; row < 4; row++) {
            assert_int_equal(dataset_length(&d, row), lengths[row]);
            for (int t = 0; d.types && t < lengths[row]; t++)
                assert_int_equal(d.types[d.offsets[row] + t], t >= lengths[row] / 2);
        }
        assert_int_equal(d.types != NULL, i < 4);
        if (cases[i].num_labels)
            assert_int_equal(d.num_labels, cases[i].num_labels);
        if (cases[i].task == TASK_CAUSAL_LM)
            assert_memory_equal(d.targets, d.ids, (size_t)d.n_tokens * sizeof *d.ids);
        for (int64_t t = 0; cases[i].task == TASK_MASKED_LM && t < d.n_tokens; t++)
            assert_true(d.targets[t] == IGNORE_INDEX || d.targets[t] == d.ids[t]);
        dataset_close(&d);
    }
}

static void synthetic_rows(void **state)
{
    (void)state;
    struct dataset_options o = options(TASK_AUTO);
    o.path = "synthetic:1000x16";
    o.vocab_size = 50;
    o.num_labels = 4;
    o.seed = 7;
    struct dataset d = opened(&o), again = opened(&o);
    assert_string_equal(notes, "");
    assert_int_equal(d.n_rows, 1000);
    assert_int_equal(d.n_tokens, 16000);
    assert_int_equal(d.longest, 16);
    assert_memory_equal(d.ids, again.ids, 16000 * sizeof *d.ids);
    assert_memory_equal(d.classes, again.classes, 1000 * sizeof *d.classes);
    int64_t count[50] = {0}, classes[4] = {0};
    for (int i = 0; i < 16000; i++)
        count[d.ids[i]]++;
    for (int i = 0; i < 1000; i++)
        classes[d.classes[i]]++;
    for (int i = 0; i < 50; i++) /* 320 expected, standard deviation 17.7 */
        assert_in_range(count[i], 320 - 89, 320 + 89);
    for (int i = 0; i < 4; i++) /* 250, 13.7 */
        assert_in_range(classes[i], 250 - 69, 250 + 69);
    dataset_close(&again);
    o.seed = 8;
    again = opened(&o);
    assert_true(memcmp(d.ids, again.ids, 16000 * sizeof *d.ids) != 0);
    assert_true(memcmp(&d.fingerprint, &again.fingerprint, sizeof d.fingerprint) != 0);
    dataset_close(&again);
    dataset_close(&d);
    static const char *const bad[] = {"synthetic:",     "synthetic:0x5",  "synthetic:5",    "synthetic:5x0",
                                      "synthetic:5x5x", "synthetic:-1x5", "synthetic: 1x5", "synthetic:9999999999999x1",
                                      "synthetic:5x65"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct snug_err e;
        o.path = bad[i];
        assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_USAGE);
    }
}

/* ---- too many for memory ---- */

enum { MANY = 60000, WIDTH = 16 };

static size_t largest; /* of all allocations */

static void *watching_realloc(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    largest = bytes > largest ? bytes : largest;
    return realloc(p, bytes);
}

static void plain_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static struct dataset opened_within(struct dataset_options *o, int64_t in_memory, size_t *most)
{
    const struct mem_ops ops = {.realloc = watching_realloc, .free = plain_free};
    o->in_memory = in_memory;
    largest = 0;
    mem_set_ops(&ops);
    struct dataset d = opened(o);
    mem_set_ops(NULL);
    *most = largest;
    return d;
}

static void assert_equal_arrays(const void *a, const void *b, int64_t bytes)
{
    assert_true(!a == !b && (!a || !memcmp(a, b, (size_t)bytes)));
}

/* Rows in files are those in memory, with all that belongs to them: types, labels of rows, of which one is left out, labels of tokens, and
 * targets. Their arrays are never in memory whole. */
static void many_rows_go_to_files(void **state)
{
    (void)state;
    int64_t *ids = malloc(sizeof(int64_t[MANY * WIDTH])), *types = malloc(sizeof(int64_t[MANY * WIDTH])),
            *targets = malloc(sizeof(int64_t[MANY * WIDTH])), *classes = malloc(sizeof(int64_t[MANY]));
    for (int i = 0; i < MANY * WIDTH; i++) {
        ids[i] = 5 + i * 7 % 37;
        types[i] = i % WIDTH > 9;
        targets[i] = i % WIDTH == 15 ? -100 : i * 3 % 37;
    }
    for (int i = 0; i < MANY; i++)
        classes[i] = i % 3;
    const struct {
        enum data_task task;
        const char *ignored;
        struct tensor_spec labels;
    } of[] = {
        {TASK_CLASS, NULL, {"labels", DT_I64, 1, {MANY}, classes}},
        {TASK_CLASS, "2", {"labels", DT_I64, 1, {MANY}, classes}},
        {TASK_CAUSAL_LM, NULL, {"labels", DT_I64, 2, {MANY, WIDTH}, targets}},
        {TASK_SEQ2SEQ, NULL, {"labels", DT_I64, 2, {MANY, WIDTH}, targets}},
    };
    const struct tensor_spec all_ids = {"input_ids", DT_I64, 2, {MANY, WIDTH}, ids},
                             all_types = {"token_type_ids", DT_I64, 2, {MANY, WIDTH}, types};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        bool typed = of[i].task == TASK_CLASS;
        size_t memory, files;
        write_tensors("many.safetensors", (struct tensor_spec[]){all_ids, of[i].labels, all_types}, typed ? 3 : 2);
        struct dataset_options o = options(of[i].task);
        o.ignore_label = of[i].ignored;
        o.cache_dir = dir;
        struct dataset a = opened_within(&o, (int64_t)1 << 40, &memory), b = opened_within(&o, 1 << 18, &files);
        assert_true(a.files.n_maps == 0 && b.files.n_maps >= 2);
        assert_true(memory >= 4 * WIDTH * 40000 && files <= 1 << 20);
        assert_true(a.n_rows == (of[i].ignored ? MANY / 3 * 2 : MANY) && a.n_rows == b.n_rows);
        assert_true(a.n_tokens == b.n_tokens && a.longest == b.longest && a.max_id == b.max_id);
        assert_true(a.ignored == b.ignored && a.num_labels == b.num_labels && a.max_type == typed);
        assert_equal_arrays(a.offsets, b.offsets, (a.n_rows + 1) * 8);
        assert_equal_arrays(a.ids, b.ids, a.n_tokens * 4);
        assert_equal_arrays(a.types, b.types, a.n_tokens);
        assert_equal_arrays(a.targets, b.targets, a.n_tokens * 4);
        assert_equal_arrays(a.sources, b.sources, a.n_rows * 4);
        assert_equal_arrays(a.classes, b.classes, a.n_rows * 4);
        assert_memory_equal(&a.fingerprint, &b.fingerprint, sizeof a.fingerprint);
        dataset_close(&a);
        dataset_close(&b);
    }
    free(ids);
    free(types);
    free(targets);
    free(classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_from_safetensors), cmocka_unit_test(labels_from_safetensors),
        cmocka_unit_test(tensors_of_transformers), cmocka_unit_test(tokens_refused),
        cmocka_unit_test(labels_refused),          cmocka_unit_test(synthetic_rows),
        cmocka_unit_test(many_rows_go_to_files),
    };
    return cmocka_run_group_tests_name("dataset_tensors", tests, set_up, tear_down);
}
