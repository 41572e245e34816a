#include "train/option_change.h"

#include "base/str.h"
#include "schedule/schedule.h"
#include "train/train.h"

/* Compared with the checkpoint unless a change is allowed. */
static const int of_results[] = {OPTION_per_device_train_batch_size, OPTION_gradient_accumulation_steps, OPTION_ranks,
                                 OPTION_learning_rate};
/* Never compared: what a run does from here on. */
static const int others[] = {
    OPTION_num_train_epochs,
    OPTION_max_steps,
    OPTION_eval_strategy,
    OPTION_eval_steps,
    OPTION_eval_delay,
    OPTION_save_strategy,
    OPTION_save_steps,
    OPTION_save_total_limit,
    OPTION_save_only_model,
    OPTION_logging_strategy,
    OPTION_load_best_model_at_end,
    OPTION_metric_for_best_model,
};
enum { N_RESULTS = sizeof of_results / sizeof *of_results, N_OTHERS = sizeof others / sizeof *others };

int option_change_record(const struct options *o, json_t **out, struct snug_err *err)
{
    json_t *all;
    TRY(options_to_json(o, false, &all, err));
    *out = json_object();
    for (size_t i = 0; i < N_OTHERS; i++)
        json_object_set(*out, option_rows[others[i]].name, json_object_get(all, option_rows[others[i]].name));
    json_decref(all);
    return *out ? SNUG_OK : err_no_memory(err, 1 << 12);
}

/* Before there was Muon, which has a momentum of its own, none was recorded as 0. */
static void forget_no_momentum(const struct options *o, const json_t *recorded, json_t *options)
{
    json_t *args = json_object_get(options, "optim_args");
    bool before_muon = !json_object_get(json_object_get(recorded, "optim_args"), "ns_steps");
    if (before_muon && !option_given(o, optim_args_momentum) &&
        json_number_value(json_object_get(args, "momentum")) == 0)
        json_object_set_new(args, "momentum", json_null());
}

int option_change_complete(const struct options *o, const json_t *saved, json_t **out, struct snug_err *err)
{
    struct options defaults;
    json_t *all = NULL, *recorded = json_object_get(saved, "options");
    options_init(&defaults, o->command);
    int code = options_to_json(&defaults, true, &all, err);
    *out = code ? NULL : json_copy((json_t *)saved);
    if (!code && (!*out || (recorded && (json_object_update_recursive(all, recorded) || /* keys of KWARGS, too */
                                         json_object_set(*out, "options", all)))))
        code = err_no_memory(err, 1 << 16);
    if (!code && recorded)
        forget_no_momentum(o, recorded, all);
    json_decref(all);
    options_free(&defaults);
    if (code)
        json_decref(*out);
    return code;
}

static void put(struct str *out, const json_t *v)
{
    if (json_is_null(v))
        str_append(out, "none");
    else
        options_json_value(v, out);
}

/* Says one change and remembers it. */
static int note_change(struct session *s, int64_t step, const char *name, const json_t *from, const json_t *to,
                       struct snug_err *err)
{
    char flag[OPTION_NAME_MAX];
    struct str line = {0};
    str_printf(&line, "from step %lld on: %s: ", (long long)step, option_flag(name, flag));
    put(&line, from);
    str_append(&line, " -> ");
    put(&line, to);
    session_note(s, "%s", str_text(&line));
    str_free(&line);
    json_t *change = json_pack("{s:I,s:s,s:O,s:O}", "step", (json_int_t)step, "option", name, "from", from, "to", to);
    return json_array_append_new(s->option_changes, change) ? err_no_memory(err, 256) : SNUG_OK;
}

/* Those of `rows` that differ between two objects; with `adopt`, `was` gets the new value. */
static int compare(struct session *s, int64_t step, const int *rows, size_t n, json_t *was, const json_t *is,
                   bool adopt, struct snug_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = option_rows[rows[i]].name;
        json_t *from = json_object_get(was, name), *to = json_object_get(is, name);
        bool numbers = json_is_number(from) && json_is_number(to);
        if (!from || !to || json_equal(from, to) || (numbers && json_number_value(from) == json_number_value(to)))
            continue;
        TRY(note_change(s, step, name, from, to, err));
        if (adopt)
            json_object_set(was, name, to);
    }
    return SNUG_OK;
}

/* Where the checkpoint is, counted in its own rows of a step and of a batch of all ranks: there the new ones begin. */
static void move_origin(const struct session *s, int64_t old_rows, int64_t old_batch, struct train_state *t)
{
    struct position old = train_position(s, &t->origin);
    int64_t drop_below = old.drop_below;
    if (old.step_rows == old_rows && (!drop_below || drop_below == old_batch))
        return;
    old.step_rows = old_rows;
    old.drop_below = drop_below ? old_batch : 0;
    if (!position_steps_per_epoch(&old)) { /* of the data that are there now: they were more */
        t->origin = (struct origin){.step = t->step, .epoch = t->origin.epoch};
        return;
    }
    struct origin now = {.step = t->step, .order_rows = t->origin.order_rows ? t->origin.order_rows : old_rows};
    position_of(&old, t->step, &now.epoch, &now.row);
    if (old.n_rows - now.row < drop_below) /* no step is left in this epoch */
        now.epoch++, now.row = 0;
    t->origin = now;
}

/* 0 where it is none of the option's. */
static int64_t rows_in(const json_t *o, int row)
{
    json_int_t n = json_integer_value(json_object_get(o, option_rows[row].name));
    return n > 0 && n <= INT32_MAX ? n : 0;
}

/* Of of_results, which may change: behind a plateau the rate has a life of its own. */
static size_t n_results(const struct session *s)
{
    return schedule_follows_metric(s->o) ? N_RESULTS - 1 : N_RESULTS;
}

bool option_change_allowed(const struct session *s, const json_t *saved, const json_t *now)
{
    json_t *is = json_object_get(now, "options"), *was = json_copy(json_object_get(saved, "options"));
    for (size_t i = 0; was && i < n_results(s); i++)
        json_object_set(was, option_rows[of_results[i]].name, json_object_get(is, option_rows[of_results[i]].name));
    bool allowed = was && json_equal(was, is) && !json_equal(json_object_get(saved, "options"), is);
    json_decref(was);
    return allowed;
}

int option_change_apply(struct session *s, json_t *saved, struct train_state *t, struct snug_err *err)
{
    json_t *now, *options = json_object_get(saved, "options"), *about = json_object_get(saved, "about");
    json_t *before = json_object_get(about, "option_changes");
    json_decref(s->option_changes);
    s->option_changes = json_is_array(before) ? json_deep_copy(before) : json_array();
    if (!s->option_changes)
        return err_no_memory(err, 256);
    if (!s->o->allow_option_change)
        return SNUG_OK;
    int64_t batch = rows_in(options, of_results[0]) * rows_in(options, of_results[2]);
    int64_t rows = batch * rows_in(options, of_results[1]);
    TRY(options_to_json(s->o, false, &now, err));
    int code = compare(s, t->step, of_results, n_results(s), options, now, true, err);
    if (!code)
        code = compare(s, t->step, others, N_OTHERS, json_object_get(about, "changeable"), now, false, err);
    json_decref(now);
    if (!code && rows > 0)
        move_origin(s, rows, batch, t);
    return code;
}
