/* format/model_dir: rows C1 to C6, C22, C23 and X1 to X18 of the bad-input specification, as folders on disk. Rows that
 * need to know what config.json means (X12 to X14, X17) are tested with src/model. */
#include "format/model_dir.h"
#include "../failing_memory.h"
#include "../memory_io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES(s) s, sizeof s - 1
#define TENSOR(name, dtype, shape, from, to)                                                                           \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"
#define F32_AT_0(name) TENSOR(name, "F32", "1", "0", "4")

static char top[] = "/tmp/snug-model_dir-XXXXXX", root[64], dir[96];

/* What a case puts into the folder. */
enum kind {
    END,
    TEXT,   /* the bytes */
    ST,     /* a safetensors file: a header, then `data` zero bytes */
    LINK,   /* a symbolic link to the text */
    FOLDER, /* */
    FIFO,
};

struct file {
    enum kind kind;
    const char *name, *text;
    size_t bytes, data;
};

#define CONFIG                                                                                                         \
    {                                                                                                                  \
        TEXT, "config.json", BYTES("{\"model_type\":\"bert\"}"), 0                                                     \
    }
#define CONFIG_TEXT(s)                                                                                                 \
    {                                                                                                                  \
        TEXT, "config.json", BYTES(s), 0                                                                               \
    }
#define SINGLE(header, data)                                                                                           \
    {                                                                                                                  \
        ST, "model.safetensors", BYTES(header), data                                                                   \
    }
#define SINGLE_TEXT(s)                                                                                                 \
    {                                                                                                                  \
        TEXT, "model.safetensors", BYTES(s), 0                                                                         \
    }
#define GOOD SINGLE("{" F32_AT_0("w") "}", 4)
#define INDEX(s)                                                                                                       \
    {                                                                                                                  \
        TEXT, "model.safetensors.index.json", BYTES(s), 0                                                              \
    }
#define MAP(s) INDEX("{\"weight_map\":{" s "}}")
#define SHARD(name, header, data)                                                                                      \
    {                                                                                                                  \
        ST, name, BYTES(header), data                                                                                  \
    }
#define A SHARD("a.safetensors", "{" F32_AT_0("w") "}", 4)
#define B SHARD("b.safetensors", "{" F32_AT_0("v") "}", 4)

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

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(bytes, 1, n, f);
    fclose(f);
}

static void put(const char *folder, const struct file *f)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, f->name);
    if (f->kind == TEXT) {
        write_bytes(path, f->text, f->bytes);
    } else if (f->kind == LINK) {
        assert_int_equal(symlink(f->text, path), 0);
    } else if (f->kind == FOLDER) {
        assert_int_equal(mkdir(path, 0777), 0);
    } else if (f->kind == FIFO) {
        assert_int_equal(mkfifo(path, 0666), 0);
    } else {
        char *all = calloc(8 + f->bytes + f->data, 1);
        all[0] = (char)f->bytes, all[1] = (char)(f->bytes >> 8);
        memcpy(all + 8, f->text, f->bytes);
        write_bytes(path, all, 8 + f->bytes + f->data);
        free(all);
    }
}

/* As in the hub's cache: top/models--a--b (root) has the model folder of a case, snapshots/rev (dir), and around it blobs
 * and another snapshot; top/outside is not of the model. */
static int make_root(void **state)
{
    static const struct file outside = A, blob = {ST, "0123", BYTES("{" F32_AT_0("w") "}"), 4},
                             link = {LINK, "link", "0123", 0, 0},
                             astray = {LINK, "astray", "../../outside/a.safetensors", 0, 0};
    char path[128];
    (void)state;
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof path, "%s/outside", top);
    mkdir(path, 0777);
    put(path, &outside);
    snprintf(root, sizeof root, "%s/models--a--b", top);
    mkdir(root, 0777);
    snprintf(path, sizeof path, "%s/snapshots", root);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/snapshots/other", root);
    mkdir(path, 0777);
    put(path, &outside);
    snprintf(path, sizeof path, "%s/blobs", root);
    mkdir(path, 0777);
    put(path, &blob);
    put(path, &link);
    put(path, &astray);
    snprintf(dir, sizeof dir, "%s/snapshots/rev", root);
    return 0;
}

static void remove_tree(const char *path)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static int remove_root(void **state)
{
    (void)state;
    remove_tree(top);
    return 0;
}

static void fill(const struct file *files, size_t n)
{
    assert_int_equal(mkdir(dir, 0777), 0);
    for (size_t i = 0; i < n && files[i].kind; i++)
        put(dir, &files[i]);
}

/* All notes of one open, and how many. */
struct notes {
    char text[1024];
    int n;
};

static void take_note(void *ctx, const char *line)
{
    struct notes *notes = ctx;
    assert_true(strlen(line) < 240 && !strchr(line, '\n'));
    notes->n++;
    snprintf(notes->text, sizeof notes->text, "%s", line);
}

static int open_files_now(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        struct stat st;
        n += fstat(fd, &st) == 0;
    }
    return n;
}

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
    assert_string_equal(err.text, "/tmp/snug-no-such-folder: no such folder; give a Hugging Face model folder on this "
                                  "machine, nothing is downloaded");
    assert_int_equal(model_dir_open(&io_posix, "/dev/null", &d, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "/dev/null: not a folder; give a Hugging Face model folder");
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

static void weights_may_be_absent(void **state)
{
    static const struct file files[] = {CONFIG,
                                        {TEXT, "tokenizer.json", BYTES("{}"), 0},
                                        {TEXT, "vocab.txt", BYTES("x"), 0},
                                        {TEXT, "pytorch_model.bin", BYTES("\x80\2."), 0}};
    (void)state;
    struct model_dir d = {.weights_optional = true};
    struct snug_err err;
    fill(files, 4);
    strcat(dir, "//"); /* not shown */
    assert_int_equal(model_dir_open(&io_posix, dir, &d, &err), 0);
    dir[strlen(dir) - 2] = 0;
    assert_string_equal(d.path, dir);
    assert_int_equal(d.n_tensors, 0);
    assert_null(model_dir_find(&d, "w"));
    assert_string_equal(json_string_value(json_object_get(d.config, "model_type")), "bert");
    assert_int_equal(d.n_copies, 2);
    assert_string_equal(d.copies[0], "tokenizer.json");
    assert_string_equal(d.copies[1], "vocab.txt");
    model_dir_close(&d);
    remove_tree(dir);
}

/* X18: a thousand shards, with fewer descriptors than that. */
static void thousand_shards(void **state)
{
    static const struct file config[] = {CONFIG};
    (void)state;
    fill(config, 1);
    char *index = malloc(100000), name[64], header[128];
    size_t n = (size_t)sprintf(index, "{\"weight_map\":{");
    for (int i = 0; i < 1000; i++) {
        sprintf(name, "model-%05d-of-01000.safetensors", i + 1);
        sprintf(header, "{\"layer.%d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", i);
        put(dir, &(struct file){ST, name, header, strlen(header), 4});
        n += (size_t)sprintf(index + n, "%s\"layer.%d\":\"%s\"", i ? "," : "", i, name);
    }
    n += (size_t)sprintf(index + n, "}}");
    put(dir, &(struct file){TEXT, "model.safetensors.index.json", index, n, 0});
    free(index);
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){32, old.rlim_max});
    struct model_dir d = {0};
    struct snug_err err;
    float x = 1;
    int code = model_dir_open(&io_posix, dir, &d, &err);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(code, 0);
    assert_int_equal(d.n_tensors, 1000);
    assert_string_equal(d.tensors[2].tensor->name, "layer.10"); /* by bytes */
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "layer.999"), DT_F32, &x, &err), 0);
    assert_true(x == 0);
    model_dir_close(&d);
    remove_tree(dir);
}

/* X15, X16, X5: a small model in memory. Values by the definitions of the formats. */
static const char mixed_header[] =
    "{" TENSOR("f32", "F32", "2,2", "0", "16") "," TENSOR("f64", "F64", "1", "16", "24") "," TENSOR(
        "bf16", "BF16", "3", "24", "30") "," TENSOR("f16", "F16", "3", "30",
                                                    "36") "," TENSOR("i64", "I64", "1", "36",
                                                                     "44") "," TENSOR("bool", "BOOL", "2", "44",
                                                                                      "46") "}";
static const unsigned char mixed_data[] = {
    0,    0,    0x80, 0x3f, 0,    0,    0,    0xc0,
    0xdb, 0x0f, 0x49, 0x40, 1,    0,    0x80, 0x7f, /* 1, -2, 3.14159274, NaN */
    0,    0,    0,    0,    0,    0,    0xf8, 0x3f, /* 1.5 */
    0x80, 0x3f, 0x80, 0xff, 0x49, 0x40,             /* 1, -Inf, 3.140625 */
    0,    0x3c, 1,    0,    0xff, 0x7b,             /* 1, 2^-24, 65504 */
    7,    0,    0,    0,    0,    0,    0,    0,    /* 7 */
    1,    0,
};

static void reads_and_converts(void **state)
{
    (void)state;
    unsigned char file[8 + sizeof mixed_header - 1 + sizeof mixed_data] = {(sizeof mixed_header - 1) & 255,
                                                                           (sizeof mixed_header - 1) >> 8};
    memcpy(file + 8, mixed_header, sizeof mixed_header - 1);
    memcpy(file + 8 + sizeof mixed_header - 1, mixed_data, sizeof mixed_data);
    const struct memory_file files[] = {{"m/config.json", "{}", 2}, {"m/model.safetensors", file, sizeof file}};
    struct memory_io m;
    memory_io_init(&m, files, 2);
    struct notes notes = {0};
    struct model_dir d = {.note = take_note, .note_ctx = &notes};
    struct snug_err err;
    float x[4];
    double y[4];
    uint16_t h[4];
    int64_t n;
    assert_int_equal(model_dir_open(&m.io, "m", &d, &err), 0);
    assert_int_equal(m.open_files, 0);
    assert_int_equal(notes.n, 1); /* mixed */
    assert_null(model_dir_find(&d, "f8"));
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f64"), DT_F32, x, &err), 0);
    assert_true(x[0] == 1.5f);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f16"), DT_F32, x, &err), 0);
    assert_true(x[0] == 1 && x[1] == 0x1p-24f && x[2] == 65504);
    assert_int_equal(notes.n, 1);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "bf16"), DT_F64, y, &err), 0);
    assert_true(y[0] == 1 && y[1] < -1e308 && y[2] == 3.140625);
    assert_int_equal(notes.n, 2);
    assert_string_equal(notes.text, "m/model.safetensors: tensor bf16 holds NaN or Inf at element 1");
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f32"), DT_F32, x, &err), 0);
    assert_true(x[1] == -2 && x[3] != x[3]);
    assert_int_equal(notes.n, 2); /* the warning comes once */
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f32"), DT_BF16, h, &err), 0);
    assert_int_equal(h[2], 0x4049); /* 3.14159274 rounds to 3.140625 */
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "i64"), DT_I64, &n, &err), 0);
    assert_int_equal(n, 7);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "i64"), DT_F32, x, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "m/model.safetensors: tensor i64 is I64 where F32 is needed; convert it");
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "bool"), DT_F16, x, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "m/model.safetensors: tensor bool is BOOL where F16 is needed; convert it");
    m.shrink_to = sizeof file - 20;
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f16"), DT_F32, x, &err), SNUG_ERR_IO);
    m.shrink_to = 0;
    model_dir_close(&d);

    d = (struct model_dir){.check_finite = true};
    assert_int_equal(model_dir_open(&m.io, "m", &d, &err), 0);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f16"), DT_F16, h, &err), 0);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f32"), DT_F32, x, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "m/model.safetensors: tensor f32 holds NaN or Inf at element 3; get the weights "
                                  "again, or leave out --check-finite");
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "bf16"), DT_F32, x, &err), SNUG_ERR_INPUT);
    model_dir_close(&d);
}

static void every_call_fails(void **state)
{
    static const char index[] = "{\"weight_map\":{\"w\":\"a\",\"v\":\"b\"}}",
                      a[] = "8\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  \0\0\0\0",
                      b[] = "8\0\0\0\0\0\0\0{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  \0\0\0\0";
    const struct memory_file files[] = {{"m/config.json", "{}", 2},
                                        {"m/model.safetensors.index.json", index, sizeof index - 1},
                                        {"m/a", a, sizeof a - 1},
                                        {"m/b", b, sizeof b - 1}};
    (void)state;
    struct memory_io m;
    struct model_dir d = {0};
    struct snug_err err;
    int code = 1, k;
    for (k = 1; code && k < 1000; k++) {
        memory_io_init(&m, files, 4);
        m.fail_call = k;
        code = model_dir_open(&m.io, "m", &d, &err);
        assert_int_equal(code, m.calls >= k ? SNUG_ERR_IO : 0);
        assert_int_equal(m.open_files, 0);
    }
    assert_int_equal(d.n_tensors, 2);
    model_dir_close(&d);
    assert_in_range(k, 12, 100);
    code = 1;
    for (k = 1; code && k < 1000; k++) {
        struct failing_memory memory;
        memory_io_init(&m, files, 4);
        failing_memory_set(&memory, k, false);
        code = model_dir_open(&m.io, "m", &d, &err);
        mem_set_ops(NULL);
        if (code != (failing_memory_hit(&memory) ? SNUG_ERR_ENV : 0))
            fail_msg("allocation %d: %d %s", k, code, code ? err.text : "");
        assert_int_equal(m.open_files, 0);
    }
    model_dir_close(&d);
    assert_in_range(k, 12, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_tables),
        cmocka_unit_test(folder_itself),
        cmocka_unit_test(unreadable),
        cmocka_unit_test(huge_config),
        cmocka_unit_test(thousand_shards),
        cmocka_unit_test(reads_and_converts),
        cmocka_unit_test(weights_may_be_absent),
        cmocka_unit_test(every_call_fails),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
