/* Nomic BERT (Nussbaum et al., arXiv 2402.01613) as transformers' modeling_nomic_bert: BERT's encoder with rotary positions, a gated
 * feed-forward block, and no biases of the layers' products. Names are those of files; the class has others of its own in memory. */
#include "model/encoder.h"

static const struct encoder nomic_bert = {.types = "embeddings.token_type_embeddings",
                                          .norm = "emb_ln",
                                          .layer = "encoder.layers",
                                          .query_key_value = "attn.Wqkv",
                                          .attention = "attn.out_proj",
                                          .attention_norm = "norm1",
                                          .gate = "mlp.fc12",
                                          .up = "mlp.fc11",
                                          .gate_up = "mlp.fc12_fc11",
                                          .down = "mlp.fc2",
                                          .norm_out = "norm2",
                                          .no_bias = true};

/* The sizes of the class, since the folders of its makers have them under keys that it does not read. */
static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct encoder_config *own = &c->own.encoder;
    encoder_defaults(c);
    c->hidden_size = 768, c->layers = c->heads = 12, c->vocab_size = 30528, c->longest = 2048;
    c->dropout_hidden = c->dropout_attention = 0;
    own->intermediate_size = 3072, own->act = ACT_silu, own->no_positions = true;
    TRY(encoder_config(o, path, c, err));
    const struct rotary_model m = {.head_size = c->hidden_size / c->heads, .positions = c->longest, .theta = 1000};
    return rotary_read(o, path, &m, &c->rotary[ROTARY_ALL], err);
}

static int body(struct build *b)
{
    return encoder_body(b, &nomic_bert);
}

static int classifier(struct build *b, int v)
{
    return encoder_classifier(b, v, "nomic_bert.pooler.dense", ACT_tanh, "classifier");
}

static int masked_lm(struct build *b, int v)
{
    static const struct encoder_mlm head = {.dense = "cls.predictions.transform.dense",
                                            .norm = "cls.predictions.transform.layer_norm",
                                            .bias = "cls.predictions.bias"};
    return encoder_masked_lm(b, v, &head, b->c->own.encoder.act);
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "NomicBertForSequenceClassification",
                                       .weight = "classifier.weight",
                                       .logits = classifier},
    [MODEL_MASKED_LM] = {.class_name = "NomicBertForMaskedLM",
                         .weight = "cls.predictions.transform.dense.weight",
                         .logits = masked_lm},
    [MODEL_TOKEN_CLASSIFICATION] = {.class_name = "NomicBertForTokenClassification",
                                    .weight = "classifier.weight",
                                    .logits = encoder_token_classifier}};

static const struct tied_name tied[] = {ENCODER_TIED("nomic_bert.", "cls.predictions"), {0}};

static const char *const ignored[] = {"embeddings.position_ids", "inv_freq", NULL};

static int64_t head_size(const struct model_config *c)
{
    return c->hidden_size / c->heads;
}

static int64_t hidden_size(const struct model_config *c)
{
    return c->hidden_size;
}

static int64_t layers(const struct model_config *c)
{
    return c->layers;
}

static int64_t heads_of(const struct model_config *c)
{
    return c->heads;
}

static int64_t intermediate_size(const struct model_config *c)
{
    return c->own.encoder.intermediate_size;
}

/* From n_embd on the makers' keys, where they say something else than transformers takes. */
static const struct refused refused[] = {
    {.key = "head_dim", .kind = REFUSED_UNLIKE, .words = {"hidden_size / num_attention_heads"}, .like = head_size},
    {.key = "n_embd", .kind = REFUSED_UNLIKE, .words = {"hidden_size"}, .like = hidden_size},
    {.key = "n_layer", .kind = REFUSED_UNLIKE, .words = {"num_hidden_layers"}, .like = layers},
    {.key = "n_head", .kind = REFUSED_UNLIKE, .words = {"num_attention_heads"}, .like = heads_of},
    {.key = "n_inner", .kind = REFUSED_UNLIKE, .words = {"intermediate_size"}, .like = intermediate_size},
    {.key = "rotary_emb_base", .kind = REFUSED_UNLIKE, .words = {"1000"}},
    {.key = "activation_function", .kind = REFUSED_OTHER, .words = {"swiglu"}},
    {.key = "moe_every_n_layers", .kind = REFUSED_ABOVE_0},
    {.key = "prenorm", .kind = REFUSED_TRUE},
    {.key = "qkv_proj_bias", .kind = REFUSED_TRUE},
    {.key = "mlp_fc1_bias", .kind = REFUSED_TRUE},
    {.key = "mlp_fc2_bias", .kind = REFUSED_TRUE},
    {0},
};

const struct model_arch arch_nomic_bert = {.model_type = "nomic_bert",
                                           .known = "nomic-embed-text-v1, nomic-embed-text-v1.5, nomic-bert-2048",
                                           .class_prefix = "NomicBert",
                                           .positions_key = "max_position_embeddings",
                                           .base_prefix = "nomic_bert.",
                                           .layer_prefix = "encoder.layers.",
                                           .tied = tied,
                                           .ignored = ignored,
                                           .heads = heads,
                                           .unadapted = true,
                                           .refused = refused,
                                           .config = config,
                                           .body = body};
