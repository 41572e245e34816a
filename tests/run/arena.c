/* The arena of a run: exactly the planned bytes are allocated, on the device and of the host's memory, nothing outside them is touched,
 * and what is left in them from before does not matter. And updates that run before the norm of all gradients is known. */
#include "command.h"

#include "train/train.h"

#include <math.h>

/* ---- A backend that poisons: as bytes of ones, every float is NaN and every id is -1. */

enum { GUARD = 4096, GUARD_BYTE = 0xA5, POISON_BYTE = 0xFF };

enum { HOST_PIECES = 16 }; /* of the host's memory, at once */

static struct {
    const struct backend *real;
    const struct backend_arena *functions; /* of the real one */
    const struct session *session;
    unsigned char *piece;
    int64_t bytes;
    struct {
        void *at;
        int64_t bytes;
    } host[HOST_PIECES];
    int64_t host_bytes, host_most; /* at present, and the most at once */
} memory;

/* Bytes `from` to `to` of the piece, which may be on a device. */
static void fill(int64_t from, int64_t to, int byte)
{
    void *bytes = malloc((size_t)(to - from));
    assert_non_null(bytes);
    memset(bytes, byte, (size_t)(to - from));
    assert_int_equal(memory.functions->upload(memory.real, memory.piece + from, bytes, to - from, NULL), SNUG_OK);
    free(bytes);
}

static void poison(void)
{
    fill(GUARD + memory.session->run.plan.persistent_bytes, GUARD + memory.bytes, POISON_BYTE);
}

static void check_guard(int64_t from)
{
    unsigned char bytes[GUARD];
    assert_int_equal(memory.functions->download(memory.real, bytes, memory.piece + from, GUARD, NULL), SNUG_OK);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(bytes[i], GUARD_BYTE);
}

static int poisoned_alloc(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void *images, void **p,
                          struct snug_err *err)
{
    void *piece;
    (void)b;
    assert_int_equal(bytes, memory.session->run.plan.arena_bytes);
    TRY(memory.functions->alloc(memory.real, bytes + 2 * GUARD, inputs_bytes, images, &piece, err));
    memory.piece = piece;
    memory.bytes = bytes;
    fill(0, GUARD, GUARD_BYTE);
    fill(GUARD + bytes, GUARD + bytes + GUARD, GUARD_BYTE);
    poison();
    *p = memory.piece + GUARD;
    return SNUG_OK;
}

static void poisoned_free(const struct backend *b, void *p, int64_t bytes)
{
    (void)b;
    assert_ptr_equal(p, memory.piece + GUARD);
    check_guard(0);
    check_guard(GUARD + bytes);
    memory.functions->free(memory.real, memory.piece, bytes + 2 * GUARD);
    memory.piece = NULL;
}

static int counted_alloc_host(const struct backend *b, int64_t bytes, void **p, struct snug_err *err)
{
    int i = 0;
    (void)b;
    TRY(memory.functions->alloc_host(memory.real, bytes, p, err));
    while (memory.host[i].at)
        assert_true(++i < HOST_PIECES);
    memory.host[i].at = *p;
    memory.host[i].bytes = bytes;
    memory.host_bytes += bytes;
    memory.host_most = memory.host_bytes > memory.host_most ? memory.host_bytes : memory.host_most;
    return SNUG_OK;
}

static void counted_free_host(const struct backend *b, void *p)
{
    int i = 0;
    (void)b;
    while (memory.host[i].at != p)
        assert_true(++i < HOST_PIECES);
    memory.host_bytes -= memory.host[i].bytes;
    memory.host[i].at = NULL;
    memory.functions->free_host(memory.real, p);
}

static void poison_again(void *ctx, const struct snug_progress *p)
{
    (void)ctx, (void)p;
    if (memory.piece)
        poison();
}

static void train(const char *out, const struct device *on, const char *const *args, bool poisoned)
{
    struct options o;
    struct session s;
    struct snug_summary summary;
    struct snug_err err;
    struct backend copy, *backend;
    options_init(&o, CMD_TRAIN);
    for (int list = 0; list < 2; list++)
        for (const char *const *a =
                 list ? ARGS("output_dir", out, "device", on->name, "dtype", on->dtype, "threads", "2", "log_hash",
                             "true", "logging_steps", "1", "save_strategy", "no", "hidden_dropout_prob", "0.1")
                      : args;
             *a; a += 2)
            if (options_set(&o, a[0], a[1], &err))
                fail_msg("%s", err.text);
    int code = options_check(&o, &err);
    if (!code)
        code = session_open(&s, &io_posix, &o, false, (struct session_events){0}, NULL, &err);
    if (code)
        fail_msg("%s", err.text);
    memory.session = &s;
    memory.host_most = 0;
    memory.real = s.run.backend;
    memory.functions = s.run.backend->arena;
    struct backend_arena poisoning = *memory.functions;
    copy = *s.run.backend;
    /* The host's backends are constants; a GPU's is an object that was opened, and changed in place. */
    backend = is_host(on) ? &copy : (struct backend *)s.run.backend;
    if (poisoned) {
        poisoning.alloc = poisoned_alloc;
        poisoning.free = poisoned_free;
        poisoning.alloc_host = counted_alloc_host;
        poisoning.free_host = counted_free_host;
        backend->arena = &poisoning;
        s.run.backend = backend;
    }
    if (train_run(&s, (struct train_events){.progress = poison_again}, &summary, &err))
        fail_msg("%s", err.text);
    int64_t planned = s.run.plan.host_bytes + plan_transfer_bytes(&s.run.plan);
    session_close(&s);
    options_free(&o);
    assert_null(memory.piece);
    assert_true(memory.host_bytes == 0 && memory.host_most == (poisoned ? planned : 0));
}

static void old_contents_do_not_matter(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 29, 12, 1, true), *more = make_rows(folder, 9, 12, 2, true);
    const char *texts = make_rows(folder, 20, 12, 3, false);
    const char *const bert[] = {
        "model", fixture("golden/trainer/init"), "train_data", rows, "eval_data", more, "eval_strategy",
        "epoch", "gradient_accumulation_steps",  "2",          NULL};
    const char *const gpt2[] = {"model",
                                fixture("golden/gpt2"),
                                "train_data",
                                texts,
                                "num_train_epochs",
                                "2",
                                "gradient_checkpointing",
                                "true",
                                "max_grad_norm",
                                "0",
                                "batch_size",
                                "3",
                                NULL};
    const char *const offloaded[] = {"model",
                                     fixture("golden/trainer/init"),
                                     "train_data",
                                     rows,
                                     "eval_data",
                                     more,
                                     "eval_strategy",
                                     "epoch",
                                     "offload_optimizer",
                                     "cpu",
                                     NULL};
    const char *const *const runs[] = {bert, gpt2, offloaded};
    const char *plain = join(folder, "plain"), *poisoned = join(folder, "poisoned");
    for (int d = 0; d < n_devices(); d++)
        for (int r = 0; r < 3; r++) {
            train(plain, device(d), runs[r], false);
            train(poisoned, device(d), runs[r], true);
            json_t *a = read_log(plain), *b = read_log(poisoned);
            assert_true(json_array_size(a) > 5 && json_equal(a, b));
            assert_true(same_bytes(join(plain, "model.safetensors"), join(poisoned, "model.safetensors")));
            json_decref(a);
            json_decref(b);
            remove_tree(plain);
            remove_tree(poisoned);
        }
}

/* ---- Early updates. */

static void put(struct run *r, const char *name, const double *x, int64_t n)
{
    struct run_value v;
    assert_true(run_find(r, name, &v));
    assert_int_equal(run_write(r, &v, x, DT_F64, n, NULL), SNUG_OK);
}

/* Two weights of a part of the sum each; the gradient of the second one is not finite. The first is updated (p - lr g),
 * and the gradient is named afterwards. */
static void an_early_update_names_the_bad_gradient_afterwards(void **state)
{
    (void)state;
    enum { MANY = SUMSQ_CHUNK + 5 };
    struct run r = {.backend = backend_reference(), .threads = 1};
    struct snug_err err;
    struct program *g = plan_add(&r.plan, "updates", (struct dims){0}, &err);
    char text[1000], where[100];
    snprintf(text, sizeof text,
             "%%1 input F64[8] \"step\" layer=0 in keep\n"
             "%%2 weight F64[2] \"first\" layer=0 in keep\n"
             "%%3 weight F64[%d] \"second\" layer=0 in keep\n"
             "%%4 gradient F64[2] \"grad.first\" layer=0 of=grad:%%2 in keep\n"
             "%%5 gradient F64[%d] \"grad.second\" layer=0 of=grad:%%3 in keep\n",
             MANY, MANY);
    if (graph_parse(&g->graph, text, &err))
        fail_msg("%s", err.text);
    struct pass_settings s = {.update = {.optimizer = OPTIM_SGD, .state_type = DT_F64}};
    pass_update(&g->graph, &s);
    pass_order(&g->graph, &s);
    if (graph_check(&g->graph, "the test", &err) || plan_pack(&r.plan, &err) || run_alloc(&r, &err))
        fail_msg("%s", err.text);
    double *many = calloc(MANY, sizeof *many), read[2];
    put(&r, "step", (const double[STEP_SCALARS]){[STEP_LR] = 0.5, [STEP_UPDATE] = 1}, STEP_SCALARS);
    put(&r, "first", (const double[]){10, 20}, 2);
    put(&r, "grad.first", (const double[]){3, 4}, 2);
    put(&r, "grad.second", many, MANY);
    double fetched[1] = {-1};
    struct run_value norm, first;
    assert_true(run_output(&r, 0, "grad_norm", (struct dims){0}, &norm));
    assert_false(run_updates_wait(&r, 0));
    assert_int_equal(
        run_program(&r, 0, (struct dims){0}, &(struct run_fetch){fetched, norm.data, sizeof *fetched, 0}, 1, &err),
        SNUG_OK);
    assert_true(fetched[0] == 5);
    assert_int_equal(run_read(&r, &norm, read, DT_F64, &err), SNUG_OK);
    assert_true(read[0] == 5);
    assert_false(run_gradient_not_finite(&r, 0, where, sizeof where));
    many[MANY - 1] = NAN;
    put(&r, "grad.second", many, MANY);
    assert_int_equal(
        run_program(&r, 0, (struct dims){0}, &(struct run_fetch){fetched, norm.data, sizeof *fetched, 0}, 1, &err),
        SNUG_OK);
    assert_int_equal(run_read(&r, &norm, read, DT_F64, &err), SNUG_OK);
    assert_true(isnan(read[0]));
    assert_true(run_gradient_not_finite(&r, 0, where, sizeof where));
    assert_string_equal(where, "gradient second");
    assert_true(run_find(&r, "first", &first));
    assert_int_equal(run_read(&r, &first, read, DT_F64, &err), SNUG_OK);
    assert_true(read[0] == 10 - 2 * 0.5 * 3 && read[1] == 20 - 2 * 0.5 * 4);
    free(many);
    run_close(&r);
}

/* Loss scaling: a step whose gradient is not finite changes nothing but the scale; the next one is an update with its
 * own learning rate (p - lr g / scale), whatever was skipped before. */
static void a_skipped_step_leaves_the_next_one_alone(void **state)
{
    (void)state;
    struct run r = {.backend = backend_reference(), .threads = 1};
    struct snug_err err;
    struct run_value w, scaler;
    double read[2], scalars[SCALER_SCALARS];
    struct program *g = plan_add(&r.plan, "updates", (struct dims){0}, &err);
    const char *text = "%1 input F64[8] \"step\" layer=0 in keep\n"
                       "%2 weight F64[2] \"w\" layer=0 in keep\n"
                       "%3 gradient F64[2] \"grad.w\" layer=0 of=grad:%2 in keep\n";
    if (graph_parse(&g->graph, text, &err))
        fail_msg("%s", err.text);
    struct pass_settings s = {.precision.narrow = DT_F16, .update = {.optimizer = OPTIM_SGD, .state_type = DT_F64}};
    pass_update(&g->graph, &s);
    pass_order(&g->graph, &s);
    if (graph_check(&g->graph, "the test", &err) || plan_pack(&r.plan, &err) || run_alloc(&r, &err) ||
        states_start(&r, &err))
        fail_msg("%s", err.text);
    assert_true(run_find(&r, "w", &w) && run_find(&r, "loss_scaler", &scaler));
    put(&r, "w", (const double[]){10, 20}, 2);
    put(&r, "step", (const double[STEP_SCALARS]){[STEP_LR] = 0.5, [STEP_UPDATE] = 1}, STEP_SCALARS);
    put(&r, "grad.w", (const double[]){1, INFINITY}, 2);
    assert_int_equal(run_program(&r, 0, (struct dims){0}, NULL, 0, &err), SNUG_OK);
    assert_int_equal(run_read(&r, &w, read, DT_F64, &err), SNUG_OK);
    assert_true(read[0] == 10 && read[1] == 20);
    assert_int_equal(run_read(&r, &scaler, scalars, DT_F64, &err), SNUG_OK);
    assert_true(scalars[SCALER_SCALE] == 32768 && scalars[SCALER_SKIPPED] == 1);
    put(&r, "grad.w", (const double[]){4 * 32768, 8 * 32768}, 2);
    assert_int_equal(run_program(&r, 0, (struct dims){0}, NULL, 0, &err), SNUG_OK);
    assert_int_equal(run_read(&r, &w, read, DT_F64, &err), SNUG_OK);
    assert_true(read[0] == 10 - 0.5 * 4 && read[1] == 20 - 0.5 * 8);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_contents_do_not_matter),
        cmocka_unit_test(an_early_update_names_the_bad_gradient_afterwards),
        cmocka_unit_test(a_skipped_step_leaves_the_next_one_alone),
    };
    return cmocka_run_group_tests_name("arena", tests, open_folder, close_folder);
}
