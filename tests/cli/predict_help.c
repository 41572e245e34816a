#include "predict_help.h"

#include <sys/stat.h>
#include <unistd.h>

const char *model, *regression, *labels;

char *read_file(const char *path)
{
    static char text[4 << 20];
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* The fixture's folder with a vocabulary (a is token 5, b 6, ...), and its config.json changed. */
static const char *make_model(const char *name, const char *fixture_name, const char *key, json_t *value)
{
    static const char *const words[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    const char *from = fixture(fixture_name), *to = join(folder, name);
    assert_int_equal(mkdir(to, 0777), 0);
    assert_int_equal(symlink(join(from, "model.safetensors"), join(to, "model.safetensors")), 0);
    json_t *config = json_load_file(join(from, "config.json"), 0, NULL);
    json_object_del(config, "label2id"); /* which has to agree with id2label */
    json_object_set_new(config, key, value);
    assert_int_equal(json_dump_file(config, join(to, "config.json"), 0), 0);
    FILE *f = fopen(join(to, "vocab.txt"), "w");
    json_int_t n = json_integer_value(json_object_get(config, "vocab_size"));
    for (json_int_t i = 0; i < n; i++) {
        if (i < 5)
            fprintf(f, "%s\n", words[i]);
        else if (i < 31)
            fprintf(f, "%c\n", (char)('a' + i - 5));
        else
            fprintf(f, "##%c\n", (char)('a' + i - 31));
    }
    fclose(f);
    json_decref(config);
    return to;
}

int open_models(void **state)
{
    int code = open_folder(state);
    model = make_model("classes", "golden/trainer/init", "id2label",
                       json_pack("{s:s,s:s,s:s}", "0", "no", "1", "perhaps", "2", "yes"));
    regression = make_model("number", "golden/bert_regression", "problem_type", json_string("regression"));
    labels = make_model("labels", "golden/bert_multilabel", "problem_type", json_string("multi_label_classification"));
    return code;
}

const char *predict(const char *with, const char *const *args)
{
    expect_snug(0, said(), ARGS("predict", "--model", with, "--device", "cpu", "--threads", "2"), args);
    return read_file(said());
}

char *line(const char *text, int i)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        if (strncmp(text, "snug: ", 6) != 0 && i-- == 0)
            return strndup(text, (size_t)(end - text));
    return NULL;
}

json_t *row(const char *text, int i)
{
    char *l = line(text, i);
    assert_non_null(l);
    json_t *o = json_loads(l, 0, NULL);
    if (!o)
        fail_msg("no object: %s", l);
    free(l);
    return o;
}
