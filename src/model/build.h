/* build.h: for the architectures: what they have in common when they emit a forward pass. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "model/model.h"

struct inputs {
    int ids;        /* (T) I32, "input_ids"; of a decoder that reads what its encoder reads, shifted: "shifted_ids" */
    int positions;  /* (T) I32, from the architecture's first_position in each sequence */
    int types;      /* (T) I32, "token_type_ids"; 0 where type_vocab_size is 0 */
    int tasks;      /* (T) I32, "task_type_ids": 0 everywhere; 0 where task_vocab_size is 0 */
    int cu_seqlens; /* (B+1) I32 */
    int coords;     /* (T,2) I32: sample within the optimizer step, position from 0 */
    int samples;    /* (B,2) I32: the same for one row per sequence; position is 0 */
    int rng;        /* (4) I32 */
    int step;       /* (8) F64, enum step_scalar */
    /* (pairs) F64, "rotary_frequencies" and "window_rotary_frequencies"; 0 where there are none */
    int rotary[ROTARY_KINDS];
    /* What an encoder reads, of sequence to sequence tasks; else 0. */
    int source_ids, source_positions; /* (S) I32 */
    int source_cu_seqlens;            /* (B+1) I32 */
    int source_coords;                /* (S,2) I32, as coords */
    /* (B+1) I32: [b + 1] is behind the last end token of sequence b, which a classifier of two stacks reads; [0] is 0. 0: other models. */
    int ends;
    int relative_rows;   /* (2 longest - 1) I32: relative.h; 0 where there are no such positions */
    int relative_coords; /* (rows,2) I32: of the table's rows, which all samples share: 0 and the row */
    int labels; /* (B) I32, (B,labels) F32 or (T) I32: of each token its label, or the marks of op/span_loss.c */
};

/* A forward pass in the making. model_build begins it, with the inputs; the architecture's body and head add to it. */
struct build {
    struct graph *g;
    const struct model_config *c;
    struct build_settings settings;
    struct inputs in;
    struct init normal, zero; /* how weights start: by initializer_range, as 0 */
    int relative;             /* (rows,H): embeddings of relative positions; 0: none */
    int64_t site;             /* of the next dropout */
    /* What the routers of experts have chosen so far (expert_use), in how many layers; 0 where no loss asks. */
    int expert_counts, expert_sums;
    int64_t expert_layers;
    int expert_shares; /* how uneven they are, for the log; 0: there are none */
    int more;          /* a loss besides that of the task; 0: none */
};

/* The dropout probability of this program: `p`, or 0. */
double build_p(const struct build *b, double p);
double build_p_classifier(const struct build *b);

/* A weight; where there is one of that name it is that, which several places then share. */
int build_weight(struct build *b, struct init init, const char *name, int ndim, const struct dim *shape);
#define WEIGHT(b, init, name, ...) build_weight((b), (init), (name), SHAPE(__VA_ARGS__))

/* v, or with p > 0 dropout of it; coords: that of its rows. */
int build_dropout(struct build *b, int v, int coords, double p);

/* act(v), of a v that nothing else reads. */
int build_activation(struct build *b, int v, enum act act);

/* y = act(x W^T + b) with weights PREFIX.weight and PREFIX.bias. */
struct layer_options {
    struct init weight, bias;
    enum act act;
    bool in_out;  /* GPT-2's Conv1D */
    bool no_bias; /* there is no PREFIX.bias */
    /* Of build_parts: from this part on, where that is not the first, biases are 0 and stay so, and no file has them. 0: all have one. */
    int64_t unbiased_from;
};
int build_linear(struct build *b, int x, const char *prefix, int64_t in, int64_t out, struct layer_options o);

/* A convolution over the rows of each sequence, an odd number `width` of them at a time, with zeros beyond its ends: torch's Conv1d with
 * the weights PREFIX.weight (out,in,width) and PREFIX.bias. */
int build_convolution(struct build *b, int x, const char *prefix, int64_t in, int64_t out, int64_t width,
                      struct layer_options o);

/* One product of x (N,in) for several linear layers: the columns of y are theirs, one after the other. Each has its own
 * weight and bias in the file; WHOLE is what the product's is called here, and in no file. */
struct part {
    const char *prefix;
    int64_t out;
};
int build_parts(struct build *b, int x, const char *whole, int64_t in, const struct part *parts, int n,
                struct layer_options o);

/* A bias (in all n parts) of which each part has a name of its own. `whole` is its name here, and in no file. */
struct bias_part {
    const char *name;
    int64_t size;
    bool none; /* it is 0 and stays so, and no file has it */
};
int build_bias(struct build *b, const char *whole, const struct bias_part *parts, int n, struct init init);

/* Of a layer whose weight begins normal, and its bias, if there is one, as 0. */
struct layer_options build_product(const struct build *b, bool bias);

/* A decoder's classifier: x (rows,in) times "score.weight" (num_labels,in), which may be absent from a checkpoint. */
int build_score(struct build *b, int x, int64_t in);

/* As build_linear, but a part of what the task adds: it may be absent from a checkpoint. */
int build_head_linear(struct build *b, int x, const char *prefix, int64_t in, int64_t out, enum act act);

/* The norm of res + dropout(x), rows of hidden_size or `width`, with weights PREFIX.weight and PREFIX.bias; coords: that of the
 * rows. res 0: of x alone, without dropout. Gives the node, for y and h. */
struct norm_options {
    int res, coords;
    double p, eps;
    int64_t site, width;
    bool head;     /* a part of what the task adds */
    bool no_bias;  /* there is no PREFIX.bias */
    bool ones;     /* PREFIX.weight is 1 and stays so */
    bool one_plus; /* it multiplies by 1 + PREFIX.weight */
};
struct op_norm build_norm(struct build *b, int x, const char *prefix, struct norm_options o);

/* The RMS norm of res + x, rows of hidden_size, with the weight PREFIX.weight. res 0: of x alone. one_plus: it multiplies by 1 +
 * weight. Gives the node, for y and h. */
struct op_rms_norm build_rms_norm(struct build *b, int x, int res, const char *prefix, double eps, bool one_plus);

/* A weight of a norm, which starts by multiplying with 1 and does not decay. */
int build_norm_scale(struct build *b, const char *name, int64_t size, bool one_plus);

/* Attention over qkv (T, (heads + 2 kv_heads) head_size). */
struct attention_options {
    int64_t kv_heads; /* 0: as many as heads */
    int64_t head_size;
    double scale; /* 0: 1 / sqrt(head_size) */
    double cap;   /* of the scores; 0: none */
    bool causal;
    int64_t queries; /* only so many rows of each sequence ask; 0: all */
    int cu, coords;  /* of the rows; 0: those of the tokens, not of the sources */
    int64_t window;  /* causal: keys that a query sees, with its own; 0: all */
    int sinks;       /* (heads), a score more each; 0: none */
};
int build_attention(struct build *b, int qkv, struct attention_options o);

/* Attention of the rows of cu to those of kv_cu: op/attention/attention_general.c. q without kv has the keys and values, too. */
struct general_options {
    int kv, kv_cu, cu, coords; /* coords: those of q's rows */
    int table;                 /* of biases (buckets, heads); 0: none */
    int64_t furthest;
    bool causal;
    double scale;
};
int build_general_attention(struct build *b, int q, struct general_options o);

/* The same with relative positions, `relative` (R, n heads head_size): of its parts one is the positions' queries, one their keys. */
struct disentangled_options {
    int64_t queries, keys; /* from 1; 0: there are none */
    double scale;
};
int build_disentangled_attention(struct build *b, int qkv, int relative, struct disentangled_options o);

/* (T,H) -> (B,H): the sequences' first or last rows, those of their last end tokens, or the means of all their rows. */
int build_first_rows(struct build *b, int v);
int build_last_rows(struct build *b, int v);
int build_end_rows(struct build *b, int v);
int build_mean_rows(struct build *b, int v);

/* (T,2 pairs): cosines and sines of the rows' positions, by the frequencies of this kind. */
int build_rotary_table(struct build *b, int kind);

#endif
