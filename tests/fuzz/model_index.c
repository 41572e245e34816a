/* Any bytes as model.safetensors.index.json of a folder with two shards. */
#include "../memory_io.h"
#include "format/model_dir.h"
#include "fuzz.h"

#define SHARD(name) "8\0\0\0\0\0\0\0{\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  \0\0\0\0"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char a[] = SHARD("w"), b[] = SHARD("v");
    const struct memory_file files[] = {{"m/config.json", "{}", 2},
                                        {"m/model.safetensors.index.json", data, size},
                                        {"m/a", a, sizeof a - 1},
                                        {"m/b", b, sizeof b - 1}};
    struct memory_io m;
    struct model_dir d = {0};
    struct snug_err err = {0};
    memory_io_init(&m, files, sizeof files / sizeof *files);
    int code = model_dir_open(&m.io, "m", &d, &err);
    MUST((code == SNUG_OK || code == SNUG_ERR_INPUT) && m.open_files == 0);
    if (code) {
        MUST(strlen(err.text) > 3 && strlen(err.text) < sizeof err.text);
        return 0;
    }
    float x = 1;
    MUST(d.n_tensors == d.n_files && d.n_tensors >= 1 && d.n_tensors <= 2);
    for (size_t i = 0; i < d.n_tensors; i++)
        MUST(model_dir_read(&d, &d.tensors[i], DT_F32, &x, &err) == SNUG_OK && x == 0);
    model_dir_close(&d);
    return 0;
}
