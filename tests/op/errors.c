/* What a shape rule refuses, and what it says. */
#include "cases.h"
#include "checks.h"
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_(...) (int8_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define F(...)                                                                                                         \
    {                                                                                                                  \
        .shape = {__VA_ARGS__}, .dtype = DT_F32, .ndim = COUNT_(__VA_ARGS__)                                           \
    }
#define I(...)                                                                                                         \
    {                                                                                                                  \
        .shape = {__VA_ARGS__}, .dtype = DT_I32, .ndim = COUNT_(__VA_ARGS__)                                           \
    }
#define D(...)                                                                                                         \
    {                                                                                                                  \
        .shape = {__VA_ARGS__}, .dtype = DT_F64, .ndim = COUNT_(__VA_ARGS__)                                           \
    }
#define U(...)                                                                                                         \
    {                                                                                                                  \
        .shape = {__VA_ARGS__}, .dtype = DT_U8, .ndim = COUNT_(__VA_ARGS__)                                            \
    }
#define C(...)                                                                                                         \
    {                                                                                                                  \
        .shape = {__VA_ARGS__}, .dtype = DT_F4, .ndim = COUNT_(__VA_ARGS__)                                            \
    }
#define ROW(name, says, ...)                                                                                           \
    {                                                                                                                  \
        OP_##name, says,                                                                                               \
        {                                                                                                              \
            .name = { __VA_ARGS__ }                                                                                    \
        }                                                                                                              \
    }

static const struct {
    enum op op;
    const char *says;
    union args_any args;
} rows[] = {
    ROW(embed, "embed: slot table refers to value 0", .ids = I(4)),
    ROW(embed, "embed: ids and table come in pairs", .ids = I(4), .table = F(5, 6), .ids2 = I(4)),
    ROW(embed, "embed: ids must be (N) I32, tables (V,H) of one H", .ids = I(4), .table = F(5)),
    ROW(embed, "embed: ids must be (N) I32, tables (V,H) of one H", .ids = F(4), .table = F(5, 6)),
    ROW(embed, "of one H", .ids = I(4), .table = F(5, 6), .ids2 = I(4), .table2 = F(5, 7)),
    ROW(embed_bwd, "embed_bwd: dy must be (N,H), dtable (V,H)", .ids = I(4), .dy = F(4, 6), .cu = I(2),
        .dtable = F(5, 7)),
    ROW(linear, "linear: x must be (N,I) and w (O,I)", .x = F(3, 4), .w = F(5, 6)),
    ROW(linear, "linear: x must be (N,I) and w (O,I)", .x = F(3, 4), .w = F(5, 4), .in_out = 1),
    ROW(linear, "linear: b must be (O)", .x = F(3, 4), .w = F(5, 4), .b = F(4)),
    ROW(linear, "linear: add must be (N,O)", .x = F(3, 4), .w = F(5, 4), .add = F(3, 4)),
    ROW(linear_dx, "linear_dx: dy must be (N,O), w (O,I), dx (N,I)", .dy = F(3, 5), .w = F(5, 4), .dx = F(3, 5)),
    ROW(linear_dw, "linear_dw: dy must be (N,O), x (N,I), dw (O,I), db (O)", .dy = F(3, 5), .x = F(3, 4),
        .dw = F(4, 5)),
    ROW(linear_dw, "linear_dw: dy must be", .dy = F(3, 5), .x = F(3, 4), .dw = F(5, 4), .db = F(4)),
    ROW(linear_dx_act, "linear_dx_act: dy must be (N,O), w (O,I), slope (N,I), dbias (I)", .dy = F(3, 5), .w = F(5, 4),
        .slope = F(3, 5)),
    ROW(linear_dx_act, "linear_dx_act: dy must be", .dy = F(3, 5), .w = F(5, 4), .slope = F(3, 4), .dbias = F(5)),
    ROW(linear_dx_act, "linear_dx_act: dy must be", .dy = F(3, 5), .w = F(5, 4), .slope = F(3, 4), .in_out = 1),
    ROW(act_bwd, "act_bwd: two inputs that must have one shape differ", .slope = F(3, 5), .dy = F(3, 4)),
    ROW(act_bwd, "act_bwd: dbias must be (F)", .slope = F(3, 5), .dy = F(3, 5), .dbias = F(3)),
    ROW(attention, "attention: qkv must be (T, width)", .qkv = F(12), .cu = I(2), .heads = 1, .kv_heads = 1),
    ROW(attention, "attention: kv_heads must divide heads", .qkv = F(4, 12), .cu = I(2), .heads = 3, .kv_heads = 2),
    ROW(attention, "attention: kv_heads must divide heads", .qkv = F(4, 12), .cu = I(2), .heads = 0, .kv_heads = 1),
    ROW(attention, "attention: queries must be 0, or above it and not causal", .qkv = F(4, 12), .cu = I(2), .heads = 2,
        .kv_heads = 1, .causal = 1, .queries = 1),
    ROW(attention, "must be a multiple of heads + 2 kv_heads", .qkv = F(4, 13), .cu = I(2), .heads = 2, .kv_heads = 1),
    ROW(attention, "attention: window must be 0 or above it", .qkv = F(4, 12), .cu = I(2), .heads = 2, .kv_heads = 1,
        .window = -1),
    ROW(attention, "attention: softcap must be 0 or above it", .qkv = F(4, 12), .cu = I(2), .heads = 2, .kv_heads = 1,
        .softcap = -50),
    ROW(attention_bwd, "attention_bwd: two inputs that must have one shape differ", .qkv = F(4, 12), .o = F(4, 4),
        .lse = F(1, 4), .dout = F(3, 4), .cu = I(2), .heads = 1, .kv_heads = 1),
    ROW(norm, "norm: x must be (N,H), gamma (H)", .x = F(3, 5), .gamma = F(4), .beta = F(4)),
    ROW(norm, "norm: two inputs that must have one shape differ", .x = F(3, 5), .gamma = F(5), .beta = F(4)),
    ROW(norm, "norm: two inputs that must have one shape differ", .x = F(3, 5), .res = F(2, 5), .gamma = F(5),
        .beta = F(5)),
    ROW(norm_bwd, "norm_bwd: two inputs that must have one shape differ", .dy = F(3, 5), .h = F(3, 4), .gamma = F(5),
        .mean = F(3), .rstd = F(3)),
    ROW(norm_bwd, "norm_bwd: two inputs", .dy = F(3, 5), .h = F(3, 5), .gamma = F(5), .mean = F(3), .rstd = F(2)),
    ROW(norm_bwd, "norm_bwd: two inputs", .dy = F(3, 5), .h = F(3, 5), .gamma = F(5), .mean = F(3), .rstd = F(3),
        .dbias = F(3)),
    ROW(rms_norm, "rms_norm: x must be (N,H), gamma (H)", .x = F(3, 5), .gamma = F(4)),
    ROW(rms_norm, "rms_norm: two inputs that must have one shape differ", .x = F(3, 5), .res = F(2, 5), .gamma = F(5)),
    ROW(rms_norm_bwd, "rms_norm_bwd: two inputs that must have one shape differ", .dy = F(3, 5), .h = F(3, 4),
        .gamma = F(5), .rstd = F(3)),
    ROW(rms_norm_bwd, "rms_norm_bwd: h must be (N,H), rstd (N)", .dy = F(3, 5), .h = F(3, 5), .gamma = F(5),
        .rstd = F(5)),
    ROW(glu, "glu: x must be (N,2F)", .x = F(3, 5)),
    ROW(glu_bwd, "glu_bwd: x must be (N,2F), dy (N,F)", .x = F(3, 6), .dy = F(3, 6)),
    ROW(add, "add: two inputs that must have one shape differ", .a = F(3, 4), .b = F(4, 4)),
    ROW(add_bwd, "add_bwd: two inputs that must have one shape differ", .dy = F(3, 4), .da = F(4, 4)),
    ROW(dora_norm, "dora_norm: w must be (O,I)", .w = F(3, 4), .a = F(2, 3), .b = F(3, 2)),
    ROW(dora_norm, "dora_norm: w must be (O,I)", .w = F(3, 4), .a = F(2, 4), .b = F(3, 1)),
    ROW(dora_norm, "dora_norm: w must be (O,I)", .w = F(3, 4), .a = F(2, 4), .b = F(3, 2), .in_out = 1),
    ROW(dora, "dora: z must be (N,O)", .z = F(3, 4), .m = F(3), .norm = F(4)),
    ROW(dora, "dora: z must be (N,O)", .z = F(3, 4), .m = F(4), .norm = F(4), .bias = F(3)),
    ROW(dora_bwd, "dora_bwd: two inputs that must have one shape differ", .dy = F(3, 5), .z = F(3, 4), .m = F(4),
        .norm = F(4)),
    ROW(dora_bwd, "dora_bwd: z must be (N,O)", .dy = F(3, 4), .z = F(3, 4), .m = F(4), .norm = F(4), .dm = F(3)),
    ROW(softcap, "softcap: x must be (N,V), cap above 0", .x = F(3, 4)),
    ROW(softcap_bwd, "softcap_bwd: two inputs that must have one shape differ", .y = F(3, 4), .dy = F(4, 4), .cap = 2),
    ROW(rotary_table, "rotary_table: positions must be (T) I32, frequencies (R/2) F64", .positions = I(3),
        .frequencies = F(4)),
    ROW(rotary, "rotary: qkv must be (T, width)", .qkv = F(12), .table = F(3, 4), .heads = 1, .kv_heads = 1),
    ROW(rotary, "rotary: kv_heads must divide heads", .qkv = F(3, 12), .table = F(3, 4), .heads = 3, .kv_heads = 2),
    ROW(rotary, "rotary: the width of qkv must be heads + 2 kv_heads times an even size of a head", .qkv = F(3, 9),
        .table = F(3, 2), .heads = 1, .kv_heads = 1),
    ROW(rotary, "rotary: without a table and gammas there is nothing to do", .qkv = F(3, 12), .heads = 1,
        .kv_heads = 1),
    ROW(rotary, "rotary: the table must be (T,R) with an even R of at most a head's size", .qkv = F(3, 12),
        .table = F(3, 6), .heads = 1, .kv_heads = 1),
    ROW(rotary, "rotary: q_gamma and k_gamma come together", .qkv = F(3, 12), .q_gamma = F(4), .heads = 1,
        .kv_heads = 1),
    ROW(rotary, "rotary: gammas must be (D), or (A D) of q and (K D) of k", .qkv = F(3, 16), .q_gamma = F(8),
        .k_gamma = F(8), .heads = 2, .kv_heads = 1),
    ROW(rotary, "rotary: by_group goes without gammas", .qkv = F(3, 12), .q_gamma = F(4), .k_gamma = F(4), .heads = 1,
        .kv_heads = 1, .by_group = 1),
    ROW(rotary_bwd, "rotary_bwd: qkv and rstd go with gammas", .dy = F(3, 12), .q_gamma = F(4), .k_gamma = F(4),
        .heads = 1, .kv_heads = 1),
    ROW(rotary_bwd, "rotary_bwd: rstd must be (T, heads + kv_heads), or (T,2) for gammas of all heads", .dy = F(3, 16),
        .qkv = F(3, 16), .q_gamma = F(4), .k_gamma = F(4), .rstd = F(3, 2), .heads = 2, .kv_heads = 1),
    ROW(dropout, "dropout: x must be (N,H)", .x = F(3), .coords = I(3, 2), .rng = I(4)),
    ROW(dropout, "dropout: slot rng refers to value 0", .x = F(3, 4), .coords = I(3, 2)),
    ROW(dropout_bwd, "dropout_bwd: two inputs", .dy = F(3, 4), .coords = I(3, 2), .rng = I(4), .dx = F(4, 4)),
    ROW(attention_general, "attention_general: q must be (T, heads D), or (T, 3 heads D) without kv", .q = F(4, 13),
        .table = F(8, 2), .cu = I(2), .heads = 2, .furthest = 9),
    ROW(attention_general, "attention_general: kv must be (S, 2 heads D)", .q = F(4, 12), .kv = F(5, 12), .cu = I(2),
        .kv_cu = I(2), .heads = 2),
    ROW(attention_general, "attention_general: kv and kv_cu come together", .q = F(4, 12), .kv = F(5, 24), .cu = I(2),
        .heads = 2),
    ROW(attention_general, "attention_general: table must be (buckets, heads)", .q = F(4, 12), .table = F(8, 3),
        .cu = I(2), .heads = 2, .furthest = 9),
    ROW(attention_general, "attention_general: buckets must be even and 4 at least", .q = F(4, 12), .table = F(5, 2),
        .cu = I(2), .heads = 2, .furthest = 9),
    ROW(attention_general, "attention_general: with furthest 0 it is causal, and the table (1, heads)", .q = F(4, 12),
        .table = F(1, 2), .cu = I(2), .heads = 2),
    ROW(attention_general_bwd, "attention_general_bwd: with furthest 0 the table has no gradient", .q = F(4, 12),
        .table = F(1, 2), .o = F(4, 4), .lse = F(2, 4), .dout = F(4, 4), .cu = I(2), .dtable = F(1, 2), .heads = 2,
        .causal = 1),
    ROW(attention_general_bwd, "attention_general_bwd: dtable must be as the table", .q = F(4, 12), .table = F(8, 2),
        .o = F(4, 4), .lse = F(2, 4), .dout = F(4, 4), .cu = I(2), .dtable = F(2, 8), .heads = 2, .furthest = 9),
    ROW(attention_cached, "attention_cached: with furthest 0 the table must be (1, heads)", .qkv = F(4, 12), .cu = I(2),
        .past = I(1), .keys = F(1, 5, 4), .values = F(1, 5, 4), .table = F(8, 2), .heads = 2, .kv_heads = 2),
    ROW(attention_cached, "attention_cached: keys must be (B, L, kv_heads D)", .qkv = F(4, 12), .cu = I(2),
        .past = I(1), .keys = F(1, 5, 6), .values = F(1, 5, 6), .heads = 2, .kv_heads = 2),
    ROW(attention_cached, "attention_cached: kv_heads must divide heads", .qkv = F(4, 12), .cu = I(2), .past = I(1),
        .keys = F(1, 5, 4), .values = F(1, 5, 4), .heads = 3, .kv_heads = 2),
    ROW(attention_cached, "attention_cached: two inputs that must have one shape differ", .qkv = F(4, 12), .cu = I(2),
        .past = I(1), .keys = F(1, 5, 4), .values = F(1, 6, 4), .heads = 1, .kv_heads = 1),
    ROW(attention_cached, "attention_cached: kv must be (S, 2 kv_heads D)", .qkv = F(4, 4), .kv = F(3, 4),
        .kv_cu = I(2), .cu = I(2), .past = I(1), .keys = F(1, 5, 4), .values = F(1, 5, 4), .heads = 2, .kv_heads = 2),
    ROW(attention_cached, "attention_cached: kv and kv_cu come together", .qkv = F(4, 4), .kv = F(3, 8), .cu = I(2),
        .past = I(1), .keys = F(1, 5, 4), .values = F(1, 5, 4), .heads = 2, .kv_heads = 2),
    ROW(attention_cached, "attention_cached: with kv there are no table and no window", .qkv = F(4, 4), .kv = F(3, 8),
        .kv_cu = I(2), .cu = I(2), .past = I(1), .keys = F(1, 5, 4), .values = F(1, 5, 4), .heads = 2, .kv_heads = 2,
        .window = 3),
    ROW(attention_cached, "attention_cached: at must be (B, L), or with kv (B)", .qkv = F(4, 12), .cu = I(2),
        .past = I(1), .at = I(5), .keys = F(1, 5, 4), .values = F(1, 5, 4), .heads = 1, .kv_heads = 1),
    ROW(attention_cached, "attention_cached: table must be (buckets, heads)", .qkv = F(4, 12), .table = F(8, 3),
        .cu = I(2), .past = I(1), .keys = F(1, 5, 4), .values = F(1, 5, 4), .heads = 2, .kv_heads = 2, .furthest = 9),
    ROW(attention_cached, "attention_cached: buckets must be even and 4 at least", .qkv = F(4, 12), .table = F(8, 2),
        .cu = I(2), .past = I(1), .keys = F(1, 5, 4), .values = F(1, 5, 4), .heads = 2, .kv_heads = 2, .furthest = 4),
    ROW(attention_disentangled, "attention_disentangled: qkv must be (T, 3 heads D)", .qkv = F(4, 13),
        .relative = F(8, 13), .rows = I(7), .cu = I(2), .heads = 2, .keys = 1),
    ROW(attention_disentangled, "attention_disentangled: relative must be (R, parts heads D)", .qkv = F(4, 12),
        .relative = F(8, 6), .rows = I(7), .cu = I(2), .heads = 2, .keys = 1),
    ROW(attention_disentangled,
        "attention_disentangled: queries and keys must be two parts of relative, or one of them 0", .qkv = F(4, 12),
        .relative = F(8, 8), .rows = I(7), .cu = I(2), .heads = 2, .queries = 1, .keys = 3),
    ROW(attention_disentangled, "attention_disentangled: rows must have an odd number of entries", .qkv = F(4, 12),
        .relative = F(8, 8), .rows = I(8), .cu = I(2), .heads = 2, .queries = 1, .keys = 2),
    ROW(attention_disentangled_bwd, "attention_disentangled_bwd: two inputs that must have one shape differ",
        .qkv = F(4, 12), .relative = F(8, 8), .rows = I(7), .o = F(4, 4), .lse = F(2, 4), .dout = F(4, 4), .cu = I(2),
        .drelative = F(8, 4), .heads = 2, .queries = 1, .keys = 2),
    ROW(route, "route: logits must be (N,E)", .logits = F(3), .k = 1),
    ROW(route, "route: k must be 1 to E", .logits = F(3, 4), .k = 5),
    ROW(route, "route: k must be 1 to E", .logits = F(3, 4)),
    ROW(route_bwd, "route_bwd: logits must be (N,E), dgates (N,k), places (k N) and offsets (E+1) I32",
        .logits = F(3, 4), .dgates = F(3, 2), .places = I(6), .offsets = I(4)),
    ROW(route_bwd, "route_bwd: logits must be", .logits = F(3, 4), .dgates = F(3, 2), .places = I(5), .offsets = I(5)),
    ROW(route_bwd, "route_bwd: two inputs that must have one shape differ", .logits = F(3, 4), .dgates = F(3, 2),
        .places = I(6), .offsets = I(5), .dlogits = F(4, 3)),
    ROW(expert_use, "expert_use: logits must be (N,E), places (k N), offsets (E+1) and counted (E) I32, before (E)",
        .logits = F(3, 4), .places = I(6), .offsets = I(4), .cu = I(2)),
    ROW(expert_use, "expert_use: logits must be", .logits = F(3, 4), .places = I(6), .offsets = I(5), .cu = I(2),
        .counted = F(4)),
    ROW(expert_use, "expert_use: logits must be", .logits = F(3, 4), .places = I(6), .offsets = I(5), .cu = I(2),
        .before = F(3)),
    ROW(expert_use_bwd, "expert_use_bwd: logits must be (N,E), dy and dbefore (E)", .logits = F(3, 4), .dy = F(3),
        .cu = I(2)),
    ROW(expert_use_bwd, "expert_use_bwd: two inputs that must have one shape differ", .logits = F(3, 4), .dy = F(4),
        .cu = I(2), .dlogits = F(4, 3)),
    ROW(balance_loss, "balance_loss: counts must be (E) I32, sums (E), labels (N) I32, layers above 0", .counts = I(4),
        .sums = F(3), .cu = I(2), .labels = I(3), .step = D(STEP_SCALARS), .layers = 1),
    ROW(balance_loss, "balance_loss: counts must be", .counts = I(4), .sums = F(4), .cu = I(2), .labels = I(3),
        .step = D(STEP_SCALARS)),
    ROW(balance_loss_bwd, "balance_loss_bwd: the scaler must be F64", .counts = I(4), .cu = I(2), .labels = I(3),
        .step = D(STEP_SCALARS), .scaler = F(4), .dsums = F(4), .layers = 1),
    ROW(expert_shares, "expert_shares: places must be (k N), offsets (E+1) I32, before (2)", .places = I(6),
        .offsets = I(4), .cu = I(2), .before = F(3), .k = 2),
    ROW(expert_shares, "expert_shares: places must be", .places = I(6), .offsets = I(4), .cu = I(2)),
    ROW(take, "take: x must be (N,H), places (k N) I32", .x = F(3, 4), .places = I(5), .k = 2),
    ROW(take, "take: x must be (N,H), places (k N) I32", .x = F(3, 4), .places = F(6), .k = 2),
    ROW(take_bwd, "take_bwd: dy must be (k N,H), places (k N) I32, dx (N,H)", .dy = F(6, 4), .places = I(6),
        .dx = F(2, 4), .k = 2),
    ROW(combine, "combine: x must be (k N,H), gates (N,k), places (k N) I32", .x = F(6, 4), .gates = F(3, 3),
        .places = I(6)),
    ROW(combine_bwd, "combine_bwd: x must be (k N,H), gates (N,k), places (k N) I32", .dy = F(3, 4), .x = F(5, 4),
        .gates = F(3, 2), .places = I(6)),
    ROW(combine_bwd, "combine_bwd: dy must be (N,H)", .dy = F(3, 5), .x = F(6, 4), .gates = F(3, 2), .places = I(6)),
    ROW(combine_bwd, "combine_bwd: two inputs that must have one shape differ", .dy = F(3, 4), .x = F(6, 4),
        .gates = F(3, 2), .places = I(6), .dgates = F(2, 3)),
    ROW(gate_rows, "gate_rows: x must be (N,H), logits (N,1)", .x = F(3, 4), .logits = F(3, 2)),
    ROW(gate_rows_bwd, "gate_rows_bwd: x must be (N,H), logits (N,1)", .dy = F(3, 4), .x = F(3, 4), .logits = F(2, 1)),
    ROW(gate_rows_bwd, "gate_rows_bwd: two inputs that must have one shape differ", .dy = F(3, 5), .x = F(3, 4),
        .logits = F(3, 1)),
    ROW(linear_experts, "linear_experts: x must be (N,I), y (N,O), w (E,O,I), offsets (E+1) I32", .x = F(3, 4),
        .w = F(2, 5, 3), .offsets = I(3)),
    ROW(linear_experts, "linear_experts: x must be", .x = F(3, 4), .w = F(2, 5, 4), .offsets = I(2)),
    ROW(linear_experts_dx, "linear_experts_dx: x must be", .dy = F(3, 5), .w = F(2, 5, 4), .offsets = I(3),
        .dx = F(3, 5)),
    ROW(linear_experts_dw, "linear_experts_dw: x must be", .dy = F(3, 5), .x = F(3, 4), .offsets = I(3),
        .dw = F(2, 4, 5)),
    ROW(split_experts, "split_experts: w must be (E M,N), or (M,N E)", .w = F(9, 4), .experts = 2),
    ROW(split_experts, "split_experts: w must be", .w = F(4, 9), .experts = 2, .columns = 1),
    ROW(split_experts, "split_experts: w must be", .w = F(4, 4)),
    ROW(split_experts_bwd, "split_experts_bwd: dw must be (E M,N), or (M,N E)", .dy = F(2, 5, 4), .dw = F(5, 8)),
    ROW(split_experts_bwd, "split_experts_bwd: dw must be", .dy = F(2, 5, 4), .dw = F(10, 4), .columns = 1),
    ROW(activation, "activation: x must be (N,F), and act", .x = F(3, 4)),
    ROW(neighbours, "neighbours: x must be (T,H), width odd", .x = F(3, 4), .cu = I(2), .width = 2),
    ROW(neighbours, "neighbours: x must be (T,H), width odd", .x = F(3), .cu = I(2), .width = 3),
    ROW(neighbours_bwd, "neighbours_bwd: dy must be (T, H width)", .dy = F(3, 12), .cu = I(2), .dx = F(3, 5),
        .width = 3),
    ROW(gather, "gather: x must be (T,H)", .x = F(3), .cu = I(2)),
    ROW(pool, "pool: x must be (T,H)", .x = F(3), .cu = I(2)),
    ROW(pool_bwd, "pool_bwd: dy must be (B,H), dx (T,H)", .dy = F(1, 4), .cu = I(2), .dx = F(3, 5)),
    ROW(gather_bwd, "gather_bwd: dy must be (B,H), dx (T,H)", .dy = F(1, 4), .cu = I(2), .dx = F(3, 5)),
    ROW(cross_entropy, "cross_entropy: logits must be (N,V), labels (N) I32", .logits = F(3, 4), .labels = F(3),
        .step = F(8)),
    ROW(cross_entropy, "cross_entropy: logits must be (N,V), labels (N) I32", .logits = F(3, 4), .labels = I(4),
        .step = F(8)),
    ROW(cross_entropy, "loss: weights of classes must be (V)", .logits = F(3, 4), .labels = I(3), .step = F(8),
        .weights = F(3)),
    ROW(cross_entropy_bwd, "loss: weights of classes must be (V)", .logits = F(3, 4), .labels = I(3), .lse = F(3),
        .step = F(8), .weights = F(4, 1)),
    ROW(bce, "loss: weights of classes must be (V)", .logits = F(3, 4), .labels = F(3, 4), .step = F(8),
        .weights = F(5)),
    ROW(bce_bwd, "loss: weights of classes must be (V)", .logits = F(3, 4), .labels = F(3, 4), .step = F(8),
        .weights = F(5)),
    ROW(cross_entropy_bwd, "loss: two inputs", .logits = F(3, 4), .labels = I(3), .lse = F(3), .step = F(8),
        .dlogits = F(3, 5)),
    ROW(cross_entropy_bwd, "loss: the scaler must be F64", .logits = F(3, 4), .labels = I(3), .lse = F(3), .step = F(8),
        .scaler = F(4)),
    ROW(span_loss, "span_loss: logits must be (T,2), spans (T) I32", .logits = F(4, 3), .spans = I(4), .cu = I(2),
        .step = F(8)),
    ROW(span_loss, "span_loss: logits must be (T,2), spans (T) I32", .logits = F(4, 2), .spans = F(4), .cu = I(2),
        .step = F(8)),
    ROW(span_loss_bwd, "span_loss_bwd: logits must be (T,2), spans (T) I32", .logits = F(4, 2), .spans = I(3),
        .cu = I(2), .lse = F(1, 2), .step = F(8)),
    ROW(span_loss_bwd, "span_loss_bwd: two inputs", .logits = F(4, 2), .spans = I(4), .cu = I(2), .lse = F(1, 2),
        .step = F(8), .dlogits = F(5, 2)),
    ROW(span_loss_bwd, "span_loss_bwd: the scaler must be F64", .logits = F(4, 2), .spans = I(4), .cu = I(2),
        .lse = F(1, 2), .step = F(8), .scaler = F(4)),
    ROW(argmax, "argmax: logits must be (N,V), labels (N) I32", .logits = F(3, 4), .labels = F(3)),
    ROW(linear_cross_entropy, "linear_cross_entropy: x must be (N,H), w (V,H), labels (N) I32", .x = F(3, 4),
        .w = F(5, 3), .labels = I(3), .step = F(8), .chunk = 1),
    ROW(linear_cross_entropy, "linear_cross_entropy: x must be", .x = F(3, 4), .w = F(5, 4), .labels = I(5),
        .step = F(8), .chunk = 1),
    ROW(linear_cross_entropy, "linear_cross_entropy: chunk must be above 0, softcap 0 or above it", .x = F(3, 4),
        .w = F(5, 4), .labels = I(3), .step = F(8)),
    ROW(linear_cross_entropy, "linear_cross_entropy: the scaler must be F64", .x = F(3, 4), .w = F(5, 4),
        .labels = I(3), .step = F(8), .scaler = F(4), .chunk = 1),
    ROW(linear_cross_entropy, "linear_cross_entropy: more must be (1), b and db (V), dx (N,H), dw (V,H)", .x = F(3, 4),
        .w = F(5, 4), .labels = I(3), .step = F(8), .dw = F(4, 5), .chunk = 1),
    ROW(linear_cross_entropy, "linear_cross_entropy: more must be", .x = F(3, 4), .w = F(5, 4), .b = F(4),
        .labels = I(3), .step = F(8), .chunk = 1),
    ROW(mse, "mse: two inputs that must have one shape differ", .logits = F(3, 4), .labels = F(3, 5), .step = F(8)),
    ROW(mse_bwd, "loss: two inputs", .logits = F(3, 4), .labels = F(3, 4), .step = F(8), .dlogits = F(3)),
    ROW(bce, "bce: two inputs that must have one shape differ", .logits = F(3, 4), .labels = F(3), .step = F(8)),
    ROW(bce_bwd, "loss: two inputs", .logits = F(3, 4), .labels = F(3, 4), .step = F(8), .dlogits = F(3)),
    ROW(mask_dropout, "mask_dropout: x must be (T,H), ids (T)", .x = F(3, 4), .ids = I(4), .cu = I(2)),
    ROW(scale, "scale: x must be (N,H)", .x = F(3)),
    ROW(cast, "cast: slot x refers to value 0", .y = {.ndim = 0}),
    ROW(all_reduce, "all_reduce: g must be a gradient", .g = F(3)),
    ROW(pull, "pull: x must be there, and come from a rank", .x = F(3)),
    ROW(dequantize, "w must be in codes of 4 bits", .w = F(4, 32), .absmax = F(2)),
    ROW(dequantize, "one number for every 64", .w = C(4, 32), .absmax = F(3)),
    ROW(dequantize, "in codes of 8 bits where there is nested", .w = C(4, 32), .absmax = U(2)),
    ROW(dequantize, "in codes of 8 bits where there is nested", .w = C(4, 32), .absmax = F(2), .nested = F(2)),
    ROW(dequantize, "dequantize: w must be", .w = C(4, 32), .absmax = U(2), .nested = F(3)),
    ROW(dequantize, "dequantize: w must be", .w = C(4, 32), .absmax = F(2), .table = 2),
    ROW(move, "move: slot x refers to value 0", .y = {.ndim = 0}),
    ROW(page, "page: slot x refers to value 0", .y = {.ndim = 0}),
    ROW(broadcast, "broadcast: x must be there, and come from a rank", .x = F(3)),
    ROW(sumsq, "sumsq: partials must be (chunks) F64", .g = F(3), .partials = F(1)),
    ROW(clip, "clip: slot partials refers to value 0", .max_norm = 1),
    ROW(clip, "clip: the scaler must be F64", .partials = D(3), .scaler = F(4)),
    ROW(adamw, "adamw: two inputs that must have one shape differ", .p = F(3), .g = F(3), .m = F(3), .v = F(3),
        .step = D(8), .copy = F(4)),
    ROW(sgd, "sgd: two inputs that must have one shape differ", .p = F(3), .g = F(3), .step = D(8), .copy = F(4)),
    ROW(adamw, "adamw: two inputs that must have one shape differ", .p = F(3), .g = F(4), .m = F(3), .v = F(3),
        .step = F(8)),
    ROW(adamw8bit, "adamw8bit: states must be U8, and have one absmax for every 256 elements", .p = F(300), .g = F(300),
        .m = F(300), .v = U(300), .absmax_m = F(2), .absmax_v = F(2), .step = D(8)),
    ROW(adamw8bit, "adamw8bit: states must be U8, and have one absmax for every 256 elements", .p = F(300), .g = F(300),
        .m = U(300), .v = U(300), .absmax_m = F(2), .absmax_v = F(1), .step = D(8)),
    ROW(adamw8bit, "adamw8bit: two inputs that must have one shape differ", .p = F(300), .g = F(300), .m = U(300),
        .v = U(299), .absmax_m = F(2), .absmax_v = F(2), .step = D(8)),
    ROW(adafactor, "adafactor: a matrix (r,c) needs row (r) and col (c), anything else v", .p = F(3, 4), .g = F(3, 4),
        .row = F(4), .col = F(3), .step = D(8), .beta1 = -1),
    ROW(adafactor, "adafactor: a matrix (r,c) needs row (r) and col (c), anything else v", .p = F(3, 4), .g = F(3, 4),
        .v = F(3, 4), .step = D(8), .beta1 = -1),
    ROW(adafactor, "adafactor: a matrix (r,c) needs row (r) and col (c), anything else v", .p = F(3), .g = F(3),
        .row = F(3), .step = D(8), .beta1 = -1),
    ROW(adafactor, "adafactor: m goes with beta1", .p = F(3), .g = F(3), .v = F(3), .step = D(8), .beta1 = 0.9),
    ROW(adafactor, "adafactor: two inputs that must have one shape differ", .p = F(3), .g = F(3), .v = F(3), .m = F(4),
        .step = D(8), .beta1 = 0.9),
    ROW(adafactor_sums, "adafactor_sums: row and the sums must be those of matrices (rows,columns)", .row = F(3),
        .g = F(3, 4), .col_sums = F(2, 4), .row_sums = D(1), .step = D(8), .rows = 3, .columns = 4),
    ROW(adafactor_sums, "adafactor_sums: row and the sums must be those of matrices (rows,columns)", .row = F(4),
        .g = F(3, 4), .col_sums = F(1, 4), .row_sums = D(1), .step = D(8), .rows = 3, .columns = 4),
    ROW(adafactor_sums, "adafactor_sums: row and the sums must be those of matrices (rows,columns)", .row = F(3),
        .g = F(3, 4), .col_sums = F(1, 4), .row_sums = D(1), .step = D(8)),
    ROW(adafactor_sums, "adafactor_sums: weight_sums go with p", .row = F(3), .g = F(3, 4), .p = F(3, 4),
        .col_sums = F(1, 4), .row_sums = D(1), .step = D(8), .rows = 3, .columns = 4),
    ROW(adafactor_squares, "adafactor_squares: row, col and the sums must be those of matrices (rows,columns)",
        .col = F(4), .g = F(3, 4), .row = F(3), .col_sums = F(1, 4), .row_sums = D(1), .squares = D(2), .step = D(8),
        .rows = 3),
    ROW(adafactor_apply, "adafactor_apply: row, col and the sums must be those of matrices (rows,columns)",
        .p = F(3, 4), .g = F(3, 4), .row = F(3), .col = F(3), .row_sums = D(1), .squares = D(1), .step = D(8),
        .rows = 3, .beta1 = -1),
    ROW(adafactor_apply, "adafactor_apply: two inputs that must have one shape differ", .p = F(3, 4), .g = F(4, 3),
        .row = F(3), .col = F(4), .row_sums = D(1), .squares = D(1), .step = D(8), .rows = 3, .beta1 = -1),
    ROW(adafactor_apply, "adafactor_apply: m goes with beta1", .p = F(3, 4), .g = F(3, 4), .row = F(3), .col = F(4),
        .row_sums = D(1), .squares = D(1), .step = D(8), .rows = 3, .beta1 = 0.5),
    ROW(adafactor_apply, "adafactor_apply: weight_sums go with scale_parameter", .p = F(3, 4), .g = F(3, 4),
        .row = F(3), .col = F(4), .row_sums = D(1), .squares = D(1), .step = D(8), .rows = 3, .beta1 = -1,
        .scale_parameter = 1),
    ROW(rmsprop, "rmsprop: two inputs that must have one shape differ", .p = F(3), .g = F(3), .v = F(3), .mean_g = F(4),
        .step = D(8)),
    ROW(rmsprop8bit, "rmsprop8bit: states must be U8, and have one absmax for every 256 elements", .p = F(300),
        .g = F(300), .v = U(300), .absmax_v = F(1), .step = D(8)),
    ROW(adagrad, "adagrad: two inputs that must have one shape differ", .p = F(3), .g = F(3), .sum = F(4),
        .step = D(8)),
    ROW(lion, "lion: two inputs that must have one shape differ", .p = F(3), .g = F(3), .m = F(4), .step = D(8)),
    ROW(ahead, "ahead: two inputs that must have one shape differ", .p = F(3), .d = F(4)),
    ROW(schedule_free_adamw, "schedule_free_adamw: two inputs that must have one shape differ", .p = F(3), .g = F(3),
        .d = F(3), .v = F(4), .step = D(8)),
    ROW(schedule_free_sgd, "schedule_free_sgd: two inputs that must have one shape differ", .p = F(3), .g = F(3),
        .d = F(4), .step = D(8)),
    ROW(lion8bit, "lion8bit: states must be U8, and have one absmax for every 256 elements", .p = F(300), .g = F(300),
        .m = F(300), .absmax_m = F(2), .step = D(8)),
    ROW(ademamix, "ademamix: two inputs that must have one shape differ", .p = F(3), .g = F(3), .m = F(3), .slow = F(4),
        .v = F(3), .step = D(8)),
    ROW(ademamix8bit, "ademamix8bit: states must be U8, and have one absmax for every 256 elements", .p = F(300),
        .g = F(300), .m = U(300), .slow = U(300), .v = U(300), .absmax_m = F(2), .absmax_slow = F(3), .absmax_v = F(2),
        .step = D(8)),
    ROW(stable_adamw, "stable_adamw: two inputs that must have one shape differ", .p = F(3), .g = F(3), .m = F(3),
        .v = F(4), .step = D(8)),
    ROW(muon_momentum, "muon_momentum: buf must be a matrix", .buf = F(3), .g = F(3), .step = D(8)),
    ROW(muon_momentum, "muon_momentum: two inputs that must have one shape differ", .buf = F(3, 4), .g = F(4, 3),
        .step = D(8)),
    ROW(unit, "unit: x must be a matrix", .x = F(3), .partials = D(1)),
    ROW(unit, "unit: partials must be (chunks) F64", .x = F(3, 4), .partials = F(1)),
    ROW(blend, "blend: x must be a matrix", .x = F(3), .z = F(3)),
    ROW(blend, "blend: two inputs that must have one shape differ", .x = F(3, 4), .z = F(4, 3)),
    ROW(muon, "muon: two inputs that must have one shape differ", .p = F(3, 4), .o = F(4, 3), .step = D(8)),
    ROW(adamw, "adamw: slot m refers to value 0", .p = F(3), .g = F(3), .v = F(3), .step = F(8)),
    ROW(sgd, "sgd: two inputs that must have one shape differ", .p = F(3), .g = F(3), .buf = F(4), .step = F(8)),
};

static void check_row(enum op op, const union args_any *args, const char *says)
{
    struct graph g;
    union op_any node = {0};
    const struct op_info *info = &op_table[op];
    assert_int_equal(graph_init(&g, NULL), SNUG_OK);
    for (int i = 0; i < info->n_slots; i++) {
        struct dim shape[MAX_DIMS];
        for (int d = 0; d < MAX_DIMS; d++)
            shape[d] = DIM(args->slot[i].shape[d]);
        if (args->slot[i].ndim)
            node.slot[i] = graph_add_value(&g, NULL, ROLE_INPUT, args->slot[i].dtype, args->slot[i].ndim, shape);
    }
    memcpy((char *)&node + info->attr_offset, &args->slot[info->n_slots], 8 * (size_t)info->n_attrs);
    graph_emit(&g, op, &node);
    struct snug_err err = {0};
    int code = graph_ok(&g, &err);
    if (code != SNUG_ERR_INPUT || !strstr(err.text, says))
        fail_msg("%s: expected \"%s\", got code %d, \"%s\"", info->name, says, code, err.text);
    graph_free(&g);
}

void test_shape_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(rows[i].op, &rows[i].args, rows[i].says);
    for (int op = 1; op < OP_COUNT; op++) {
        bool found = false;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            found |= (int)rows[i].op == op;
        if (!found)
            fail_msg("op %s has no error input in tests/op/errors.c", op_table[op].name);
    }
}
