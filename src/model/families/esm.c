/* ESM-2 and ESM-1b (Lin et al., Science 379, 2023; Rives et al., PNAS 118, 2021) as transformers' modeling_esm: encoders of proteins,
 * a token a letter. Norms stand before the blocks; positions are rotary or, of ESM-1b, learned as RoBERTa's. */
#include "model/encoder.h"

#include <string.h>

/* The share of tokens that its training left: of the 15 % that were chosen, four fifths were masked. */
static const double KEPT = 1 - 0.15 * 0.8;

static int drop_masked(struct build *b, int v)
{
    struct op_mask_dropout n = {
        .x = v, .ids = b->in.ids, .cu = b->in.cu_seqlens, .token = b->c->own.encoder.mask_id, .kept = KEPT};
    if (!b->c->own.encoder.drops_masked)
        return v;
    emit_mask_dropout(b->g, &n);
    return n.y;
}

static const struct encoder esm = {ENCODER_NAMES,
                                   .norm = "embeddings.layer_norm",
                                   .attention_norm = "attention.LayerNorm",
                                   .norm_out = "LayerNorm",
                                   .last = "encoder.emb_layer_norm_after",
                                   .keeps_embeddings = true,
                                   .behind_words = drop_masked};

/* ---- config.json ---- */

static int read_positions(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    const char *kind = "absolute";
    const struct rotary_model m = {
        .head_size = c->hidden_size / c->heads, .positions = c->longest, .theta = 1e4, .part = 0};
    TRY(json_get_string(o, path, "position_embedding_type", false, &kind, err));
    if (strcmp(kind, "rotary") != 0)
        return encoder_positions_behind_pad(c, path, err);
    c->own.encoder.no_positions = true;
    return rotary_read(o, path, &m, &c->rotary[ROTARY_ALL], err);
}

/* Its activation is GELU, and there is one dropout for all, whatever other keys say. */
static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct encoder_config *own = &c->own.encoder;
    bool norm = false;
    encoder_defaults(c);
    c->longest = 1026, c->pad_id = -1;
    TRY(encoder_config(o, path, c, err));
    c->type_vocab_size = 0, c->dropout_classifier = -1;
    own->act = ACT_gelu;
    TRY(json_get_bool(o, path, "emb_layer_norm_before", false, &norm, err));
    TRY(json_get_bool(o, path, "token_dropout", false, &own->drops_masked, err));
    TRY(json_get_int(o, path, "mask_token_id", own->drops_masked, 0, c->vocab_size - 1, &own->mask_id, err));
    own->no_norm = !norm;
    return read_positions(o, path, c, err);
}

/* ---- the graph ---- */

static int body(struct build *b)
{
    struct encoder e = esm;
    e.norm = b->c->own.encoder.no_norm ? NULL : e.norm;
    return encoder_body(b, &e);
}

static int classifier(struct build *b, int v)
{
    return encoder_two_layer_classifier(b, v, ACT_tanh);
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "EsmForSequenceClassification",
                                       .weight = "classifier.out_proj.weight",
                                       .logits = classifier},
    [MODEL_MASKED_LM] = {.class_name = "EsmForMaskedLM", .weight = "lm_head.dense.weight", .logits = encoder_lm_head},
    [MODEL_TOKEN_CLASSIFICATION] = {
        .class_name = "EsmForTokenClassification", .weight = "classifier.weight", .logits = encoder_token_classifier}};

static const struct tied_name tied[] = {{"lm_head.decoder.weight", "esm." ENCODER_WORDS ".weight"}, {0}};

/* Files of models with rotary positions have the table of learned ones, too, which nobody reads. */
static const char *const ignored[] = {"embeddings.position_ids", "embeddings.position_embeddings.weight", NULL};

/* What predicts contacts from attention's weights. No task trains it. */
static const char *const beside[] = {"esm.contact_head.", "contact_head.", NULL};

static const struct refused refused[] = {
    {.key = "position_embedding_type", .kind = REFUSED_OTHER, .words = {"absolute", "rotary"}},
    {.key = "is_decoder", .kind = REFUSED_TRUE},
    {.key = "is_folding_model", .kind = REFUSED_TRUE},
    {.key = "rope_parameters", .kind = REFUSED_PRESENT},
    {.key = "rope_scaling", .kind = REFUSED_PRESENT},
    {0},
};

const struct model_arch arch_esm = {.model_type = "esm",
                                    .known = "esm2_t6_8M_UR50D, esm2_t33_650M_UR50D, esm1b_t33_650M_UR50S",
                                    .class_prefix = "Esm",
                                    .positions_key = "max_position_embeddings",
                                    .base_prefix = "esm.",
                                    .layer_prefix = "encoder.layer.",
                                    .tied = tied,
                                    .beside = beside,
                                    .frequencies = "rotary_embeddings.inv_freq",
                                    .ignored = ignored,
                                    .heads = heads,
                                    .refused = refused,
                                    .config = config,
                                    .body = body};
