/* ops.h: every operation, declared once. Included several times with different macros OP and SLOT (see graph/op.h): from a row come
 * the enum, the struct of a node, printing and parsing, arity checks, the prototypes of the shape rule, the gradient
 * rule and the kernels, each backend's kernel table and docs/ops.md. What an op computes is written in its file in op/.
 *
 *     OP(name, slots, attributes, gradient, definition)
 *
 * Slots refer to values, inputs first:
 *     IN(x)     read; required                    OUT(y)    written; made by the shape rule
 *     OPT(b)    read; may be absent               MAYBE(h)  as OUT, but pruned where nobody reads it (the kernel skips it)
 *     INOUT(p)  updated in place                  F32(s)    as OUT, a statistic that no precision policy narrows
 *     UPD(m)    as INOUT; may be absent           ACC(dx)   a gradient: written, or added into what earlier nodes wrote;
 *                                                           0 where that gradient is not wanted
 * What a slot knows besides, where it is not plain, stands in rows behind the op's:
 *
 *     SLOT(op, slot, properties)                (enum slot_property in graph/op.h)
 *
 * Attributes: INT, REAL, FLAG (0 or 1), ACT (enum act).
 * Gradient: DIFF where op/ has a rule that emits the backward nodes, NONE for what is never differentiated.
 *
 * Dimensions: T tokens (rows of all sequences, one after another), B sequences, H hidden, A heads, D head size, F
 * feed-forward, V vocabulary or classes, I and O a linear layer's inputs and outputs, N rows (T or B). Common inputs:
 *     cu      (B+1) I32  cu_seqlens: sequence b is the rows cu[b] … cu[b+1]-1; rows from cu[B] on are bucket padding
 *     coords  (N,2) I32  of a row: index of its sample within the optimizer step, position in the sequence (for dropout)
 *     rng     (4)   I32  seed low, seed high, optimizer step, 0
 *     step    (8)   F64  enum step_scalar: 1/N, learning rate, update number, seed low, seed high
 * Common attribute of updates:
 *     noise   not 0: p and states that are no codes are stored in bf16, by stochastic rounding with the random numbers of
 *             this tensor (op/optimizer/rounding.h) */
#ifndef OP
#define OP(name, slots, attrs, diff, text)
#endif
#ifndef SLOT
#define SLOT(op, slot, properties)
#endif

OP(embed, IN(ids) IN(table) OPT(ids2) OPT(table2) OPT(ids3) OPT(table3) OUT(y), INT(still), DIFF,
   "y[n] = table[ids[n]] + table2[ids2[n]] + table3[ids3[n]]; still: the id of table's row that has no gradient of "
   "this, counted from 1; 0: none")
SLOT(embed, table, SLOT_STORED_TYPE)
SLOT(embed, table2, SLOT_STORED_TYPE)
SLOT(embed, table3, SLOT_STORED_TYPE)
OP(embed_bwd, IN(ids) IN(dy) IN(cu) ACC(dtable), INT(still), NONE,
   "dtable[ids[n]] += dy[n] over the real rows, in the order of n, but those whose id is still - 1")
OP(linear, IN(x) IN(w) OPT(b) OPT(add) OUT(y) MAYBE(slope), ACT(act) FLAG(in_out), DIFF,
   "y = act(u) with u = x W^T + b + add; slope = act'(u), for the gradient; W is (O,I), or (I,O) when in_out")
SLOT(linear, x, SLOT_PITCH)
SLOT(linear, w, SLOT_NODE_TYPE)
SLOT(linear, b, SLOT_EITHER_TYPE)
SLOT(linear, add, SLOT_PITCH)
SLOT(linear, y, SLOT_PITCH | SLOT_PADDED)
OP(linear_dx, IN(dy) IN(w) ACC(dx), FLAG(in_out), NONE, "dx = dy W")
SLOT(linear_dx, dy, SLOT_PITCH | SLOT_PADDED)
SLOT(linear_dx, w, SLOT_NODE_TYPE)
SLOT(linear_dx, dx, SLOT_PITCH)
OP(linear_dw, IN(dy) IN(x) ACC(dw) ACC(db), FLAG(in_out), NONE, "dW = dy^T x; db = sum of dy over rows")
SLOT(linear_dw, dy, SLOT_PITCH | SLOT_PADDED)
SLOT(linear_dw, x, SLOT_PITCH)
OP(linear_dx_act, IN(dy) IN(w) IN(slope) OUT(du) ACC(dbias), FLAG(in_out), NONE,
   "du = (dy W) * slope; dbias = sum of du over rows: linear_dx with the act_bwd behind it")
SLOT(linear_dx_act, dy, SLOT_PITCH)
SLOT(linear_dx_act, w, SLOT_NODE_TYPE)
OP(bias, IN(x) IN(b) OUT(y), , DIFF, "y[n] = x[n] + b; only this node reads x")
OP(activation, IN(x) OUT(y) MAYBE(slope), ACT(act), DIFF,
   "y = act(x); slope = act'(x), for the gradient; only this node reads x")
OP(act_bwd, IN(slope) IN(dy) OUT(du) ACC(dbias), , NONE, "du = dy * slope; dbias = sum of du over rows")
OP(attention, IN(qkv) IN(cu) OPT(coords) OPT(rng) OPT(sinks) OUT(o) F32(lse) MAYBE(mask),
   INT(heads) INT(kv_heads) FLAG(causal) REAL(scale) REAL(p) INT(site) INT(longest) INT(queries) INT(window)
       REAL(softcap),
   DIFF,
   "per sequence and head: o = dropout(softmax(scale q k^T)) v; lse = log of the softmax's denominator; no sequence "
   "has more than `longest` rows (0: not known); o is 0 but in a sequence's first `queries` rows (0: all); query i "
   "sees key j where |i - j| < window (0: all keys) and, when causal, j <= i; scores s become c tanh(s/c) with c = "
   "softcap (0: they stay); sinks (heads): a score more of every softmax, which has no value; mask: room in which a "
   "backend may keep what dropout decided")
OP(attention_bwd, IN(qkv) IN(o) IN(lse) IN(dout) IN(cu) OPT(coords) OPT(rng) OPT(mask) OUT(dqkv) ACC(dbias),
   INT(heads) INT(kv_heads) FLAG(causal) REAL(scale) REAL(p) INT(site) INT(longest) INT(queries) INT(window)
       REAL(softcap),
   NONE, "the gradient of attention; dbias = sum of dqkv over rows")
OP(attention_sinks_bwd, IN(sinks) IN(o) IN(lse) IN(dout) IN(cu) ACC(dsinks), , NONE,
   "the gradient of attention's sinks: dsinks[h] = - the sum over real rows of exp(sinks[h] - lse) (dout . o)")
OP(attention_general, IN(q) OPT(kv) OPT(table) IN(cu) OPT(kv_cu) OPT(coords) OPT(rng) OUT(o) F32(lse),
   INT(heads) INT(furthest) FLAG(causal) REAL(scale) REAL(p) INT(site), DIFF,
   "attention of the rows of cu to those of kv_cu, whose keys and values kv (S, 2 heads D) has; without these, to "
   "those "
   "of their own sequence, and q is qkv (T, 3 heads D). Query i and key j have the bias table[bucket, head] by their "
   "distance, in T5's buckets, of which the last begins at `furthest`; causal: i sees j <= i, and all buckets are for "
   "such j; furthest 0, which is causal: the table (1, heads) has slopes, and the bias is (j - i) table[0, head]")
OP(attention_general_bwd,
   IN(q) OPT(kv) OPT(table) IN(o) IN(lse) IN(dout) IN(cu) OPT(kv_cu) OPT(coords) OPT(rng) OUT(dq) MAYBE(dkv)
       ACC(dtable),
   INT(heads) INT(furthest) FLAG(causal) REAL(scale) REAL(p) INT(site), NONE, "the gradient of attention_general")
OP(attention_disentangled, IN(qkv) IN(relative) IN(rows) IN(cu) OPT(coords) OPT(rng) OUT(o) F32(lse),
   INT(heads) INT(queries) INT(keys) REAL(scale) REAL(p) INT(site), DIFF,
   "attention whose scores are scale (q_i k_j + q_i K_r + k_j Q_r): K and Q are the parts `keys` and `queries` of "
   "relative (R, parts heads D), from 1, and 0 leaves that term out; r = rows[i - j + (rows' size - 1) / 2]; all rows "
   "of "
   "a sequence see each other")
OP(attention_disentangled_bwd,
   IN(qkv) IN(relative) IN(rows) IN(o) IN(lse) IN(dout) IN(cu) OPT(coords) OPT(rng) OUT(dqkv) ACC(drelative),
   INT(heads) INT(queries) INT(keys) REAL(scale) REAL(p) INT(site), NONE, "the gradient of attention_disentangled")
OP(attention_cached,
   IN(qkv) OPT(kv) OPT(kv_cu) OPT(table) OPT(sinks) IN(cu) IN(past) OPT(at) INOUT(keys) INOUT(values) OUT(o),
   INT(heads) INT(kv_heads) INT(furthest) REAL(scale) INT(window) REAL(softcap), NONE,
   "causal attention of new rows to those before them: of sequence b the first past[b] keys and values are in the "
   "cache, the new rows' are put behind them; o and sinks as attention has it, the bias as attention_general. With kv, "
   "attention "
   "to "
   "others: the rows of kv (S, 2 kv_heads D) that kv_cu gives a sequence become the first of its cache, and all its "
   "rows, with the queries qkv (T, heads D), see the first past[b] keys. at: which of the caches' rows, all together, "
   "each key and "
   "value of a sequence is, or with kv the first of them; else sequence b has the cache b")
OP(norm, IN(x) OPT(res) IN(gamma) OPT(beta) OPT(coords) OPT(rng) OUT(y) MAYBE(h) F32(mean) F32(rstd),
   REAL(eps) REAL(p) INT(site) FLAG(one_plus), DIFF,
   "h = res + dropout(x); y = (h - mean) * rstd * gamma + beta, or with 1 + gamma for gamma (one_plus), or without "
   "beta")
OP(norm_bwd,
   IN(dy) OPT(dh) IN(h) IN(gamma) IN(mean) IN(rstd) OPT(coords) OPT(rng) ACC(dx) ACC(dres) ACC(dgamma) ACC(dbeta)
       ACC(dbias),
   REAL(p) INT(site) FLAG(one_plus), NONE,
   "the gradient of norm; dh is what reaches h besides; dbias = sum of dx over rows")
OP(rms_norm, IN(x) OPT(res) IN(gamma) OUT(y) MAYBE(h) F32(rstd), REAL(eps) FLAG(one_plus), DIFF,
   "h = res + x; y = h rstd gamma, or h rstd (1 + gamma) with one_plus; rstd = 1 / sqrt(1/H sum h^2 + eps)")
OP(rms_norm_bwd, IN(dy) OPT(dh) IN(h) IN(gamma) IN(rstd) ACC(dx) ACC(dres) ACC(dgamma), FLAG(one_plus), NONE,
   "the gradient of rms_norm; dh is what reaches h besides")
OP(glu, IN(x) OUT(y), ACT(act), DIFF, "y = act(left half of each row of x) * right half")
OP(glu_bwd, IN(x) IN(dy) ACC(dx), ACT(act), NONE, "the gradient of glu")
OP(glu_clamped, IN(x) OUT(y), REAL(alpha) REAL(limit), DIFF,
   "y = (u + 1) g sigmoid(alpha g) with g = min(gate, limit), u = up between -limit and limit; x has them as "
   "neighbours")
OP(glu_clamped_bwd, IN(x) IN(dy) ACC(dx), REAL(alpha) REAL(limit), NONE,
   "the gradient of glu_clamped; 0 for what a limit has changed")
OP(route, IN(logits) OUT(gates) F32(places) F32(offsets), INT(k) FLAG(normalized), DIFF,
   "of each row the k experts with the largest logits: gates[n,j] = their softmax over all experts, or over the chosen "
   "when normalized; places[n k + j] = where this row is among all, sorted by expert; expert e has rows offsets[e] ... "
   "offsets[e+1]-1")
OP(route_bwd, IN(logits) IN(dgates) IN(places) IN(offsets) ACC(dlogits), FLAG(normalized), NONE,
   "the gradient of route")
OP(expert_use, IN(logits) IN(places) IN(offsets) IN(cu) OPT(counted) OPT(before) F32(counts) F32(y), , DIFF,
   "what a loss that balances experts wants of a layer, added to that of the layers before: counts[e] = counted[e] + "
   "how many tokens have chosen e, y[e] = before[e] + the sum over tokens of softmax(logits[n])[e], over the real rows")
OP(expert_use_bwd, IN(logits) IN(dy) IN(cu) ACC(dlogits) ACC(dbefore), , NONE, "the gradient of expert_use")
OP(balance_loss, IN(counts) IN(sums) IN(cu) IN(labels) IN(step) F32(loss), REAL(coef) INT(layers), DIFF,
   "loss = coef M/N E sum_e counts[e]/R sums[e]/R, with the R = layers cu[B] rows that are counted and the M of the N "
   "targets, those with label >= 0, that the micro-batch has; 0 where R is 0")
OP(balance_loss_bwd, IN(counts) IN(cu) IN(labels) IN(step) OPT(scaler) ACC(dsums), REAL(coef) INT(layers), NONE,
   "the gradient of balance_loss, times the scaler's loss scale")
OP(expert_shares, IN(places) IN(offsets) IN(cu) OPT(before) F32(y), INT(k), NONE,
   "y = the largest and the smallest share that an expert has of the choices of the real rows, or of before where that "
   "is larger, and smaller; 0 and 0 without rows")
OP(take, IN(x) IN(places) OUT(y), INT(k), DIFF, "y[places[n k + j]] = x[n]: rows of tokens, sorted by expert")
OP(take_bwd, IN(dy) IN(places) ACC(dx), INT(k), NONE, "the gradient of take: dx[n] = sum_j dy[places[n k + j]]")
OP(linear_experts, IN(x) IN(w) IN(offsets) OUT(y), FLAG(in_out), DIFF,
   "y[n] = w[e] x[n] with the expert e that has row n: offsets[e] <= n < offsets[e+1]; w is (E,O,I), or (E,I,O) when "
   "in_out, and w[e] its transpose")
SLOT(linear_experts, w, SLOT_NODE_TYPE)
OP(linear_experts_dx, IN(dy) IN(w) IN(offsets) ACC(dx), FLAG(in_out), NONE, "dx[n] = w[e]^T dy[n]")
SLOT(linear_experts_dx, w, SLOT_NODE_TYPE)
OP(linear_experts_dw, IN(dy) IN(x) IN(offsets) ACC(dw), FLAG(in_out), NONE,
   "dw[e] = sum of dy[n] x[n]^T over the rows of e, or its transpose when in_out")
OP(expert_bias, IN(x) IN(b) IN(offsets) OUT(y), , DIFF,
   "y[n] = x[n] + b[e] with the expert e that has row n, b is (E,O); only this node reads x")
OP(expert_bias_bwd, IN(dy) IN(offsets) ACC(db), , NONE, "db[e] = sum of dy[n] over the rows of e")
OP(split_experts, IN(w) OUT(y), INT(experts) FLAG(columns), DIFF,
   "y (E,M,N) = the E matrices that lie in w one below the other, w (E M,N): y[e,m,n] = w[e M + m,n]; or with columns, "
   "in w (M,N E): y[e,m,n] = w[m,n E + e]")
SLOT(split_experts, w, SLOT_NODE_TYPE)
OP(split_experts_bwd, IN(dy) ACC(dw), FLAG(columns), NONE, "the gradient of split_experts")
OP(combine, IN(x) IN(gates) IN(places) OUT(y), , DIFF, "y[n] = sum_j gates[n,j] x[places[n k + j]]")
OP(combine_bwd, IN(dy) IN(x) IN(gates) IN(places) ACC(dx) ACC(dgates), , NONE, "the gradient of combine")
OP(gate_rows, IN(x) IN(logits) OUT(y), , DIFF, "y[n] = sigmoid(logits[n,0]) x[n]")
OP(gate_rows_bwd, IN(dy) IN(x) IN(logits) ACC(dx) ACC(dlogits), , NONE, "the gradient of gate_rows")
OP(add, IN(a) IN(b) OUT(y), , DIFF, "y = a + b")
OP(add_bwd, IN(dy) ACC(da) ACC(db), , NONE, "da = dy, db = dy")
OP(softcap, IN(x) OUT(y), REAL(cap), DIFF, "y = cap tanh(x / cap)")
OP(softcap_bwd, IN(y) IN(dy) ACC(dx), REAL(cap), NONE, "dx = dy (1 - (y / cap)^2)")
OP(rotary_table, IN(positions) IN(frequencies) F32(table), REAL(factor), NONE,
   "table[n] = factor cos(p f) for each frequency f, then factor sin(p f), with p = positions[n]")
OP(rotary, IN(qkv) OPT(table) OPT(q_gamma) OPT(k_gamma) OUT(y) MAYBE(rstd),
   INT(heads) INT(kv_heads) REAL(eps) FLAG(one_plus) FLAG(by_group) FLAG(interleaved), DIFF,
   "of q and k: RMS norm of each head, or of all heads together, where there are gammas; then the rotation by the "
   "table of a head's first entries in pairs (i, i + R/2), or (2i, 2i + 1) with interleaved. v stays as it is. With "
   "by_group qkv has for each key head its queries, the key and the value. y has all queries, all keys, all values")
OP(rotary_bwd, IN(dy) OPT(table) OPT(qkv) OPT(q_gamma) OPT(k_gamma) OPT(rstd) ACC(dqkv) ACC(dq_gamma) ACC(dk_gamma),
   INT(heads) INT(kv_heads) FLAG(one_plus) FLAG(by_group) FLAG(interleaved), NONE, "the gradient of rotary")
OP(dropout, IN(x) IN(coords) IN(rng) OUT(y), REAL(p) INT(site), DIFF, "y = x * mask / (1-p)")
OP(dropout_bwd, IN(dy) IN(coords) IN(rng) ACC(dx), REAL(p) INT(site), NONE, "dx = dy * mask / (1-p)")
OP(mask_dropout, IN(x) IN(ids) IN(cu) OUT(y), INT(token) REAL(kept), DIFF,
   "y[n] = 0 where ids[n] = token, else x[n] kept r / (r - m), where m of the sequence's r rows have that id; only "
   "this node reads x")
OP(scale, IN(x) OUT(y), REAL(by), DIFF, "y = x by; only this node reads x")
OP(dora_norm, IN(w) IN(a) IN(b) F32(norm), REAL(scale) FLAG(in_out), NONE,
   "norm[o] = the length of row o of w + scale b a: of a weight with its adapter; w is (O,I), or (I,O) when in_out")
SLOT(dora_norm, w, SLOT_ANY_TYPE)
OP(dora, IN(z) IN(m) IN(norm) OPT(bias) OUT(y) MAYBE(slope), ACT(act), DIFF,
   "y = act(u) with u = z m / norm + bias, m, norm and bias by column (0 for m / norm where norm is 0); "
   "slope = act'(u), for the gradient")
SLOT(dora, y, SLOT_PITCH)
OP(dora_bwd, IN(dy) IN(z) IN(m) IN(norm) ACC(dz) ACC(dm) ACC(dbias), , NONE,
   "the gradient of dora, where the norm is a constant: dz = dy m / norm, dm = sum over rows of dy z / norm, "
   "dbias = sum of dy")
SLOT(dora_bwd, dy, SLOT_PITCH)
OP(gather, IN(x) IN(cu) OUT(y), FLAG(last), DIFF, "y[b] = the first (or last) row of sequence b")
OP(gather_bwd, IN(dy) IN(cu) ACC(dx), FLAG(last), NONE, "the gradient of gather: dy[b] in that row, 0 elsewhere")
OP(pool, IN(x) IN(cu) OUT(y), , DIFF, "y[b] = the mean of the rows of sequence b")
OP(pool_bwd, IN(dy) IN(cu) ACC(dx), , NONE, "the gradient of pool: dy[b] / n in each of its n rows, 0 behind them all")
OP(neighbours, IN(x) IN(cu) OUT(y), INT(width), DIFF,
   "y[n, h width + k] = x[m, h] with the row m = n + k - (width - 1) / 2 of the same sequence, 0 where it has none: "
   "what a convolution over `width` rows, an odd number, multiplies with its weight")
OP(neighbours_bwd, IN(dy) IN(cu) ACC(dx), INT(width), NONE, "the gradient of neighbours")
OP(short_conv, IN(bcx) IN(w) OPT(b) IN(cu) OUT(y), , DIFF,
   "column by column z = B x, u[n] = b + sum_k w[k] z[n - (W - 1) + k] and y = C u. z is 0 before a sequence's first "
   "row. "
   "bcx has B, C and x side by side, w is (H,1,W)")
OP(short_conv_bwd, IN(dy) IN(bcx) IN(w) OPT(b) IN(cu) ACC(dbcx) ACC(dw) ACC(db), , NONE, "the gradient of short_conv")
OP(short_conv_cached, IN(bcx) IN(w) OPT(b) IN(cu) IN(past) OPT(at) INOUT(rows) OUT(y), , NONE,
   "short_conv of new rows behind past[b] rows of sequence b, of whose z the last W are kept: row j in row j mod W of "
   "rows[b], or with `at` of rows[at[b,j] / L]; the new rows' are put there")
OP(cross_entropy, IN(logits) IN(labels) IN(step) OPT(weights) OPT(more) F32(loss) F32(lse), REAL(smoothing), DIFF,
   "loss = more, another loss, + 1/N sum over rows n with label >= 0 of (1-s) w[label] (lse[n] - logits[n,label]) + "
   "s/V sum_v w[v] "
   "(lse[n] - logits[n,v]), with the weights w of the classes, or 1")
SLOT(cross_entropy, logits, SLOT_PADDED)
OP(cross_entropy_bwd, IN(logits) IN(labels) IN(lse) IN(step) OPT(scaler) OPT(weights) ACC(dlogits), REAL(smoothing),
   NONE, "the gradient of cross_entropy, times the scaler's loss scale")
SLOT(cross_entropy_bwd, logits, SLOT_PADDED)
SLOT(cross_entropy_bwd, dlogits, SLOT_PADDED)
OP(span_loss, IN(logits) IN(spans) IN(cu) IN(step) F32(loss) F32(lse), , DIFF,
   "loss = 1/N sum over sequences b of 1/2 (lse[b,0] - logits[s,0] + lse[b,1] - logits[e,1]), with its row s whose "
   "spans has bit 0 and e whose spans has bit 1, where there are such; lse[b] is over the rows of b")
OP(span_loss_bwd, IN(logits) IN(spans) IN(cu) IN(lse) IN(step) OPT(scaler) ACC(dlogits), , NONE,
   "the gradient of span_loss, times the scaler's loss scale")
OP(mse, IN(logits) IN(labels) IN(step) F32(loss), , DIFF, "loss = 1/(N V) sum of (logits - labels)^2")
OP(mse_bwd, IN(logits) IN(labels) IN(step) OPT(scaler) ACC(dlogits), , NONE,
   "the gradient of mse, times the scaler's loss scale")
OP(bce, IN(logits) IN(labels) IN(step) OPT(weights) F32(loss), , DIFF,
   "loss = 1/(N V) sum of max(z,0) - z y + log(1 + exp(-|z|)) + (w[v]-1) y log(1 + exp(-z)): binary cross-entropy "
   "with logits, with the weights w of labels that are there, or 1")
OP(bce_bwd, IN(logits) IN(labels) IN(step) OPT(scaler) OPT(weights) ACC(dlogits), , NONE,
   "the gradient of bce, times the scaler's loss scale")
OP(argmax, IN(logits) IN(labels) OUT(best), , NONE,
   "best[n] = the first v with the largest logits[n,v]; -1 where labels[n] is negative")
SLOT(argmax, logits, SLOT_PADDED)
OP(linear_cross_entropy,
   IN(x) IN(w) OPT(b) IN(labels) IN(step) OPT(scaler) OPT(more) F32(loss) MAYBE(best) ACC(dx) ACC(dw) ACC(db),
   REAL(smoothing) REAL(softcap) INT(chunk), NONE,
   "linear, softcap (0: none), cross_entropy, argmax and their gradients, of `chunk` rows at a time: the logits "
   "never exist whole")
SLOT(linear_cross_entropy, w, SLOT_NODE_TYPE)
SLOT(linear_cross_entropy, b, SLOT_EITHER_TYPE)
OP(all_reduce, UPD(g), INT(to) INT(chunk), NONE,
   "g = the sum of the ranks' g, in their order: on all ranks, or on rank `to` alone, counted from 1; with a chunk "
   "each rank has that of its shard; with one rank it stays")
OP(broadcast, UPD(x), INT(from) INT(chunk), NONE,
   "x = that of rank `from`, counted from 1; with a chunk each rank has its shard; with one rank it stays")
OP(pull, IN(x) OUT(y), INT(from) INT(chunk), NONE,
   "y = x of rank `from`, counted from 1, which alone has it; with a chunk x of all ranks, whose shards they are; with "
   "one rank its own")
SLOT(pull, y, SLOT_OVERWRITES)
OP(cast, IN(x) OUT(y), , NONE, "y = x in y's dtype, rounded to nearest even")
OP(dequantize, IN(w) IN(absmax) OPT(nested) OUT(y), INT(table), NONE,
   "y = w, a weight in codes, rounded to nearest even. Of 4 bits (op/codes/quantize.h): a number of the table times "
   "the "
   "largest "
   "magnitude of its block of 64; nested: what those are made of where they are codes of 8 bits. Of 8 bits, F8_E4M3: "
   "the code times absmax, here the scale of its row (op/codes/fp8.h)")
SLOT(dequantize, w, SLOT_STORED_TYPE)
SLOT(dequantize, absmax, SLOT_STORED_TYPE)
SLOT(dequantize, nested, SLOT_STORED_TYPE)
SLOT(dequantize, y, SLOT_OVERWRITES)
OP(quantize_fp8, IN(x) OPT(x_scale) OUT(y) F32(scale), FLAG(transposed), NONE,
   "y = x / scale in F8_E4M3, rounded to nearest even; scale: of each row the least power of 2 with which that is in "
   "range (op/codes/fp8.h); transposed: of each column, which is a row of y; x_scale: x is in F8_E4M3 itself, with a "
   "scale "
   "for each of its rows")
SLOT(quantize_fp8, x, SLOT_PITCH | SLOT_ANY_TYPE)
SLOT(quantize_fp8, x_scale, SLOT_STORED_TYPE)
OP(linear_fp8, IN(x) IN(x_scale) IN(w) IN(w_scale) OPT(b) OPT(add) ACC(y), , NONE,
   "y = (x x_scale) (w w_scale)^T + b + add, of factors in F8_E4M3 with a scale for each row; what is added to has no "
   "add")
SLOT(linear_fp8, w, SLOT_STORED_TYPE)
SLOT(linear_fp8, w_scale, SLOT_STORED_TYPE)
SLOT(linear_fp8, b, SLOT_EITHER_TYPE)
SLOT(linear_fp8, add, SLOT_PITCH)
SLOT(linear_fp8, y, SLOT_PITCH)
OP(move, IN(x) OUT(y), , NONE, "y = x, of the same dtype, in another memory or in another place")
SLOT(move, y, SLOT_OVERWRITES)
OP(page, IN(x) OUT(y), FLAG(out), NONE,
   "y = x, of the same dtype, one in a file that is mapped into the host's memory, the other in that memory: x is in "
   "the file, with out y")
SLOT(page, y, SLOT_OVERWRITES)
OP(sumsq, IN(g) INOUT(partials), INT(at), NONE,
   "partials[at + i] = sum of squares of the i-th 65536 elements of g; of a shard those of its own elements")
OP(clip, IN(partials) UPD(scaler) F32(norm) F32(coef), REAL(max_norm), NONE,
   "norm = sqrt(sum of partials) / scale; coef = min(1, max_norm / (norm + 1e-6)) / scale, 1 / scale where max_norm "
   "is 0, -1 where norm is not finite; and the scaler's update")
OP(adamw, INOUT(p) IN(g) INOUT(m) INOUT(v) IN(step) OPT(coef) UPD(copy),
   REAL(beta1) REAL(beta2) REAL(eps) REAL(weight_decay) FLAG(decay_last) INT(noise), NONE,
   "AdamW with decoupled decay (Loshchilov and Hutter, arXiv 1711.05101), g scaled by coef; decay_last: decay after "
   "the update, as bitsandbytes has it")
OP(stable_adamw, INOUT(p) IN(g) INOUT(m) INOUT(v) IN(step) OPT(coef) UPD(copy),
   REAL(beta1) REAL(beta2) REAL(eps) REAL(weight_decay) INT(noise), NONE,
   "StableAdamW (Wortsman et al., arXiv 2304.13013) as optimi has it: AdamW whose rate falls where the gradient of a "
   "tensor is larger than its second moment, g scaled by coef")
OP(adamw8bit, INOUT(p) IN(g) INOUT(m) INOUT(v) INOUT(absmax_m) INOUT(absmax_v) IN(step) OPT(coef) UPD(copy),
   REAL(beta1) REAL(beta2) REAL(eps) REAL(weight_decay) INT(noise), NONE,
   "AdamW of bitsandbytes with states of 8 bits in blocks of 256 (Dettmers et al., arXiv 2110.02861), g scaled by coef")
OP(sgd, INOUT(p) IN(g) UPD(buf) IN(step) OPT(coef) UPD(copy),
   REAL(momentum) REAL(dampening) REAL(weight_decay) FLAG(nesterov) INT(noise), NONE,
   "stochastic gradient descent with coupled decay, momentum and Nesterov as torch.optim.SGD, g scaled by coef")
OP(adafactor, INOUT(p) IN(g) UPD(row) UPD(col) UPD(v) UPD(m) IN(step) OPT(coef) UPD(copy),
   REAL(eps1) REAL(eps2) REAL(clip_threshold) REAL(decay_rate) REAL(beta1) REAL(weight_decay) FLAG(scale_parameter)
       FLAG(relative_step) FLAG(warmup_init) INT(noise),
   NONE, "Adafactor (Shazeer and Stern, arXiv 1804.04235) as transformers.optimization.Adafactor, g scaled by coef")
OP(adafactor_sums, INOUT(row) IN(g) OPT(p) INOUT(col_sums) INOUT(row_sums) UPD(weight_sums) IN(step) OPT(coef),
   REAL(eps1) REAL(decay_rate) INT(rows) INT(columns), NONE,
   "the first of three parts of adafactor, for a weight of matrices (rows,columns) that is in shards: R, and of each "
   "tile sums of g^2 by column, of R, and of p^2")
OP(adafactor_squares, INOUT(col) IN(g) IN(row) IN(col_sums) IN(row_sums) INOUT(squares) IN(step) OPT(coef),
   REAL(eps1) REAL(decay_rate) INT(rows), NONE, "the second part: C, and of each tile the sum of U^2")
OP(adafactor_apply,
   INOUT(p) IN(g) IN(row) IN(col) IN(row_sums) OPT(weight_sums) IN(squares) UPD(m) IN(step) OPT(coef) UPD(copy),
   REAL(eps2) REAL(clip_threshold) REAL(beta1) REAL(weight_decay) FLAG(scale_parameter) FLAG(relative_step)
       FLAG(warmup_init) INT(rows) INT(noise),
   NONE, "the third part: p and m")
OP(rmsprop, INOUT(p) IN(g) INOUT(v) UPD(mean_g) UPD(buf) IN(step) OPT(coef) UPD(copy),
   REAL(alpha) REAL(eps) REAL(momentum) REAL(weight_decay) INT(noise), NONE,
   "RMSprop with coupled decay, centered where there is a mean_g, with momentum where there is a buf, as "
   "torch.optim.RMSprop, g scaled by coef")
OP(rmsprop8bit, INOUT(p) IN(g) INOUT(v) INOUT(absmax_v) IN(step) OPT(coef) UPD(copy),
   REAL(alpha) REAL(eps) REAL(weight_decay) INT(noise), NONE,
   "RMSprop of bitsandbytes with a state of 8 bits in blocks of 256, g scaled by coef")
OP(adagrad, INOUT(p) IN(g) INOUT(sum) IN(step) OPT(coef) UPD(copy),
   REAL(lr_decay) REAL(eps) REAL(weight_decay) INT(noise), NONE,
   "Adagrad (Duchi et al., 2011) with coupled decay as torch.optim.Adagrad, g scaled by coef")
OP(lion, INOUT(p) IN(g) INOUT(m) IN(step) OPT(coef) UPD(copy), REAL(beta1) REAL(beta2) REAL(weight_decay) INT(noise),
   NONE, "Lion (Chen et al., arXiv 2302.06675) with decoupled decay as bitsandbytes has it, g scaled by coef")
OP(lion8bit, INOUT(p) IN(g) INOUT(m) INOUT(absmax_m) IN(step) OPT(coef) UPD(copy),
   REAL(beta1) REAL(beta2) REAL(weight_decay) INT(noise), NONE,
   "Lion of bitsandbytes with a state of 8 bits in blocks of 256, g scaled by coef")
OP(ademamix, INOUT(p) IN(g) INOUT(m) INOUT(slow) INOUT(v) IN(step) OPT(coef) UPD(copy),
   REAL(beta1) REAL(beta2) REAL(beta3) REAL(alpha) REAL(t_alpha) REAL(t_beta3) REAL(eps) REAL(weight_decay) INT(noise),
   NONE,
   "AdEMAMix (Pagliardini et al., arXiv 2409.03137), with warm-ups of alpha and beta3 where t_alpha and t_beta3 are "
   "not 0, g scaled by coef")
OP(ademamix8bit,
   INOUT(p) IN(g) INOUT(m) INOUT(slow) INOUT(v) INOUT(absmax_m) INOUT(absmax_slow) INOUT(absmax_v) IN(step) OPT(coef)
       UPD(copy),
   REAL(beta1) REAL(beta2) REAL(beta3) REAL(alpha) REAL(t_alpha) REAL(t_beta3) REAL(eps) REAL(weight_decay) INT(noise),
   NONE, "AdEMAMix of bitsandbytes with states of 8 bits in blocks of 256, g scaled by coef")
OP(muon_momentum, INOUT(buf) IN(g) IN(step) OPT(coef) OUT(u), REAL(momentum) INT(noise), NONE,
   "buf = momentum buf + (1 - momentum) g; u = (1 - momentum) g + momentum buf, g scaled by coef: Muon's first op")
OP(unit, IN(x) IN(partials) OUT(y), REAL(eps), NONE, "y = x / max(n, eps), n^2 the sum of the partials: of sumsq of x")
OP(blend, IN(x) IN(z) OUT(y), REAL(s) REAL(t), NONE, "y = s x + t z")
OP(muon, INOUT(p) IN(o) IN(step) OPT(coef) UPD(copy), REAL(factor) REAL(weight_decay) INT(noise), NONE,
   "Muon (Jordan et al., 2024) as torch.optim.Muon, with the orthogonal step o: p -= lr wd p, p -= lr factor o; "
   "nothing where coef is negative")
OP(ahead, IN(p) IN(d) OUT(y), REAL(by), NONE,
   "y = p + by d, rounded to nearest even: where gradients of a weight are taken")
OP(schedule_free_adamw, INOUT(p) IN(g) INOUT(d) INOUT(v) IN(step) OPT(coef) UPD(copy),
   REAL(beta1) REAL(beta2) REAL(eps) REAL(weight_decay) INT(noise), NONE,
   "schedule-free AdamW (Defazio et al., arXiv 2405.15682): p is the average, p + d what steps; g scaled by coef")
OP(schedule_free_sgd, INOUT(p) IN(g) INOUT(d) IN(step) OPT(coef) UPD(copy),
   REAL(momentum) REAL(weight_decay) INT(noise), NONE, "schedule-free SGD, likewise")

#undef OP
#undef SLOT
