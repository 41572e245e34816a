#include "run/known_nodes.h"

#include "base/hash.h"
#include "graph/lanes.h"
#include "run/node_time.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys of a profile: "node OP TYPES FORM WORK", the two in the middle as hashes, and "nodes SECONDS" of a step. */
enum { KEY_MAX = 128 };

struct known_node {
    enum op op;
    uint32_t types, form;
    double work, seconds;
};

struct known_step {
    double sum, seconds;
};

/* ---- what a node is known by ---- */

/* Numbers that tell one node from another and change no time. */
static bool is_label(const struct attr_info *a)
{
    static const char *const names[] = {"site", "at", "noise"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(a->name, names[i]))
            return true;
    return false;
}

/* Of real numbers it matters whether they are 0: a probability of dropout, a cap. */
static int64_t attr_form(const struct node *n, int i)
{
    const struct attr_info *a = &node_op(n)->attrs[i];
    int64_t k;
    double x;
    memcpy(&k, node_attr(n, i), sizeof k);
    memcpy(&x, node_attr(n, i), sizeof x);
    return is_label(a) ? 0 : a->kind == ATTR_REAL ? x != 0 : k;
}

static int describe(const struct program *g, const struct node *n, struct known_node *out, struct snug_err *err)
{
    struct hash_state *types = hash_new(), *form = hash_new();
    int code = types && form ? SNUG_OK : err_no_memory(err, 1024);
    for (int i = 0; !code && i < node_op(n)->n_slots; i++) {
        const struct value *v = graph_value(&g->graph, n->u.slot[i]);
        int64_t add = n->add >> i & 1, type = n->u.slot[i] ? (int64_t)v->dtype + 1 : 0;
        hash_add(types, &type, sizeof type);
        hash_add(form, &type, sizeof type);
        hash_add(form, &add, sizeof add);
        if (type) {
            hash_add(form, &v->memory, sizeof v->memory);
            hash_add(form, &v->pitch, sizeof v->pitch);
            hash_add(form, v->shape, (size_t)v->ndim * sizeof *v->shape);
        }
    }
    for (int i = 0; !code && i < node_op(n)->n_attrs; i++) {
        int64_t k = attr_form(n, i);
        hash_add(form, &k, sizeof k);
    }
    if (!code)
        *out = (struct known_node){
            .op = n->op, .types = (uint32_t)hash_now(types).low, .form = (uint32_t)hash_now(form).low};
    if (types)
        hash_end(types);
    if (form)
        hash_end(form);
    return code;
}

static double work_of(const struct program *g, const struct node *n, struct dims dims, double attention)
{
    bool attends = n->op == OP_attention || n->op == OP_attention_bwd;
    return node_work(g, n, dims) * (attends ? attention : 1);
}

static int by_kind(const struct known_node *a, const struct known_node *b)
{
    return a->op != b->op         ? (a->op > b->op) - (a->op < b->op)
           : a->types != b->types ? (a->types > b->types) - (a->types < b->types)
                                  : (a->form > b->form) - (a->form < b->form);
}

static int by_kind_and_work(const void *a, const void *b)
{
    const struct known_node *x = a, *y = b;
    int kind = by_kind(x, y);
    return kind ? kind : (x->work > y->work) - (x->work < y->work);
}

/* ---- the profile ---- */

static enum op find_op(const char *name)
{
    for (int i = 1; i < OP_COUNT; i++)
        if (!strcmp(op_table[i].name, name))
            return (enum op)i;
    return 0;
}

static void see(void *ctx, const char *key, double seconds)
{
    struct known_nodes *k = ctx;
    struct known_node n = {.seconds = seconds};
    char op[48];
    double sum;
    if (sscanf(key, "node %47s %" SCNx32 " %" SCNx32 " %lf", op, &n.types, &n.form, &n.work) == 4 && n.work > 0 &&
        (n.op = find_op(op))) {
        k->failed |= !MEM_GROW(k->all, k->cap, k->n + 1);
        if (!k->failed)
            k->all[k->n++] = n;
    } else if (sscanf(key, "nodes %lf", &sum) == 1 && sum > 0) {
        k->failed |= !MEM_GROW(k->steps, k->cap_steps, k->n_steps + 1);
        if (!k->failed)
            k->steps[k->n_steps++] = (struct known_step){sum, seconds};
    }
}

int known_nodes_open(struct known_nodes *k, const struct backend *b, struct snug_err *err)
{
    *k = (struct known_nodes){0};
    b->profile->each(b, see, k);
    if (k->n)
        qsort(k->all, k->n, sizeof *k->all, by_kind_and_work);
    return k->failed ? err_no_memory(err, k->n * sizeof *k->all) : SNUG_OK;
}

void known_nodes_close(struct known_nodes *k)
{
    mem_free(k->all);
    mem_free(k->steps);
    *k = (struct known_nodes){0};
}

/* ---- the time of a node ---- */

/* The first that is not before `wanted`; k->n if all are. */
static size_t find(const struct known_nodes *k, const struct known_node *wanted)
{
    size_t from = 0, end = k->n;
    while (from < end) {
        size_t middle = (from + end) / 2;
        if (by_kind_and_work(&k->all[middle], wanted) < 0)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

static bool is_kind(const struct known_nodes *k, size_t i, const struct known_node *wanted)
{
    return i < k->n && !by_kind(&k->all[i], wanted);
}

/* With more work than was ever measured a node keeps its rate. With less it loses some of it, and what it takes to begin and to end
 * stays: on an H200, whose layers of BERT-large take 0.36 of the time for a fourth of 4096 tokens, and 0.56 for half of them. */
static double scaled(const struct known_node *n, double work)
{
    const double less = 0.92, latency = 3e-6;
    double part = work / n->work, fixed = fmin(latency, n->seconds);
    return part > 1 ? n->seconds * part : fixed + (n->seconds - fixed) * pow(part, less);
}

/* -1: its form was never measured. */
static double seconds_of_form(const struct known_nodes *k, const struct known_node *wanted)
{
    size_t i = find(k, wanted);
    bool above = is_kind(k, i, wanted), below = i > 0 && is_kind(k, i - 1, wanted);
    if (above && below) {
        const struct known_node *a = &k->all[i - 1], *b = &k->all[i];
        return a->seconds + (b->seconds - a->seconds) * (wanted->work - a->work) / (b->work - a->work);
    }
    return above ? scaled(&k->all[i], wanted->work) : below ? scaled(&k->all[i - 1], wanted->work) : -1;
}

/* Of all nodes that are bound by memory, which work is bytes of; 0 without one. */
static double seconds_per_byte(const struct known_nodes *k)
{
    double seconds = 0, bytes = 0;
    for (size_t i = 0; i < k->n; i++)
        if (!node_bound_by_operations(k->all[i].op)) {
            seconds += k->all[i].seconds;
            bytes += k->all[i].work;
        }
    return bytes > 0 ? seconds / bytes : 0;
}

/* How little one node says of another of its op. Other types count as much as four times the work: a kernel whose rows are few has
 * another rate than one whose output is wider. */
static double distance(const struct known_node *x, const struct known_node *wanted)
{
    const double other_types = 4;
    return fabs(log(x->work / wanted->work)) + (x->types == wanted->types ? 0 : log(other_types));
}

/* By the nearest of its op, else by its bytes. -1: that says nothing. */
static double seconds_like(const struct known_nodes *k, const struct known_node *wanted)
{
    const struct known_node *best = NULL;
    for (size_t i = 0; i < k->n; i++) {
        const struct known_node *x = &k->all[i];
        if (x->op == wanted->op && (!best || distance(x, wanted) < distance(best, wanted)))
            best = x;
    }
    if (best)
        return best->seconds * wanted->work / best->work;
    double per_byte = node_bound_by_operations(wanted->op) ? 0 : seconds_per_byte(k);
    return per_byte > 0 ? per_byte * wanted->work : -1;
}

static bool reaches_host(const struct program *g, const struct node *n)
{
    for (int i = 0; i < node_op(n)->n_slots; i++)
        if (n->u.slot[i] && graph_value(&g->graph, n->u.slot[i])->memory == MEMORY_HOST)
            return true;
    return false;
}

struct known_time known_nodes_of(const struct known_nodes *k, const struct program *g, struct dims dims,
                                 double attention)
{
    struct op_times ignored = {0};
    return known_nodes_by_op(k, g, dims, attention, 1, &ignored);
}

struct known_time known_nodes_by_op(const struct known_nodes *k, const struct program *g, struct dims dims,
                                    double attention, int64_t times, struct op_times *ops)
{
    struct known_time t = {0};
    double *by_node = mem_alloc((size_t)g->graph.n_nodes * sizeof *by_node); /* NULL: as if nothing ran side by side */
    for (int i = 1; i < g->graph.n_nodes; i++) {
        const struct node *n = &g->graph.nodes[i];
        struct known_node wanted;
        struct snug_err ignored;
        double work = work_of(g, n, dims, attention);
        if (work <= 0 || !node_is_of(n, 1))
            continue;
        if (describe(g, n, &wanted, &ignored)) {
            t.unknown++;
            continue;
        }
        wanted.work = work;
        double same = seconds_of_form(k, &wanted);
        double seconds = same >= 0 || reaches_host(g, n) ? same : seconds_like(k, &wanted);
        t.unknown += seconds < 0;
        t.seconds += seconds > 0 ? seconds : 0;
        if (by_node)
            by_node[i] = seconds > 0 ? seconds : 0;
        ops->of[n->op].seconds += seconds > 0 ? (double)times * seconds : 0;
        ops->of[n->op].nodes += times;
        t.unlike += same < 0 && seconds > 0 ? seconds : 0;
    }
    if (by_node)
        t.seconds = lanes_seconds(&g->graph, by_node, g->settle);
    mem_free(by_node);
    return t;
}

/* ---- measuring ---- */

static bool is_known(const struct known_nodes *k, const struct known_node *n)
{
    size_t i = find(k, n);
    return (is_kind(k, i, n) && k->all[i].work < 1.001 * n->work) ||
           (i > 0 && is_kind(k, i - 1, n) && k->all[i - 1].work > 0.999 * n->work);
}

/* Which nodes are to be measured, and what they are known by: one of each kind and work. */
static int choose(const struct known_nodes *known, const struct program *g, struct dims dims, double attention,
                  struct known_node *nodes, bool *wanted, struct snug_err *err)
{
    for (int i = 1; i < g->graph.n_nodes; i++) {
        TRY(describe(g, &g->graph.nodes[i], &nodes[i], err));
        nodes[i].work = work_of(g, &g->graph.nodes[i], dims, attention);
        wanted[i] = nodes[i].work > 0 && !is_known(known, &nodes[i]);
        for (int j = 1; j < i && wanted[i]; j++)
            wanted[i] = !wanted[j] || by_kind_and_work(&nodes[i], &nodes[j]);
    }
    return SNUG_OK;
}

static int keep(const struct backend *b, const struct known_node *nodes, const bool *wanted, int n,
                struct snug_err *err)
{
    char(*keys)[KEY_MAX] = mem_alloc((size_t)n * sizeof *keys);
    struct backend_time *times = mem_alloc((size_t)n * sizeof *times);
    size_t kept = 0;
    int code = keys && times ? SNUG_OK : err_no_memory(err, (size_t)n * sizeof *keys);
    for (int i = 1; i < n && !code; i++)
        if (wanted[i]) {
            snprintf(keys[kept], sizeof keys[kept], "node %s %08" PRIx32 " %08" PRIx32 " %.9g",
                     op_table[nodes[i].op].name, nodes[i].types, nodes[i].form, nodes[i].work);
            times[kept] = (struct backend_time){keys[kept], nodes[i].seconds};
            kept++;
        }
    if (!code && kept)
        code = b->profile->keep(b, times, kept, err);
    mem_free(keys);
    mem_free(times);
    return code;
}

int known_nodes_measure(const struct known_nodes *known, struct run *r, int k, struct dims dims, double attention,
                        struct snug_err *err)
{
    const struct program *g = &r->plan.programs[k];
    size_t n = (size_t)g->graph.n_nodes;
    struct known_node *nodes = mem_alloc(n * sizeof *nodes);
    bool *wanted = mem_alloc(n * sizeof *wanted);
    double *seconds = mem_alloc(n * sizeof *seconds);
    int code = nodes && wanted && seconds ? SNUG_OK : err_no_memory(err, n * sizeof *nodes);
    if (!code)
        code = choose(known, g, dims, attention, nodes, wanted, err);
    if (!code)
        code = run_time_nodes(r, k, dims, wanted, seconds, err);
    for (size_t i = 1; i < n && !code; i++)
        nodes[i].seconds = seconds[i];
    if (!code)
        code = keep(r->backend, nodes, wanted, (int)n, err);
    mem_free(nodes);
    mem_free(wanted);
    mem_free(seconds);
    return code;
}

/* ---- nodes together ---- */

int known_nodes_keep_step(const struct backend *b, const struct known_time *nodes, double seconds, struct snug_err *err)
{
    char key[KEY_MAX];
    snprintf(key, sizeof key, "nodes %.6g", nodes->seconds);
    return b->profile->keep(b, &(struct backend_time){key, seconds}, 1, err);
}

/* As much longer as those of the step whose sum is nearest. */
double known_nodes_step(const struct known_nodes *k, const struct known_time *nodes)
{
    const struct known_step *best = NULL;
    for (size_t i = 0; i < k->n_steps; i++)
        if (!best || fabs(log(k->steps[i].sum / nodes->seconds)) < fabs(log(best->sum / nodes->seconds)))
            best = &k->steps[i];
    return best ? nodes->seconds * best->seconds / best->sum : nodes->seconds;
}
