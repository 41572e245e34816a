/* What a backend chose (the algorithms of its matrix products) is in its checkpoints, and a resumed run does the same
 * again whatever is known by then. The backend is the CPU's with a choice that changes nothing; the linker puts
 * __wrap_backend_cpu in the place of backend_cpu. That equal choices give equal bits on a GPU: tests/run/resume.c there. */
#include "few_rows.h"
#include "here.h"

#include "backend/backend.h"
#include "base/mem.h"

const struct backend *__real_backend_cpu(void);
const struct backend *__wrap_backend_cpu(void);

static struct {
    struct backend base;
    const char *known; /* by the profile of the device */
    bool accepts;      /* what a checkpoint recorded */
    bool old;          /* as before there were choices in checkpoints */
    char chosen[16], name[32];
    int taken, asked; /* take of the record; workspace_bytes before it */
} fake;

static const char *kernels(const struct backend *b)
{
    (void)b;
    snprintf(fake.name, sizeof fake.name, "fake %s", fake.chosen);
    return fake.name;
}

static int give(const struct backend *b, char **text, struct snug_err *err)
{
    char json[64];
    (void)b;
    snprintf(json, sizeof json, "{\"algorithm\": \"%s\"}", fake.chosen);
    *text = mem_strdup(json);
    return *text ? SNUG_OK : err_no_memory(err, sizeof json);
}

static int take(const struct backend *b, const char *text, struct snug_err *refused, struct snug_err *err)
{
    (void)b, (void)err;
    json_t *all = json_loads(text, 0, NULL);
    const char *algorithm = json_string_value(json_object_get(all, "algorithm"));
    assert_non_null(algorithm);
    assert_int_equal(fake.asked, 0);
    fake.taken++;
    if (fake.accepts)
        snprintf(fake.chosen, sizeof fake.chosen, "%s", algorithm);
    else
        err_set(refused, SNUG_ERR_ENV, "this library has no algorithm %s", algorithm);
    json_decref(all);
    return SNUG_OK;
}

static const struct backend_record record = {.give = give, .take = take};

static int64_t workspace_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    (void)b;
    fake.asked++;
    return backend_workspace_bytes(__real_backend_cpu(), op, args, threads);
}

const struct backend *__wrap_backend_cpu(void)
{
    fake.base = *__real_backend_cpu();
    fake.base.kernels = kernels;
    fake.base.workspace_bytes = workspace_bytes;
    fake.base.record = fake.old ? NULL : &record;
    snprintf(fake.chosen, sizeof fake.chosen, "%s", fake.known);
    fake.taken = fake.asked = 0;
    return &fake.base;
}

/* ---- runs ---- */

/* Twelve steps, or as many as asked for, on a machine that knows of an algorithm. */
static int train(const char *out, const char *known, int64_t steps, const char *const *more, struct snug_err *err)
{
    struct snug_summary summary;
    const char *const *common = ARGS("--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir",
                                     out, "--batch-size", "4", "--max-steps", "12", "--learning-rate", "1e-3",
                                     "--log-hash", "true", "--logging-steps", "1", "--device", "cpu", "--threads", "1");
    fake.known = known;
    return train_here(LISTS(common, more), steps, &summary, err);
}

/* "" where there is none. */
static const char *recorded(const char *out, const char *step)
{
    static char algorithm[16];
    char path[256];
    snprintf(path, sizeof path, "%s/%s/state.json", out, step);
    json_t *doc = json_load_file(path, 0, NULL);
    assert_non_null(doc);
    const char *text =
        json_string_value(json_object_get(json_object_get(json_object_get(doc, "about"), "choices"), "algorithm"));
    snprintf(algorithm, sizeof algorithm, "%s", text ? text : "");
    json_decref(doc);
    return algorithm;
}

#define RESUME ARGS("--resume-from-checkpoint", "true")

static void a_resumed_run_chooses_as_before(void **state)
{
    (void)state;
    struct snug_err err;
    const char *alone = join(folder, "alone"), *out = join(folder, "stopped");
    fake.accepts = true;
    assert_int_equal(train(alone, "one", NEVER, NULL, &err), SNUG_OK);
    assert_int_equal(train(out, "one", 5, NULL, &err), SNUG_STOPPED);
    assert_int_equal(fake.taken, 0);
    assert_string_equal(recorded(out, "step-00000005"), "one");
    assert_int_equal(train(out, "two", 9, RESUME, &err), SNUG_STOPPED); /* the profile was made anew */
    assert_int_equal(fake.taken, 1);
    assert_null(strstr(notes, "not bit-exact"));
    assert_string_equal(recorded(out, "step-00000009"), "one");
    assert_int_equal(
        train(out, "three", NEVER, ARGS("--resume-from-checkpoint", "true", "--require-bitexact", "true"), &err),
        SNUG_OK);
    assert_string_equal(recorded(out, "step-00000012"), "one");
    assert_true(same_bytes(join(alone, "model.safetensors"), join(out, "model.safetensors")));
    remove_tree(out);
    /* a run that is not resumed takes nothing */
    assert_int_equal(train(out, "two", NEVER, ARGS("--resume-from-checkpoint", "auto"), &err), SNUG_OK);
    assert_int_equal(fake.taken, 0);
    assert_string_equal(recorded(out, "step-00000012"), "two");
    /* how it is computed is not part of what is computed */
    json_t *x = read_log(alone), *y = read_log(out);
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
    remove_tree(out);
    remove_tree(alone);
}

static void what_cannot_be_done_is_said(void **state)
{
    (void)state;
    struct snug_err err;
    const char *out = join(folder, "refused");
    fake.accepts = true;
    assert_int_equal(train(out, "one", 5, NULL, &err), SNUG_STOPPED);
    fake.accepts = false;
    assert_int_equal(
        train(out, "two", NEVER, ARGS("--resume-from-checkpoint", "true", "--require-bitexact", "true"), &err),
        SNUG_ERR_CHECKPOINT);
    assert_string_equal(err.text, "not bit-exact from here: this library has no algorithm one; leave out "
                                  "--require-bitexact");
    assert_int_equal(train(out, "two", NEVER, RESUME, &err), SNUG_OK);
    const char *line = strstr(notes, "not bit-exact from here: this library has no algorithm one\n");
    assert_non_null(line);
    assert_null(strstr(line + 1, "not bit-exact")); /* one line, and not the names of kernels besides */
    assert_string_equal(recorded(out, "step-00000012"), "two");
    remove_tree(out);
}

/* A checkpoint from before choices were recorded: read as ever, and told by the names of the kernels. */
static void old_checkpoints_are_read(void **state)
{
    (void)state;
    struct snug_err err;
    const char *out = join(folder, "old");
    fake.accepts = fake.old = true;
    assert_int_equal(train(out, "one", 5, NULL, &err), SNUG_STOPPED);
    assert_string_equal(recorded(out, "step-00000005"), "");
    fake.old = false;
    assert_int_equal(train(out, "one", 8, RESUME, &err), SNUG_STOPPED);
    assert_int_equal(fake.taken, 0);
    assert_null(strstr(notes, "not bit-exact"));
    fake.old = true;
    assert_int_equal(train(out, "one", 10, RESUME, &err), SNUG_STOPPED); /* nor does it trouble an older program */
    fake.old = false;
    assert_int_equal(train(out, "two", NEVER, RESUME, &err), SNUG_OK);
    assert_non_null(strstr(notes, "not bit-exact from here: kernels was fake one, is fake two\n"));
    remove_tree(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_chooses_as_before),
        cmocka_unit_test(what_cannot_be_done_is_said),
        cmocka_unit_test(old_checkpoints_are_read),
    };
    return cmocka_run_group_tests_name("choices", tests, open_few_rows, close_folder);
}
