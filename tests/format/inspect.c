/* format/inspect: the reports of a file and of a folder, and that a bad one gives its error and no report. */
#include "format/inspect.h"
#include "../memory_io.h"
#include "format/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Two tensors and metadata, with characters that a terminal must not see; 180 bytes of header. */
static const char header[] = "{\"__metadata__\":{\"format\":\"pt\",\"b\\u001b[2J\":\"x\"},"
                             "\"encoder.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                             "\"n\\n\\u00e9\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}";
static unsigned char file[8 + sizeof header - 1 + 32];

static const char config[] = "{\"vocab_size\":99,\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],"
                             "\"id2label\":{\"0\":\"a\"}}";

static const struct memory_file files[] = {
    {"f.safetensors", file, sizeof file},
    {"\xC2\x9B.safetensors", file, sizeof file},
    {"m/config.json", config, sizeof config - 1},
    {"m/vocab.txt", "x", 1},
    {"m/model.safetensors", file, sizeof file},
    {"m/model.safetensors.index.json", "{}", 2},
    {"plan/config.json", "{}", 2},
    {"bad/config.json", "{}", 2},
    {"bad/model.safetensors", file, sizeof file - 1},
};

static void report(const char *path, bool json, int want_code, const char *want)
{
    struct memory_io m;
    struct str out = {0};
    struct snug_err err;
    memory_io_init(&m, files, sizeof files / sizeof *files);
    int code = inspect(&m.io, path, json, 0, &out, &err);
    assert_int_equal(code, want_code);
    assert_string_equal(code ? err.text : str_text(&out), want);
    if (code)
        assert_int_equal(out.n, 0);
    assert_int_equal(m.open_files, 0);
    str_free(&out);
}

#define METADATA "\"metadata\":{\"b\\u001b[2J\":\"x\",\"format\":\"pt\"}"

static void files_and_folders(void **state)
{
    (void)state;
    file[0] = sizeof header - 1;
    memcpy(file + 8, header, sizeof header - 1);
    assert_int_equal(sizeof header - 1, 180);
    report("f.safetensors", false, 0,
           "f.safetensors: safetensors, 220 bytes, header 180 bytes\n"
           "  metadata b\\x1B[2J = x\n"
           "  metadata format = pt\n"
           "  encoder.weight        F32   [2, 3]            24\n"
           "  n\\x0A\xc3\xa9               I64   []                8\n"
           "2 tensors, 7 elements (I64 1, F32 6), 32 B\n");
    report("\xC2\x9B.safetensors", false, 0,
           "\\xC2\\x9B.safetensors: safetensors, 220 bytes, header 180 bytes\n"
           "  metadata b\\x1B[2J = x\n"
           "  metadata format = pt\n"
           "  encoder.weight        F32   [2, 3]            24\n"
           "  n\\x0A\xc3\xa9               I64   []                8\n"
           "2 tensors, 7 elements (I64 1, F32 6), 32 B\n");
    report("f.safetensors", true, 0,
           "{\"file_bytes\":220,\"header_bytes\":180," METADATA ",\"path\":\"f.safetensors\",\"tensors\":["
           "{\"bytes\":24,\"dtype\":\"F32\",\"name\":\"encoder.weight\",\"offset\":188,\"shape\":[2,3]},"
           "{\"bytes\":8,\"dtype\":\"I64\",\"name\":\"n\\n\xc3\xa9\",\"offset\":212,\"shape\":[]}],"
           "\"total\":{\"bytes\":32,\"elements\":7,\"tensors\":2}}\n");
    report("m", false, 0,
           "m: Hugging Face model folder\n"
           "  architectures = [\"BertModel\"]\n"
           "  model_type = \"bert\"\n"
           "  vocab_size = 99\n"
           "  has vocab.txt\n"
           "  note: m: has model.safetensors and an index of shards; the single file is used\n"
           "model.safetensors: 220 bytes, header 180 bytes, 2 tensors\n"
           "  metadata b\\x1B[2J = x\n"
           "  metadata format = pt\n"
           "  encoder.weight        F32   [2, 3]            24\n"
           "  n\\x0A\xc3\xa9               I64   []                8\n"
           "2 tensors, 7 elements (I64 1, F32 6), 32 B\n");
    report("m", true, 0,
           "{\"config\":{\"architectures\":[\"BertModel\"],\"model_type\":\"bert\",\"vocab_size\":99},"
           "\"copies\":[\"vocab.txt\"],"
           "\"files\":[{\"file_bytes\":220,\"header_bytes\":180," METADATA ",\"path\":\"m/model.safetensors\"}],"
           "\"notes\":[\"m: has model.safetensors and an index of shards; the single file is used\"],\"path\":\"m\","
           "\"tensors\":[{\"bytes\":24,\"dtype\":\"F32\",\"file\":\"model.safetensors\",\"name\":\"encoder.weight\","
           "\"offset\":188,\"shape\":[2,3]},"
           "{\"bytes\":8,\"dtype\":\"I64\",\"file\":\"model.safetensors\",\"name\":\"n\\n\xc3\xa9\",\"offset\":212,"
           "\"shape\":[]}],\"total\":{\"bytes\":32,\"elements\":7,\"tensors\":2}}\n");
    report("plan", false, 0, "plan: Hugging Face model folder\nno weights in safetensors form\n");
    report("plan", true, 0,
           "{\"config\":{},\"copies\":[],\"files\":[],\"notes\":[],\"path\":\"plan\",\"tensors\":[],"
           "\"total\":{\"bytes\":0,\"elements\":0,\"tensors\":0}}\n");
    report("bad", false, SNUG_ERR_INPUT,
           "bad/model.safetensors: 1 bytes are missing: the header describes 32 bytes of data, the file has 31; get or "
           "export the file again");
    report("m/config.json", false, SNUG_ERR_INPUT,
           "m/config.json: not a safetensors file but JSON, perhaps an error of the download; get the file again");
    report("none", true, SNUG_ERR_INPUT, "none: cannot open: No such file or directory");
}

/* The same file where a terminal has too few columns: names, dtypes and shapes are there in each. */
static void narrow_terminals(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *lines;
    } cases[] = {
        {44, "  encoder.weight        F32   [2, 3]  24\n  n\\x0A\xc3\xa9               I64   []      8\n"},
        {37, "  encoder.weight        F32   [2, 3]\n  n\\x0A\xc3\xa9               I64   []\n"},
        {30, "  encoder.weight\n      F32   [2, 3]\n  n\\x0A\xc3\xa9\n      I64   []\n"},
    };
    file[0] = sizeof header - 1;
    memcpy(file + 8, header, sizeof header - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct memory_io m;
        struct str out = {0};
        struct snug_err err;
        memory_io_init(&m, files, sizeof files / sizeof *files);
        assert_int_equal(inspect(&m.io, "f.safetensors", false, cases[i].columns, &out, &err), 0);
        if (!strstr(str_text(&out), cases[i].lines))
            fail_msg("%d columns:\n%s", cases[i].columns, str_text(&out));
        str_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_and_folders), cmocka_unit_test(narrow_terminals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
