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
