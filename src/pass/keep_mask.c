#include "pass/pass.h"

void pass_keep_mask(struct graph *g, struct pass_settings *s)
{
    mask_reader *reads = s->choices.keep_masks ? s->reads_mask : NULL;
    for (int k = 1; k < g->n_nodes && !g->err.code; k++) {
        struct op_attention_bwd *n = &g->nodes[k].u.attention_bwd;
        if (g->nodes[k].op != OP_attention_bwd)
            continue;
        const struct value *qkv = graph_value(g, n->qkv);
        if (!reads || !reads(n, qkv->shape[1].c / (n->heads + 2 * n->kv_heads), qkv->dtype))
            n->mask = 0;
    }
}
