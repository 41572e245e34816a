/* Any bytes as a safetensors file: what is accepted must be consistent in every respect, and readable to the last byte.
 */
#include "format/safetensors.h"
#include "../memory_io.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_file file = {"f", data, size};
    struct memory_io m;
    struct st_file f;
    struct snug_err err = {0};
    memory_io_init(&m, &file, 1);
    int code = st_open(&m.io, "f", &f, &err);
    if (code) {
        MUST(code == SNUG_ERR_INPUT && m.open_files == 0);
        MUST(strlen(err.text) > 3 && strlen(err.text) < sizeof err.text);
        return 0;
    }
    int64_t end = 8 + f.header_bytes;
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct st_tensor *t = &f.tensors[i];
        uint8_t *bytes = malloc((size_t)t->bytes + 1);
        MUST(t->at == end && t->bytes == dtype_bytes(t->dtype, st_elements(t)));
        MUST(st_find(&f, t->name) == t);
        MUST(st_read(&f, t, bytes, &err) == SNUG_OK && !memcmp(bytes, data + t->at, (size_t)t->bytes));
        MUST(i == 0 || strcmp(f.by_name[i - 1]->name, f.by_name[i]->name) < 0);
        end += t->bytes;
        free(bytes);
    }
    MUST(end == (int64_t)size);
    for (size_t i = 1; i < f.n_metadata; i++)
        MUST(strcmp(f.metadata[2 * i - 2], f.metadata[2 * i]) < 0);
    st_close(&f);
    return 0;
}

/* Mostly keeps the length of the header right: it ends with the last brace. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    size_t end = size;
    while (end > 8 && data[end - 1] != '}')
        end--;
    for (int i = 0; seed % 8 && end > 8 && i < 8; i++)
        data[i] = (uint8_t)((uint64_t)(end - 8) >> 8 * i);
    return size;
}
