#include "train/state.h"

#include "base/str.h"
#include "train/option_change.h"
#include "train/output_dir.h"
#include "train/session/processes/distant.h"
#include "train/team.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_hash(json_t *o, const char *key, struct hash128 h)
{
    char hex[33];
    hash_hex(h, hex);
    json_object_set_new(o, key, json_string(hex));
}

/* JSON has no NaN: a loss that is not finite (its update was skipped) is a word, as in the log. */
static json_t *number_to_json(double x)
{
    return number_word(x) ? json_string(number_word(x)) : json_real(x);
}

static double number_from_json(const json_t *o)
{
    return json_is_string(o) ? strtod(json_string_value(o), NULL) : json_number_value(o);
}

static json_t *plateau_to_json(const struct plateau *p)
{
    return json_pack("{s:f,s:o,s:I,s:I,s:I,s:I,s:I}", "rate", p->rate, "best", number_to_json(p->best), "bad",
                     (json_int_t)p->bad, "good", (json_int_t)p->good, "cooldown", (json_int_t)p->cooldown, "warmup",
                     (json_int_t)p->warmup, "resets", (json_int_t)p->resets);
}

/* False where it was not written by plateau_to_json. */
static bool plateau_from_json(const json_t *o, struct plateau *p)
{
    json_int_t bad, good, cooldown, warmup, resets;
    json_t *best;
    if (json_unpack((json_t *)o, "{s:F,s:o,s:I,s:I,s:I,s:I,s:I}", "rate", &p->rate, "best", &best, "bad", &bad, "good",
                    &good, "cooldown", &cooldown, "warmup", &warmup, "resets", &resets))
        return false;
    p->best = number_from_json(best);
    p->bad = bad, p->good = good, p->cooldown = cooldown, p->warmup = warmup, p->resets = resets;
    return true;
}

/* What training computes with: part of the state hash. */
static json_t *run_to_json(const struct options *o, const struct train_state *t)
{
    json_t *run = json_pack("{s:I,s:I,s:I,s:I}", "step", (json_int_t)t->step, "updates", (json_int_t)t->updates,
                            "samples", (json_int_t)t->samples, "tokens", (json_int_t)t->tokens);
    if (schedule_follows_metric(o))
        json_object_set_new(run, "schedule", plateau_to_json(&t->plateau));
    if (optimizer_averages((enum optimizer)o->optim))
        json_object_set_new(run, "average",
                            json_pack("{s:f,s:f}", "highest", t->average.highest, "sum", t->average.sum));
    if (t->origin.step)
        json_object_set_new(run, "rows_changed",
                            json_pack("{s:I,s:I,s:I,s:I}", "step", (json_int_t)t->origin.step, "epoch",
                                      (json_int_t)t->origin.epoch, "row", (json_int_t)t->origin.row, "order_rows",
                                      (json_int_t)t->origin.order_rows));
    return run;
}

/* What the best is chosen by, without eval_ in front; "" where nothing is chosen. */
static const char *best_metric(const struct options *o)
{
    const char *name = o->metric_for_best_model ? o->metric_for_best_model : "";
    return strncmp(name, "eval_", 5) ? name : name + 5;
}

/* What logging and evaluation go on from; how often they happen does not change the hash. */
static json_t *reports_to_json(const struct options *o, const struct train_state *t)
{
    return json_pack("{s:o,s:I,s:f,s:I,s:s,s:b,s:I,s:I,s:o,s:I,s:s}", "loss_sum", number_to_json(t->loss_sum),
                     "loss_steps", (json_int_t)t->loss_steps, "best", t->best, "best_step", (json_int_t)t->best_step,
                     "best_metric", best_metric(o), "best_is_greatest", o->greater_is_better, "evaluated_step",
                     (json_int_t)t->evaluated_step, "log_bytes", (json_int_t)t->log_bytes, "best_of_all",
                     t->stopping.begun ? number_to_json(t->stopping.best) : json_null(), "failed",
                     (json_int_t)t->stopping.failed, "run_name", t->run_name);
}

/* A best by another metric, or in the other direction, compares with nothing. Checkpoints from before these were
 * recorded are taken for what the default is: the least loss. */
static bool same_best(const struct options *o, const json_t *doc)
{
    const char *metric = "loss";
    int greatest = false;
    json_unpack((json_t *)doc, "{s:{s:{s?s,s?b}}}", "about", "reports", "best_metric", &metric, "best_is_greatest",
                &greatest);
    return !strcmp(metric, best_metric(o)) && greatest == o->greater_is_better;
}

/* config.json, for finding what differs. A member of it that is large (the names of 100,000 labels) is here as its hash,
 * which is all that a comparison needs. */
static json_t *config_to_json(const json_t *config)
{
    enum { LARGE = 4096 };
    json_t *out = json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)config, key, value)
    {
        size_t n = json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        if (n <= LARGE) {
            json_object_set(out, key, value);
            continue;
        }
        char *text = mem_alloc(n);
        if (!text || json_dumpb(value, text, n, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) != n) {
            mem_free(text);
            json_decref(out);
            return NULL;
        }
        set_hash(out, key, hash_bytes(text, n));
        mem_free(text);
    }
    return out;
}

/* What the backend chose; NULL where it has nothing to choose. */
static int algorithms_to_json(const struct backend *b, json_t **out, struct snug_err *err)
{
    char *text;
    if (!b->record)
        return SNUG_OK;
    TRY(b->record->give(b, &text, err));
    *out = json_loads(text, 0, NULL);
    mem_free(text);
    return *out ? SNUG_OK : err_no_memory(err, 1 << 16);
}

static int adapter_to_json(const struct session *s, json_t *out, struct snug_err *err)
{
    char *text;
    TRY(session_adapter_text(s, &text, err));
    json_t *doc = json_loads(text, 0, NULL);
    mem_free(text);
    return doc && !json_object_set_new(out, "adapter", doc) ? SNUG_OK : err_no_memory(err, 1 << 12);
}

/* What `snug export` makes a model folder from: config.json of the result, and where the other files come from. */
static int result_to_json(const struct session *s, json_t **out, struct snug_err *err)
{
    char *text, *source = realpath(s->dir.path, NULL);
    int code = train_config_text(s, &text, err);
    json_t *config = code ? NULL : json_loads(text, 0, NULL);
    if (!code) {
        *out = json_object();
        if (source)
            json_object_set_new(*out, "source", json_string(source)); /* one that is no UTF-8 stays out */
        if (!config || json_object_set_new(*out, "config", config))
            code = err_no_memory(err, 1 << 16);
        if (!code && s->adapter.wanted)
            code = adapter_to_json(s, *out, err);
        if (!code && ((s->o->source_lang && json_object_set_new(*out, "source_lang", json_string(s->o->source_lang))) ||
                      (s->o->target_lang && json_object_set_new(*out, "target_lang", json_string(s->o->target_lang)))))
            code = err_no_memory(err, 1 << 10);
        mem_free(text);
    }
    free(source);
    return code;
}

/* Rows whose logits training makes at a time; 0: all. */
static int64_t head_chunk(const struct session *s)
{
    const struct programs *w = &s->run.where;
    int k = w->step >= 0 ? w->step : w->first;
    for (int i = 1; k >= 0 && i < s->run.plan.programs[k].graph.n_nodes; i++) {
        const struct node *n = &s->run.plan.programs[k].graph.nodes[i];
        if (n->op == OP_linear_cross_entropy)
            return n->u.linear_cross_entropy.chunk;
    }
    return 0;
}

/* Whether gradients are added up over the ranks in each of several micro-steps, and not over a rank's micro-steps first. */
static bool sums_by_micro_step(const struct session *s)
{
    return s->choices.accumulation > 1 && run_exchanges(&s->run, s->run.where.first);
}

int state_to_json(const struct session *s, const struct train_state *t, bool only_weights, json_t **out,
                  struct snug_err *err)
{
    json_t *doc = json_object(), *options = NULL, *config = config_to_json(s->dir.config), *algorithms = NULL;
    json_t *result = NULL, *changeable = NULL;
    int code = doc && config ? options_to_json(s->o, true, &options, err) : err_no_memory(err, 1 << 16);
    if (!code)
        code = algorithms_to_json(s->compile.backend, &algorithms, err);
    if (!code)
        code = result_to_json(s, &result, err);
    if (!code)
        code = option_change_record(s->o, &changeable, err);
    if (code) {
        json_decref(options);
        json_decref(algorithms);
        json_decref(result);
    } else {
        json_object_set(doc, "model", config);
        if (s->tokenizer)
            set_hash(doc, "tokenizer", tokenizer_hash(s->tokenizer));
        set_hash(doc, "data", dataset_fingerprint(&s->train));
        if (s->adapter.wanted)
            set_hash(doc, "base", s->base);
        if (s->class_weights)
            set_hash(doc, "class_weights",
                     hash_bytes(s->class_weights, (size_t)s->model.num_labels * sizeof *s->class_weights));
        json_object_set_new(doc, "options", options);
        json_object_set_new(doc, "backend", json_string(s->compile.backend->name));
        json_object_set_new(doc, "run", run_to_json(s->o, t));
        json_object_set_new(doc, "about",
                            json_pack("{s:s,s:s,s:b,s:o}", "snug", SNUG_VERSION, "kernels",
                                      s->compile.backend->kernels(s->compile.backend), "only_model", only_weights,
                                      "reports", reports_to_json(s->o, t)));
        json_t *about = json_object_get(doc, "about");
        json_object_set_new(about, "result", result);
        json_object_set_new(about, "changeable", changeable);
        json_object_set_new(about, "head_chunk", json_integer((json_int_t)head_chunk(s)));
        if (sums_by_micro_step(s))
            json_object_set_new(about, "sums_by_micro_step", json_true());
        if (json_array_size(s->option_changes))
            json_object_set(about, "option_changes", s->option_changes);
        if (algorithms)
            json_object_set_new(about, "choices", algorithms);
    }
    json_decref(config);
    if (code)
        json_decref(doc);
    else
        *out = doc;
    return code;
}

/* Checkpoints from before there was early stopping have none of it. */
static void stopping_from_json(const json_t *reports, struct stopping *s)
{
    const json_t *best = json_object_get(reports, "best_of_all"), *failed = json_object_get(reports, "failed");
    if (!best || json_is_null(best))
        return;
    *s = (struct stopping){.begun = true, .best = number_from_json(best), .failed = json_integer_value(failed)};
}

static bool are_counts(const json_int_t *x, size_t n)
{
    const json_int_t most = (json_int_t)1 << 53;
    for (size_t i = 0; i < n; i++)
        if (x[i] < 0 || x[i] > most)
            return false;
    return true;
}

/* Where the rows of a step changed; none of it where they never did. */
static int origin_from_json(const json_t *doc, struct origin *from, struct snug_err *err)
{
    json_int_t at[4] = {0};
    const json_t *changed = json_object_get(json_object_get(doc, "run"), "rows_changed");
    if (changed && (json_unpack((json_t *)changed, "{s:I,s:I,s:I,s:I}", "step", &at[0], "epoch", &at[1], "row", &at[2],
                                "order_rows", &at[3]) ||
                    !are_counts(at, 4)))
        return err_set(err, SNUG_ERR_CHECKPOINT,
                       "the checkpoint's state.json does not say where rows of a step changed; take another");
    *from = (struct origin){at[0], at[1], at[2], at[3]};
    return SNUG_OK;
}

/* A step, and 0 for -1, which is none. */
static json_int_t step_or_none(json_int_t step)
{
    return step == -1 ? 0 : step;
}

int state_from_json(const json_t *doc, struct train_state *t, struct snug_err *err)
{
    json_int_t step, updates, samples, tokens, loss_steps, best_step, evaluated_step, log_bytes;
    json_t *loss_sum;
    if (json_unpack((json_t *)doc, "{s:{s:I,s:I,s:I,s:I},s:{s:{s:o,s:I,s:F,s:I,s:I,s:I}}}", "run", "step", &step,
                    "updates", &updates, "samples", &samples, "tokens", &tokens, "about", "reports", "loss_sum",
                    &loss_sum, "loss_steps", &loss_steps, "best", &t->best, "best_step", &best_step, "evaluated_step",
                    &evaluated_step, "log_bytes", &log_bytes) ||
        !json_is_object(json_object_get(doc, "options")) ||
        !are_counts((json_int_t[]){step, updates, samples, tokens, loss_steps, step_or_none(best_step),
                                   step_or_none(evaluated_step), log_bytes},
                    8))
        return err_set(err, SNUG_ERR_CHECKPOINT,
                       "the checkpoint's state.json has no run state; it was not written by train");
    t->step = step, t->updates = updates, t->samples = samples, t->tokens = tokens;
    t->loss_sum = number_from_json(loss_sum), t->loss_steps = loss_steps;
    t->best_step = best_step, t->evaluated_step = evaluated_step, t->log_bytes = log_bytes;
    TRY(origin_from_json(doc, &t->origin, err));
    const char *run_name = "";
    json_unpack((json_t *)doc, "{s:{s:{s:s}}}", "about", "reports", "run_name", &run_name);
    snprintf(t->run_name, sizeof t->run_name, "%s", run_name);
    stopping_from_json(json_object_get(json_object_get(doc, "about"), "reports"), &t->stopping);
    json_t *schedule = json_object_get(json_object_get(doc, "run"), "schedule");
    if (schedule && !plateau_from_json(schedule, &t->plateau))
        return err_set(err, SNUG_ERR_CHECKPOINT, "the checkpoint's state.json has no state of the schedule");
    json_t *average = json_object_get(json_object_get(doc, "run"), "average");
    if (average && json_unpack(average, "{s:F,s:F}", "highest", &t->average.highest, "sum", &t->average.sum))
        return err_set(err, SNUG_ERR_CHECKPOINT, "the checkpoint's state.json has no state of the average of weights");
    return SNUG_OK;
}

bool state_saves_in_place(const struct session *s, const struct run *r)
{
    return r->plan.disk_bytes && !(s->processes && s->compile.zero_stage);
}

/* A tensor of which each rank has a shard, for a checkpoint, which has it whole. */
struct sharded {
    const struct session *s;
    const struct run *r;
    struct run_value value;
    struct ckpt_memory memory;
};

static int get_shards(void *ctx, void *to_host, const void *from, int64_t bytes, struct snug_err *err)
{
    const struct sharded *x = ctx;
    (void)from, (void)bytes;
    return distant_read(x->s, x->r, &x->value, to_host, x->value.dtype, err);
}

static int put_shards(void *ctx, void *to, const void *from_host, int64_t bytes, struct snug_err *err)
{
    const struct sharded *x = ctx;
    (void)to, (void)bytes;
    return run_write(x->r, &x->value, from_host, x->value.dtype, x->value.elements, err);
}

static const struct ckpt_memory *shards_memory(struct sharded *x, const struct session *s, const struct run *r,
                                               const struct run_value *v)
{
    *x = (struct sharded){.s = s, .r = r, .value = *v, .memory = {.get = get_shards, .put = put_shards, .ctx = x}};
    return &x->memory;
}

/* Where the host gets a tensor, and puts it; NULL: it is there. */
static const struct ckpt_memory *memory_of(const struct session *s, const struct run_value *v)
{
    const struct ckpt_memory *there = distant_memory(s, v->rank), *here = s->memory.ctx ? &s->memory : NULL;
    there = there ? there : team_memory(s, v->rank);
    return there ? there : v->memory == MEMORY_DISK ? NULL : here;
}

int state_tensors(const struct session *s, const struct run *r, bool only_weights, struct ckpt_tensor **tensors,
                  size_t *n, struct snug_err *err)
{
    struct run_value *v;
    unsigned roles = 1u << ROLE_WEIGHT | (only_weights ? 0 : 1u << ROLE_STATE);
    if (s->memory.ctx && r->disk.p) /* which the host reads itself, when nothing is on its way there */
        TRY(r->backend->arena->sync(r->backend, err));
    TRY(run_list(r, roles, &v, n, err));
    *tensors = mem_alloc(*n * (sizeof **tensors + sizeof(struct sharded)));
    struct sharded *sharded = *tensors ? (struct sharded *)(*tensors + *n) : NULL; /* goes with them */
    size_t kept = 0;
    for (size_t i = 0; *tensors && i < *n; i++) {
        if (s->adapter.wanted && v[i].frozen) /* the base lies in its own folder */
            continue;
        (*tensors)[kept] =
            (struct ckpt_tensor){.name = v[i].name,
                                 .dtype = v[i].dtype,
                                 .ndim = v[i].ndim,
                                 .data = v[i].data,
                                 .memory = v[i].shards ? shards_memory(&sharded[i], s, r, &v[i]) : memory_of(s, &v[i])};
        memcpy((*tensors)[kept++].shape, v[i].shape, sizeof v[i].shape);
    }
    *n = kept;
    mem_free(v);
    return *tensors ? SNUG_OK : err_no_memory(err, *n * sizeof **tensors);
}

static bool same_member(const json_t *a, const json_t *b, const char *key)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    return x == y || (x && y && json_equal(x, y));
}

/* only_weights: of the best model's checkpoint the weights alone are wanted. The run's options and data may have changed since
 * (--allow-option-change, --allow-data-change). */
static int compare(const struct session *s, const struct ckpt_found *found, const json_t *saved, bool only_weights,
                   struct snug_err *err)
{
    static const char *const keys[] = {"model", "options", "backend"};
    json_t *now, *old = NULL;
    TRY(state_to_json(s, &(struct train_state){0}, false, &now, err));
    int code = option_change_complete(s->o, saved, &old, err);
    if (code)
        goto out;
    if (!same_member(old, now, "tokenizer")) /* hashes would tell nobody anything */
        code = err_set(err, SNUG_ERR_CHECKPOINT,
                       "%s: the tokenizer is not the one of %s; give the run's own --model, or start anew in another "
                       "--output-dir",
                       s->o->model, found->path);
    if (!code)
        code = ckpt_compare(
            found->path, old, now,
            same_member(old, now, "model") && option_change_allowed(s, old, now) ? "give --allow-option-change" : NULL,
            keys, only_weights ? 1 : sizeof keys / sizeof *keys, err);
    if (!code && !same_member(old, now, "base"))
        code =
            err_set(err, SNUG_ERR_CHECKPOINT,
                    "%s: its weights are not those that the adapter of %s was trained on; give the run's own --model",
                    s->o->model, found->path);
    if (!code && !only_weights && !s->o->allow_data_change && !same_member(old, now, "data"))
        code = err_set(err, SNUG_ERR_CHECKPOINT,
                       "%s: the data, or how they are read and cut (--max-length), are not those of %s; restore them, "
                       "or give --allow-data-change",
                       s->o->train_data.first, found->path);
    if (!code && !only_weights && !s->o->allow_data_change && !same_member(old, now, "class_weights"))
        code = err_set(err, SNUG_ERR_CHECKPOINT,
                       "--class-weights: the weights are not those of %s; give those, or start anew in another "
                       "--output-dir",
                       found->path);
    json_decref(old);
out:
    json_decref(now);
    return code;
}

static int note_inexact(const struct session *s, const char *why, struct snug_err *err)
{
    if (s->o->require_bitexact)
        return err_set(err, SNUG_ERR_CHECKPOINT, "not bit-exact from here: %s; leave out --require-bitexact", why);
    session_note(s, "not bit-exact from here: %s", why);
    return SNUG_OK;
}

/* Where the bits may change from here on: another build, kernels for another instruction set, logits in other chunks, gradients added up
 * in another order, or algorithms that the run so far had and this one cannot have. */
static int compare_exactness(const struct session *s, const json_t *old, struct snug_err *err)
{
    const char *keys[] = {"snug", "kernels"}, *now[] = {SNUG_VERSION, s->compile.backend->kernels(s->compile.backend)};
    char why[256];
    for (size_t i = 0; i < 2; i++) {
        const char *was = json_string_value(json_object_get(json_object_get(old, "about"), keys[i]));
        if (!was || !strcmp(was, now[i]) || (i == 1 && s->refused.code))
            continue;
        snprintf(why, sizeof why, "%s was %s, is %s", keys[i], was, now[i]);
        TRY(note_inexact(s, why, err));
    }
    /* earlier versions had all logits at once */
    int64_t was = json_integer_value(json_object_get(json_object_get(old, "about"), "head_chunk"));
    if (was != head_chunk(s)) {
        snprintf(why, sizeof why, "--head-chunk was %lld, is %lld", (long long)was, (long long)head_chunk(s));
        TRY(note_inexact(s, why, err));
    }
    bool summed = json_is_true(json_object_get(json_object_get(old, "about"), "sums_by_micro_step"));
    if (summed != sums_by_micro_step(s))
        TRY(note_inexact(s, "--zero-stage 2 and 3 add up the gradients of micro-steps in another order", err));
    return s->refused.code ? note_inexact(s, s->refused.text, err) : SNUG_OK;
}

int state_take_before(struct session *s, struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    struct ckpt_found found;
    json_t *doc = NULL, *algorithms;
    if (!s->o->resume_from_checkpoint || !output_dir_resume_source(s->o))
        return SNUG_OK;
    s->rows_moved = true;
    if (ckpt_find(s->io, output_dir_resume_source(s->o), CKPT_AUTO | CKPT_QUICK, (struct ckpt_notes){0}, &found, NULL))
        return SNUG_OK;
    int code = SNUG_OK;
    s->has_checkpoint = found.path != NULL;
    bool read = found.path && !ckpt_load_state(&found, &doc, NULL);
    s->rows_moved = found.path && (!read || s->o->allow_option_change ||
                                   json_object_get(json_object_get(doc, "run"), "rows_changed"));
    if (read && b->record && (algorithms = json_object_get(json_object_get(doc, "about"), "choices"))) {
        char *text = json_dumps(algorithms, JSON_COMPACT);
        code = text ? b->record->take(b, text, &s->refused, err) : err_no_memory(err, 1 << 16);
        free(text);
    }
    json_decref(doc);
    ckpt_found_free(&found);
    return code;
}

static bool has_only_weights(const json_t *doc)
{
    return json_is_true(json_object_get(json_object_get(doc, "about"), "only_model"));
}

static int check_optimizer(const struct ckpt_found *found, const json_t *doc, struct snug_err *err)
{
    return !has_only_weights(doc)
               ? SNUG_OK
               : err_set(err, SNUG_ERR_CHECKPOINT,
                         "%s: has no optimizer state (it was saved with --save-only-model); start anew in another "
                         "--output-dir",
                         found->path);
}

/* Steps that the run has, from the first on. */
static int64_t length_of(const struct session *s, const struct train_state *t)
{
    struct position p = train_position(s, &t->origin);
    return train_total(s, &p);
}

int state_resume(struct session *s, const char *from, int flags, bool weights_will_do, struct ckpt_notes notes,
                 struct train_state *t, struct snug_err *err)
{
    struct ckpt_found found;
    json_t *doc = NULL;
    struct ckpt_tensor *tensors = NULL;
    size_t n;
    TRY(ckpt_find(s->io, from, flags, notes, &found, err));
    if (!found.path)
        return SNUG_OK;
    int code = ckpt_load_state(&found, &doc, err);
    if (!code)
        code = state_from_json(doc, t, err);
    if (!code && t->step != found.step)
        code = err_set(err, SNUG_ERR_CHECKPOINT, "%s: its state.json is that of step %lld; take another checkpoint",
                       found.path, (long long)t->step);
    if (!code && !same_best(s->o, doc)) {
        t->best_step = -1;
        t->stopping = (struct stopping){0};
    }
    if (!code && !weights_will_do)
        code = option_change_apply(s, doc, t, err);
    if (!code && !weights_will_do && t->step > length_of(s, t))
        goto out;
    if (!code)
        code = compare(s, &found, doc, weights_will_do, err);
    if (!code)
        code = weights_will_do ? SNUG_OK : compare_exactness(s, doc, err);
    if (!code && !weights_will_do)
        code = check_optimizer(&found, doc, err);
    if (!code)
        code = state_tensors(s, &s->run, has_only_weights(doc), &tensors, &n, err);
    if (!code)
        code = ckpt_load_tensors(&found, tensors, n, err);
    if (!code)
        code = weights_changed(&s->run, err);
    if (!code && (weights_will_do || t->step < length_of(s, t))) /* of a run that is complete nothing else is said */
        session_note(s, "%s step %lld (sample %lld) from %s: %zu files verified, state hash %s",
                     weights_will_do ? "loaded the best model, that of" : "resumed", (long long)t->step,
                     (long long)t->samples, found.path, found.n_files, found.state_hash);
out:
    mem_free(tensors);
    json_decref(doc);
    ckpt_found_free(&found);
    return code;
}
