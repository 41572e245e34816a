#include "plan/report.h"

#include "base/size.h"

#include <stdio.h>
#include <string.h>

/* ORDER role; roles that belong together are shown together. */
static const char *const components[] = {"activations",      "inputs",     "weights",
                                         "optimizer states", "gradients",  "weight copies",
                                         "scalars",          "workspaces", "total"};

static int count_layers(const struct plan *p)
{
    int n = 0;
    for (int k = 0; k < p->n_programs; k++)
        for (int i = 1; i < p->programs[k].graph.n_values; i++)
            if (p->programs[k].graph.values[i].layer >= n)
                n = p->programs[k].graph.values[i].layer + 1;
    return n;
}

static void layer_name(int layer, int n_layers, char *to, size_t room)
{
    if (layer == 0)
        snprintf(to, room, "embeddings");
    else if (layer == n_layers - 1)
        snprintf(to, room, "head");
    else
        snprintf(to, room, "layer %d", layer);
}

/* In 60 columns; nothing where there is nothing. */
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
    int64_t gap;
};

static bool find_peak(const struct plan *p, struct peak *peak)
{
    peak->n_layers = count_layers(p);
    peak->by_layer = mem_alloc((size_t)peak->n_layers * sizeof *peak->by_layer);
    if (!peak->by_layer)
        return false;
    const struct program *g = &p->programs[p->largest];
    plan_anatomy(p, p->largest, g->peak_node, &peak->all, peak->by_layer, peak->n_layers);
    peak->gap = p->arena_bytes - peak->all.total;
    return true;
}

void plan_report_text(const struct plan *p, struct str *out)
{
    struct peak peak;
    if (!p->n_programs || !find_peak(p, &peak)) {
        out->failed = true;
        return;
    }
    const struct program *g = &p->programs[p->largest];
    const struct node *at = &g->graph.nodes[g->peak_node];
    str_printf(out, "\nmemory at the peak: program %s, node %d of %d, %s", g->name, g->peak_node, g->graph.n_nodes - 1,
               op_table[at->op].name);
    if (at->layer > 0)
        str_printf(out, " in layer %d", at->layer);
    str_printf(out, "\n  %-23s%16s  %8s  %7s\n", "component", "bytes", "", "share");
    static const enum role order[] = {ROLE_WEIGHT,     ROLE_COPY,      ROLE_STATE, ROLE_GRADIENT,
                                      ROLE_ACTIVATION, ROLE_WORKSPACE, ROLE_INPUT, ROLE_SCALAR};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        put_row(out, components[order[i]], peak.all.by_role[order[i]], p->arena_bytes);
    if (peak.all.frozen)
        put_row(out, "  (of the weights: frozen)", peak.all.frozen, p->arena_bytes);
    put_row(out, "gap of the packing", peak.gap, p->arena_bytes);
    put_row(out, "arena, all together", p->arena_bytes, p->arena_bytes);
    str_append(out, "by layer at the peak\n");
    for (int l = 0; l < peak.n_layers; l++) {
        char name[32];
        layer_name(l, peak.n_layers, name, sizeof name);
        put_row(out, name, peak.by_layer[l], p->arena_bytes);
    }
    str_printf(out, "arena: %lld bytes (lower bound %lld)", (long long)p->arena_bytes, (long long)p->lower_bound_bytes);
    if (p->checkpoint_bytes)
        str_printf(out, ", a checkpoint's copy: %lld bytes", (long long)p->checkpoint_bytes);
    if (p->metrics_bytes)
        str_printf(out, ", an evaluation's metrics: %lld bytes", (long long)p->metrics_bytes);
    str_append(out, "\n");
    mem_free(peak.by_layer);
}

void plan_report_json(const struct plan *p, struct str *out)
{
    struct peak peak;
    if (!p->n_programs || !find_peak(p, &peak)) {
        out->failed = true;
        return;
    }
    str_printf(out,
               "{\"arena_bytes\":%lld,\"persistent_bytes\":%lld,\"lower_bound_bytes\":%lld,\"gap_bytes\":%lld,"
               "\"checkpoint_bytes\":%lld,\"metrics_bytes\":%lld",
               (long long)p->arena_bytes, (long long)p->persistent_bytes, (long long)p->lower_bound_bytes,
               (long long)(p->arena_bytes - p->lower_bound_bytes), (long long)p->checkpoint_bytes,
               (long long)p->metrics_bytes);
    str_append(out, ",\"components\":{");
    for (int r = 0; r < ROLE_COUNT; r++)
        str_printf(out, "%s\"%s\":%lld", r ? "," : "", components[r], (long long)peak.all.by_role[r]);
    str_printf(out, "},\"frozen_bytes\":%lld,\"layers\":[", (long long)peak.all.frozen);
    for (int l = 0; l < peak.n_layers; l++) {
        char name[32];
        layer_name(l, peak.n_layers, name, sizeof name);
        str_printf(out, "%s{\"name\":\"%s\",\"bytes\":%lld}", l ? "," : "", name, (long long)peak.by_layer[l]);
    }
    str_append(out, "],\"programs\":[");
    for (int k = 0; k < p->n_programs; k++) {
        const struct program *g = &p->programs[k];
        str_printf(out, "%s{\"name\":\"%s\"", k ? "," : "", g->name);
        for (int d = 0; d < DIMS; d++)
            str_printf(out, ",\"max_%s\":%lld", dimension_table[d].plural, (long long)g->max.of[d]);
        str_printf(out, ",\"nodes\":%d,\"transient_bytes\":%lld,\"lower_bound_bytes\":%lld}", g->graph.n_nodes - 1,
                   (long long)g->peak_bytes, (long long)g->lower_bound_bytes);
    }
    str_append(out, "]}");
    mem_free(peak.by_layer);
}
