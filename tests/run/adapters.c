#include "adapters.h"

#include <sys/stat.h>

const char *golden(const char *name)
{
    return fixture(join("golden", name));
}

const char *golden_adapter(const char *name)
{
    return fixture(join("golden/lora", name));
}

const char *changed(const char *adapter, const char *key, json_t *value)
{
    const char *to = join(folder, "changed");
    size_t n;
    remove_tree(to);
    assert_int_equal(mkdir(to, 0777), 0);
    json_t *config = json_load_file(join(golden_adapter(adapter), "adapter_config.json"), 0, NULL);
    json_object_set_new(config, key, value);
    assert_int_equal(json_dump_file(config, join(to, "adapter_config.json"), 0), 0);
    json_decref(config);
    char *bytes = read_text(join(golden_adapter(adapter), "adapter_model.safetensors"), &n);
    FILE *f = fopen(join(to, "adapter_model.safetensors"), "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    free(bytes);
    return to;
}

bool same_adapter(const char *a, const char *b)
{
    return same_bytes(join(a, "adapter_model.safetensors"), join(b, "adapter_model.safetensors"));
}

/* Where roundings alone take gradients further from those in double. */
static const struct {
    const char *adapter, *type;
    double bound;
} rounded[] = {
    {"qwen3_moe_all_linear", "tf32", 2 * 6.6e-3}, /* twice as far as PEFT's own are (tests/golden/lora_rounding.py) */
    {"gemma3_pictures_text", "bf16", 2 * 0.078},  /* norms behind blocks: twice PEFT's own with autocast */
    {"gemma3_pictures_text", "tf32", 2 * 1.3e-2}, /* likewise PEFT's own */
    {"gemma3_pictures_text", "fp16", 2 * 1.3e-2}, /* as many bits */
    {"qwen3_moe_each_layer", "fp16", 6e-3},       /* 5.46e-3 with sums of products in double (tests/cuda/emulator) */
};

double gradient_bound(const char *adapter, const struct device *on)
{
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        if (!strcmp(rounded[i].adapter, adapter) && !strcmp(rounded[i].type, on->dtype))
            return rounded[i].bound;
    /* an adapter's two small matrices are rounded once more each, on the way there and back */
    return strcmp(on->dtype, "bf16") ? on->gradient_error : 2 * on->gradient_error;
}

void compare_adapter_gradients(const char *got, const char *expected, double bound)
{
    struct st_file a, b;
    size_t trained[2] = {0};
    open_tensors(got, &a);
    open_tensors(expected, &b);
    for (size_t i = 0; i < b.n_tensors; i++) {
        const char *name = b.tensors[i].name;
        if (!strcmp(name, "logits") || !strncmp(name, "merged.", 7) || !strncmp(name, "adapter.", 8))
            continue;
        int64_t n, m;
        double *want = read_tensor(&b, name, &n), *have = read_tensor(&a, name, &m);
        assert_int_equal(n, m);
        if (!(distance(have, want, n) <= bound * norm(want, n)))
            fail_msg("%s: %s is off by %.3g of %.3g", expected, name, distance(have, want, n), norm(want, n));
        trained[0] += !strncmp(name, "grad.", 5);
        free(want);
        free(have);
    }
    for (size_t i = 0; i < a.n_tensors; i++)
        trained[1] += !strncmp(a.tensors[i].name, "grad.", 5) && !strstr(a.tensors[i].name, "self.query_key_value");
    assert_int_equal(trained[0], trained[1]);
    st_close(&a);
    st_close(&b);
}

const char *train_adapter(const char *rows, const char *name, const char *const *more)
{
    const char *out = join(folder, name);
    remove_tree(out);
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", out,
                     "--device", "cpu", "--max-steps", "6", "--save-steps", "2", "--learning-rate", "1e-2",
                     "--logging-steps", "1", "--log-hash", "--use-peft", "--lora-r", "3", "--lora-dropout", "0.2"),
                more);
    return out;
}
