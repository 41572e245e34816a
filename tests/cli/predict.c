/* snug predict as people use it: texts of the command line and of files of every kind, pairs, and what comes out. What a text
 * must get is what its token ids get from a file of tensors, which tests/run/golden.c holds against transformers. */
#include "predict_help.h"

#include <math.h>
#include <unistd.h>

/* The rows "a b", "c", "d e f" as token ids: what texts must agree with. */
static const char *tensors(void)
{
    static const int32_t ids[3][5] = {{2, 5, 6, 3, 0}, {2, 7, 3, 0, 0}, {2, 8, 9, 10, 3}};
    int32_t mask[3][5];
    const char *path = join(folder, "ids.safetensors");
    struct st_tensor t[2] = {{.name = "attention_mask", .dtype = DT_I32, .ndim = 2, .shape = {3, 5}},
                             {.name = "input_ids", .dtype = DT_I32, .ndim = 2, .shape = {3, 5}}};
    struct st_writer w;
    for (int i = 0; i < 15; i++)
        mask[i / 5][i % 5] = ids[i / 5][i % 5] != 0;
    unlink(path);
    assert_int_equal(st_create(&io_posix, path, t, 2, NULL, 0, false, &w, NULL), SNUG_OK);
    assert_int_equal(st_write(&w, &t[0], 0, mask, sizeof mask, NULL), SNUG_OK);
    assert_int_equal(st_write(&w, &t[1], 0, ids, sizeof ids, NULL), SNUG_OK);
    assert_int_equal(st_finish(&w, NULL, NULL), SNUG_OK);
    return path;
}

static void every_kind_of_text_is_the_same(void **state)
{
    (void)state;
    json_t *want[3];
    const char *text = predict(model, ARGS("--data", tensors(), "--json"));
    for (int i = 0; i < 3; i++)
        want[i] = row(text, i);
    assert_null(json_object_get(want[0], "input"));
    write_text(folder, "t.txt", "a b\nc\nd e f");
    write_text(folder, "t.csv", "id,text\n1,a b\n2,c\n3,d e f\n");
    write_text(folder, "t.jsonl", "{\"text\":\"a b\"}\n{\"text\":\"c\",\"n\":1}\n{\"text\":\"d e f\"}\n");
    const char *const *kinds[] = {ARGS("--json", "--text", "a b", "--text", "c", "--text", "d e f"),
                                  ARGS("--json", "--data", join(folder, "t.txt")),
                                  ARGS("--json", "--data", join(folder, "t.csv")),
                                  ARGS("--json", "--data", join(folder, "t.jsonl"), "--batch-size", "1")};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        text = predict(model, kinds[k]);
        for (int i = 0; i < 3; i++) {
            json_t *got = row(text, i);
            json_t *input = json_object_get(got, "input");
            assert_string_equal(json_string_value(json_object_get(input, "text")), i == 0   ? "a b"
                                                                                   : i == 1 ? "c"
                                                                                            : "d e f");
            if (k == 3 && i == 1)
                assert_int_equal(json_integer_value(json_object_get(input, "n")), 1);
            json_object_del(got, "input");
            assert_true(json_equal(got, want[i]));
            json_decref(got);
        }
    }
    for (int i = 0; i < 3; i++)
        json_decref(want[i]);
}

/* A pair is [CLS] a [SEP] b [SEP]: not what its first text alone gets, nor the two turned round. */
static void pairs(void **state)
{
    (void)state;
    write_text(folder, "p.csv", "sentence1,sentence2\na b,c\nc,a b\na b,c\n");
    char *text = strdup(predict(model, ARGS("--data", join(folder, "p.csv"), "--json")));
    json_t *first = row(text, 0), *turned = row(text, 1), *again = row(text, 2);
    assert_true(json_equal(json_object_get(first, "probabilities"), json_object_get(again, "probabilities")));
    assert_false(json_equal(json_object_get(first, "probabilities"), json_object_get(turned, "probabilities")));
    json_t *line_of = row(predict(model, ARGS("--json", "--text", "a b", "--text-pair", "c")), 0);
    assert_true(json_equal(json_object_get(first, "probabilities"), json_object_get(line_of, "probabilities")));
    assert_string_equal(json_string_value(json_object_get(json_object_get(line_of, "input"), "text_pair")), "c");
    json_decref(first), json_decref(turned), json_decref(again), json_decref(line_of);
    free(text);
}

/* The input's columns follow, quoted as they must be; a name that a prediction has gets input_ in front. */
static void columns_are_kept(void **state)
{
    (void)state;
    write_text(folder, "c.csv", "label,text,row,a;b\nx,\"a, \"\"b\"\"\",7,\"two\nlines\"\n");
    const char *text = predict(model, ARGS("--data", join(folder, "c.csv")));
    LINE_IS(text, 0, "row,label,no,perhaps,yes,input_label,text,input_row,a;b");
    assert_non_null(strstr(text, ",x,\"a, \"\"b\"\"\",7,\"two\nlines\"\n"));
    write_text(folder, "o.jsonl", "{\"text\":\"a\",\"meta\":{\"id\":[1,null]},\"label\":true}\n");
    json_t *o = row(predict(model, ARGS("--json", "--data", join(folder, "o.jsonl"))), 0);
    json_t *input = json_pack("{s:s,s:{s:[i,n]},s:b}", "text", "a", "meta", "id", 1, "label", 1);
    assert_true(json_equal(json_object_get(o, "input"), input));
    json_decref(o), json_decref(input);
    text = predict(model, ARGS("--data", join(folder, "o.jsonl")));
    LINE_IS(text, 0, "row,label,no,perhaps,yes,text,meta,input_label");
    assert_non_null(strstr(text, ",a,\"{\"\"id\"\":[1,null]}\",true\n"));
}

static void the_likeliest_come_first(void **state)
{
    (void)state;
    json_t *all = row(predict(model, ARGS("--json", "--text", "a b c")), 0);
    json_t *two = row(predict(model, ARGS("--json", "--text", "a b c", "--top-k", "2")), 0);
    json_t *p = json_object_get(all, "probabilities"), *shown = json_object_get(two, "probabilities");
    const char *best = json_string_value(json_object_get(all, "label")), *name;
    double before = 1, sum = 0;
    json_t *v;
    assert_int_equal(json_object_size(p), 3);
    assert_int_equal(json_object_size(shown), 2);
    assert_string_equal(json_object_iter_key(json_object_iter(shown)), best);
    json_object_foreach(shown, name, v)
    {
        assert_true(json_equal(v, json_object_get(p, name)));
        assert_true(json_real_value(v) <= before);
        before = json_real_value(v);
    }
    json_object_foreach(p, name, v)
    {
        sum += json_real_value(v);
        assert_true(json_object_get(shown, name) || json_real_value(v) <= before);
    }
    assert_true(fabs(sum - 1) < 1e-5);
    LINE_IS(predict(model, ARGS("--text", "a b c", "--top-k", "2")), 0,
            "row,label,label_1,probability_1,label_2,probability_2,text");
    json_decref(all), json_decref(two);
    expect_snug(2, said(), ARGS("predict", "--model", regression, "--text", "a", "--top-k", "2"), NULL);
    assert_true(file_has(said(), "--top-k: no effect on regression"));
}

/* Probabilities of labels do not depend on the threshold; which are named does. */
static void labels_above_the_threshold(void **state)
{
    (void)state;
    static const char *const thresholds[] = {"0.01", "0.5", "0.99"};
    for (size_t i = 0; i < 3; i++) {
        json_t *o = row(predict(labels, ARGS("--json", "--text", "a b", "--threshold", thresholds[i])), 0), *v;
        const char *name;
        size_t above = 0;
        json_object_foreach(json_object_get(o, "probabilities"), name, v) above +=
            json_real_value(v) > strtod(thresholds[i], NULL);
        assert_int_equal(json_array_size(json_object_get(o, "label")), above);
        json_decref(o);
    }
    char *text = line(predict(regression, ARGS("--text", "a b")), 0);
    assert_int_equal(strncmp(text, "row,LABEL_0", 11), 0);
    free(text);
    expect_snug(2, said(), ARGS("predict", "--model", model, "--text", "a", "--threshold", "0.3"), NULL);
    assert_true(file_has(said(), "--threshold: no effect"));
}

static void usage(void **state)
{
    (void)state;
    expect_snug(2, said(), ARGS("predict", "--model", model), NULL);
    assert_true(file_has(said(), "--data: 'snug predict' needs it"));
    expect_snug(2, said(), ARGS("predict", "--model", model, "--data", "x.csv", "--text", "a"), NULL);
    assert_true(file_has(said(), "--text: serves the same as --data; give one of them"));
    expect_snug(2, said(), ARGS("predict", "--model", model, "--text", "a", "--text", "b", "--text-pair", "c"), NULL);
    assert_true(file_has(said(), "--text-pair: 1 for 2 --text"));
    expect_snug(2, said(), ARGS("predict", "--model", model, "--text", "a", "--overwrite-output"), NULL);
    assert_true(file_has(said(), "--overwrite-output: no effect without --output"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_text_is_the_same),
        cmocka_unit_test(pairs),
        cmocka_unit_test(columns_are_kept),
        cmocka_unit_test(the_likeliest_come_first),
        cmocka_unit_test(labels_above_the_threshold),
        cmocka_unit_test(usage),
    };
    return cmocka_run_group_tests(tests, open_models, close_folder);
}
