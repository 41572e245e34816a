#include "forge.h"

#include "checkpoint/internal.h"

void forge_file(const char *step, const char *name, const char *text)
{
    struct ckpt_manifest m;
    struct str manifest = {0};
    char hash[33];
    assert_int_equal(ckpt_verify(&io_posix, step, true, &m, NULL), SNUG_OK);
    write_text(step, name, text);
    hash_hex(hash_bytes(text, strlen(text)), hash);
    for (size_t i = 0; i < m.n_files; i++)
        if (!strcmp(m.files[i].name, name)) {
            m.files[i].hash = hash;
            m.files[i].bytes = (int64_t)strlen(text);
        }
    assert_int_equal(ckpt_manifest_write(&m, &manifest, NULL), SNUG_OK);
    write_text(step, "MANIFEST.json", str_text(&manifest));
    str_free(&manifest);
    ckpt_manifest_free(&m);
}

void forge_state(const char *step, const json_t *state)
{
    char *text = json_dumps(state, JSON_INDENT(1));
    assert_non_null(text);
    forge_file(step, "state.json", text);
    free(text);
}
