/* format/model_dir: rows C1 to C6, C22, C23 and X1 to X18 of the bad-input specification, as folders on disk. Rows that
 * need to know what config.json means (X12 to X14, X17) are tested with src/model. */
#include "model_dir_help.h"

static const struct {
    const char *row;
    struct file files[5];
    int code;
    const char *part; /* of the error, or of the one note; NULL for no note */
} cases[] = {
    {"C2", {GOOD}, 3, "config.json not found in "},
    {"C3 empty", {CONFIG_TEXT(""), GOOD}, 3, "config.json: is empty"},
    {"C3 blanks", {CONFIG_TEXT(" \n\n"), GOOD}, 3, "config.json: is empty"},
    {"C3 BOM", {CONFIG_TEXT("\xef\xbb\xbf{}"), GOOD}, 0, NULL},
    {"C3 UTF-16 LE", {CONFIG_TEXT("\xff\xfe{\0}\0"), GOOD}, 3, "config.json: is UTF-16"},
    {"C3 UTF-16 BE", {CONFIG_TEXT("\0{\0}"), GOOD}, 3, "config.json: is UTF-16"},
    {"C4 comma", {CONFIG_TEXT("{\n\"a\":1,\n}"), GOOD}, 3, "config.json:3:1: not valid JSON"},
    {"C4 NaN", {CONFIG_TEXT("{\"a\":NaN}"), GOOD}, 3, "config.json:1:6: not valid JSON"},
    {"C4 comment", {CONFIG_TEXT("{} // x"), GOOD}, 3, "config.json:1:4: not valid JSON"},
    {"C4 truncated", {CONFIG_TEXT("{\"a\":"), GOOD}, 3, "config.json:1:6: not valid JSON"},
    {"C5", {CONFIG_TEXT("[{}]"), GOOD}, 3, "config.json: the document is an array; an object {...} was expected"},
    {"C5 string", {CONFIG_TEXT("\"x\""), GOOD}, 3, "config.json: the document is \"x\"; an object"},
    {"C6",
     {CONFIG_TEXT("{\"hidden_size\": 768,\n \"hidden_size\": 1024}"), GOOD},
     3,
     "config.json:2:2: key hidden_size is given twice, as 768 and as 1024; keep one"},
    {"C23 FIFO", {{FIFO, "config.json", NULL, 0, 0}, GOOD}, 3, "config.json: is a FIFO"},
    {"C23 folder", {{FOLDER, "config.json", NULL, 0, 0}, GOOD}, 3, "config.json: is a folder"},
    {"C23 device", {{LINK, "config.json", "/dev/zero", 0, 0}, GOOD}, 3, "config.json is a link to /dev/zero, out of"},
    {"C23 loop", {{LINK, "config.json", "config.json", 0, 0}, GOOD}, 3, "symbolic links"},
    {"C23 link to nothing", {{LINK, "config.json", "x", 0, 0}, GOOD}, 3, "config.json: cannot open: No such file"},
    {"good", {CONFIG, GOOD}, 0, NULL},
    {"X1",
     {CONFIG, {TEXT, "pytorch_model.bin", BYTES("\x80\2."), 0}},
     3,
     "has only pytorch_model.bin: pickle weights are not loaded; convert with"},
    {"X1 shards", {CONFIG, {TEXT, "pytorch_model.bin.index.json", BYTES("{}"), 0}}, 3, "pickle weights are not loaded"},
    {"X2", {CONFIG}, 3, "no weights; looked for model.safetensors and model.safetensors.index.json"},
    {"X3",
     {CONFIG, SINGLE_TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1\n")},
     3,
     "model.safetensors: not a safetensors file but a Git LFS pointer, not the weights"},
    {"X3 config",
     {CONFIG_TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1\n"), GOOD},
     3,
     "config.json: not JSON but a Git LFS pointer"},
    {"X4 HTML", {CONFIG, SINGLE_TEXT("<html><body>404</body></html>")}, 3, "but an HTML or XML page"},
    {"X4 JSON", {CONFIG, SINGLE_TEXT("{\"error\":\"not found\"}")}, 3, "but JSON"},
    {"X4 zip", {CONFIG, SINGLE_TEXT("PK\3\4\24\0\0\0\10\0")}, 3, "but a zip archive"},
    {"X4 pickle", {CONFIG, SINGLE_TEXT("\x80\2}q\1(X\6\0\0\0")}, 3, "but a Python pickle"},
    {"X4 GGUF", {CONFIG, SINGLE_TEXT("GGUF\3\0\0\0\0\0\0\0")}, 3, "but a GGUF file"},
    {"X5",
     {CONFIG, SINGLE("{" F32_AT_0("w") "}", 3)},
     3,
     "1 bytes are missing: the header describes 4 bytes of data, the file has 3"},
    {"X6 no JSON", {CONFIG, INDEX("weights"), A}, 3, "index.json:1:"},
    {"X6 list", {CONFIG, INDEX("[]"), A}, 3, "index.json: the document is an array"},
    {"X6 no map", {CONFIG, INDEX("{\"metadata\":{}}"), A}, 3, "weight_map is absent; expected an object"},
    {"X6 map is a list", {CONFIG, INDEX("{\"weight_map\":[]}"), A}, 3, "weight_map is an array"},
    {"X6 empty", {CONFIG, MAP(""), A}, 3, "weight_map is empty"},
    {"X6 no string", {CONFIG, MAP("\"w\":1"), A}, 3, "weight_map gives 1 for w"},
    {"X7 up", {CONFIG, MAP("\"w\":\"../../x\"")}, 3, "a shard name must be a plain file name, not \"../../x\""},
    {"X7 absolute", {CONFIG, MAP("\"w\":\"/etc/passwd\"")}, 3, "a shard name must be a plain file name"},
    {"X7 folder", {CONFIG, MAP("\"w\":\"a/b\"")}, 3, "a shard name must be a plain file name"},
    {"X7 ..", {CONFIG, MAP("\"w\":\"..\"")}, 3, "a shard name must be a plain file name"},
    {"X7 empty", {CONFIG, MAP("\"w\":\"\"")}, 3, "a shard name must be a plain file name"},
    {"X7 newline", {CONFIG, MAP("\"w\":\"a\\nb\"")}, 3, "a shard name must be a plain file name, not \"a\\x0Ab\""},
    {"X7 NUL", {CONFIG, MAP("\"w\":\"a.safetensors\\u0000\""), A}, 3, "\\u0000 is not allowed"},
    {"X7 link",
     {CONFIG, MAP("\"w\":\"l\""), {LINK, "l", "../../../outside/a.safetensors", 0, 0}},
     3,
     "/outside/a.safetensors, out of the model's folder"},
    {"X7 two links",
     {CONFIG, MAP("\"w\":\"l\""), {LINK, "l", "k", 0, 0}, {LINK, "k", "../../../outside/a.safetensors", 0, 0}},
     3,
     "/outside/a.safetensors, out of the model's folder"},
    {"X7 link inside", {CONFIG, MAP("\"w\":\"l\""), {LINK, "l", "a.safetensors", 0, 0}, A}, 0, NULL},
    {"X7 cache", {CONFIG, MAP("\"w\":\"l\""), {LINK, "l", "../../blobs/0123", 0, 0}}, 0, NULL},
    {"X7 cache, two links", {CONFIG, MAP("\"w\":\"l\""), {LINK, "l", "../../blobs/link", 0, 0}}, 0, NULL},
    {"X7 cache, other snapshot", {CONFIG, MAP("\"w\":\"l\""), {LINK, "l", "../other/a.safetensors", 0, 0}}, 0, NULL},
    {"X7 link out of the cache",
     {CONFIG, MAP("\"w\":\"l\""), {LINK, "l", "../../blobs/astray", 0, 0}},
     3,
     "/outside/a.safetensors, out of the model's folder"},
    {"X8",
     {CONFIG, MAP("\"w\":\"a.safetensors\",\"v\":\"b.safetensors\",\"u\":\"c.safetensors\",\"t\":\"b.safetensors\""),
      A},
     3,
     "names 2 missing files: b.safetensors, c.safetensors; get them"},
    {"X8 one",
     {CONFIG, MAP("\"w\":\"a.safetensors\",\"v\":\"b.safetensors\""), A},
     3,
     "names 1 missing file: b.safetensors; get it"},
    {"X8 many",
     {CONFIG, MAP("\"a\":\"model-00001-of-00006.safetensors\",\"b\":\"model-00002-of-00006.safetensors\","
                  "\"c\":\"model-00003-of-00006.safetensors\",\"d\":\"model-00004-of-00006.safetensors\","
                  "\"e\":\"model-00005-of-00006.safetensors\",\"f\":\"model-00006-of-00006.safetensors\"")},
     3,
     "model-00003-of-00006.safetensors and 3 more; get them"},
    {"X9 not in its shard",
     {CONFIG, MAP("\"w\":\"a.safetensors\",\"v\":\"a.safetensors\""), A},
     3,
     "tensor v is not in a.safetensors, where the index has it"},
    {"X9 in another shard",
     {CONFIG, MAP("\"v\":\"a.safetensors\",\"w\":\"b.safetensors\""), A, B},
     3,
     "tensor v is not in a.safetensors, where the index has it, but in b.safetensors"},
    {"X9 not in the index",
     {CONFIG, MAP("\"w\":\"a.safetensors\""),
      SHARD("a.safetensors", "{" F32_AT_0("w") "," TENSOR("x", "U8", "0", "0", "0") "}", 4)},
     3,
     "a.safetensors: tensor x is in this shard, but not in the index"},
    {"X9 in two shards",
     {CONFIG, MAP("\"w\":\"a.safetensors\",\"v\":\"b.safetensors\""), A,
      SHARD("b.safetensors", "{" F32_AT_0("v") "," TENSOR("w", "F32", "1", "4", "8") "}", 8)},
     3,
     "tensor w is here and in "},
    {"X9 index twice",
     {CONFIG, MAP("\"w\":\"a.safetensors\",\"w\":\"b.safetensors\""), A, B},
     3,
     "key w is given twice"},
    {"X10",
     {CONFIG, INDEX("{\"metadata\":{\"total_size\":9},\"weight_map\":{\"w\":\"a.safetensors\"}}"), A},
     0,
     "index.json: metadata.total_size is 9, but the tensors take 4 bytes"},
    {"X10 right",
     {CONFIG,
      INDEX("{\"metadata\":{\"total_size\":8},\"weight_map\":{\"w\":\"a.safetensors\",\"v\":\"b.safetensors\"}}"), A,
      B},
     0,
     NULL},
    {"X10 real",
     {CONFIG, INDEX("{\"metadata\":{\"total_size\":4.0},\"weight_map\":{\"w\":\"a.safetensors\"}}"), A},
     0,
     NULL},
    {"X10 string",
     {CONFIG, INDEX("{\"metadata\":{\"total_size\":\"4\"},\"weight_map\":{\"w\":\"a.safetensors\"}}"), A},
     0,
     "total_size is \"4\""},
    {"X11", {CONFIG, GOOD, MAP("\"v\":\"none.safetensors\"")}, 0, "the single file is used"},
    {"X15 mixed",
     {CONFIG,
      SINGLE("{" F32_AT_0("w") "," TENSOR("i", "I64", "0", "4", "4") "," TENSOR("h", "F16", "1", "4", "6") "}", 6)},
     0,
     "mixed weights: h is F16, w is F32"},
    {"X18 empty shard",
     {CONFIG, MAP("\"w\":\"a.safetensors\""), {TEXT, "a.safetensors", "", 0, 0}},
     3,
     "a.safetensors: 0 bytes, too short"},
    {"X18 case",
     {CONFIG, MAP("\"w\":\"a.safetensors\",\"v\":\"A.safetensors\""), A,
      SHARD("A.safetensors", "{" F32_AT_0("v") "}", 4)},
     0,
     NULL},
    {"S25", {CONFIG, SINGLE("{\"__metadata__\":{}}", 0)}, 3, "model.safetensors: no tensors"},
    {"weights are a FIFO", {CONFIG, {FIFO, "model.safetensors", NULL, 0, 0}}, 3, "model.safetensors: is a FIFO"},
    {"weights link to nothing", {CONFIG, {LINK, "model.safetensors", "x", 0, 0}}, 3, "model.safetensors: cannot open"},
    {"weights linked", {CONFIG, {LINK, "model.safetensors", "../../blobs/0123", 0, 0}}, 0, NULL},
    {"weights linked out of the cache",
     {CONFIG, {LINK, "model.safetensors", "../../../outside/a.safetensors", 0, 0}},
     3,
     "model.safetensors is a link to "},
    {"index linked out of the cache",
     {CONFIG, {LINK, "model.safetensors.index.json", "../../../outside/a.safetensors", 0, 0}},
     3,
     "model.safetensors.index.json is a link to "},
    {"configuration linked out of the cache",
     {{LINK, "config.json", "../../../outside/a.safetensors", 0, 0}, GOOD},
     3,
     "config.json is a link to "},
    {"tokenizer linked out of the cache",
     {CONFIG, GOOD, {LINK, "tokenizer.json", "../../../outside/a.safetensors", 0, 0}},
     3,
     "/outside/a.safetensors, out of the model's folder"},
};

static void rows_of_the_tables(void **state)
{
    (void)state;
    int before = open_files_now();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct notes notes = {0};
        struct model_dir d = {.note = take_note, .note_ctx = &notes};
        struct snug_err err = {0};
        fill(cases[i].files, 5);
        int code = model_dir_open(&io_posix, dir, &d, &err);
        const char *said = code ? err.text : notes.text, *part = cases[i].part;
        if (code != cases[i].code || (part && !strstr(said, part)) || notes.n != (!code && part))
            fail_msg("%s: code %d \"%s\", %d notes, wanted \"%s\"", cases[i].row, code, said, notes.n,
                     part ? part : "");
        if (!code)
            model_dir_close(&d);
        assert_int_equal(open_files_now(), before);
        remove_tree(dir);
    }
}

static void folder_itself(void **state)
{
    (void)state;
    struct model_dir d = {0};
    struct snug_err err;
    assert_int_equal(model_dir_open(&io_posix, "/tmp/snug-no-such-folder", &d, &err), SNUG_ERR_INPUT); /* C1 */
    assert_string_equal(err.text, "/tmp/snug-no-such-folder: no such folder; give a Hugging Face model folder, or "
                                  "OWNER/NAME for one of the hub");
    assert_int_equal(model_dir_open(&io_posix, "/dev/null", &d, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "/dev/null: not a folder; give a Hugging Face model folder, or a .gguf file");
    assert_int_equal(model_dir_open(&io_posix, "/dev/null/x", &d, &err), SNUG_ERR_INPUT);
    char *path = malloc(5001); /* X18 */
    memset(path, 'p', 5000);
    path[5000] = 0;
    assert_int_equal(model_dir_open(&io_posix, path, &d, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "name too long"));
    free(path);
}

static int denied_stat(const struct io *io, const char *path, struct stat *st)
{
    (void)io, (void)path, (void)st;
    errno = EACCES;
    return -1;
}

static int denied_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    (void)io, (void)path, (void)flags, (void)mode;
    errno = EACCES;
    return -1;
}

/* Through the table of calls: root may read everything. */
static void unreadable(void **state)
{
    static const struct file files[] = {CONFIG, GOOD};
    (void)state;
    struct model_dir d = {0};
    struct snug_err err;
    struct io io = io_posix;
    fill(files, 2);
    io.stat = denied_stat;
    assert_int_equal(model_dir_open(&io, dir, &d, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "Permission denied"));
    io = io_posix;
    io.open = denied_open;
    assert_int_equal(model_dir_open(&io, dir, &d, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "config.json: cannot open: Permission denied"));
    remove_tree(dir);
}

/* C22: 200 MB, and a million brackets. */
static void huge_config(void **state)
{
    static const struct file files[] = {GOOD};
    (void)state;
    struct model_dir d = {0};
    struct snug_err err;
    char path[128];
    fill(files, 1);
    snprintf(path, sizeof path, "%s/config.json", dir);
    char *brackets = malloc(1000000);
    memset(brackets, '[', 1000000);
    write_bytes(path, brackets, 1000000);
    free(brackets);
    clock_t begin = clock();
    assert_int_equal(model_dir_open(&io_posix, dir, &d, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "nested deeper than 128"));
    assert_int_equal(truncate(path, 200000000), 0);
    assert_int_equal(model_dir_open(&io_posix, dir, &d, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "191 MiB, over the limit"));
    assert_true(clock() - begin < CLOCKS_PER_SEC);
    remove_tree(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_tables),
        cmocka_unit_test(folder_itself),
        cmocka_unit_test(unreadable),
        cmocka_unit_test(huge_config),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
