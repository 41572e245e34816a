/* config.h: what a config.json says. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "format/json.h"
#include "graph/graph.h"
#include "model/relative.h"
#include "model/rotary.h"
#include "model/task.h"

/* Encoders of BERT's kind (encoder.h). */
struct encoder_config {
    int64_t intermediate_size;
    int64_t embedding_size; /* 0: hidden_size; else a product makes one of the other, also where they are equal */
    /* Layers share the weights of so many groups, each of `inner` layers in a row. 0 and 1: nobody shares. */
    int64_t groups, inner;
    enum act act;
    double norm_eps;
    double dropout_answers; /* DistilBERT's, of question answering */
    bool no_positions;      /* the input has none */
    bool no_norm;           /* nor a norm of its embeddings: ESM's */
    bool drops_masked;      /* rows of the mask token become 0: ESM's */
    int64_t mask_id;
    struct { /* DeBERTa's */
        double dropout_pooler;
        enum act pooler_act;
        bool to_position, from_position; /* terms of attention's scores: content to position, position to content */
        bool first_version;              /* names and products are those of the first DeBERTa */
        bool shared;                     /* positions have the products of the content */
        bool norm;                       /* of their embeddings */
    } relative;
    struct {           /* over rows, behind the first layer: DeBERTa's */
        int64_t width; /* 0: there is none */
        enum act act;
    } convolution;
};

enum { MAX_LAYERS = 1000 };

/* Rotary positions of all layers, or of those that see everything; of those that see a window, where they have others. */
enum { ROTARY_ALL, ROTARY_WINDOW, ROTARY_KINDS };

enum layer_facts {
    LAYER_SLIDES = 1,   /* attention sees the window alone */
    LAYER_UNTURNED = 2, /* no rotary positions */
    LAYER_EXPERTS = 4,  /* the feed-forward block is a mixture of experts */
    LAYER_CONVOLVES = 8 /* a gated short convolution in place of attention */
};

/* Names of a layer's norms behind its prefix; NULL: there is none. */
struct decoder_norms {
    const char *attention, *attention_out; /* before the block and behind it */
    const char *mlp, *mlp_out;
    const char *last;        /* the one behind the layers */
    const char *query, *key; /* of heads; NULL: as most models call them */
};

/* Names of a layer's products behind its prefix. */
struct decoder_products {
    const char *attention_out;
    const char *gate, *up, *down; /* of the feed-forward block; gate NULL: it has none */
};

/* What of queries and keys is normalised before attention: nothing, each head by itself, all heads as one. */
enum head_norms { HEADS_PLAIN, HEADS_EACH, HEADS_AS_ONE };

/* What a classifier reads: the last row of a sequence, or its first, or the mean of all; or all of them, to take the mean of their logits. */
enum pooling { POOL_LAST, POOL_FIRST, POOL_MEAN, POOL_LATE };

/* Mixtures of experts (experts.h). */
struct experts_config {
    const struct expert_names *names;
    int64_t n, chosen;         /* experts, and how many of them a token has */
    int64_t intermediate_size; /* of an expert */
    int64_t shared_size;       /* of the expert that all tokens share; 0: there is none */
    bool normalized;           /* a token's weights of its experts add up to 1 */
    double balance;            /* how much of the loss that balances experts a language model's has; 0: none */
    /* Files have the weights of all experts as one, (E,I,O), with a bias for each expert, as the router has; gates and ups lie by turns,
     * for op glu_clamped. */
    bool whole;
    double alpha, limit; /* of that op */
};

/* Decoders of Llama's kind (decoder.h). Of model_config's dropouts dropout_embedding and dropout_hidden, behind each block, are theirs too. */
struct decoder_config {
    const struct decoder_norms *norms;
    const struct decoder_products *products;
    int64_t kv_heads, head_size, intermediate_size;
    int64_t window; /* keys that a layer sees that slides, with the query's own; 0: all */
    enum act act;
    double norm_eps;
    bool qkv_bias, out_bias, mlp_bias;
    bool head_bias; /* of the output's embeddings */
    bool sinks;     /* heads have a score more in attention's softmax */
    enum head_norms head_norms;
    bool turned_first;     /* heads are normalised behind the rotation, else before it */
    bool interleaved;      /* pairs that turn are neighbours, else half of what turns apart */
    bool layer_norms;      /* norms subtract the mean and have a bias, else they are RMS norms */
    bool norms_unbiased;   /* layer norms without that bias */
    bool norms_weightless; /* and without a weight */
    bool one_plus;         /* norms multiply by 1 + weight */
    bool both_ways;        /* tokens see those behind them: the model is an encoder */
    bool parallel;         /* both blocks of a layer read what the norm before attention makes */
    bool qkv_fused;        /* files have qkv_proj whole */
    bool mlp_fused;        /* files have gate_up_proj whole */
    bool embedding_drops;  /* dropout_embedding is there */
    enum pooling pooling;
    double rotary_part;     /* of struct rotary_model */
    bool rotary_alpha;      /* likewise */
    double embedding_scale; /* of what enters the first layer; 0: 1 */
    double branch_scale;    /* of what a block adds to the stream; 0: 1 */
    double head_scale;      /* of what the output's embeddings are multiplied by; 0: 1 */
    double score_scale;     /* of attention's scores; 0: 1 / sqrt(head_size) */
    double score_cap, cap;  /* c tanh(x / c) of these, and of the logits; 0: none */
    struct experts_config experts;
    struct {
        int64_t width; /* rows, the own one and those before it */
        bool bias;     /* of it, and of its products */
    } convolution;
    uint8_t layer[MAX_LAYERS]; /* enum layer_facts */
};

struct modernbert_config {
    int64_t intermediate_size;
    int64_t window; /* a layer that slides sees keys nearer than this, on both sides */
    enum act act, head_act;
    double norm_eps;
    bool norm_bias, attention_bias, mlp_bias, classifier_bias, decoder_bias;
    bool pools_mean; /* the classifier reads the mean of a sequence's rows, else the first */
    bool slides[MAX_LAYERS];
};

struct gpt_names; /* gpt.h */

/* Decoders of GPT-2's kind (gpt.h). */
struct gpt_config {
    const struct gpt_names *names;
    int64_t kv_heads, intermediate_size;
    int64_t window; /* keys that a layer sees that slides, with the query's own */
    enum act act;
    double norm_eps;
    bool unscaled;        /* attention's scores, else they are by 1 / sqrt(head size) */
    bool scaled_by_layer; /* these, by 1 / (number of the layer) too */
    bool qkv_bias, out_bias, mlp_bias;
    bool head_bias;        /* of the output's embeddings */
    bool in_out;           /* weights of layers' products are (in,out) */
    bool by_group;         /* the weight of queries, keys and values has them for each key head */
    bool interleaved;      /* rotary positions turn neighbours */
    bool parallel;         /* both blocks of a layer read what enters it */
    bool slopes;           /* attention's scores have a bias by distance, of each head its slope (ALiBi) */
    bool small_residuals;  /* products that write into the stream begin smaller */
    bool drops_embeddings; /* dropout_embedding is theirs */
    bool slides[MAX_LAYERS];
};

struct opt_config {
    int64_t intermediate_size;
    int64_t embedding_size; /* other than hidden_size: products make one of the other */
    enum act act;
    bool norms_first; /* before blocks, else behind them */
    bool last_norm;   /* behind the layers */
    bool biases;      /* of the layers' products */
};

/* BART's kind, of two stacks as well. */
struct bart_config {
    int64_t encoder_size, decoder_size; /* of the feed-forward blocks */
    enum act act;
    bool scales;      /* embeddings of words, by sqrt(hidden_size) */
    bool norms_first; /* before blocks, and behind each stack */
    bool norms_words; /* behind the embeddings */
    bool no_bias;     /* of the logits */
    enum bart_positions { BART_LEARNED, BART_SINES, BART_SINES_OF_F32 } positions;
    double dropout_activation;
};

/* T5's kind: two stacks, whose layers are counted one after the other (stack_layers). */
struct t5_config {
    int64_t head_size, intermediate_size;
    int64_t buckets, furthest; /* of the biases by distance */
    enum act act;
    bool gated;  /* the feed-forward block has a gate */
    bool scaled; /* the decoder's output, by 1 / sqrt(hidden_size) */
    double norm_eps, init_factor;
};

/* A target's own last token is what the decoder reads first, and again last. */
enum { START_IS_LAST = -1 };

/* What all architectures have, and others ask for; then what only one's own files know. */
struct model_config {
    const struct model_arch *arch;
    enum model_task task;
    enum problem problem;
    int64_t num_labels;
    int64_t hidden_size, layers, heads, vocab_size;
    int64_t file_layers;     /* numbered layers that files have: fewer where layers share weights */
    int64_t type_vocab_size; /* token types; 0: inputs have none */
    int64_t task_vocab_size; /* rows of a table of tasks, of which all tokens have the first; 0: there is none */
    int64_t
        stack_layers; /* of the first of two stacks, an encoder's; the others are its decoder's. 0: there is one stack */
    int64_t longest;  /* input, in tokens */
    int64_t usual_length;   /* of inputs, where nothing sets a limit; 0: longest */
    int64_t first_position; /* of a sequence's first token; the others' follow */
    int64_t pad_id;         /* -1: none */
    int64_t start_id;       /* what a decoder reads before the target, of sequence to sequence models; START_IS_LAST */
    int64_t writes_after;   /* likewise, where it is to write the target */
    int64_t end_id;         /* the end token, of a model that reads one text twice */
    bool untied;            /* the output has embeddings of its own */
    bool untied_by_file;    /* that is so where a folder's weights have them, whatever config.json says */
    bool newer_head;        /* the file asks for the other form of a head that has two (struct model_head) */
    bool names_are_modules; /* PEFT takes none of an adapter's target_modules for routers and layers of experts */
    struct rotary rotary[ROTARY_KINDS];
    struct relative relative;
    double init_std;
    double dropout_embedding, dropout_hidden, dropout_attention;
    double dropout_classifier; /* -1: as dropout_hidden */
    union {
        struct encoder_config encoder;
        struct gpt_config gpt;
        struct opt_config opt;
        struct modernbert_config modernbert;
        struct decoder_config decoder;
        struct t5_config t5;
        struct bart_config bart;
    } own;
};

extern const char *const rotary_inputs[ROTARY_KINDS]; /* names of the inputs with the frequencies (model.c) */

/* Reads config.json `o` (from file `path`): SNUG_ERR_INPUT with key and value where something is missing, out of range
 * or not supported. The task and the kind of labels stay AUTO where the file does not say. */
int model_config_read(json_t *o, const char *path, struct model_config *c, struct snug_err *err);

/* ---- For the architectures: what several of them read ---- */

/* An activation's name; absent: `fallback`. */
int config_act(json_t *o, const char *path, const char *key, enum act fallback, enum act *out, struct snug_err *err);

/* tie_word_embeddings, into c->untied, which stays where it is absent. */
int config_tied(json_t *o, const char *path, struct model_config *c, struct snug_err *err);

/* Heads of equal width: hidden_size must be a multiple of heads, which the file calls by these keys. */
int config_check_heads(const struct model_config *c, const char *path, const char *hidden_key, const char *heads_key,
                       struct snug_err *err);

#endif
