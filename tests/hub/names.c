/* What is typed for a repository, and which of its files are chosen. */
#include "base/str.h"
#include "hub/choose.h"
#include "hub/hub.h"

#include "../folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *repository, *revision, *file;
    } good[] = {
        {"bert/base", "bert/base", "main", ""},
        {"sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", "main", ""},
        {"a/b@v1.0", "a/b", "v1.0", ""},
        {"a/b@refs/pr/3", "a/b", "refs/pr/3", ""},
        {"a/b:data/train.csv", "a/b", "main", "data/train.csv"},
        {"a/b@dev:x y.jsonl", "a/b", "dev", "x y.jsonl"},
        {"0x/_b_", "0x/_b_", "main", ""},
    };
    static const char *const bad[] = {
        "bert",           "/a/b",          "./a",  "../a",   "a/",         "a/b/c",    "a/b/",       "a//b",
        "data/x.csv",     "data/x.JSONL",  "a/b@", "a/b:",   "a/b@x@y",    "a/b@../c", "a/b:../x",   "a/b:/etc/x",
        "a/b:x//y",       "a/b:x/.",       "a/..", "a/b--c", "-a/b",       "a/b.",     "a/b@\x1b[m", "a/b:x\ny",
        "out/model.gguf", "synthetic:8x4", "-",    "",       "http://x/y", "a/b:x\\y"};
    struct hub_name n;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!hub_name_read(good[i].text, true, &n))
            fail_msg("%s", good[i].text);
        assert_string_equal(n.repository, good[i].repository);
        assert_string_equal(n.revision, good[i].revision);
        assert_string_equal(n.file, good[i].file);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hub_name_read(bad[i], true, &n))
            fail_msg("%s is taken for a repository", bad[i]);
    char long_name[300];
    memset(long_name, 'a', sizeof long_name);
    long_name[1] = '/';
    long_name[98] = 0; /* the hub has names of 96 characters at most */
    assert_true(hub_name_read(long_name, true, &n));
    long_name[98] = 'a';
    long_name[99] = 0;
    assert_false(hub_name_read(long_name, true, &n));
}

static void test_names_without_owner(void **state)
{
    (void)state;
    static const struct {
        const char *text, *repository, *revision;
    } good[] = {{"gpt2", "gpt2", "main"}, {"bert-base-uncased@v1", "bert-base-uncased", "v1"}, {"a/b", "a/b", "main"}};
    static const char *const bad[] = {"",      ".",     "..",  "-",     "model.safetensors",
                                      "gpt2/", "/gpt2", "a b", "gpt2@", "@main"};
    struct hub_name n;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(hub_name_read(good[i].text, false, &n));
        assert_string_equal(n.repository, good[i].repository);
        assert_string_equal(n.revision, good[i].revision);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hub_name_read(bad[i], false, &n))
            fail_msg("%s is taken for a repository", bad[i]);
}

/* Files with blanks between them, chosen in this order; "" for an error that begins with `error`. */
static const struct {
    const char *text;
    enum hub_part part;
    const char *files, *chosen, *error;
} choices[] = {
    {"a/b", HUB_MODEL, "README.md config.json model.safetensors model.safetensors.index.json onnx/model.onnx vocab.txt",
     "config.json vocab.txt model.safetensors", NULL},
    {"a/b", HUB_MODEL, "config.json model.safetensors.index.json 1_Pooling/config.json modules.json",
     "config.json modules.json 1_Pooling/config.json model.safetensors.index.json", NULL},
    {"a/b", HUB_SETTINGS, "config.json pytorch_model.bin tokenizer.json", "config.json tokenizer.json", NULL},
    {"a/b", HUB_MODEL, "config.json pytorch_model.bin tokenizer.json", "", "a/b: its weights are no safetensors"},
    {"a/b", HUB_MODEL, "config.json x-Q4.gguf", "",
     "a/b: has no model.safetensors; name one of its GGUF files, such as a/b:x-Q4.gguf"},
    {"a/b", HUB_MODEL, "q/x-Q4.gguf", "",
     "a/b: has GGUF files, and no config.json; name one of them, such as a/b:q/x-Q4.gguf"},
    {"a/b:q/x-Q4.gguf", HUB_MODEL, "q/x-Q4.gguf config.json", "q/x-Q4.gguf", NULL},
    {"a/b:config.json", HUB_MODEL, "config.json", "",
     "a/b:config.json: of a model only a GGUF file may be named; give a/b"},
    {"a/b", HUB_MODEL, "README.md", "", "a/b: has no config.json"},
    {"a/b", HUB_MODEL, "config.json adapter_config.json adapter_model.safetensors", "",
     "a/b: is an adapter; give it as --adapter"},
    {"a/b", HUB_MODEL, "adapter_config.json adapter_model.safetensors", "", "a/b: is an adapter; give it as --adapter"},
    {"a/b", HUB_ADAPTER, "adapter_model.safetensors adapter_config.json tokenizer.json x",
     "adapter_config.json adapter_model.safetensors tokenizer.json", NULL},
    {"a/b", HUB_ADAPTER, "adapter_model.bin adapter_config.json", "", "a/b: has no adapter_model.safetensors"},

    {"a/b", HUB_TRAIN_ROWS, "train.csv test.csv validation.csv", "train.csv", NULL},
    {"a/b", HUB_EVAL_ROWS, "train.csv test.csv validation.csv", "validation.csv", NULL},
    {"a/b", HUB_TEST_ROWS, "train.csv test.csv validation.csv", "test.csv", NULL},
    {"a/b", HUB_EVAL_ROWS, "train.csv eval.csv", "eval.csv", NULL},
    {"a/b", HUB_TRAIN_ROWS, "data/train-00001-of-00002.jsonl data/train-00000-of-00002.jsonl data/dev.jsonl",
     "data/train-00000-of-00002.jsonl data/train-00001-of-00002.jsonl", NULL},
    {"a/b", HUB_EVAL_ROWS, "train/x.tsv dev/x.tsv", "dev/x.tsv", NULL},
    {"a/b", HUB_TRAIN_ROWS, "train.json train.csv train.parquet", "train.csv", NULL},
    {"a/b", HUB_TRAIN_ROWS, "train.json train.csv.gz train.json.gz", "train.json", NULL},
    {"a/b", HUB_TRAIN_ROWS, "train-1.jsonl.zst train-2.jsonl.zst test.jsonl train.parquet.gz",
     "train-1.jsonl.zst train-2.jsonl.zst", NULL},
    {"a/b", HUB_TRAIN_ROWS, "rows.json dataset_infos.json README.md", "rows.json", NULL},
    {"a/b", HUB_TEST_ROWS, "rows.json dataset_infos.json", "rows.json", NULL},
    {"a/b", HUB_TRAIN_ROWS, "constraint.csv latest.csv", "constraint.csv latest.csv", NULL}, /* no words of their own */
    {"a/b", HUB_TRAIN_ROWS, "en/train.csv de/train.csv", "",
     "a/b: has 2 such files in several folders; name those that you mean, such as a/b:de/train.csv"},
    {"a/b", HUB_EVAL_ROWS, "train.csv", "",
     "a/b: no file's name says that it is for evaluation; name one, such as a/b:train.csv"},
    {"a/b", HUB_TRAIN_ROWS, "data/train-0.arrow", "", "a/b: its rows are in .arrow files, which are not read"},
    {"a/b", HUB_TRAIN_ROWS,
     "data/test-00000-of-00001.parquet data/train-00001-of-00002-9f3e.parquet data/train-00000-of-00002-a1b2.parquet",
     "data/train-00000-of-00002-a1b2.parquet data/train-00001-of-00002-9f3e.parquet", NULL},
    {"a/b", HUB_EVAL_ROWS, "plain/test-00000-of-00001.parquet plain/train-00000-of-00001.parquet",
     "plain/test-00000-of-00001.parquet", NULL},
    {"a/b", HUB_TRAIN_ROWS, "data/train.jsonl data/train.parquet", "data/train.jsonl", NULL},
    {"a/b", HUB_TRAIN_ROWS, "train_stats.json train.parquet", "train.parquet", NULL},
    {"a/b", HUB_TRAIN_ROWS, "cola/train-00000-of-00001.parquet mrpc/train-00000-of-00001.parquet", "",
     "a/b: has 2 such files in several folders; name those that you mean, such as "
     "a/b:cola/train-00000-of-00001.parquet"},
    {"a/b", HUB_TRAIN_ROWS, "data/train_sft-00000-of-00001.parquet data/train_gen-00000-of-00001.parquet", "",
     "a/b: has data/train_gen and data/train_sft; name the files that you mean, such as "
     "a/b:data/train_gen-00000-of-00001.parquet"},
    {"a/b:data/train_sft-00000-of-00001.parquet", HUB_TRAIN_ROWS,
     "data/train_sft-00000-of-00001.parquet data/train_gen-00000-of-00001.parquet",
     "data/train_sft-00000-of-00001.parquet", NULL},
    {"a/b", HUB_TRAIN_ROWS, "README.md .hidden.csv", "", "a/b: has no file of rows"},
    {"a/b:en/train.csv", HUB_TRAIN_ROWS, "en/train.csv de/train.csv", "en/train.csv", NULL},
};

static void test_choices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct hub_wish w = {.text = choices[i].text, .part = choices[i].part};
        struct file_names all = {0}, chosen = {0};
        struct snug_err err = {0};
        struct str got = {0};
        char *files = strdup(choices[i].files), *at = files;
        for (char *name; (name = strsep(&at, " "));)
            assert_int_equal(file_names_add(&all, name, &err), 0);
        assert_true(hub_name_read(w.text, true, &w.name));
        int code = choose_files(&w, &all, &chosen, &err);
        for (size_t k = 0; !code && k < chosen.n; k++)
            str_printf(&got, "%s%s", k ? " " : "", chosen.items[k]);
        assert_string_equal(str_text(&got), choices[i].chosen);
        assert_int_equal(code, choices[i].error ? SNUG_ERR_INPUT : SNUG_OK);
        if (choices[i].error && strncmp(err.text, choices[i].error, strlen(choices[i].error)) != 0)
            fail_msg("%s", err.text);
        file_names_free(&all);
        file_names_free(&chosen);
        str_free(&got);
        free(files);
    }
}

/* Nothing is asked of a hub where a path is here, nor for what is none of its names. */
static void test_paths_win(void **state)
{
    (void)state;
    struct options o;
    struct snug_err err = {0};
    const struct hub_events events = {0};
    char was[4096];
    assert_non_null(getcwd(was, sizeof was));
    assert_int_equal(chdir(folder), 0);
    mkdir("org", 0777);
    mkdir("org/model", 0777);
    unsetenv("HF_HUB_OFFLINE");
    setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
    setenv("HF_HOME", folder, 1);
    options_init(&o, CMD_TRAIN);
    assert_int_equal(options_set(&o, "model", "org/model", &err), 0);
    assert_int_equal(options_set(&o, "train_data", "data/train.csv", &err), 0);
    assert_false(hub_is_asked(&o, &io_posix));
    assert_int_equal(hub_options(&o, &io_posix, &events, &err), 0);
    assert_string_equal(o.model, "org/model");
    assert_string_equal(o.train_data.first, "data/train.csv");
    assert_int_equal(options_set(&o, "model", "org/other", &err), 0);
    assert_true(hub_is_asked(&o, &io_posix));
    assert_int_equal(hub_options(&o, &io_posix, &events, &err), SNUG_ERR_IO);
    assert_int_equal(options_set(&o, "model", "gpt2", &err), 0);
    assert_true(hub_is_asked(&o, &io_posix));
    assert_int_equal(options_set(&o, "adapter", "gpt2", &err), 0);
    assert_int_equal(options_set(&o, "model", "org/model", &err), 0);
    assert_false(hub_is_asked(&o, &io_posix));
    const char *here = "org/model", *there = "org/other";
    assert_false(hub_model_is_asked(here, &io_posix));
    assert_true(hub_model_is_asked(there, &io_posix));
    assert_int_equal(hub_model(&o, &here, &io_posix, &events, &err), 0);
    assert_string_equal(here, "org/model");
    assert_int_equal(hub_model(&o, &there, &io_posix, &events, &err), SNUG_ERR_IO);
    options_free(&o);
    assert_int_equal(chdir(was), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_without_owner),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_paths_win),
    };
    return cmocka_run_group_tests_name("hub/names", tests, open_folder, close_folder);
}
