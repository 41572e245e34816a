/* runs_help.h: whole runs on each device, and what their logs say. */
#ifndef TEST_RUN_RUNS_HELP_H
#define TEST_RUN_RUNS_HELP_H

#include "forge.h"

#include "backend/backend.h"
#include "base/hash.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *rows, *other_rows, *texts;

/* A run into folder/NAME on a device, which ends with `status`. */
static inline const char *train_until(int status, const char *name, const struct device *on, const char *const *first,
                                      const char *const *second)
{
    const char *out = join(folder, name);
    const char *args[64];
    size_t n = 0;
    const char *const common[] = {"train",   "--output-dir", out,          "--device",  on->name,
                                  "--dtype", on->dtype,      "--log-hash", "--threads", "1"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        args[n++] = common[i];
    for (; *first; first++)
        args[n++] = *first;
    args[n] = NULL;
    remove_tree(out);
    expect_snug(status, said(), args, second);
    return out;
}

static inline const char *train(const char *name, const struct device *on, const char *const *first,
                                const char *const *second)
{
    return train_until(0, name, on, first, second);
}

static inline double number(json_t *o, const char *name)
{
    json_t *x = json_object_get(o, name);
    if (!json_is_number(x))
        fail_msg("%s is not a number of the log", name);
    return json_number_value(x);
}

/* With --log-hash, so of all weights and states. */
static inline void assert_same_log(const char *a, const char *b)
{
    json_t *x = read_log(a), *y = read_log(b);
    assert_true(json_array_size(x) > 0);
    for (size_t i = 0; i < json_array_size(x); i++)
        if (!json_equal(json_array_get(x, i), json_array_get(y, i)))
            fail_msg("line %zu of the logs:\n%s\n%s", i, json_dumps(json_array_get(x, i), 0),
                     json_dumps(json_array_get(y, i), 0));
    assert_int_equal(json_array_size(x), json_array_size(y));
    json_decref(x);
    json_decref(y);
}

static inline void assert_same_run(const char *a, const char *b)
{
    assert_same_log(a, b);
    assert_true(same_bytes(join(a, "model.safetensors"), join(b, "model.safetensors")));
}

/* The largest relative difference of a member between two logs of the same length. */
static inline double log_distance(const char *a, const char *b, const char *name)
{
    json_t *x = read_log(a), *y = read_log(b);
    double most = 0;
    assert_int_equal(json_array_size(x), json_array_size(y));
    for (size_t i = 0; i < json_array_size(x); i++) {
        double p = number(json_array_get(x, i), name), q = number(json_array_get(y, i), name);
        most = fmax(most, fabs(p - q) / fabs(p));
    }
    json_decref(x);
    json_decref(y);
    return most;
}

/* The fixture's model with one element of one tensor, of floats, replaced. */
static inline const char *make_poisoned(const char *name, int64_t element, float value)
{
    const char *model = join(folder, "poisoned"), *from = fixture("golden/trainer/init");
    struct st_file f;
    size_t n;
    remove_tree(model);
    assert_int_equal(mkdir(model, 0700), 0);
    char *config = read_text(join(from, "config.json"), &n);
    write_text(model, "config.json", config);
    free(config);
    assert_int_equal(st_open(&io_posix, join(from, "model.safetensors"), &f, NULL), SNUG_OK);
    char *weights = read_text(join(from, "model.safetensors"), &n);
    memcpy(weights + st_find(&f, name)->at + element * (int64_t)sizeof value, &value, sizeof value);
    st_close(&f);
    FILE *to = fopen(join(model, "model.safetensors"), "wb");
    assert_true(to && fwrite(weights, 1, n, to) == n && fclose(to) == 0);
    free(weights);
    return model;
}

/* The fixture's model of other sizes, with heads of 16, without weights. */
static inline const char *sized_model(const char *name, const char *type, int hidden, int intermediate)
{
    const char *dir = join(folder, name);
    json_t *config = json_load_file(fixture(type), 0, NULL);
    assert_non_null(config);
    bool decoder = json_object_get(config, "n_embd") != NULL;
    json_object_set_new(config, decoder ? "n_embd" : "hidden_size", json_integer(hidden));
    json_object_set_new(config, decoder ? "n_head" : "num_attention_heads", json_integer(hidden / 16));
    json_object_set_new(config, decoder ? "n_layer" : "num_hidden_layers", json_integer(2));
    json_object_set_new(config, decoder ? "n_inner" : "intermediate_size", json_integer(intermediate));
    if (access(dir, F_OK))
        assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(json_dump_file(config, join(dir, "config.json"), 0), 0);
    json_decref(config);
    return dir;
}

/* The arguments, and so many ranks: of a GPU each has a device, or all have the first one where there are fewer. */
static inline const char *const *ranks(const struct device *on, int n, const char *const *args)
{
    static const char *all[32];
    static char text[64];
    size_t k = 0;
    for (; args[k]; k++)
        all[k] = args[k];
    snprintf(text, sizeof text, "%d", n);
    if (!is_host(on) && backend_cuda_count() < n)
        for (int i = 0, at = 0; i < n; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, i ? ",0" : "0");
    all[k++] = is_host(on) ? "--ranks" : "--gpus";
    all[k++] = text;
    all[k] = NULL;
    return all;
}

#define MODEL "--model", fixture("golden/trainer/init"), "--train-data", rows, "--learning-rate", "1e-3"
#define DROPOUT "--hidden-dropout-prob", "0.2", "--attention-probs-dropout-prob", "0.2"
#define EVERY_STEP "--logging-steps", "1", "--save-strategy", "no"

static inline int set_up(void **state)
{
    open_folder(state);
    rows = make_rows(folder, 45, 12, 1, true);
    other_rows = make_rows(folder, 14, 12, 2, true);
    texts = make_rows(folder, 40, 12, 3, false);
    return 0;
}

#endif
