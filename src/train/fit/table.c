#include "train/fit/table.h"

#include "base/size.h"
#include "plan/anatomy.h"

#include <stdio.h>

void table_free(struct fit_table *t)
{
    if (t)
        ways_free(&t->ways);
    mem_free(t);
}

/* ---- what is shown ---- */

/* The row that the session has taken; -1: none. */
static int taken(const struct session *s)
{
    const struct ways *w = &s->table->ways;
    for (int i = 0; i < w->n; i++)
        if (w->of[i].fits && w->of[i].rows == s->micro_rows && w->of[i].times == s->micro_batches)
            return i;
    return -1;
}

/* The rates know which way is faster, and by how much. How long the one takes that is taken says the forecast. */
static double scale(const struct session *s)
{
    int i = taken(s);
    return i >= 0 && s->forecast.known ? s->forecast.step_seconds / s->table->ways.of[i].seconds : 1;
}

static const char *basis(const struct session *s)
{
    return !s->forecast.known     ? "by typical rates"
           : s->forecast.measured ? "measured for *, else estimated"
                                  : "estimated";
}

/* 0 where all logits are made at once, or there are few. */
static int64_t chunk_of(const struct session *s, const struct way *w)
{
    bool many = model_task(&s->model)->tied && s->model.vocab_size >= s->compile.head_vocabulary;
    return w->choices.whole_logits || !many ? 0 : s->compile.head_chunk;
}

static const char *updates_of(const struct session *s, const struct way *w)
{
    bool clips = s->compile.update.max_grad_norm > 0;
    return w->choices.updates_at_end || clips ? "at the end" : "by layer";
}

static const char *copies_of(const struct session *s, const struct way *w)
{
    const struct precision *p = &s->compile.precision;
    return p->narrow == p->wide || p->pure ? "none" : w->choices.copies ? "resident" : "transient";
}

static void put_seconds(struct str *out, double seconds)
{
    str_printf(out, seconds < 1 ? "%8.3g ms" : "%8.3g s ", seconds < 1 ? 1e3 * seconds : seconds);
}

static int sent_layers(const struct session *s, const struct way *w)
{
    return choices_sent_layers(&w->choices, plan_layers(&s->run.plan));
}

static void put_way(struct str *out, const struct session *s, const struct way *w, bool is_taken)
{
    char size[SIZE_TEXT_MAX], cut[48], layers[48], chunk[24] = "all";
    snprintf(cut, sizeof cut, "%lld x %lld", (long long)w->rows, (long long)w->times);
    snprintf(layers, sizeof layers, "%d of %lld layers", w->layers, (long long)s->model.layers);
    if (chunk_of(s, w))
        snprintf(chunk, sizeof chunk, "%lld", (long long)chunk_of(s, w));
    str_printf(out, "%c %-11s %-17s %-7s %-10s %-9s %10s ", is_taken ? '*' : ' ', cut, w->layers ? layers : "nothing",
               chunk, updates_of(s, w), copies_of(s, w), size_text(w->bytes + s->table->besides_bytes, size));
    put_seconds(out, w->seconds * scale(s));
    if (w->choices.host_layers)
        str_printf(out, "\n  %-11s optimizer states of %d of %d layers%s in the host's memory: %s", "",
                   w->choices.host_layers, plan_layers(&s->run.plan), w->choices.host_weights ? ", and weights," : "",
                   size_text(w->host_bytes, size));
    if (sent_layers(s, w))
        str_printf(out, "\n  %-11s activations of %d of %d layers in the host's memory until the backward pass", "",
                   sent_layers(s, w), plan_layers(&s->run.plan));
    str_append(out, "\n");
}

static void put_offers(struct str *out, const struct session *s)
{
    const struct fit_table *t = s->table;
    char size[SIZE_TEXT_MAX], more[SIZE_TEXT_MAX];
    if (t->offers.n)
        str_append(out, "with other results\n");
    for (int i = 0; i < t->offers.n; i++) {
        const struct offer *o = &t->offers.of[i];
        int64_t bytes = o->bytes + o->besides_bytes;
        char cut[48];
        snprintf(cut, sizeof cut, "%lld x %lld", (long long)o->rows, (long long)o->times);
        str_printf(out, "  %-11s %-47s %10s ", cut, o->options, size_text(bytes, size));
        put_seconds(out, o->seconds * scale(s));
        if (!o->fits)
            str_printf(out, ", %s too many", size_text(bytes - t->limit, more));
        str_append(out, "\n");
    }
}

void table_text(const struct session *s, struct str *out)
{
    const struct fit_table *t = s->table;
    char size[SIZE_TEXT_MAX];
    if (!t)
        return;
    int at = taken(s);
    str_printf(out, "\nways that fit %s, the fastest first; times are %s\n", size_text(t->limit, size), basis(s));
    str_printf(out, "  %-11s %-17s %-7s %-10s %-9s %10s %10s\n", "micro-batch", "computed again", "logits", "updates",
               "copies", "memory", "step");
    for (int i = 0; i < t->ways.n && t->ways.of[i].fits; i++)
        put_way(out, s, &t->ways.of[i], i == at);
    put_offers(out, s);
}

static void put_way_json(struct str *out, const struct session *s, const struct way *w, bool is_taken)
{
    str_printf(out,
               "{\"batch_size\":%lld,\"gradient_accumulation_steps\":%lld,\"recomputed_layers\":%d,\"head_chunk\":%lld,"
               "\"updates\":\"%s\",\"weight_copies\":\"%s\",\"dropout_masks\":\"%s\",\"host_layers\":%d,"
               "\"host_weights\":%d,\"host_activations\":%d,\"host_bytes\":%lld,\"arena_bytes\":%lld,\"bytes\":%lld,"
               "\"step_seconds\":%.6g,\"typical_seconds\":%.9g,\"taken\":%s}",
               (long long)w->rows, (long long)w->times, w->layers, (long long)chunk_of(s, w), updates_of(s, w),
               copies_of(s, w), w->choices.keep_masks ? "resident" : "transient", w->choices.host_layers,
               w->choices.host_weights, sent_layers(s, w), (long long)w->host_bytes, (long long)w->bytes,
               (long long)(w->bytes + s->table->besides_bytes), w->seconds * scale(s), w->seconds,
               is_taken ? "true" : "false");
}

void table_json(const struct session *s, struct str *out)
{
    const struct fit_table *t = s->table;
    if (!t)
        return;
    int at = taken(s);
    str_printf(out, "\"memory_budget\":%lld,\"step_seconds_are\":\"%s\",\"ways\":[", (long long)t->limit, basis(s));
    for (int i = 0; i < t->ways.n && t->ways.of[i].fits; i++) {
        str_append(out, i ? "," : "");
        put_way_json(out, s, &t->ways.of[i], i == at);
    }
    str_append(out, "],\"offers\":[");
    for (int i = 0; i < t->offers.n; i++) {
        const struct offer *o = &t->offers.of[i];
        str_printf(out,
                   "%s{\"options\":\"%s\",\"batch_size\":%lld,\"gradient_accumulation_steps\":%lld,\"bytes\":%lld,"
                   "\"step_seconds\":%.6g,\"fits\":%s}",
                   i ? "," : "", o->options, (long long)o->rows, (long long)o->times,
                   (long long)(o->bytes + o->besides_bytes), o->seconds * scale(s), o->fits ? "true" : "false");
    }
    str_append(out, "],");
}
