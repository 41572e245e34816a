/* data/dataset: files that are refused, each with the line that says so (bad-inputs.md, section 4). */
#include "dataset_help.h"

struct refusal {
    const char *id, *file, *content;
    enum data_task task;
    const char *message;
    const char *labels; /* of the training data: names separated by blanks */
    int32_t num_labels;
    const char *text_column, *label_column;
};

#define JSON_ROW(label) "{\"text\":\"a\",\"label\":" label "}\n"

static const struct refusal refusals[] = {
    {"D1", "e.csv", "", TASK_CLASS, "e.csv: the file is empty, 0 rows; give some data", 0, 0, 0, 0},
    {"D1", "e.csv", "text,label\n", TASK_CLASS, "e.csv: 0 rows behind the header", 0, 0, 0, 0},
    {"D1", "e.jsonl", "\n\n", TASK_CLASS, "e.jsonl: no objects in it; 0 rows", 0, 0, 0, 0},
    {"D1", "e.json", "[]", TASK_CLASS, "e.json: no objects in it; 0 rows", 0, 0, 0, 0},
    {"D2", "e.dat", "text,label\n", TASK_CLASS, "the ending '.dat' is not one of .csv", 0, 0, 0, 0},
    {"D2", "e.txt", "text,label\n", TASK_CLASS, "e.txt: a text file has no label; give .csv or .jsonl", 0, 0, 0, 0},
    {"D2", "e.parquet", "PAR1....", TASK_CLASS, "e.parquet: the Parquet file is cut: it has 8 bytes", 0, 0, 0, 0},
    {"D2", "e.parquet", "text,label\n", TASK_CLASS, "e.parquet: no Parquet file: it does not begin with PAR1", 0, 0, 0,
     0},
    {"D2", "e.arrow", "ARROW1..", TASK_CLASS, "e.arrow: looks like an Arrow file; convert it with Python", 0, 0, 0, 0},
    {"D2", "e.arrow", "\xFF\xFF\xFF\xFF....", TASK_CLASS, "e.arrow: looks like an Arrow stream; convert it", 0, 0, 0,
     0},
    {"D2", "e.csv.gz", "\x1F\x8Bgzip", TASK_CLASS,
     "e.csv.gz: its compressed data are damaged before byte 6; copy it again", 0, 0, 0, 0},
    {"D2", "e.gz", "\x1F\x8Bgzip", TASK_CLASS, "e.gz: looks like a gzip file; convert it with gunzip", 0, 0, 0, 0},
    {"D2", "e.parquet.gz", "\x1F\x8Bgzip", TASK_CLASS, "looks like a gzip file; convert it with gunzip", 0, 0, 0, 0},
    {"D2", "e.csv.bz2", "BZh9", TASK_CLASS, "looks like a bzip2 file; convert it with bunzip2", 0, 0, 0, 0},
    {"D2", "e.xlsx", "PK\x03\x04zip", TASK_CLASS,
     "e.xlsx: looks like a zip file (.xlsx is one); convert it with Python: ", 0, 0, 0, 0},
    {"D2", "noending", "text,label\n", TASK_CLASS, "the ending '' is not one of .csv", 0, 0, 0, 0},
    {"D2", "j.csv", JSON_ROW("\"x\""), TASK_CLASS, "j.csv:1: looks like JSON, not CSV; rename it to .jsonl", 0, 0, 0,
     0},
    {"D2", "j.csv", "[\n {\"text\": 1}]", TASK_CLASS, "looks like JSON, not CSV; rename it to .json", 0, 0, 0, 0},
    {"D2", "c.jsonl", "text,label\na,b\n", TASK_CLASS, "c.jsonl:1: 't' where '{' was expected", 0, 0, 0, 0},
    {"D2", "z.csv", "PK\x03\x04zip", TASK_CLASS, "looks like a zip file (.xlsx is one)", 0, 0, 0, 0},
    {"D2", "z.jsonl", "\x1F\x8Bgzip", TASK_CLASS, "its compressed data are damaged", 0, 0, 0, 0},
    {"D2", "z.csv", "PAR1....", TASK_CLASS, "looks like a Parquet file; give it as a file whose name ends in .parquet",
     0, 0, 0, 0},
    {"D3", "a.csv", "text,label\na,b\n", TASK_CLASS, "no column 'txt'; there are: text, label", 0, 0, "txt", 0},
    {"D3", "a.csv", "text,label\na,b\n", TASK_CLASS, "no column 'y'; there are: text, label", 0, 0, 0, "y"},
    {"D3", "a.csv", "foo,bar\na,b\n", TASK_CLASS, "usual name for the text; name one with --text-column: foo, bar", 0,
     0, 0, 0},
    {"D3", "a.csv", "text,bar\na,b\n", TASK_CLASS, "usual name for the label; name one with --label-column: text, bar",
     0, 0, 0, 0},
    {"D3", "a.jsonl", "{\"foo\":\"a\",\"bar\":1}\n", TASK_CLASS, "--text-column: foo, bar", 0, 0, 0, 0},
    {"D4", "a.csv", "text,label,text\na,b,c\n", TASK_CLASS, "a.csv:1: two columns are called 'text'", 0, 0, 0, 0},
    {"D5", "a.csv", "text,label\na,b\nc,d,\n", TASK_CLASS, "a.csv:3: 3 fields where the header has 2", 0, 0, 0, 0},
    {"D5", "a.csv", "text,label\na\n", TASK_CLASS, "a.csv:2: 1 fields where the header has 2", 0, 0, 0, 0},
    {"D6", "a.csv", "text,label\na,b\n\"c,d\ne,f\n", TASK_CLASS, "a.csv:3: the quote opened here is never closed", 0, 0,
     0, 0},
    {"D7", "a.csv", "text,label\n\"a\\\"b\",c\n", TASK_CLASS, "a.csv:2: field 1, 'a\\', goes on behind", 0, 0, 0, 0},
    {"D8", "a.csv", "text,label\na,b\ncaf\xE9,d\n", TASK_CLASS, "a.csv:3: row 2, byte at offset 18: 0xE9 is not UTF-8",
     0, 0, 0, 0},
    {"D8", "a.jsonl", JSON_ROW("1") "{\"text\":\"\xFF\"}\n", TASK_CLASS, "a.jsonl:2: row 2, byte at offset 32: 0xFF", 0,
     0, 0, 0},
    {"D11", "a.csv", "text,label\na,b\nc,\n", TASK_CLASS, "a.csv:3: the label is empty", 0, 0, 0, 0},
    {"D11", "a.csv", "text,label\na,1.0\n", TASK_CLASS, "a.csv:2: label '1.0' is not a whole number", 0, 0, 0, 0},
    {"D11", "a.csv", "text,label\na, 1\n", TASK_CLASS, "a.csv:2: label ' 1' is a number with blanks around it", 0, 0, 0,
     0},
    {"D11", "a.csv", "text,label\na,01\n", TASK_CLASS, "a.csv:2: label '01' is not a whole number", 0, 0, 0, 0},
    {"D11", "a.csv", "text,label\na,-1\n", TASK_CLASS, "a.csv:2: label -1 is negative", 0, 0, 0, 0},
    {"D11", "a.csv", "text,label\na,1\nb,2\nc,x\n", TASK_CLASS,
     "a.csv:4: label 'x' is a name, but that of line 2 is a number", 0, 0, 0, 0},
    {"D11", "a.csv", "text,label\na,x\nc,1\n", TASK_CLASS,
     "a.csv:3: label '1' is a number, but that of line 2 is a name", 0, 0, 0, 0},
    {"D11", "a.jsonl", JSON_ROW("1") JSON_ROW("\"1\""), TASK_CLASS,
     "a.jsonl:2: label '1' is a name, but that of line 1", 0, 0, 0, 0},
    {"D11", "a.jsonl", JSON_ROW("1.0"), TASK_CLASS, "a.jsonl:1: label '1.0' is not a whole number", 0, 0, 0, 0},
    {"D11", "a.jsonl", JSON_ROW("{}"), TASK_CLASS, "a.jsonl:1: the label is an object; write a name or a whole number",
     0, 0, 0, 0},
    {"D11", "a.jsonl", JSON_ROW("[1]"), TASK_CLASS, "a.jsonl:1: the label is an array", 0, 0, 0, 0},
    {"D11", "a.jsonl", JSON_ROW("null"), TASK_CLASS, "a.jsonl:1: the label is null", 0, 0, 0, 0},
    {"D11", "a.jsonl", JSON_ROW("\"\""), TASK_CLASS, "a.jsonl:1: the label is empty", 0, 0, 0, 0},
    {"D11", "a.csv", "text,label\na,x\nb,z\n", TASK_CLASS,
     "a.csv:3: label 'z' is not one of the 2 labels of the training data ('x', ...)", "x y", 0, 0, 0},
    {"D11", "a.csv", "text,label\na,0\n", TASK_CLASS, "label '0' is a number, but those of the training data are names",
     "x y", 0, 0, 0},
    {"D11", "a.csv", "text,label\na,\nb,0;2\nc,1\n", TASK_MULTI_LABEL,
     "a.csv:3: label '0' is a number, but those of the training data are names ('x', ...); write a name", "x y z", 0, 0,
     0},
    {"D11", "a.jsonl", JSON_ROW("[2]") JSON_ROW("[0,1]"), TASK_MULTI_LABEL,
     "a.jsonl:1: label '2' is a number, but those of the training data are names", "x y z", 0, 0, 0},
    {"D11", "a.csv", "text,label\na,2\n", TASK_CLASS, "label 2 is out of range: 2 labels are numbered 0 to 1", "0 1", 0,
     0, 0},
    {"D12", "a.csv", "text,label\na,x\nb,x\n", TASK_CLASS, "a.csv: all 2 rows have one label, 'x'", 0, 0, 0, 0},
    {"D12", "a.csv", "text,label\na,3\nb,3\n", TASK_CLASS, "a.csv: all 2 rows have one label, '3'", 0, 0, 0, 0},
    {"D13", "a.csv", "text,label\na,x\nb,y\n", TASK_CLASS,
     "a.csv: the data name 2 labels, not the 3 of the model's head or --num-labels", 0, 3, 0, 0},
    {"D13", "a.csv", "text,label\na,0\nb,3\n", TASK_CLASS, "a.csv:3: label 3 is out of range: 3 labels", 0, 3, 0, 0},
    {"D15", "a.jsonl", JSON_ROW("1") "{\"text\":\"a\",}\n", TASK_CLASS, "a.jsonl:2:13: ", 0, 0, 0, 0},
    {"D15", "a.jsonl", JSON_ROW("1") "{\"text\":\"a\",\"lab", TASK_CLASS, "a.jsonl:2:", 0, 0, 0, 0},
    {"D15", "a.jsonl", "[" JSON_ROW("1") "]", TASK_CLASS,
     "a.jsonl:1: '[' where an object was expected; name the file .json", 0, 0, 0, 0},
    {"D15", "a.jsonl", JSON_ROW("1") "3\n", TASK_CLASS, "a.jsonl:2: not an object", 0, 0, 0, 0},
    {"D15", "a.json", "[" JSON_ROW("1") ",\n3]", TASK_CLASS, "a.json: row 1: not an object", 0, 0, 0, 0},
    {"D15", "a.json", "[" JSON_ROW("1") ",]", TASK_CLASS, "a.json:2:2: no row behind ','; leave the comma out", 0, 0, 0,
     0},
    {"D15", "a.json", "[" JSON_ROW("1") JSON_ROW("2") "]", TASK_CLASS, "a.json:2:1: ',' or ']' expected behind a row",
     0, 0, 0, 0},
    {"D15", "a.json", "[" JSON_ROW("1") "  ,{\"text\":\"a\",}]", TASK_CLASS, "a.json:2:16: ", 0, 0, 0, 0},
    {"D15", "a.json", "[" JSON_ROW("1"), TASK_CLASS, "a.json:2:1: the file ends within the array; is it whole?", 0, 0,
     0, 0},
    {"D15", "a.json", "[" JSON_ROW("1") ",{\"text\":\"]", TASK_CLASS, "a.json:2:12: the file ends within the array", 0,
     0, 0, 0},
    {"D15", "a.json", "[" JSON_ROW("1") "]]", TASK_CLASS, "a.json:2:2: something behind the end of the array", 0, 0, 0,
     0},
    {"D15", "a.json", "[}]", TASK_CLASS, "a.json:1:2: a row expected", 0, 0, 0, 0},
    {"D15", "a.json", "[," JSON_ROW("1") "]", TASK_CLASS, "a.json:1:2: a row expected", 0, 0, 0, 0},
    {"D15", "a.json", "[" JSON_ROW("1") ",7 ,8]", TASK_CLASS, "a.json: row 1: not an object", 0, 0, 0, 0},
    {"D15", "a.json", "{\n \"data\": [1]}", TASK_CLASS, "a.json:1: neither an array of objects nor one object a line",
     0, 0, 0, 0},
    {"D15", "a.jsonl", "{\"text\":\"a\",\"text\":\"b\",\"label\":1}\n", TASK_CLASS, "a.jsonl:1:", 0, 0, 0, 0},
    {"D15", "a.jsonl", "{\"text\":{\"x\":1},\"label\":1}\n", TASK_CLASS, "a.jsonl:1: 'text' is an object, not a string",
     0, 0, 0, 0},
    {"D15", "a.jsonl", "{\"text\":5,\"label\":1}\n", TASK_CLASS, "a.jsonl:1: 'text' is 5, not a string", 0, 0, 0, 0},
    {"D15", "a.jsonl", JSON_ROW("1") "{\"label\":1}\n", TASK_CLASS, "a.jsonl:2: 'text' is absent, not a string", 0, 0,
     0, 0},
    {"D15", "a.jsonl", JSON_ROW("1") "{\"text\":\"a\"}\n", TASK_CLASS, "a.jsonl:2: no 'label'; every row needs a label",
     0, 0, 0, 0},
    {"D21", "a.csv", "text;label\na;b\n", TASK_CLASS,
     "a.csv:1: one column only; it looks like ';' separated: use --delimiter ';'", 0, 0, 0, 0},
    {"D21", "a.csv", "text\tlabel\na\tb\n", TASK_CLASS, "it looks like '\\t' separated: use --delimiter '\\t'", 0, 0, 0,
     0},
    {"D21", "a.tsv", "text,label\na,b\n", TASK_CLASS, "it looks like ',' separated", 0, 0, 0, 0},
    {"D22", "a.csv", "text,label\na,1000000\n", TASK_CLASS,
     "a.csv:2: label 1000000 is over the limit of 100000 classes", 0, 0, 0, 0},
    {"D22", "a.jsonl", JSON_ROW("9223372036854775807"), TASK_CLASS,
     "a.jsonl:1: label 9223372036854775807 is over the limit of 100000 classes", 0, 0, 0, 0},
    {"D22", "a.jsonl", JSON_ROW("9007199254740993"), TASK_CLASS, "a.jsonl:1: label 9007199254740993 is over", 0, 0, 0,
     0},
    {"D22", "a.csv", "text,label\na,9007199254740993\n", TASK_CLASS, "a.csv:2: label 9007199254740993 is over", 0, 0, 0,
     0},
    {"regression", "a.csv", "text,label\na,x\n", TASK_REGRESSION, "a.csv:2: label 'x' is not a number", 0, 0, 0, 0},
    {"regression", "a.csv", "text,label\na,1e99\n", TASK_REGRESSION,
     "a.csv:2: label '1e99' is out of the range of a float", 0, 0, 0, 0},
    {"regression", "a.csv", "text,label\na,nan\n", TASK_REGRESSION, "a.csv:2: label 'nan' is not a number", 0, 0, 0, 0},
    {"regression", "a.csv", "text,label\na,\n", TASK_REGRESSION, "a.csv:2: the label is empty", 0, 0, 0, 0},
    {"regression", "a.csv", "text,label\na,1\nb,1;2\n", TASK_REGRESSION, "a.csv:3: 2 labels where 1 are expected", 0, 0,
     0, 0},
    {"multi", "a.csv", "text,label\na,x;1\n", TASK_MULTI_LABEL,
     "a.csv:2: label '1' is a number, but that of line 2 is a name", 0, 0, 0, 0},
    {"multi", "a.csv", "text,label\na,0;0.5\nb,3\n", TASK_MULTI_LABEL, "a.csv: label 0.5 is not an id", 0, 0, 0, 0},
    {"multi", "a.csv", "text,label\na,\nb,\n", TASK_MULTI_LABEL, "a.csv: no row has a label", 0, 0, 0, 0},
    {"multi", "a.csv", "text,label\na,\"[1,\"\n", TASK_MULTI_LABEL, "a.csv:2: label '[1,' begins as a JSON array", 0, 0,
     0, 0},
    {"multi", "a.jsonl", JSON_ROW("[0,1,1]") JSON_ROW("[1,0]") JSON_ROW("[0,0,0]"), TASK_MULTI_LABEL,
     "a.jsonl: row 1 has label 1 twice, and row 2 has 2 labels where row 1 has 3; write a 0 or 1 for each label", 0, 0,
     0, 0},
    {"multi", "a.jsonl", JSON_ROW("[null]"), TASK_MULTI_LABEL, "a.jsonl:1: the label is null; write a list of names", 0,
     0, 0, 0},
    {"multi", "a.csv", "text,label\na,0;1\nb,1;0\n", TASK_MULTI_LABEL, "rows have 2 labels where 4 are expected", 0, 4,
     0, 0},
};

static struct label_map training_map(const char *names)
{
    char copy[64], *list[8], *save = NULL;
    int32_t n = 0;
    struct label_map m;
    struct snug_err e;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save))
        list[n++] = s;
    assert_int_equal(label_map_init(&m, (const char *const *)list, n, "train.csv", &e), 0);
    m.from_data = true;
    return m;
}

static void bad_inputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        struct label_map map = {0};
        struct dataset_options o = options(r->task);
        if (r->labels) {
            map = training_map(r->labels);
            o.labels = &map;
        }
        o.num_labels = r->num_labels;
        o.text_column = r->text_column;
        o.label_column = r->label_column;
        write_data(r->file, r->content);
        struct dataset d;
        struct snug_err e = {0};
        int code = dataset_open(&io_posix, &o, &d, &e);
        if (code != SNUG_ERR_INPUT || !strstr(e.text, r->message) || strlen(e.text) > 225)
            fail_msg("%s: wanted '%s', got %d '%s'", r->id, r->message, code, e.text);
        label_map_free(&map);
        unlink(path);
    }
}

static int open_path(const char *p, struct snug_err *e)
{
    struct dataset_options o = options(TASK_CLASS);
    struct dataset d;
    o.path = p;
    *e = (struct snug_err){0};
    int code = dataset_open(&io_posix, &o, &d, e);
    if (!code)
        dataset_close(&d);
    return code;
}

static void bad_files(void **state)
{
    (void)state;
    struct snug_err e;
    char p[160];
    snprintf(p, sizeof p, "%s/none.csv", dir); /* D1 */
    assert_int_equal(open_path(p, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "none.csv: cannot open: No such file"));
    snprintf(p, sizeof p, "%s/folder.csv", dir);
    mkdir(p, 0700);
    assert_int_equal(open_path(p, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "is a folder"));
    rmdir(p);
    snprintf(p, sizeof p, "%s/fifo.csv", dir); /* D20 */
    mkfifo(p, 0600);
    assert_int_equal(open_path(p, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "is a FIFO"));
    unlink(p);
    write_data("u.csv", "text,label\n\"\",0\nb,1\n"); /* D10 */
    struct dataset_options o = options(TASK_CLASS);
    struct dataset d;
    o.empty_is_error = true;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "u.csv:2: the text is empty, which --empty=error refuses"));
    o = options(TASK_CLASS);
    o.max_length = 2;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_USAGE); /* T11 */
    o.tokenizer = NULL;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_USAGE);
    o = options(TASK_CLASS);
    o.delimiter = '\n';
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_USAGE);
}

/* 100,001 different names: the limit comes before the memory. */
static void too_many_classes(void **state)
{
    (void)state;
    char *content = malloc(2000000);
    size_t n = (size_t)sprintf(content, "text,label\n");
    for (int i = 0; i <= LABELS_MAX; i++)
        n += (size_t)sprintf(content + n, "a,n%d\n", i);
    write_file("many.csv", content, n);
    free(content);
    struct snug_err e;
    assert_int_equal(open_path(path, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "many.csv:100002: label 'n100000' is one more than 100000 different labels"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_inputs),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(too_many_classes),
    };
    return cmocka_run_group_tests_name("dataset_refused", tests, set_up, tear_down);
}
