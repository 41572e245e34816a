/* Adapters of each task with labels: a new one has the tensors of that which PEFT made (tests/golden/lora.py), so its head is
 * trained; and a folder of PEFT's, which knows nothing of labels, makes of a bare base the model of the adapter's task. */
#include "command.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *adapter, *base, *targets;
} cases[] = {{"bert_qv", "bert", "query,value"},
             {"bert_tags_default", "bert_tags", "query,value"},
             {"m2m_100_qv", "m2m_100", "q_proj,v_proj"}};
enum { CASES = sizeof cases / sizeof *cases };

static const char *base(int i)
{
    return fixture(join("golden", cases[i].base));
}

static const char *adapter(int i)
{
    return fixture(join("golden/lora", cases[i].adapter));
}

static void a_new_adapter_has_the_tensors_of_pefts(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const char *out = join(folder, cases[i].adapter);
        struct st_file have, want;
        expect_snug(0, said(),
                    ARGS("train", "--model", base(i), "--train-data", join(base(i), "inputs.safetensors"),
                         "--output-dir", out, "--device", "cpu", "--threads", "1", "--max-steps", "1",
                         "--save-strategy", "no"),
                    ARGS("--use-peft", "--target-modules", cases[i].targets, "--lora-r", "4"));
        open_tensors(join(out, "adapter_model.safetensors"), &have);
        open_tensors(join(adapter(i), "adapter_model.safetensors"), &want);
        assert_int_equal(have.n_tensors, want.n_tensors);
        for (size_t k = 0; k < want.n_tensors; k++) {
            const struct st_tensor *t = st_find(&have, want.tensors[k].name);
            if (!t || st_elements(t) != st_elements(&want.tensors[k]))
                fail_msg("%s: not as PEFT has it", want.tensors[k].name);
        }
        st_close(&have);
        st_close(&want);
        expect_snug(0, said(), /* which is read again, as adapter_config.json says */
                    ARGS("eval", "--model", base(i), "--adapter", out, "--data", join(base(i), "inputs.safetensors"),
                         "--device", "cpu", "--threads", "1"),
                    NULL);
    }
}

static double loss_on(const char *model, int i)
{
    expect_snug(0, said(),
                ARGS("eval", "--model", model, "--adapter", adapter(i), "--data", join(base(i), "inputs.safetensors"),
                     "--device", "cpu", "--threads", "1", "--json"),
                NULL);
    json_t *o = said_object();
    double loss = json_number_value(json_object_get(o, "loss"));
    json_decref(o);
    return loss;
}

/* On a base that says nothing of its class and its labels, PEFT's task_type and the shape of the head do. */
static void the_adapter_tells_the_task(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const char *bare = join(folder, cases[i].base);
        assert_int_equal(mkdir(bare, 0777), 0);
        assert_int_equal(symlink(join(base(i), "model.safetensors"), join(bare, "model.safetensors")), 0);
        json_t *config = json_load_file(join(base(i), "config.json"), 0, NULL);
        json_object_del(config, "architectures");
        json_object_del(config, "id2label");
        json_object_del(config, "label2id");
        assert_int_equal(json_dump_file(config, join(bare, "config.json"), 0), 0);
        json_decref(config);
        double want = loss_on(base(i), i);
        assert_true(want > 0 && fabs(loss_on(bare, i) - want) <= 1e-9);
    }
    expect_snug(0, said(),
                ARGS("predict", "--model", join(folder, "bert_tags"), "--adapter", adapter(1), "--data",
                     join(base(1), "inputs.safetensors"), "--json", "--device", "cpu"),
                NULL);
    assert_true(file_has(said(), "{\"row\":3,\"tags\":[\"LABEL_"));
    assert_true(file_has(said(), "\"LABEL_2\"") && !file_has(said(), "\"LABEL_3\""));
}

/* A copy of a model below `below`, trained with a new adapter: the base that the adapter's file names, and its revision. */
static void expect_base(const char *below, const char *name, const char *revision)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    const char *model = join(folder, below), *out = join(folder, "named");
    char line[256];
    size_t n;
    snprintf(line, sizeof line, "mkdir -p '%s'", model);
    assert_int_equal(system(line), 0);
    for (int i = 0; i < 2; i++) {
        char *bytes = read_text(join(base(0), files[i]), &n);
        FILE *f = fopen(join(model, files[i]), "w");
        assert_true(f && fwrite(bytes, 1, n, f) == n);
        fclose(f);
        free(bytes);
    }
    expect_snug(0, said(),
                ARGS("train", "--model", model, "--train-data", join(base(0), "inputs.safetensors"), "--output-dir",
                     out, "--device", "cpu", "--threads", "1", "--max-steps", "1", "--save-strategy", "no",
                     "--use-peft"),
                NULL);
    json_t *config = json_load_file(join(out, "adapter_config.json"), 0, NULL);
    char *real = realpath(model, NULL);
    assert_string_equal(json_string_value(json_object_get(config, "base_model_name_or_path")), name ? name : real);
    const char *got = json_string_value(json_object_get(config, "revision"));
    assert_string_equal(got ? got : "none", revision);
    free(real);
    json_decref(config);
    remove_tree(out);
}

/* PEFT finds a base of the hub on every machine, and the commit that was trained on. */
static void the_base_by_its_name(void **state)
{
    (void)state;
    static const char commit[] = "0123456789abcdef0123456789abcdef01234567";
    expect_base("models--org--a--b-c/snapshots/0123456789abcdef0123456789abcdef01234567", "org/a--b-c", commit);
    expect_base("models--gpt2/snapshots/0123456789abcdef0123456789abcdef01234567", "gpt2", commit);
    expect_base("models--org--a/snapshots/mine", NULL, "none");
    expect_base("org--a/snapshots/0123456789abcdef0123456789abcdef01234567", NULL, "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_adapter_has_the_tensors_of_pefts),
        cmocka_unit_test(the_adapter_tells_the_task),
        cmocka_unit_test(the_base_by_its_name),
    };
    return cmocka_run_group_tests_name("lora_tasks", tests, open_folder, close_folder);
}
