/* family.h: what llama.cpp and transformers call the same thing: a row for each kind of model. */
#ifndef FORMAT_GGUF_FAMILY_H
#define FORMAT_GGUF_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

enum { GGUF_NAME_MAX = 256 };

/* Two names for the same; up to a row of NULL. */
struct gguf_names {
    const char *own, *hf;
};

/* A tensor of all experts of a layer, whose names in transformers have an expert's number between two parts. */
struct gguf_expert_names {
    const char *own, *before, *behind;
};

struct gguf_family {
    const char *architecture;       /* general.architecture, and what the keys of the metadata begin with */
    const char *model_type;         /* of config.json */
    const char *class_name;         /* of `architectures` there */
    bool permuted;                  /* rows of q and k stand for rotary pairs (2i, 2i+1), not for halves (i, i + D/2) */
    bool norms_plus_one;            /* norms' weights are stored with the 1 that the model adds to them */
    bool long_factors;              /* LongRoPE's lie in two tensors */
    const struct gguf_names *layer; /* of the parts of a layer, where they differ from everybody's; NULL: nowhere */
    const char *act_key, *act;      /* the activation in config.json */
    const struct gguf_expert_names *experts; /* up to a row of NULL; NULL: a family without */
    const char *layer_norm_eps;              /* what config.json calls it; NULL: norms are RMS norms */
    const char *last_norm;                   /* what the norm behind the layers is called there; NULL: as everybody's */
};

/* The row of an architecture, with experts or without, or of a model_type; NULL if there is none. */
const struct gguf_family *gguf_family(const char *architecture, bool experts);
const struct gguf_family *gguf_family_of_type(const char *model_type);

/* "llama, qwen2, …" for messages: architectures, or what model_type says. */
const char *gguf_family_list(bool model_types, char text[256]);

/* The name in the other world: "blk.0.attn_q.weight" and "model.layers.0.self_attn.q_proj.weight". false: it has none. */
bool gguf_name_to_hf(const struct gguf_family *f, const char *own, char hf[GGUF_NAME_MAX]);
bool gguf_name_from_hf(const struct gguf_family *f, const char *hf, char own[GGUF_NAME_MAX]);

/* The same for expert `e` of the tensor "blk.0.ffn_gate_exps.weight" and "model.layers.0.mlp.experts.3.gate_proj.weight". */
bool gguf_expert_to_hf(const struct gguf_family *f, const char *own, int64_t e, char hf[GGUF_NAME_MAX]);
bool gguf_expert_from_hf(const struct gguf_family *f, const char *hf, char own[GGUF_NAME_MAX], int64_t *e);

/* Whether a tensor (by its name in GGUF) is F32 in every file, whatever the others are: a router. */
bool gguf_stays_wide(const char *own);

/* How the numbers of a tensor (by its name in GGUF) differ. */
enum gguf_change {
    GGUF_SAME,
    GGUF_QUERY_ROWS, /* rows of each head in another order; as many heads as queries have */
    GGUF_KEY_ROWS,   /* likewise, as keys have */
    GGUF_PLUS_ONE,   /* stored + 1 */
};
enum gguf_change gguf_change(const struct gguf_family *f, const char *own);

/* The row in the file that holds row `row` of the model, of heads of `width` rows; and back. */
int64_t gguf_stored_row(int64_t row, int64_t width);
int64_t gguf_model_row(int64_t stored, int64_t width);

#endif
