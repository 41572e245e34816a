/* A plan that is too large: what a refusal promises is what `snug plan` says with the options that it names. */
#include "command.h"

#include "base/size.h"
#include "train/fit/fit.h"

static const char *rows, *deep;

enum { MOST = 32 };

/* Leaves nothing for a budget to choose. */
#define AS_ASKED "--gradient-accumulation-steps 1 --recompute off "

/* first, then `more` cut at its blanks; the words stay, in the arena of the test program. */
static const char *const *with(const char *const *first, const char *more, const char *args[MOST])
{
    int n = 0;
    for (; *first; first++)
        args[n++] = *first;
    for (char *word = strtok((char *)join("", more) + 1, " "); word && n < MOST - 1; word = strtok(NULL, " "))
        args[n++] = word;
    args[n] = NULL;
    return args;
}

/* Bytes that count: of the arena, and on a CPU of a checkpoint's copy. */
static long long planned(const struct device *on, const char *const *run, const char *more)
{
    const char *args[MOST];
    expect_snug(0, said(), ARGS("plan", "--json"), with(run, more, args));
    json_t *o = said_object();
    assert_non_null(o);
    long long bytes = json_integer_value(json_object_get(o, "arena_bytes"));
    if (is_host(on))
        bytes += json_integer_value(json_object_get(o, "checkpoint_bytes"));
    json_decref(o);
    return bytes;
}

static const char *const *run_on(const struct device *on, const char *model)
{
    static const char *args[MOST];
    int n = 0;
    const char *const all[] = {
        "--model", model,    "--init-from-config", "--train-data", rows, "--device", on->name, "--threads", "1",
        "--dtype", on->dtype};
    /* Not given is fp32, and leaves --bf16 to be given. */
    for (size_t i = 0; i < sizeof all / sizeof *all - (is_fp32(on) || !strcmp(on->name, "reference") ? 2 : 0); i++)
        args[n++] = all[i];
    args[n] = NULL;
    return args;
}

struct promise {
    char options[160];
    char size[SIZE_TEXT_MAX], less[SIZE_TEXT_MAX]; /* as it says */
    long long bytes;                               /* that snug plan says with these options */
    bool fits;
};

/* The notes of a refused plan; the error itself into `error`. */
static int refused(const struct device *on, const char *const *run, long long budget, struct promise promises[16],
                   char error[256])
{
    char number[128], digits[16], unit[8];
    const char *args[MOST];
    int n = 0;
    snprintf(number, sizeof number, AS_ASKED "--memory-budget %lldB", budget);
    expect_snug(4, said(), ARGS("plan"), with(run, number, args));
    size_t length;
    char *text = read_text(said(), &length);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        struct promise p = {.fits = strstr(line, "it fits")};
        if (n < 16 &&
            sscanf(line, "snug: note: with %159[^:]: %23[^,], %15s %7s less", p.options, p.size, digits, unit) == 4) {
            snprintf(p.less, sizeof p.less, "%s %s", digits, unit);
            promises[n++] = p;
        }
        if (strstr(line, "error: "))
            snprintf(error, 256, "%s", strstr(line, "error: "));
    }
    free(text);
    for (int i = 0; i < n; i++)
        promises[i].bytes = planned(on, run, promises[i].options);
    return n;
}

static bool is_size(const char *said_size, long long bytes)
{
    char size[SIZE_TEXT_MAX];
    return !strcmp(said_size, size_text(bytes, size));
}

/* To the byte on a CPU; on a GPU the workspace of a product is known when the product has been measured. */
static void promises_are_kept(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = device(d);
        const char *const *run = run_on(on, fixture("golden/trainer/init"));
        if (!is_host(on))
            continue;
        struct promise p[16];
        char error[256], wanted[400];
        long long all = planned(on, run, ""), least = all;
        int n = refused(on, run, all - 1, p, error);
        assert_true(n >= 3);
        for (int i = 0; i < n; i++) {
            assert_true(is_size(p[i].size, p[i].bytes));
            assert_true(is_size(p[i].less, all - p[i].bytes));
            assert_true(p[i].fits);
            least = p[i].bytes < least ? p[i].bytes : least;
        }
        snprintf(wanted, sizeof wanted, "it fits with %s, or with %s", p[0].options, p[1].options);
        if (!strstr(error, wanted))
            fail_msg("%s: %s", error, wanted);

        n = refused(on, run, least, p, error);
        int fitting = 0;
        for (int i = 0; i < n; i++) {
            assert_int_equal(p[i].fits, p[i].bytes <= least);
            fitting += p[i].fits;
        }
        assert_true(fitting >= 1);

        n = refused(on, run, 1000, p, error);
        assert_false(p[n - 1].fits);
        assert_non_null(strstr(error, "no choice of options is enough"));
        least = all;
        for (int i = 0; i < n - 1; i++)
            least = p[i].bytes < least ? p[i].bytes : least;

        n = refused(on, run, least - 1, p, error); /* now only several together are enough */
        for (int i = 0; i < n; i++)
            assert_int_equal(p[i].fits, i == n - 1);
        assert_non_null(strstr(error, "it fits"));
        assert_true(is_size(p[n - 1].size, p[n - 1].bytes));
    }
}

/* Copies that may be either are kept where there is room, and only there. */
static void copies_are_kept_where_there_is_room(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = device(d);
        const char *const *run = run_on(on, deep);
        char budget[160];
        if (is_fp32(on) || !strcmp(on->name, "reference"))
            continue;
        long long resident = planned(on, run, "--weight-copies resident");
        long long transient = planned(on, run, "--weight-copies transient");
        if (!is_host(on) && transient >= resident)
            continue; /* in so small a model workspaces count for more than weights */
        assert_true(transient < resident);
        snprintf(budget, sizeof budget, "--memory-budget %lldB", resident);
        assert_int_equal(planned(on, run, budget), is_host(on) ? transient : resident);
        snprintf(budget, sizeof budget, AS_ASKED "--memory-budget %lldB", resident - 1);
        assert_int_equal(planned(on, run, budget), transient);
        assert_int_equal(file_has(said(), "16-bit copies of weights are made at each use"), !is_host(on));
        snprintf(budget, sizeof budget, AS_ASKED "--weight-copies resident --memory-budget %lldB", resident - 1);
        const char *args[MOST];
        expect_snug(4, said(), ARGS("plan"), with(run, budget, args));
        char line[96], size[SIZE_TEXT_MAX];
        snprintf(line, sizeof line, "with --weight-copies transient: %s", size_text(transient, size));
        assert_true(file_has(said(), line));
    }
}

/* A device with so much memory, which counts how often it is asked to measure. */
static int64_t memory_free;
static int measured;

static int64_t free_on_device(const struct backend *b)
{
    (void)b;
    return memory_free;
}

static double nothing(const struct backend *b, const char *key)
{
    (void)b, (void)key;
    return -1;
}

static int keep_nothing(const struct backend *b, const struct backend_time *times, size_t n, struct snug_err *err)
{
    (void)b, (void)times, (void)n, (void)err;
    return SNUG_OK;
}

static int measure(const struct backend *b, const struct work *nodes, int n, void (*begins)(void *ctx), void *ctx,
                   bool *changed, struct snug_err *err)
{
    (void)b, (void)nodes, (void)err;
    assert_true(n > 0);
    begins(ctx);
    measured++;
    *changed = false;
    return SNUG_OK;
}

static void no_times(const struct backend *b, void (*see)(void *ctx, const char *key, double seconds), void *ctx)
{
    (void)b, (void)see, (void)ctx;
}

static struct backend_arena device_arena;
static int64_t host_free;

static int64_t free_on_host(const struct backend *b)
{
    (void)b;
    return host_free;
}

static const struct backend_profile profile = {
    .tune = measure, .recall = nothing, .keep = keep_nothing, .each = no_times};

static int notes_of_it;

static void count_note(void *ctx, const char *line)
{
    (void)ctx;
    notes_of_it += strstr(line, "measuring them, once") != NULL;
}

static bool any_mask(const struct op_attention_bwd *n, int64_t head_size, enum dtype type)
{
    return n->mask && head_size > 0 && type == DT_F32;
}

/* A session on the CPU's kernels, in the place of such a device. */
static void open_with_type(struct options *o, struct session *s, struct backend *device, enum command_bit command,
                           const char *dtype)
{
    const struct {
        const char *name, *value;
    } given[] = {{"model", fixture("golden/trainer/init")},
                 {"train_data", rows},
                 {"device", "cpu"},
                 {"output_dir", join(folder, "unused")},
                 {"attention_probs_dropout_prob", "0.1"},
                 {"dtype", dtype}};
    struct snug_err err = {0};
    options_init(o, command);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        assert_int_equal(options_set(o, given[i].name, given[i].value, &err), 0);
    assert_int_equal(options_check(o, &err), 0);
    assert_int_equal(session_open(s, &io_posix, o, false, (struct session_events){.note = count_note}, NULL, &err), 0);
    o->offload_optimizer = OPT_OFFLOAD_NONE;
    *device = *s->compile.backend;
    device->facts.host_memory = false;
    device_arena = *device->arena;
    device_arena.available = free_on_device;
    device_arena.host_available = free_on_host;
    host_free = INT64_MAX / 2;
    device->arena = &device_arena;
    device->profile = &profile;
    device->reads_mask = any_mask;
    s->compile.backend = s->run.backend = device;
}

static void open_on_device(struct options *o, struct session *s, struct backend *device, enum command_bit command)
{
    open_with_type(o, s, device, command, "fp32");
}

/* The bytes of a new plan with so much memory. */
static int64_t plan_with(struct session *s, int64_t memory)
{
    struct snug_err err = {0};
    run_close(&s->run);
    s->choices.keep_masks = s->choices.updates_at_end = true;
    s->choices.host_layers = s->choices.host_weights = 0;
    memory_free = memory;
    assert_int_equal(fit_plan(s, &err), SNUG_OK);
    return s->run.plan.arena_bytes;
}

static void masks_are_kept_where_there_is_room(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct backend device;
    open_on_device(&o, &s, &device, CMD_TRAIN);
    int64_t with = plan_with(&s, INT64_MAX);
    assert_int_equal(plan_with(&s, with), with);
    assert_true(s.choices.keep_masks);
    assert_true(plan_with(&s, with - 1) < with);
    assert_false(s.choices.keep_masks);
    o.dropout_masks = OPT_KEEP_RESIDENT;
    assert_int_equal(plan_with(&s, with - 1), with);
    assert_true(s.choices.keep_masks);
    session_close(&s);
    options_free(&o);
}

/* Those of all layers stay where updates must wait for the norm, and where there is room. */
static void gradients_stay_where_there_is_room(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct backend device;
    open_on_device(&o, &s, &device, CMD_TRAIN);
    o.dropout_masks = OPT_KEEP_RESIDENT;
    int64_t all = plan_with(&s, INT64_MAX);
    for (int waits = 0; waits < 3; waits++) {
        o.max_grad_norm = s.compile.update.max_grad_norm = waits == 1;
        o.nan_policy = waits == 2 ? OPT_NAN_SKIP : OPT_NAN_STOP;
        assert_int_equal(plan_with(&s, all), all);
        assert_true(s.choices.updates_at_end);
        assert_int_equal(plan_with(&s, all - 1) < all, !waits);
        assert_int_equal(s.choices.updates_at_end, waits > 0);
    }
    session_close(&s);
    options_free(&o);
}

/* States of as few layers as must lie elsewhere do, and none where all of them would not be enough. */
static void states_stay_where_there_is_room(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct backend device;
    open_on_device(&o, &s, &device, CMD_TRAIN);
    o.dropout_masks = OPT_KEEP_RESIDENT;
    int64_t all = plan_with(&s, INT64_MAX), least = all;
    assert_int_equal(plan_with(&s, all - 1), all);
    o.offload_optimizer = OPT_OFFLOAD_AUTO;
    assert_int_equal(plan_with(&s, all), all);
    assert_true(s.choices.host_layers == 0 && s.run.plan.host_bytes == 0);
    for (int layers = 1; least > 0; layers++) {
        int64_t now = plan_with(&s, least - 1);
        if (!s.choices.host_layers) {
            assert_true(now == all && layers == s.model.layers + 3);
            break;
        }
        assert_true(s.choices.host_layers == layers && now < least && now + s.run.plan.host_bytes == all);
        least = now;
    }
    session_close(&s);
    options_free(&o);
}

/* Weights leave the device where states alone are not enough. What stays of them are copies of half their size. */
static void weights_stay_where_there_is_room(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct backend device;
    open_with_type(&o, &s, &device, CMD_TRAIN, "bf16");
    const struct choices asked = {.keep_masks = true, .copies = true, .accumulation = 1, .micro = s.choices.micro};
    int64_t all, least;
    o.dropout_masks = OPT_KEEP_RESIDENT;
    o.max_grad_norm = s.compile.update.max_grad_norm = 0;
#define PLAN(memory) (s.choices = asked, plan_with(&s, memory))
    all = PLAN(INT64_MAX);
    o.weight_copies = OPT_KEEP_AUTO;
    o.offload_optimizer = OPT_OFFLOAD_AUTO;
    o.offload_param = OPT_OFFLOAD_NONE;
    for (least = all; PLAN(least - 1) < least;) /* as small as states make it */
        least = s.run.plan.arena_bytes;
    assert_true(!s.choices.host_weights);
    o.offload_param = OPT_OFFLOAD_AUTO;
    int64_t less = PLAN(least - 1);
    assert_true(less < least && s.choices.copies && s.choices.host_weights == s.model.layers + 2);
    assert_true(s.choices.host_layers == s.model.layers + 2);
    assert_true(PLAN(less) == less && s.choices.host_weights > 0);
    PLAN(less - 1); /* which is not enough: nothing is sent in vain */
    assert_true(!s.choices.host_weights && s.run.plan.host_bytes == 0);
#undef PLAN
    session_close(&s);
    options_free(&o);
}

/* The host's memory is counted to the byte: with one less fewer states go there, or none where that helps nobody. */
static void states_go_where_the_host_has_room(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct backend device;
    struct snug_err err;
    open_on_device(&o, &s, &device, CMD_TRAIN);
    o.dropout_masks = OPT_KEEP_RESIDENT;
    o.offload_optimizer = OPT_OFFLOAD_AUTO;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int given = 0; given < 2; given++) {
            int64_t *there = given ? &o.host_memory_budget : &host_free;
            s.compile.ranks = ranks;
            host_free = INT64_MAX / 2;
            o.host_memory_budget = 0;
            int64_t all = plan_with(&s, INT64_MAX);
            assert_true(plan_with(&s, all - 1) < all && s.choices.host_layers > 0);
            const struct plan *p = &s.run.plan;
            int64_t need = ranks * (p->host_bytes + plan_transfer_bytes(p)) + p->checkpoint_bytes + p->metrics_bytes;
            assert_true(p->checkpoint_bytes > 0 && p->images_bytes == 0 && p->results_bytes > 0);
            *there = need;
            assert_true(plan_with(&s, all - 1) < all);
            assert_int_equal(fit_room(&s, &err), SNUG_OK);
            host_free = need - 1; /* what is free counts in the end, whatever is given */
            assert_int_equal(fit_room(&s, &err), SNUG_ERR_ENV);
            *there = need - 1;
            assert_int_equal(plan_with(&s, all - 1), all);
            assert_true(s.choices.host_layers == 0 && p->host_bytes == 0);
        }
    session_close(&s);
    options_free(&o);
}

/* A checkpoint's copy is the first rank's alone; arenas, and states in the host's memory, are each rank's. */
static void ranks_share_a_machine(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct backend device;
    struct snug_err err;
    open_on_device(&o, &s, &device, CMD_TRAIN);
    device.facts.host_memory = true;
    for (int host_layers = 0; host_layers < 4; host_layers += 3)
        for (int ranks = 1; ranks <= 3; ranks++) {
            s.compile.ranks = ranks;
            plan_with(&s, INT64_MAX);
            run_close(&s.run);
            s.choices.host_layers = host_layers;
            assert_int_equal(fit_plan(&s, &err), SNUG_OK);
            const struct plan *p = &s.run.plan;
            assert_true(p->checkpoint_bytes > 0 && (p->host_bytes > 0) == (host_layers > 0));
            memory_free = ranks * (p->arena_bytes + p->host_bytes) + p->checkpoint_bytes + p->metrics_bytes;
            assert_int_equal(fit_room(&s, &err), SNUG_OK);
            memory_free--;
            assert_int_equal(fit_room(&s, &err), SNUG_ERR_ENV);
        }
    session_close(&s);
    options_free(&o);
}

/* Racing the products of a batch that is far too large would take minutes. */
static void nothing_is_measured_for_a_plan_without_room(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct backend device;
    struct snug_err err = {0};
    for (int command = 0; command < 2; command++) {
        open_on_device(&o, &s, &device, command ? CMD_PLAN : CMD_TRAIN);
        measured = notes_of_it = 0;
        memory_free = s.run.plan.arena_bytes - 1;
        assert_int_equal(fit_tune(&s, &err), command ? SNUG_OK : SNUG_ERR_ENV);
        assert_int_equal(measured, 0);
        memory_free++;
        assert_int_equal(fit_tune(&s, &err), SNUG_OK);
        assert_true(measured == 1 && notes_of_it == 1);
        session_close(&s);
        options_free(&o);
    }
}

static int set_up(void **state)
{
    open_folder(state);
    rows = make_rows(folder, 45, 12, 1, true);
    deep = make_deeper(folder, "golden/trainer/init", 12);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promises_are_kept),
        cmocka_unit_test(copies_are_kept_where_there_is_room),
        cmocka_unit_test(masks_are_kept_where_there_is_room),
        cmocka_unit_test(gradients_stay_where_there_is_room),
        cmocka_unit_test(states_stay_where_there_is_room),
        cmocka_unit_test(weights_stay_where_there_is_room),
        cmocka_unit_test(states_go_where_the_host_has_room),
        cmocka_unit_test(ranks_share_a_machine),
        cmocka_unit_test(nothing_is_measured_for_a_plan_without_room),
    };
    return cmocka_run_group_tests_name("fit", tests, set_up, close_folder);
}
