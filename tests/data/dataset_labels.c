/* data/dataset: a column for each label, truth values, and rows that are left out for their label. */
#include "dataset_help.h"

static int refused(const char *name, const char *content, const struct dataset_options *how, struct snug_err *e)
{
    struct dataset_options o = *how;
    struct dataset d;
    o.path = write_data(name, content);
    int code = dataset_open(&io_posix, &o, &d, e);
    if (!code)
        dataset_close(&d);
    return code;
}

static struct label_map map_of(const char *a, const char *b, bool from_data)
{
    struct label_map m;
    struct snug_err e;
    assert_int_equal(label_map_init(&m, (const char *const[]){a, b}, 2, "config.json", &e), 0);
    m.from_data = from_data;
    return m;
}

/* As in Kaggle's toxic comments: in CSV, with truth values, and in JSON. */
static void a_column_for_each_label(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"k.csv", "\xEF\xBB\xBFid,Comment_Text,toxic,insult,threat\r\n1,\"a, b\",0,1,0\r\n2,c,0,0,0\r\n3,d,1,1,0\r\n"},
        {"t.csv", "id,text,toxic,insult,threat\n1,\"a, b\",False,True,FALSE\n2,c,false,0,0\n3,d,TRUE,true,0.0\n"},
        {"k.jsonl", "{\"text\":\"a, b\",\"toxic\":0,\"insult\":1,\"threat\":0}\n"
                    "{\"text\":\"c\",\"toxic\":false,\"insult\":0.0,\"threat\":0}\n"
                    "{\"text\":\"d\",\"toxic\":true,\"insult\":true,\"threat\":0}\n"},
    };
    const float want[] = {0, 0, 1, 0, 0, 0, 0, 1, 1}; /* threat, toxic, insult */
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        for (int auto_too = 0; auto_too < 2; auto_too++) {
            write_data(same[i][0], same[i][1]);
            struct dataset_options o = options(auto_too ? TASK_AUTO : TASK_MULTI_LABEL);
            o.label_column = "threat,toxic,insult";
            struct dataset d = opened(&o);
            assert_int_equal(d.task, TASK_MULTI_LABEL);
            assert_int_equal(d.n_rows, 3);
            check_values(&d, want, 9);
            assert_string_equal(d.labels.names[0], "threat");
            assert_string_equal(d.labels.names[2], "insult");
            assert_true(d.labels.from_data);
            assert_non_null(strstr(notes, "3 labels, a column each: 0 = threat, 1 = toxic, 2 = insult"));
            dataset_close(&d);
        }
    }
    write_data("s.csv", "text,cohesion,syntax\na,3.5,4\nb,-1,2e1\n");
    struct dataset_options o = options(TASK_REGRESSION);
    o.label_column = "cohesion,syntax";
    struct dataset d = opened(&o);
    check_values(&d, (const float[]){3.5f, 4, -1, 20}, 4);
    assert_string_equal(d.labels.names[1], "syntax");
    dataset_close(&d);
}

/* A model's outputs have their own order; one without names takes the columns as they stand. */
static void columns_meet_a_models_labels(void **state)
{
    (void)state;
    struct snug_err e;
    struct dataset_options o = options(TASK_MULTI_LABEL);
    o.label_column = "insult,toxic";
    write_data("m.csv", "text,toxic,insult\na,0,1\nb,0,0\n");
    for (int named = 0; named < 2; named++) {
        struct label_map m = named ? map_of("toxic", "insult", true) : map_of("LABEL_0", "LABEL_1", false);
        o.path = path;
        o.labels = &m;
        struct dataset d = opened(&o);
        check_values(&d, named ? (const float[]){0, 1, 0, 0} : (const float[]){1, 0, 0, 0}, 4);
        assert_string_equal(d.labels.names[0], m.names[0]);
        dataset_close(&d);
        label_map_free(&m);
    }
    struct label_map m = map_of("toxic", "rude", false);
    o.labels = &m;
    struct dataset d;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(
        strstr(e.text, "m.csv: the column 'insult' is not one of the 2 labels of the model ('toxic', ...)"));
    label_map_free(&m);
    o.labels = NULL;
    o.num_labels = 3;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "m.csv: rows have 2 labels where 3 are expected"));
}

static void wrong_columns(void **state)
{
    (void)state;
    struct snug_err e;
    struct dataset_options multi = options(TASK_MULTI_LABEL), numbers = options(TASK_REGRESSION),
                           class = options(TASK_CLASS);
    multi.label_column = numbers.label_column = class.label_column = "x,y";
    static const struct {
        const char *cell, *multi, *numbers; /* NULL: fine */
    } cells[] = {{"2", "w.csv:2: 'y' is '2', not 0 or 1", NULL},
                 {"-1", "w.csv:2: 'y' is '-1', not 0 or 1", NULL},
                 {"", "w.csv:2: 'y' is '', not 0 or 1", "w.csv:2: 'y' is '', not a number"},
                 {"no", "w.csv:2: 'y' is 'no', not 0 or 1", "w.csv:2: 'y' is 'no', not a number"},
                 {" 1", "w.csv:2: 'y' is ' 1', not 0 or 1", "w.csv:2: 'y' is ' 1', not a number"},
                 {"1e999", "w.csv:2: 'y' is '1e999', not 0 or 1", "w.csv:2: 'y' is '1e999', not a number"}};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        char content[64];
        snprintf(content, sizeof content, "text,x,y\na,1,%s\n", cells[i].cell);
        assert_int_equal(refused("w.csv", content, &multi, &e), SNUG_ERR_INPUT);
        assert_non_null(strstr(e.text, cells[i].multi));
        assert_int_equal(refused("w.csv", content, &numbers, &e), cells[i].numbers ? SNUG_ERR_INPUT : SNUG_OK);
        if (cells[i].numbers)
            assert_non_null(strstr(e.text, cells[i].numbers));
    }
    assert_int_equal(refused("w.jsonl", "{\"text\":\"a\",\"x\":1,\"y\":null}\n", &multi, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "w.jsonl:1: 'y' is 'null', not 0 or 1"));
    assert_int_equal(refused("w.csv", "text,x,y\na,1,0\n", &class, &e), SNUG_ERR_USAGE);
    assert_non_null(strstr(e.text, "--label-column: 2 columns are no single label; give --problem-type"));
}

/* The names are those that Python and datasets' ClassLabel give: False is 0, True is 1. */
static void truth_values_are_classes(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"b.jsonl",
         "{\"text\":\"a\",\"label\":true}\n{\"text\":\"b\",\"label\":false}\n{\"text\":\"c\",\"label\":true}\n"},
        {"b.csv", "text,label\na,True\nb,False\nc,True\n"},
        {"c.csv", "text,label\na,TRUE\nb,FALSE\nc,TRUE\n"},
        {"d.csv", "text,label\na,true\nb,false\nc,true\n"},
    };
    const int32_t want[] = {1, 0, 1};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct dataset train = text(files[i][0], files[i][1], TASK_AUTO);
        assert_int_equal(train.task, TASK_CLASS);
        assert_memory_equal(train.classes, want, sizeof want);
        assert_string_equal(train.labels.names[1], i == 2 ? "TRUE" : i == 3 ? "true" : "True");
        for (size_t k = 0; k < sizeof files / sizeof *files; k++) { /* each can be evaluated on any other */
            struct dataset_options o = options(TASK_CLASS);
            write_data(files[k][0], files[k][1]);
            o.labels = &train.labels;
            struct dataset d = opened(&o);
            assert_memory_equal(d.classes, want, sizeof want);
            dataset_close(&d);
        }
        dataset_close(&train);
    }
    struct label_map m = map_of("LABEL_0", "LABEL_1", false);
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        struct dataset_options o = options(TASK_CLASS);
        o.path = write_data(files[k][0], files[k][1]);
        o.labels = &m;
        struct dataset d = opened(&o);
        assert_memory_equal(d.classes, want, sizeof want);
        dataset_close(&d);
    }
    label_map_free(&m);
    struct dataset d =
        text("v.jsonl", "{\"text\":\"a\",\"labels\":[true,false]}\n{\"text\":\"b\",\"labels\":[false,true]}\n",
             TASK_MULTI_LABEL);
    check_values(&d, (const float[]){1, 0, 0, 1}, 4);
    dataset_close(&d);
    d = text("r.csv", "text,label\na,True\nb,false\n", TASK_REGRESSION);
    check_values(&d, (const float[]){1, 0}, 2);
    dataset_close(&d);
}

/* Where a model's names are numbers, a number in the data is a name, in any kind of file. */
static void numbers_are_names(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"n.csv", "text,label\na,3\nb,1\n"},
        {"n.jsonl", "{\"text\":\"a\",\"label\":3}\n{\"text\":\"b\",\"label\":1}\n"},
        {"s.jsonl", "{\"text\":\"a\",\"label\":\"3\"}\n{\"text\":\"b\",\"label\":\"1\"}\n"}};
    static const char *const stars[] = {"1", "2", "3"};
    struct label_map m;
    assert_int_equal(label_map_init(&m, stars, 3, "m", NULL), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct dataset_options o = options(TASK_CLASS);
        o.path = write_data(files[i][0], files[i][1]);
        o.labels = &m;
        struct dataset d = opened(&o);
        assert_memory_equal(d.classes, ((const int32_t[]){2, 0}), 8);
        dataset_close(&d);
    }
    struct dataset_options o = options(TASK_CLASS);
    struct dataset d;
    struct snug_err err;
    o.path = write_data("zero.csv", "text,label\na,3\nb,0\n");
    o.labels = &m;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "label '0' is not one of the 3 labels of the model ('1', ...)"));
    label_map_free(&m);
}

/* The rows that stay are those of a file without the others. */
static void rows_are_left_out(void **state)
{
    (void)state;
    static const struct {
        enum data_task task;
        const char *name, *all, *rest, *ignore, *columns;
    } cases[] = {
        {TASK_CLASS, "a.csv", "text,label\nworld,0\nice,-1\ncream,1\nun,-1\n", "text,label\nworld,0\ncream,1\n", "-1",
         0},
        {TASK_CLASS, "b.csv", "text,label\nice,-1.0\nworld,yes\nun,-1\ncream,no\n", "text,label\nworld,yes\ncream,no\n",
         "-1", 0},
        {TASK_CLASS, "c.csv", "text,label\nice,-\nworld,a\nun,b\nice,-\n", "text,label\nworld,a\nun,b\n", "-", 0},
        {TASK_CLASS, "d.jsonl",
         "{\"text\":\"ice\",\"label\":-1}\n{\"text\":\"world\",\"label\":0}\n{\"text\":\"un\",\"label\":1}\n"
         "{\"text\":\"ice\",\"label\":-1.0}\n",
         "{\"text\":\"world\",\"label\":0}\n{\"text\":\"un\",\"label\":1}\n", "-1", 0},
        {TASK_REGRESSION, "e.csv", "text,label\nworld,1.5\nice,-100\nun,2\nice,-1e2\n", "text,label\nworld,1.5\nun,2\n",
         "-100", 0},
        {TASK_MULTI_LABEL, "f.csv", "text,x,y\nworld,1,0\nice,-1,-1\nice,0,-1\nun,1,1\n",
         "text,x,y\nworld,1,0\nun,1,1\n", "-1", "x,y"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_data(cases[i].name, cases[i].rest);
        struct dataset_options o = options(cases[i].task);
        o.label_column = cases[i].columns;
        struct dataset rest = opened(&o);
        o.ignore_label = cases[i].ignore;
        struct dataset none = opened(&o);
        assert_non_null(strstr(notes, ": no row has the label '"));
        assert_memory_equal(&none.fingerprint, &rest.fingerprint, sizeof rest.fingerprint);
        dataset_close(&none);
        o.path = write_data(cases[i].name, cases[i].all);
        struct dataset d = opened(&o);
        char want[64];
        snprintf(want, sizeof want, ": 2 of 4 rows have the label '%s' and are left out", cases[i].ignore);
        assert_non_null(strstr(notes, want));
        assert_int_equal(d.ignored, 2);
        assert_int_equal(d.n_rows, rest.n_rows);
        assert_int_equal(d.n_tokens, rest.n_tokens);
        assert_memory_equal(d.ids, rest.ids, (size_t)rest.n_tokens * sizeof *rest.ids);
        if (rest.classes)
            assert_memory_equal(d.classes, rest.classes, (size_t)rest.n_rows * sizeof *rest.classes);
        if (rest.values)
            check_values(&d, rest.values, rest.n_rows * rest.num_labels);
        dataset_close(&d);
        dataset_close(&rest);
    }
    struct snug_err e;
    struct dataset_options o = options(TASK_CLASS);
    assert_int_equal(refused("n.csv", "text,label\na,0\nb,-1\n", &o, &e), SNUG_ERR_INPUT);
    assert_non_null(
        strstr(e.text, "n.csv:3: label -1 is negative; classes are numbered from 0, and --ignore-label -1 leaves"));
    o.ignore_label = "-1";
    assert_int_equal(refused("n.csv", "text,label\na,-1\nb,-1\n", &o, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "n.csv: all 2 rows have the label '-1', which --ignore-label leaves out"));
}

static void tensors_are_left_out(void **state)
{
    (void)state;
    const int64_t classes[2] = {-1, 1};
    const float values[4] = {0.5f, 1, -1, 2};
    struct dataset_options o = options(TASK_AUTO);
    struct snug_err e;
    struct dataset d;
    o.ignore_label = "-1";
    o.num_labels = 2;
    write_tensors("c.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_I64, 1, {2}, classes}}, 2);
    d = opened(&o);
    assert_int_equal(d.n_rows, 1);
    assert_int_equal(d.ids[0], 9); /* the second row */
    assert_int_equal(d.n_tokens, 4);
    assert_int_equal(d.classes[0], 1);
    assert_non_null(strstr(notes, "1 of 2 rows have the label '-1'"));
    dataset_close(&d);
    o.task = TASK_REGRESSION;
    write_tensors("v.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_F32, 2, {2, 2}, values}}, 2);
    d = opened(&o);
    check_values(&d, (const float[]){0.5f, 1}, 2);
    assert_int_equal(d.ids[0], 5);
    dataset_close(&d);
    o.ignore_label = NULL;
    o.task = TASK_CLASS;
    write_tensors("c.safetensors", (struct tensor_spec[]){ids_spec, {"labels", DT_I64, 1, {2}, classes}}, 2);
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "row 0: label -1 is negative"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_for_each_label), cmocka_unit_test(columns_meet_a_models_labels),
        cmocka_unit_test(wrong_columns),           cmocka_unit_test(truth_values_are_classes),
        cmocka_unit_test(numbers_are_names),       cmocka_unit_test(rows_are_left_out),
        cmocka_unit_test(tensors_are_left_out),
    };
    return cmocka_run_group_tests_name("dataset_labels", tests, set_up, tear_down);
}
