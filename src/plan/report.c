#include "plan/report.h"

#include "base/size.h"
#include "plan/anatomy.h"

#include <stdio.h>
#include <string.h>

enum { SHARES_SHOWN = 6 }; /* without --anatomy */

/* Nothing where there is nothing. */
const char *plan_host_holds(const struct plan *p)
{
    static const char *const words[2][2][2] = {
        {{"what is on its way to a disk", "activations"}, {"weights", "weights and activations"}},
        {{"optimizer states", "optimizer states and activations"},
         {"optimizer states and weights", "optimizer states, weights and activations"}}};
    bool holds[ROLE_COUNT] = {false};
    for (int k = 0; k < p->n_programs; k++)
        for (int i = 1; i < p->programs[k].graph.n_values; i++) {
            const struct value *v = graph_value(&p->programs[k].graph, i);
            holds[v->role] |= v->memory == MEMORY_HOST;
        }
    return words[holds[ROLE_STATE]][holds[ROLE_WEIGHT]][holds[ROLE_ACTIVATION]];
}

static void put_row(struct str *out, const char *name, int64_t bytes, int64_t whole)
{
    if (!bytes)
        return;
    char digits[32], grouped[48], size[SIZE_TEXT_MAX];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)bytes), w = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            grouped[w++] = ',';
        grouped[w++] = digits[i];
    }
    grouped[w] = 0;
    str_printf(out, "  %-23s%16s  %8s  %5.1f %%\n", name, grouped, size_text(bytes, size),
               whole ? 100.0 * (double)bytes / (double)whole : 0);
}

struct peak {
    struct anatomy all;
    int64_t *by_layer;
    int n_layers;
    struct shares shares;
    int64_t gap;
};

static void peak_free(struct peak *peak)
{
    mem_free(peak->by_layer);
    shares_free(&peak->shares);
}

static bool find_peak(const struct plan *p, struct peak *peak, struct str *out)
{
    *peak = (struct peak){.n_layers = plan_layers(p)};
    peak->by_layer = p->n_programs ? mem_alloc((size_t)(peak->n_layers + 1) * sizeof *peak->by_layer) : NULL;
    out->failed |= !peak->by_layer;
    if (!peak->by_layer)
        return false;
    int node = p->programs[p->largest].peak_node;
    plan_anatomy(p, p->largest, node, &peak->all, peak->by_layer, peak->n_layers);
    plan_shares(p, p->largest, node, &peak->shares);
    peak->gap = p->arena_bytes - peak->all.total;
    out->failed |= peak->shares.failed;
    return true;
}

/* "24 in layer 1 to 24": how many values, and where. */
static void put_where(struct str *out, const struct share *x, int n_layers)
{
    char first[32], last[32];
    plan_layer_name(x->first_layer, n_layers, first, sizeof first);
    plan_layer_name(x->last_layer, n_layers, last, sizeof last);
    str_printf(out, "%d in %s", x->n, first);
    if (x->last_layer != x->first_layer)
        str_printf(out, " to %s", x->first_layer > 0 && !strncmp(last, "layer ", 6) ? last + 6 : last);
}

static void put_shares(struct str *out, const struct peak *peak, size_t most)
{
    char size[SIZE_TEXT_MAX];
    str_append(out, "what holds the most at the peak\n");
    for (size_t i = 0; i < peak->shares.n && i < most; i++) {
        const struct share *x = &peak->shares.of[i];
        str_printf(out, "  %-23s %-17s %8s  ", x->maker, component_names[x->component], size_text(x->bytes, size));
        put_where(out, x, peak->n_layers);
        str_append(out, "\n");
    }
}

void plan_report_text(const struct plan *p, struct str *out)
{
    struct peak peak;
    if (!find_peak(p, &peak, out))
        return;
    const struct program *g = &p->programs[p->largest];
    const struct node *at = &g->graph.nodes[g->peak_node];
    str_printf(out, "\nmemory at the peak: program %s, node %d of %d, %s", g->name, g->peak_node, g->graph.n_nodes - 1,
               op_table[at->op].name);
    if (at->layer > 0)
        str_printf(out, " in layer %d", at->layer);
    str_printf(out, "\n  %-23s%16s  %8s  %7s\n", "component", "bytes", "", "share");
    for (int i = 0; i < COMPONENT_COUNT; i++) {
        put_row(out, component_names[i], peak.all.by_component[i], p->arena_bytes);
        if (i == COMPONENT_WEIGHTS)
            put_row(out, "  (of the weights: frozen)", peak.all.frozen, p->arena_bytes);
    }
    put_row(out, "gap of the packing", peak.gap, p->arena_bytes);
    put_row(out, "arena, all together", p->arena_bytes, p->arena_bytes);
    put_shares(out, &peak, SHARES_SHOWN);
    str_append(out, "by layer at the peak\n");
    for (int l = 0; l < peak.n_layers; l++) {
        char name[32];
        plan_layer_name(l, peak.n_layers, name, sizeof name);
        put_row(out, name, peak.by_layer[l], p->arena_bytes);
    }
    str_printf(out, "arena: %lld bytes (lower bound %lld)", (long long)p->arena_bytes, (long long)p->lower_bound_bytes);
    if (p->host_bytes)
        str_printf(out, ", %s in the host's memory: %lld bytes", plan_host_holds(p), (long long)p->host_bytes);
    if (p->disk_bytes)
        str_printf(out, ", optimizer states on disk: %lld bytes", (long long)p->disk_bytes);
    if (p->images_bytes)
        str_printf(out, ", memory of the host for inputs and results: %lld bytes", (long long)plan_transfer_bytes(p));
    if (p->checkpoint_bytes)
        str_printf(out, ", a checkpoint's copy: %lld bytes", (long long)p->checkpoint_bytes);
    if (p->metrics_bytes)
        str_printf(out, ", an evaluation's metrics: %lld bytes", (long long)p->metrics_bytes);
    str_append(out, "\n");
    peak_free(&peak);
}

/* ---- layers by components ---- */

struct cells {
    int64_t (*of)[COMPONENT_COUNT]; /* by layer */
    int node;
};

static void add_cell(void *ctx, const struct held *h)
{
    struct cells *c = ctx;
    if (h->persists || (h->first <= c->node && c->node <= h->last))
        c->of[h->layer][h->component] += h->bytes;
}

/* At the peak; mem_free'd by the caller, NULL: no memory. */
static int64_t (*find_cells(const struct plan *p, int n_layers))[COMPONENT_COUNT]
{
    struct cells c = {.node = p->programs[p->largest].peak_node};
    c.of = mem_alloc((size_t)(n_layers + 1) * sizeof *c.of);
    if (c.of)
        plan_visit(p, p->largest, add_cell, &c);
    return c.of;
}

/* Columns of the table: some components are shown together. */
static const struct {
    const char *name;
    unsigned components;
} columns[] = {{"weights", 1u << COMPONENT_WEIGHTS | 1u << COMPONENT_COPIES},
               {"states", 1u << COMPONENT_STATES},
               {"gradients", 1u << COMPONENT_GRADIENTS},
               {"activations", 1u << COMPONENT_ACTIVATIONS | 1u << COMPONENT_MASKS},
               {"others", 1u << COMPONENT_INPUTS | 1u << COMPONENT_SCALARS | 1u << COMPONENT_WORKSPACES}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void put_cells(struct str *out, const char *name, const int64_t *cells)
{
    char size[SIZE_TEXT_MAX];
    str_printf(out, "  %-12s", name);
    for (size_t c = 0; c < COLUMNS; c++) {
        int64_t bytes = 0;
        for (int i = 0; i < COMPONENT_COUNT; i++)
            bytes += columns[c].components >> i & 1 ? cells[i] : 0;
        str_printf(out, " %11s", bytes ? size_text(bytes, size) : "-");
    }
    str_append(out, "\n");
}

void plan_anatomy_text(const struct plan *p, struct str *out)
{
    struct peak peak;
    if (!find_peak(p, &peak, out))
        return;
    int64_t(*cells)[COMPONENT_COUNT] = find_cells(p, peak.n_layers);
    out->failed |= !cells;
    str_append(out, "\nlayers at the peak (weights with their copies)\n");
    str_printf(out, "  %-12s", "");
    for (size_t c = 0; c < COLUMNS; c++)
        str_printf(out, " %11s", columns[c].name);
    str_append(out, "\n");
    for (int l = 0; cells && l < peak.n_layers; l++) {
        char name[32];
        plan_layer_name(l, peak.n_layers, name, sizeof name);
        put_cells(out, name, cells[l]);
    }
    put_cells(out, "all", peak.all.by_component);
    put_shares(out, &peak, peak.shares.n);
    mem_free(cells);
    peak_free(&peak);
}

/* ---- JSON ---- */

static void put_components_json(struct str *out, const int64_t *bytes)
{
    str_append(out, "{");
    for (int i = 0; i < COMPONENT_COUNT; i++)
        str_printf(out, "%s\"%s\":%lld", i ? "," : "", component_names[i], (long long)bytes[i]);
    str_append(out, "}");
}

static void put_peak_json(struct str *out, const struct plan *p, const struct peak *peak)
{
    const struct program *g = &p->programs[p->largest];
    const struct node *at = &g->graph.nodes[g->peak_node];
    str_printf(out, ",\"peak\":{\"program\":\"%s\",\"node\":%d,\"op\":\"%s\",\"layer\":%d},\"held\":[", g->name,
               g->peak_node, op_table[at->op].name, at->layer);
    for (size_t i = 0; i < peak->shares.n; i++) {
        const struct share *x = &peak->shares.of[i];
        str_printf(out,
                   "%s{\"made_by\":\"%s\",\"component\":\"%s\",\"values\":%d,\"first_layer\":%d,\"last_layer\":%d,"
                   "\"bytes\":%lld}",
                   i ? "," : "", x->maker, component_names[x->component], x->n, x->first_layer, x->last_layer,
                   (long long)x->bytes);
    }
    str_append(out, "]");
}

static void put_layers_json(struct str *out, const struct plan *p, const struct peak *peak)
{
    int64_t(*cells)[COMPONENT_COUNT] = find_cells(p, peak->n_layers);
    out->failed |= !cells;
    str_append(out, ",\"layers\":[");
    for (int l = 0; cells && l < peak->n_layers; l++) {
        char name[32];
        plan_layer_name(l, peak->n_layers, name, sizeof name);
        str_printf(out, "%s{\"name\":\"%s\",\"bytes\":%lld,\"components\":", l ? "," : "", name,
                   (long long)peak->by_layer[l]);
        put_components_json(out, cells[l]);
        str_append(out, "}");
    }
    str_append(out, "]");
    mem_free(cells);
}

void plan_report_json(const struct plan *p, struct str *out)
{
    struct peak peak;
    if (!find_peak(p, &peak, out))
        return;
    str_printf(out,
               "{\"arena_bytes\":%lld,\"least_rank_bytes\":%lld,\"host_bytes\":%lld,\"disk_bytes\":%lld,\"transfer_"
               "bytes\":%lld,"
               "\"persistent_bytes\":%lld,\"lower_bound_bytes\":%lld,\"gap_bytes\":%lld,"
               "\"checkpoint_bytes\":%lld,\"metrics_bytes\":%lld,\"components\":",
               (long long)p->arena_bytes, (long long)(p->arena_bytes - p->persistent_bytes + p->least_bytes),
               (long long)p->host_bytes, (long long)p->disk_bytes, (long long)plan_transfer_bytes(p),
               (long long)p->persistent_bytes, (long long)p->lower_bound_bytes,
               (long long)(p->arena_bytes - p->lower_bound_bytes), (long long)p->checkpoint_bytes,
               (long long)p->metrics_bytes);
    put_components_json(out, peak.all.by_component);
    str_printf(out, ",\"frozen_bytes\":%lld", (long long)peak.all.frozen);
    put_peak_json(out, p, &peak);
    put_layers_json(out, p, &peak);
    str_append(out, ",\"programs\":[");
    for (int k = 0; k < p->n_programs; k++) {
        const struct program *g = &p->programs[k];
        str_printf(out, "%s{\"name\":\"%s\"", k ? "," : "", g->name);
        for (int d = 0; d < DIMS; d++)
            str_printf(out, ",\"max_%s\":%lld", dimension_table[d].plural, (long long)g->max.of[d]);
        str_printf(out, ",\"nodes\":%d,\"transient_bytes\":%lld,\"lower_bound_bytes\":%lld}", g->graph.n_nodes - 1,
                   (long long)g->peak_bytes, (long long)g->lower_bound_bytes);
    }
    str_append(out, "]}");
    peak_free(&peak);
}
