/* Any bytes as a GGUF file: what is accepted lies in the file without overlap, and can be read to the last element; as a model it is
 * refused, or has a configuration, tensors that can be read, and files of a tokenizer. */
#include "format/gguf/gguf.h"
#include "../memory_io.h"
#include "format/model_dir.h"
#include "fuzz.h"

static void as_model(struct memory_io *m)
{
    struct model_dir d = {0};
    struct snug_err err = {0};
    int code = model_dir_open(&m->io, "f.gguf", &d, &err);
    if (code) {
        MUST(code == SNUG_ERR_INPUT && strlen(err.text) > 3 && m->open_files == 0);
        return;
    }
    MUST(json_is_object(d.config) && d.n_made >= 1);
    for (size_t i = 0; i < d.n_tensors; i++) {
        const struct st_tensor *t = d.tensors[i].tensor;
        void *to = malloc((size_t)t->bytes + 1);
        MUST(st_read(d.tensors[i].file, t, to, &err) == SNUG_OK);
        free(to);
    }
    model_dir_close(&d);
    MUST(m->open_files == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_file file = {"f.gguf", data, size};
    struct memory_io m;
    struct gguf_file f;
    struct snug_err err = {0};
    memory_io_init(&m, &file, 1);
    int code = gguf_open(&m.io, "f.gguf", &f, &err);
    if (code) {
        MUST(code == SNUG_ERR_INPUT && m.open_files == 0);
        MUST(strlen(err.text) > 3 && strlen(err.text) < sizeof err.text);
        return 0;
    }
    int64_t all = 0;
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct gguf_tensor *t = &f.tensors[i];
        void *to = malloc((size_t)dtype_bytes(t->type->dtype, t->elements) + 1);
        MUST(t->at >= 24 && t->at + t->bytes <= (int64_t)size);
        MUST(t->bytes == t->elements / t->type->block * t->type->block_bytes);
        MUST(gguf_find(&f, t->name) == t);
        MUST(gguf_read(&f, t, 0, t->elements, to, &err) == SNUG_OK);
        all += t->bytes;
        free(to);
    }
    MUST(all <= (int64_t)size && json_is_object(f.metadata));
    gguf_close(&f);
    MUST(m.open_files == 0);
    as_model(&m);
    return 0;
}
