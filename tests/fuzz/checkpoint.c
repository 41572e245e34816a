/* Any bytes as a file of a checkpoint, behind a byte that says which and how much of the rest vouches for it: whoever wrote
 * the file may have made its hashes too. */
#include "checkpoint/internal.h"
#include "format/safetensors.h"
#include "json_values.h"
#include "train/state.h"

#include <fcntl.h>
#include <unistd.h>

enum { STEP = 7, STATE = 0, TENSORS = 1, MANIFEST = 2, WHICH = 3, FILE_HASHES = 4, TENSOR_HASHES = 8 };

static const char state_text[] =
    "{\"run\":{\"step\":7,\"updates\":7,\"samples\":56,\"tokens\":400},\"options\":{},\"about\":{\"reports\":{\"loss_"
    "sum\":"
    "0.5,\"loss_steps\":1,\"best\":0.0,\"best_step\":-1,\"evaluated_step\":-1,\"log_bytes\":0}}}";

/* ---- The checkpoint that is changed. ---- */

static char dir[64], step[128];
static struct text {
    const char *name;
    char *bytes;
    size_t n;
} files[] = {{CKPT_STATE, NULL, 0}, {CKPT_TENSORS, NULL, 0}, {CKPT_MANIFEST, NULL, 0}};

static float weights[2][3];
static int32_t count;
static const struct ckpt_tensor tensors[] = {
    {.name = "weight", .dtype = DT_F32, .ndim = 2, .shape = {2, 3}, .data = weights},
    {.name = "exp_avg.weight", .dtype = DT_F32, .ndim = 2, .shape = {2, 3}, .data = weights},
    {.name = "count", .dtype = DT_I32, .ndim = 1, .shape = {1}, .data = &count}};

static const char *path_of(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", step, name);
    return path;
}

static void put_file(const char *name, const void *bytes, size_t n)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && !close(fd));
}

static void remove_all(void)
{
    for (int i = 0; i < 3; i++)
        unlink(path_of(files[i].name));
    rmdir(step);
    snprintf(step, sizeof step, "%s", dir);
    unlink(path_of("latest"));
    rmdir(dir);
}

static void save_once(void)
{
    struct ckpt_config config = {.io = &io_posix, .output_dir = dir};
    struct ckpt_saver *saver;
    json_t *state = json_loads(state_text, 0, NULL);
    snprintf(dir, sizeof dir, "%s/snug-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    MUST(mkdtemp(dir) && state);
    snprintf(step, sizeof step, "%s/step-%08d", dir, STEP);
    MUST(!ckpt_saver_new(&config, &saver, NULL));
    MUST(!ckpt_save_in_place(saver, STEP, -1, tensors, sizeof tensors / sizeof *tensors, state, NULL));
    ckpt_saver_free(saver);
    json_decref(state);
    atexit(remove_all);
    for (int i = 0; i < 3; i++)
        MUST(!io_read_file(&io_posix, path_of(files[i].name), 1 << 20, &files[i].bytes, &files[i].n, NULL));
}

/* ---- Hashes that fit. ---- */

/* Of the tensors that the file has now; what is no safetensors file keeps those it had. */
static void vouch_for_tensors(struct ckpt_manifest *m, const uint8_t *data, struct arena *a)
{
    struct st_file f;
    if (st_open(&io_posix, path_of(CKPT_TENSORS), &f, NULL))
        return;
    m->n_tensors = f.n_tensors;
    m->tensors = arena_alloc(a, (f.n_tensors + 1) * sizeof *m->tensors);
    for (size_t i = 0; i < f.n_tensors; i++) {
        char *hex = arena_alloc(a, 33);
        const struct st_tensor *t = f.by_name[i];
        hash_hex(hash_bytes(data + t->at, (size_t)t->bytes), hex);
        m->tensors[i] = (struct ckpt_entry){arena_strdup(a, t->name), CKPT_TENSORS, hex};
    }
    st_close(&f);
}

static void vouch_for_file(const char *name, const uint8_t *data, size_t size, bool for_tensors)
{
    struct ckpt_manifest m;
    struct str text = {0};
    struct arena a = {0};
    char hash[33];
    MUST(!ckpt_manifest_read(&io_posix, step, &m, NULL));
    hash_hex(hash_bytes(data, size), hash);
    for (size_t i = 0; i < m.n_files; i++)
        if (!strcmp(m.files[i].name, name)) {
            m.files[i].hash = hash;
            m.files[i].bytes = (int64_t)size;
        }
    if (for_tensors)
        vouch_for_tensors(&m, data, &a);
    MUST(!ckpt_manifest_write(&m, &text, NULL));
    put_file(CKPT_MANIFEST, str_text(&text), text.n);
    str_free(&text);
    arena_free(&a);
    ckpt_manifest_free(&m);
}

/* The bytes, and behind them a line with their hash, as the end of a manifest. */
static void put_manifest(const uint8_t *data, size_t size)
{
    struct str text = {0};
    char hash[33];
    hash_hex(hash_bytes(data, size), hash);
    str_append_n(&text, (const char *)data, size);
    str_printf(&text, "\"xxh3_128\": \"%s\"\n}\n", hash);
    put_file(CKPT_MANIFEST, str_text(&text), text.n);
    str_free(&text);
}

/* ---- What must hold. ---- */

static void must_make_sense(const struct train_state *t)
{
    const struct origin *o = &t->origin;
    MUST(t->step >= 0 && t->updates >= 0 && t->samples >= 0 && t->tokens >= 0 && t->loss_steps >= 0);
    MUST(t->best_step >= -1 && t->evaluated_step >= -1 && t->log_bytes >= 0);
    MUST(o->step >= 0 && o->epoch >= 0 && o->row >= 0 && o->order_rows >= 0);
}

static void resume(void)
{
    struct ckpt_found found;
    struct train_state state = {0};
    struct snug_err err = {0};
    json_t *doc = NULL;
    int code = ckpt_find(&io_posix, step, 0, (struct ckpt_notes){0}, &found, &err);
    if (!code) {
        code = ckpt_load_state(&found, &doc, &err);
        if (!code)
            code = state_from_json(doc, &state, &err);
        if (!code)
            must_make_sense(&state);
        if (!code)
            code = ckpt_load_tensors(&found, tensors, sizeof tensors / sizeof *tensors, &err);
        json_decref(doc);
        ckpt_found_free(&found);
    }
    MUST(!code || code == SNUG_ERR_CHECKPOINT);
    MUST(!code || (err.code == code && strlen(err.text) > 3 && strlen(err.text) < sizeof err.text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 65536)
        return 0;
    if (!*dir)
        save_once();
    int which = data[0] & WHICH, how = data[0];
    data++, size--;
    if (which == MANIFEST) {
        put_manifest(data, size);
    } else {
        const char *name = which == WHICH ? CKPT_MANIFEST : files[which].name;
        put_file(name, data, size);
        if (which != WHICH && how & FILE_HASHES)
            vouch_for_file(name, data, size, which == TENSORS && how & TENSOR_HASHES);
    }
    resume();
    for (int i = 0; i < 3; i++)
        put_file(files[i].name, files[i].bytes, files[i].n);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    if (size < 2 || seed % 4 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    return 1 + replace_json_value(data + 1, size - 1, max_size - 1, seed / 4);
}
