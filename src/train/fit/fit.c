#include "train/fit/fit.h"

#include "base/size.h"
#include "plan/anatomy.h"
#include "plan/report.h"
#include "search/recompute.h"
#include "train/fit/advice.h"
#include "train/fit/needs.h"
#include "train/fit/offload.h"
#include "train/fit/table.h"
#include "train/session/processes/processes.h"

#include <errno.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>

/* Bytes in the memory where the arena is. */
static int64_t needed(const struct session *s)
{
    return needs_bytes(s->compile.backend, &s->run.plan);
}

/* `where`: what has not so many bytes. */
static int refuse(const struct session *s, int64_t limit, const char *where, struct snug_err *err)
{
    char advice[ADVICE_MAX] = "use a smaller --per-device-eval-batch-size or --max-length";
    if (s->o->command == CMD_GENERATE)
        snprintf(advice, sizeof advice, "use a smaller --per-device-eval-batch-size or --max-new-tokens");
    char needs[SIZE_TEXT_MAX], more[SIZE_TEXT_MAX];
    if (s->compile.train)
        TRY(advise(s, limit, advice, err));
    else if (s->run.plan.persistent_bytes > limit)
        snprintf(advice, sizeof advice, "weights and inputs alone need %s: take a smaller model",
                 size_text(s->run.plan.persistent_bytes, needs));
    return err_set(err, SNUG_ERR_ENV, "the plan needs %s%s, %s more than %s; %s", size_text(needed(s), needs),
                   s->compile.backend->facts.host_memory && s->run.plan.checkpoint_bytes ? " with a checkpoint's copy"
                                                                                         : "",
                   size_text(needed(s) - limit, more), where, advice);
}

/* What the first rank may have where its arena is. Ranks on one host share its memory, and what the first alone has is there once. */
static int64_t available(const struct session *s)
{
    const struct backend *b = s->compile.backend;
    int64_t there = s->processes ? s->room : b->arena->available(b), once = needs_once_bytes(&s->run.plan);
    int beside = s->processes ? s->beside : s->compile.ranks;
    bool share = b->facts.host_memory && beside > 1 && there > once;
    return share ? once + (there - once) / beside : there;
}

static int plan_anew(struct session *s, struct snug_err *err)
{
    run_close(&s->run);
    TRY(run_open(&s->run, &s->compile, &s->choices, err));
    return needs_besides(s, &s->run, err);
}

/* What takes room to save time: given up where there is no room, if it may be. */
static int choose(struct session *s, bool may, bool *kept, const char *without, struct snug_err *err)
{
    if (!may || !*kept)
        return SNUG_OK;
    char size[SIZE_TEXT_MAX];
    int64_t with = needed(s), over = with - (s->o->memory_budget ? s->o->memory_budget : available(s));
    if (over <= 0)
        return SNUG_OK;
    *kept = false;
    TRY(plan_anew(s, err));
    if (needed(s) < with)
        session_note(s, "%s: kept, they take %s more than there is in %s", without, size_text(over, size),
                     s->o->memory_budget ? "--memory-budget" : "the device's free memory");
    return SNUG_OK;
}

/* Which choices were made, in the terms of options. */
static void note_way(const struct session *s, const struct choices *asked)
{
    const struct choices *c = &s->choices;
    char size[SIZE_TEXT_MAX];
    session_note(s, "chosen: --batch-size %lld --gradient-accumulation-steps %lld, as the fastest that fits: %s",
                 (long long)s->micro_rows, (long long)s->micro_batches, size_text(needed(s), size));
    int k = s->run.where.step >= 0 ? s->run.where.step : s->run.where.first;
    int layers = s->run.plan.programs[k].recomputed_layers;
    char again[96] = "all activations are kept";
    if (layers)
        snprintf(again, sizeof again, "activations of %d of %lld layers are computed again%s", layers,
                 (long long)s->model.layers, c->recompute ? ", no more than there is no room for" : "");
    session_note(s, "chosen: %s%s%s%s%s", again,
                 asked->whole_logits && !c->whole_logits ? "; logits are made some rows at a time" : "",
                 asked->keep_masks && !c->keep_masks ? "; dropout masks are made again" : "",
                 asked->updates_at_end && !c->updates_at_end ? "; updates follow the backward pass of their layer" : "",
                 asked->copies && !c->copies ? "; 16-bit copies of weights are made at each use" : "");
    if (c->host_layers > asked->host_layers)
        session_note(s, "chosen: optimizer states of %d of %d layers%s lie in the host's memory: %s", c->host_layers,
                     plan_layers(&s->run.plan),
                     c->host_weights > asked->host_weights ? ", and the weights whose 16-bit copies stay," : "",
                     size_text(s->run.plan.host_bytes, size));
    int n_layers = plan_layers(&s->run.plan), sent = choices_sent_layers(c, n_layers);
    if (sent > choices_sent_layers(asked, n_layers))
        session_note(s, "chosen: activations of %d of %d layers are in the host's memory until the backward pass", sent,
                     n_layers);
}

static int64_t limit_of(const struct session *s)
{
    return s->o->memory_budget ? s->o->memory_budget : available(s);
}

/* Of --recompute auto: computes again what there is no room for. */
static int recompute_what_must(struct session *s, struct snug_err *err)
{
    struct recomputed r;
    if (options_recompute(s->o) != RECOMPUTE_AUTO || !s->compile.train || needed(s) <= limit_of(s))
        return SNUG_OK;
    const struct recompute_aim aim = {.limit = limit_of(s) - (needed(s) - s->run.plan.arena_bytes),
                                      .host = offload_room(s, &s->run.plan),
                                      .below = INT64_MAX,
                                      .seconds = INFINITY,
                                      .sends = offload_may_send_activations(s)};
    TRY(recompute_search(&s->compile, &s->choices, &aim, &r, err));
    mem_free(s->recompute);
    s->choices.recompute = s->recompute = r.sets;
    s->choices.recompute_every_n = r.every_n;
    return plan_anew(s, err);
}

/* Buffers for states on their way take room, too: where there is none, fewer have them at once, and then the states of more layers go. */
static int send_layers(struct session *s, const struct offload *layers, struct snug_err *err)
{
    s->choices.host_layers = layers->fewest;
    TRY(plan_anew(s, err));
    while (needed(s) > limit_of(s) && (s->choices.prefetch || s->choices.host_layers < layers->most)) {
        s->choices.host_layers += !s->choices.prefetch;
        s->choices.prefetch = false;
        TRY(plan_anew(s, err));
    }
    return SNUG_OK;
}

/* The optimizer's states of as many layers as there is no room for go to the host's memory. */
static int send_states(struct session *s, struct snug_err *err)
{
    int64_t over = needed(s) - limit_of(s), room = offload_room(s, &s->run.plan);
    int all = plan_layers(&s->run.plan);
    struct offload layers;
    char size[SIZE_TEXT_MAX];
    if (!offload_is_open(s) || over <= 0)
        return SNUG_OK;
    TRY(offload_layers(&s->run.plan, over, room, &layers, err));
    if (layers.fewest > all) /* which would not be enough */
        return SNUG_OK;
    if (layers.fewest > layers.most) {
        session_note(s,
                     "with optimizer states of %d layers in the host's memory it would fit, but for them %s are free",
                     layers.fewest, size_text(room, size));
        return SNUG_OK;
    }
    TRY(send_layers(s, &layers, err));
    session_note(s,
                 "optimizer states of %d of %d layers lie in the host's memory: on the device they take %s more than "
                 "there is in %s",
                 s->choices.host_layers, all, size_text(over, size),
                 s->o->memory_budget ? "--memory-budget" : "the device's free memory");
    return SNUG_OK;
}

/* Where that is not enough, all states go, and the weights whose 16-bit copies can stay. */
static int send_weights(struct session *s, struct snug_err *err)
{
    const struct choices before = s->choices;
    char size[SIZE_TEXT_MAX];
    if (needed(s) <= limit_of(s) || !offload_may_send_weights(s, &s->asked.choices))
        return SNUG_OK;
    s->choices.copies = true;
    s->choices.host_layers = s->choices.host_weights = plan_layers(&s->run.plan);
    TRY(plan_anew(s, err));
    if (needed(s) > limit_of(s) || s->run.plan.host_bytes > offload_room(s, &s->run.plan)) {
        s->choices = before;
        return plan_anew(s, err);
    }
    session_note(s,
                 "%soptimizer states, and weights whose 16-bit copies stay on the device, lie in the host's memory: %s",
                 before.copies ? "" : "instead, ", size_text(s->run.plan.host_bytes, size));
    return SNUG_OK;
}

/* Whether `snug plan` shows a table of ways and offers. */
static bool wants_table(const struct session *s)
{
    return s->o->command == CMD_PLAN && (s->o->memory_budget || s->o->gpu) && !s->compile.dump;
}

static int take_way(struct session *s, struct way *w, struct snug_err *err)
{
    const struct choices asked = s->choices;
    mem_free(s->recompute);
    s->choices = w->choices;
    s->recompute = w->recompute;
    w->recompute = NULL;
    s->micro_rows = w->rows;
    s->micro_batches = w->times;
    TRY(plan_anew(s, err));
    note_way(s, &asked);
    return SNUG_OK;
}

/* "2 x 16, 5.23 GiB, about 43 s a step" */
static void put_way(char *to, size_t room, int64_t rows, int64_t times, int64_t bytes, double seconds)
{
    char size[SIZE_TEXT_MAX];
    snprintf(to, room, seconds < 1 ? "%lld x %lld, %s, about %.3g ms a step" : "%lld x %lld, %s, about %.3g s a step",
             (long long)rows, (long long)times, size_text(bytes, size), seconds < 1 ? 1e3 * seconds : seconds);
}

/* No way fits --memory-budget: what the least takes, and what else there is. */
static int refuse_all_ways(const struct session *s, const struct choices *asked, const struct fit_table *t,
                           struct snug_err *err)
{
    const struct way *least = ways_least(&t->ways);
    int64_t room = offload_room(s, &s->run.plan);
    struct offers offers;
    char way[96], size[SIZE_TEXT_MAX], takes[SIZE_TEXT_MAX],
        advice[224] = "no choice of options is enough: take a smaller model or a smaller --max-length";
    int fitting = 0, n = 0;
    put_way(way, sizeof way, least->rows, least->times, least->bytes + t->besides_bytes, least->seconds);
    session_note(s, "the least that these steps take, as micro-batch x how many: %s, by typical rates", way);
    if (room < INT64_MAX)
        session_note(s, "%s of the host's memory are free for optimizer states", size_text(room, size));
    TRY(offers_find_all(s, asked, t->limit, &offers, err));
    for (int i = 0; i < offers.n; i++) {
        const struct offer *o = &offers.of[i];
        int64_t bytes = o->bytes + o->besides_bytes;
        if (!o->fits && bytes >= least->bytes + t->besides_bytes)
            continue;
        put_way(way, sizeof way, o->rows, o->times, bytes, o->seconds);
        if (o->fits)
            session_note(s, "with %s: %s: it fits", o->options, way);
        else
            session_note(s, "with %s: %s, %s too many", o->options, way, size_text(bytes - t->limit, size));
        if (o->fits && fitting++ < 2)
            n += snprintf(advice + n, sizeof advice - (size_t)n, "%s with %s", fitting > 1 ? ", or" : "it fits",
                          o->options);
    }
    return err_set(err, SNUG_ERR_ENV, "no way to run these steps fits --memory-budget, %s: the least takes %s; %s",
                   size_text(t->limit, size), size_text(least->bytes + t->besides_bytes, takes), advice);
}

/* The fastest way that fits, where the run as it is asked for does not. */
static int find_way(struct session *s, struct snug_err *err)
{
    int64_t besides_bytes = needed(s) - s->run.plan.arena_bytes;
    const struct choices asked = s->choices;
    if (!ways_are_open(s) || (needed(s) <= limit_of(s) && !wants_table(s)))
        return SNUG_OK;
    struct fit_table *t = mem_alloc(sizeof *t);
    if (!t)
        return err_no_memory(err, sizeof *t);
    *t = (struct fit_table){.limit = limit_of(s), .besides_bytes = besides_bytes};
    int code = ways_find(s, t->limit - besides_bytes, offload_room(s, &s->run.plan), &t->ways, err);
    bool fits = !code && t->ways.n && t->ways.of[0].fits;
    if (fits && wants_table(s))
        code = offers_find(s, &asked, t->limit, &t->offers, err);
    if (fits && !code && needed(s) > t->limit)
        code = take_way(s, &t->ways.of[0], err);
    if (!fits && !code && s->o->memory_budget && ways_are_all(s->o))
        code = refuse_all_ways(s, &asked, t, err);
    if (!fits || code || !wants_table(s))
        table_free(t);
    else
        s->table = t;
    return code;
}

/* Who wants memory of the host, on a device. */
static const char *host_users(const struct session *s, char *to, size_t room)
{
    const struct plan *p = &s->run.plan;
    if (p->host_bytes)
        snprintf(to, room, "%s%s need", plan_host_holds(p), p->checkpoint_bytes ? " and a checkpoint's copy" : "");
    else
        snprintf(to, room, "%s",
                 p->checkpoint_bytes && p->metrics_bytes ? "a checkpoint's copy and metrics need"
                 : p->checkpoint_bytes                   ? "a checkpoint's copy needs"
                                                         : "inputs and results on their way need");
    return to;
}

/* That the host has memory for a run on a device. `there`: bytes that `has` so many of, such as "are free". */
static int check_host(const struct session *s, int64_t there, const char *has, struct snug_err *err)
{
    char size[SIZE_TEXT_MAX], there_size[SIZE_TEXT_MAX], users[96];
    int64_t more = needs_host_bytes(&s->run.plan, needs_ranks(s));
    if (s->compile.backend->facts.host_memory || more <= there)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_ENV, "%s %s of the host's memory, and %s %s%s", host_users(s, users, sizeof users),
                   size_text(more, size), size_text(there, there_size), has,
                   s->run.plan.checkpoint_bytes ? ", or use --save-strategy no" : "");
}

/* That the folder of the file has room for it, and is no memory itself. */
static int check_disk(const struct session *s, struct snug_err *err)
{
    const int64_t bytes = s->run.plan.disk_bytes * needs_ranks(s);
    char size[SIZE_TEXT_MAX], there[SIZE_TEXT_MAX];
    struct statfs fs;
    struct stat st = {0};
    if (!bytes || s->o->gpu)
        return SNUG_OK;
    int failed = s->io->stat(s->io, s->o->offload_dir, &st) < 0 || s->io->statfs(s->io, s->o->offload_dir, &fs) < 0
                     ? errno
                 : S_ISDIR(st.st_mode) ? 0
                                       : ENOTDIR;
    if (failed == ENOENT || failed == ENOTDIR)
        return err_set(err, SNUG_ERR_INPUT, "--offload-dir %s: there is no such folder; make it, or give another",
                       s->o->offload_dir);
    if (failed)
        return err_errno(err, SNUG_ERR_IO, s->o->offload_dir, "look at the disk of", failed);
    if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
        return err_set(err, SNUG_ERR_USAGE, "--offload-dir %s: lies in memory; give a folder on a disk",
                       s->o->offload_dir);
    int64_t room = (int64_t)fs.f_bavail * (int64_t)fs.f_bsize;
    if (room < bytes)
        return err_set(
            err, SNUG_ERR_ENV,
            "--offload-dir %s: optimizer states need %s of its disk, and %s are free; give one with more room",
            s->o->offload_dir, size_text(bytes, size), size_text(room, there));
    return SNUG_OK;
}

static int check_budget(struct session *s, struct snug_err *err)
{
    TRY(check_disk(s, err));
    if (s->o->memory_budget && needed(s) > s->o->memory_budget)
        return refuse(s, s->o->memory_budget, "--memory-budget", err);
    if (s->o->host_memory_budget)
        return check_host(s, s->o->host_memory_budget, "are --host-memory-budget; give it more", err);
    return SNUG_OK;
}

/* Where the file that was asked for would be empty. */
static void note_disk(const struct session *s)
{
    if (s->choices.states_on_disk && s->compile.train && !s->run.plan.disk_bytes)
        session_note(s, "--offload-optimizer disk: no optimizer state is large enough for a file; all stay in memory");
}

/* What is offloaded where nobody knows what the host has. */
static void note_host(const struct session *s)
{
    char size[SIZE_TEXT_MAX];
    if (s->run.plan.host_bytes && offload_host_memory(s) == INT64_MAX)
        session_note(s,
                     "the host of that GPU is taken to have the %s that the run needs of its memory; "
                     "--host-memory-budget says what it has",
                     size_text(needs_host_bytes(&s->run.plan, needs_ranks(s)), size));
}

/* In the host's memory chunks of logits cost nothing; on a GPU nobody measured that, and there they wait until room is short. */
static bool may_have_many_logits(const struct session *s)
{
    const struct compile_settings *c = &s->compile;
    int64_t trained = c->train ? s->choices.micro.T : 0, tokens = trained > c->eval_max.T ? trained : c->eval_max.T;
    return c->backend->facts.host_memory && tokens > c->head_chunk;
}

int fit_plan(struct session *s, struct snug_err *err)
{
    s->asked.choices = s->choices, s->asked.rows = s->micro_rows, s->asked.times = s->micro_batches;
    bool open = !option_given(s->o, head_chunk);
    if (open && may_have_many_logits(s))
        s->choices.whole_logits = false;
    TRY(run_open(&s->run, &s->compile, &s->choices, err));
    TRY(needs_besides(s, &s->run, err));
    TRY(find_way(s, err));
    TRY(choose(s, open, &s->choices.whole_logits, "logits are made some rows at a time", err));
    TRY(choose(s, s->o->dropout_masks == OPT_KEEP_AUTO, &s->choices.keep_masks,
               "dropout masks of attention are made again", err));
    TRY(choose(s, s->o->nan_policy == OPT_NAN_STOP && s->o->max_grad_norm == 0, &s->choices.updates_at_end,
               "the gradients of a layer are gone when its backward pass is over", err));
    TRY(choose(s, s->o->weight_copies == OPT_KEEP_AUTO && !s->choices.host_weights, &s->choices.copies,
               "16-bit copies of weights are made at each use", err));
    TRY(recompute_what_must(s, err));
    TRY(send_states(s, err));
    TRY(send_weights(s, err));
    note_host(s);
    note_disk(s);
    return check_budget(s, err);
}

int fit_room(struct session *s, struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    int64_t there = available(s);
    char where[64], size[SIZE_TEXT_MAX];
    snprintf(where, sizeof where, "the %s that are free%s", size_text(there, size),
             b->facts.host_memory ? "" : " for it on the device");
    if (needed(s) > there)
        return refuse(s, there, where, err);
    return check_host(s, b->arena->host_available ? b->arena->host_available(b) : INT64_MAX, "are free; free some",
                      err);
}

static void say_what_is_measured(void *session)
{
    session_note(session, "the fastest algorithms for matrix products of these sizes are not known on this device: "
                          "measuring them, once");
}

/* What a plan tells that a run would be refused for, or would measure. */
static void note_plan(const struct session *s)
{
    const struct backend *b = s->compile.backend;
    char more[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];
    int64_t there = available(s), over = needed(s) - there;
    int n = b->profile && b->profile->unmeasured ? b->profile->unmeasured(b) : 0;
    if (over > 0)
        session_note(s, "the plan needs %s more than the %s that are free%s", size_text(over, more),
                     size_text(there, size), b->facts.host_memory ? "" : " for it on the device");
    if (n)
        session_note(s,
                     "%d matrix products were never measured on that device: with them the plan is an upper bound, "
                     "where workspaces are at its peak",
                     n);
}

/* What was measured is known now. */
static int choose_again(struct session *s, struct snug_err *err)
{
    mem_free(s->recompute);
    s->recompute = NULL;
    table_free(s->table);
    s->table = NULL;
    s->choices = s->asked.choices, s->micro_rows = s->asked.rows, s->micro_batches = s->asked.times;
    run_close(&s->run);
    return fit_plan(s, err);
}

/* Measured algorithms may want larger workspaces than were reckoned with. Where there is no room for them, the choice is made again, and what
 * that brings is measured, until nothing new is: so processes that are told what was measured end with the same choice. */
static int measure(struct session *s, struct snug_err *err)
{
    enum { ROUNDS = 8 };
    char more[SIZE_TEXT_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        bool anew;
        TRY(run_tune(&s->run, &s->compile, &s->choices, say_what_is_measured, s, &anew, err));
        TRY(needs_besides(s, &s->run, err));
        int64_t over = needed(s) - limit_of(s);
        if (round ? !anew : over <= 0)
            break;
        if (!round)
            session_note(s, "choosing again: with the algorithms that were the fastest the plan needs %s more than %s",
                         size_text(over, more), s->o->memory_budget ? "--memory-budget" : "the device has free");
        TRY(choose_again(s, err));
    }
    return SNUG_OK;
}

int fit_tune(struct session *s, struct snug_err *err)
{
    if (s->o->command == CMD_PLAN && (needed(s) > available(s) || !backend_tunes(s->compile.backend))) {
        note_plan(s);
        return SNUG_OK;
    }
    if (needed(s) > available(s))
        return s->compile.separate ? SNUG_OK : fit_room(s, err);
    if (!s->follows)
        TRY(measure(s, err));
    TRY(processes_do_alike(s, err));
    if (s->follows && backend_tunes(s->compile.backend)) {
        TRY(plan_anew(s, err));
        if (needed(s) > limit_of(s))
            TRY(choose_again(s, err));
        return SNUG_OK;
    }
    return check_budget(s, err);
}
