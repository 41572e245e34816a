#include "dataset_help.h"
#include "../folder.h"

char dir[64], path[128], notes[8192];
struct tokenizer *tokenizer;

int set_up(void **state)
{
    (void)state;
    char recorded[4096];
    struct snug_err e;
    make_folder(dir);
    snprintf(recorded, sizeof recorded, "%s/tests/tokenizer/recorded/uncased", getenv("SNUG_SOURCE"));
    return tokenizer_open(&io_posix, recorded, &tokenizer, &e);
}

int tear_down(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    remove_tree(dir);
    return 0;
}

static void note(void *ctx, const char *line)
{
    (void)ctx;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", line);
}

const char *write_file(const char *name, const char *bytes, size_t n)
{
    struct snug_err e;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (io_write_file(&io_posix, path, bytes, n, &e))
        fail_msg("%s", e.text);
    return path;
}

const char *write_data(const char *name, const char *content)
{
    return write_file(name, content, strlen(content));
}

struct dataset_options options(enum data_task task)
{
    return (struct dataset_options){.path = path,
                                    .task = task,
                                    .tokenizer = tokenizer,
                                    .max_length = 64,
                                    .threads = 1,
                                    .cache_dir = "",
                                    .note = note};
}

struct dataset opened(const struct dataset_options *o)
{
    struct dataset d;
    struct snug_err e;
    notes[0] = 0;
    if (dataset_open(&io_posix, o, &d, &e))
        fail_msg("%s", e.text);
    return d;
}

struct dataset text(const char *name, const char *content, enum data_task task)
{
    write_data(name, content);
    struct dataset_options o = options(task);
    return opened(&o);
}

void check_values(const struct dataset *d, const float *want, int64_t n)
{
    assert_int_equal(d->n_rows * d->num_labels, n);
    assert_memory_equal(d->values, want, (size_t)n * sizeof *want);
}

void write_tensors(const char *name, const struct tensor_spec *specs, size_t n)
{
    struct st_tensor t[8];
    struct st_writer w;
    struct snug_err e;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (size_t i = 0; i < n; i++) {
        t[i] = (struct st_tensor){.name = specs[i].name, .dtype = specs[i].dtype, .ndim = specs[i].ndim};
        memcpy(t[i].shape, specs[i].shape, sizeof specs[i].shape);
    }
    unlink(path);
    if (st_create(&io_posix, path, t, n, NULL, 0, false, &w, &e))
        fail_msg("%s", e.text);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (strcmp(t[i].name, specs[k].name) == 0)
                assert_int_equal(st_write(&w, &t[i], 0, specs[k].data, (size_t)t[i].bytes, &e), 0);
    assert_int_equal(st_finish(&w, NULL, &e), 0);
}

const int64_t ids_2x4[8] = {5, 6, 7, 8, 9, 10, 0, 0}, mask_2x4[8] = {1, 1, 1, 1, 1, 1, 0, 0},
              types_2x4[8] = {0, 0, 1, 1, 0, 1, 0, 0}, classes_2[2] = {2, 0};
const struct tensor_spec ids_spec = {"input_ids", DT_I64, 2, {2, 4}, ids_2x4},
                         mask_spec = {"attention_mask", DT_I64, 2, {2, 4}, mask_2x4},
                         types_spec = {"token_type_ids", DT_I64, 2, {2, 4}, types_2x4};
