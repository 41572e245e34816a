"""Records what transformers computes for tiny random models: logits, loss, every gradient; optimizer trajectories of torch; the log
and the final weights of a Trainer run. Run with: python make.py [NAME...]   (all, or those recordings; versions used are written into
versions.txt)

Everything is computed in float64 and stored as float32, dropout off, eager attention. No zero biases or unit scales are left, so that
a swapped or a dropped parameter shows.
"""
import fnmatch, json, os, sys
import torch, transformers as T
from safetensors.torch import save_file

from as_saved import tensors_as_saved

T.logging.set_verbosity_error()
here = os.path.dirname(os.path.abspath(__file__))
wanted = sys.argv[1:]
V, S, LENGTHS = 37, 10, [10, 4, 7, 1]


def bert(**k):
    d = dict(vocab_size=V, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
             max_position_embeddings=12, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    d.update(k)
    return T.BertConfig(**d)


def roberta(config=T.RobertaConfig, **k):
    """Positions begin behind the pad token's: 12 are enough for S tokens."""
    return config(**bert(type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5, **k).to_diff_dict())


def distilbert(**k):
    return T.DistilBertConfig(**{**dict(vocab_size=V, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=12, num_labels=3,
                                        dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0), **k})


def electra(**k):
    return T.ElectraConfig(**{**bert(**k).to_diff_dict(), "embedding_size": 8})


def albert(**k):
    """Three layers in two groups: the first two share their weights, as two layers in a row each."""
    own = dict(embedding_size=8, num_hidden_groups=2, inner_group_num=2, hidden_act="gelu_new", classifier_dropout_prob=0.0)
    return T.AlbertConfig(**{**bert(num_hidden_layers=3, **k).to_diff_dict(), **own})


def mpnet(**k):
    """The pad token's id is 1 whatever the configuration says."""
    return T.MPNetConfig(**bert(pad_token_id=1, bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5, **k).to_diff_dict())


def esm(**k):
    """As ESM-2; the other is ESM-1b."""
    own = dict(pad_token_id=1, mask_token_id=5, position_embedding_type="rotary", rope_theta=10.0, token_dropout=True, layer_norm_eps=1e-5)
    return T.EsmConfig(**{**bert().to_diff_dict(), **own, **k})


ESM_1B = dict(position_embedding_type="absolute", emb_layer_norm_before=True)


def nomic(**k):
    """With its own model_type, by which transformers gives tensors the names that files have."""
    sizes = {n: v for n, v in bert(hidden_act="silu").to_diff_dict().items() if n != "model_type"}
    return T.NomicBertConfig(**{**sizes, "rope_parameters": dict(rope_type="default", rope_theta=10.0), **k})


def eurobert(**k):
    own = dict(num_attention_heads=2, num_key_value_heads=2, head_dim=None, mask_token_id=3,
               rope_parameters=dict(rope_type="default", rope_theta=10.0))
    return decoder(T.EuroBertConfig, **{**own, **k})


def deberta(**k):
    """As DeBERTa-v3; buckets from a distance of 2 on."""
    own = dict(type_vocab_size=0, relative_attention=True, position_buckets=4, norm_rel_ebd="layer_norm", share_att_key=True,
               pos_att_type=["p2c", "c2p"], position_biased_input=False)
    return T.DebertaV2Config(**{**bert(type_vocab_size=0).to_diff_dict(), **own, **k})


def deberta_1(**k):
    """The first version."""
    own = dict(relative_attention=True, pos_att_type="c2p|p2c", position_biased_input=False)
    return T.DebertaConfig(**{**bert(type_vocab_size=0).to_diff_dict(), **own, **k})


# Positions with products of their own, each distance with a row of its own up to 5; positions and types at the input.
DEBERTA_OWN = dict(share_att_key=False, position_buckets=-1, max_relative_positions=5, position_biased_input=True,
                   type_vocab_size=2)


def modernbert(**k):
    """Layers see everything, three tokens to each side, again, and everything."""
    rope = dict(full_attention=dict(rope_type="default", rope_theta=100.0), sliding_attention=dict(rope_type="default", rope_theta=10.0))
    return T.ModernBertConfig(**{**dict(vocab_size=V, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=24,
                                        max_position_embeddings=12, num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                        cls_token_id=1, sep_token_id=2, local_attention=6, classifier_pooling="mean",
                                        rope_parameters=rope), **k})


BIASES = dict(norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True)


def decoder(config, **k):
    """Of Llama's kind; heads are wider than hidden_size / num_attention_heads."""
    d = dict(vocab_size=V, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=24,
             max_position_embeddings=12, num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return config(**{n: v for n, v in {**d, **k}.items() if v is not None})


def without_windows(cfg):
    cfg.sliding_window, cfg.layer_types = None, ["full_attention"] * cfg.num_hidden_layers
    return cfg


GEMMA3 = dict(num_hidden_layers=3, query_pre_attn_scalar=5, sliding_window=3, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
              rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=100.0),
                                   sliding_attention=dict(rope_type="default", rope_theta=10.0)))


def pictures(**k):
    """Gemma 3 with a model of pictures beside that of text."""
    vision = dict(model_type="siglip_vision_model", hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, image_size=4,
                  patch_size=2)
    return T.Gemma3Config(text_config=decoder(T.Gemma3TextConfig, **GEMMA3), vision_config=vision, mm_tokens_per_image=4, boi_token_index=3,
                          eoi_token_index=4, image_token_index=36, num_labels=3, **k)


def gpt_oss(**k):
    """Limits that change some gates and ups; YaRN with boundaries between pairs."""
    rope = dict(rope_type="yarn", factor=4.0, beta_fast=2.0, beta_slow=0.3, truncate=False, original_max_position_embeddings=8, rope_theta=20.0)
    return decoder(T.GptOssConfig, **{**dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=8, sliding_window=3, swiglu_limit=0.8, swiglu_alpha=1.5,
                                             initializer_range=0.1, rope_parameters=rope), **k})


def lfm2(**k):
    """Convolutions before attention and behind it; feed-forward blocks of 24."""
    return decoder(T.Lfm2Config, **{**dict(num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=None, intermediate_size=25, initializer_range=0.1,
                                           block_multiple_of=8, block_ffn_dim_multiplier=1.15, layer_types=["conv", "full_attention", "conv"],
                                           rope_parameters=dict(rope_type="default", rope_theta=20.0)), **k})


def gpt2(config=T.GPT2Config, **k):
    """Dropout is 0.1 where nothing is said."""
    return config(**{**dict(vocab_size=V, n_embd=16, n_layer=2, n_head=2, n_inner=24, n_positions=12, num_labels=3, resid_pdrop=0.0, embd_pdrop=0.0,
                            attn_pdrop=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2), **k})


def neo(**k):
    """Layers see everything, a window and a window."""
    return T.GPTNeoConfig(**{**dict(vocab_size=V, hidden_size=16, num_layers=3, num_heads=2, intermediate_size=24, max_position_embeddings=12,
                                    attention_types=[[["global", "local"], 1], [["local"], 1]], window_size=3, num_labels=3, pad_token_id=0,
                                    bos_token_id=1, eos_token_id=2), **k})


def bloom(**k):
    return T.BloomConfig(**{**dict(vocab_size=V, hidden_size=24, n_layer=2, n_head=3, num_labels=3, pad_token_id=0), **k})


def falcon(**k):
    return T.FalconConfig(**{**dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_hidden_size=24,
                                    max_position_embeddings=12, num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=2), **k})


def neox(**k):
    """Two pairs of each head turn, and two do not."""
    rope = dict(rope_type="default", rope_theta=10.0, partial_rotary_factor=0.5)
    return T.GPTNeoXConfig(**{**dict(vocab_size=V, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                                     max_position_embeddings=12, num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                     rope_parameters=rope), **k})


def opt(**k):
    return T.OPTConfig(**{**dict(vocab_size=V, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=12, max_position_embeddings=12,
                                 num_labels=3, dropout=0.0, init_std=0.2), **k})


def t5(config=T.T5Config, **k):
    """Heads are wider than d_model / num_heads; buckets are few, so that distances share them."""
    return config(**{**dict(vocab_size=V, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=3, relative_attention_num_buckets=8,
                            relative_attention_max_distance=6, dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1), **k})


def bart(config=T.BartConfig, **k):
    return config(**{**dict(vocab_size=V, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
                                  encoder_ffn_dim=24, decoder_ffn_dim=32, max_position_embeddings=12, dropout=0.0, attention_dropout=0.0,
                                  activation_dropout=0.0), **k})


UNTOLD = dict(pad_token_id=36, eos_token_id=0, decoder_start_token_id=36, forced_eos_token_id=0, decoder_vocab_size=V)  # ids of Marian's kind
FEW_UNITS = dict(encoder_ffn_dim=8, decoder_ffn_dim=12, decoder_layers=1)
GATED = dict(feed_forward_proj="gated-gelu", num_decoder_layers=3, tie_word_embeddings=False)
TARGET_LENGTHS = [5, 7, 1, 3]

# Factors such that the pairs of a head are of all three kinds.
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=0.05, high_freq_factor=1.0, original_max_position_embeddings=12)
YARN = dict(rope_type="yarn", rope_theta=10.0, factor=4.0, beta_fast=2.0, beta_slow=0.5, original_max_position_embeddings=12)
# A base that is not large, so that positions show.
TURNS = dict(rope_type="default", rope_theta=10.0)
HALF_TURNS = dict(**TURNS, partial_rotary_factor=0.5)
ALPHA = dict(rope_type="dynamic", rope_theta=10.0, alpha=4.0, factor=1.0)
SLIDES = dict(sliding_window=3, layer_types=["sliding_attention", "full_attention"])
ODD = dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=1)
GRANITE = dict(embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.7, logits_scaling=2.0)
SEVERAL = dict(num_labels=4, problem_type="multi_label_classification")
ONE = dict(num_labels=1, problem_type="regression")
CASES = {
    "arcee": (T.ArceeForCausalLM, decoder(T.ArceeConfig, rope_parameters=YARN)),
    "arcee_biases": (T.ArceeForCausalLM, decoder(T.ArceeConfig, head_dim=None, **ODD, rope_parameters=TURNS, attention_bias=True, mlp_bias=True,
                                                 tie_word_embeddings=True, hidden_act="gelu")),
    "arcee_classes": (T.ArceeForSequenceClassification, decoder(T.ArceeConfig, num_hidden_layers=3)),
    "nemotron": (T.NemotronForCausalLM, decoder(T.NemotronConfig, rope_parameters=HALF_TURNS)),
    "nemotron_biases": (T.NemotronForCausalLM, decoder(T.NemotronConfig, head_dim=None, **ODD, initializer_range=0.03, attention_bias=True,
                                                       mlp_bias=True, norm_eps=0.01, tie_word_embeddings=True, rope_parameters=dict(TURNS, partial_rotary_factor=0.75))),
    "nemotron_classes": (T.NemotronForSequenceClassification, decoder(T.NemotronConfig, num_hidden_layers=3)),
    "bert": (T.BertForSequenceClassification, bert()),
    "bert_regression": (T.BertForSequenceClassification, bert(**ONE)),
    "bert_multilabel": (T.BertForSequenceClassification, bert(**SEVERAL)),
    "bert_tags": (T.BertForTokenClassification, bert()),
    "bert_mlm": (T.BertForMaskedLM, bert(hidden_act="gelu_new")),
    "gpt2": (T.GPT2LMHeadModel, T.GPT2Config(vocab_size=V, n_embd=16, n_layer=2, n_head=2, n_positions=12, resid_pdrop=0.0,
                                             embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)),
    "gpt2_scaled": (T.GPT2LMHeadModel, gpt2(scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False,
                                            activation_function="silu")),
    "gpt2_classes": (T.GPT2ForSequenceClassification, gpt2()),
    "gpt_bigcode": (T.GPTBigCodeForCausalLM, gpt2(T.GPTBigCodeConfig, n_embd=32, n_head=4)),
    "gpt_bigcode_heads": (T.GPTBigCodeForCausalLM, gpt2(T.GPTBigCodeConfig, multi_query=False, scale_attn_weights=False, n_inner=None,
                                                        activation_function="gelu_fast")),
    "gpt_bigcode_classes": (T.GPTBigCodeForSequenceClassification, gpt2(T.GPTBigCodeConfig)),
    "gpt_neo": (T.GPTNeoForCausalLM, neo()),
    "gpt_neo_classes": (T.GPTNeoForSequenceClassification, neo(window_size=2, intermediate_size=None, activation_function="gelu")),
    "bloom": (T.BloomForCausalLM, bloom()),
    "bloom_classes": (T.BloomForSequenceClassification, bloom(hidden_size=16, n_head=2, n_layer=3, tie_word_embeddings=False)),
    "falcon": (T.FalconForCausalLM, falcon(rope_parameters=dict(rope_type="default", rope_theta=10.0))),
    "falcon_groups": (T.FalconForCausalLM, falcon(new_decoder_architecture=True, num_kv_heads=2, bias=True, tie_word_embeddings=False,
                                                  rope_parameters=dict(rope_type="linear", rope_theta=10.0, factor=2.0))),
    "falcon_in_turn": (T.FalconForCausalLM, falcon(parallel_attn=False, multi_query=False, ffn_hidden_size=None, activation="gelu_new")),
    "falcon_classes": (T.FalconForSequenceClassification, falcon(num_hidden_layers=3)),
    "falcon_groups_classes": (T.FalconForSequenceClassification, falcon(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1)),
    "gptj": (T.GPTJForCausalLM, gpt2(T.GPTJConfig, rotary_dim=4)),
    "gptj_tied": (T.GPTJForCausalLM, gpt2(T.GPTJConfig, rotary_dim=8, n_inner=None, tie_word_embeddings=True)),
    "gptj_classes": (T.GPTJForSequenceClassification, gpt2(T.GPTJConfig, n_embd=32, n_layer=3, rotary_dim=6)),
    "gpt_neox": (T.GPTNeoXForCausalLM, neox()),
    "gpt_neox_sequential": (T.GPTNeoXForCausalLM, neox(use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True)),
    "gpt_neox_classes": (T.GPTNeoXForSequenceClassification, neox()),
    "roberta": (T.RobertaForSequenceClassification, roberta()),
    "roberta_regression": (T.RobertaForSequenceClassification, roberta(**ONE)),
    "roberta_multilabel": (T.RobertaForSequenceClassification, roberta(**SEVERAL)),
    "roberta_mlm": (T.RobertaForMaskedLM, roberta(hidden_act="gelu_new")),
    "roberta_tags": (T.RobertaForTokenClassification, roberta()),
    "xlm_roberta": (T.XLMRobertaForSequenceClassification, roberta(T.XLMRobertaConfig)),
    "camembert": (T.CamembertForSequenceClassification, roberta(T.CamembertConfig)),
    "distilbert": (T.DistilBertForSequenceClassification, distilbert()),
    "distilbert_regression": (T.DistilBertForSequenceClassification, distilbert(**ONE)),
    "distilbert_multilabel": (T.DistilBertForSequenceClassification, distilbert(**SEVERAL)),
    "distilbert_mlm": (T.DistilBertForMaskedLM, distilbert(activation="gelu_new")),
    "distilbert_tags": (T.DistilBertForTokenClassification, distilbert()),
    "electra": (T.ElectraForSequenceClassification, electra()),
    "electra_mlm": (T.ElectraForMaskedLM, electra(hidden_act="relu")),
    "electra_tags": (T.ElectraForTokenClassification, electra()),
    "ernie": (T.ErnieForSequenceClassification, T.ErnieConfig(**bert().to_diff_dict(), use_task_id=True, task_type_vocab_size=2)),
    "ernie_mlm": (T.ErnieForMaskedLM, T.ErnieConfig(**bert(type_vocab_size=4, num_hidden_layers=1).to_diff_dict())),
    "megatron_bert": (T.MegatronBertForSequenceClassification, T.MegatronBertConfig(**bert().to_diff_dict())),
    "megatron_bert_mlm": (T.MegatronBertForMaskedLM, T.MegatronBertConfig(**bert(hidden_act="gelu_new").to_diff_dict())),
    "megatron_bert_tags": (T.MegatronBertForTokenClassification, T.MegatronBertConfig(**bert(num_hidden_layers=1).to_diff_dict())),
    "data2vec_text": (T.Data2VecTextForSequenceClassification, roberta(T.Data2VecTextConfig)),
    "data2vec_text_mlm": (T.Data2VecTextForMaskedLM, roberta(T.Data2VecTextConfig)),
    "roberta_prelayernorm": (T.RobertaPreLayerNormForSequenceClassification, roberta(T.RobertaPreLayerNormConfig)),
    "roberta_prelayernorm_mlm": (T.RobertaPreLayerNormForMaskedLM, roberta(T.RobertaPreLayerNormConfig)),
    "xlm_roberta_xl": (T.XLMRobertaXLForSequenceClassification, roberta(T.XLMRobertaXLConfig)),
    "xlm_roberta_xl_mlm": (T.XLMRobertaXLForMaskedLM, roberta(T.XLMRobertaXLConfig)),
    "nomic_bert": (T.NomicBertForSequenceClassification, nomic()),
    "nomic_bert_mlm": (T.NomicBertForMaskedLM, nomic()),
    "nomic_bert_tags": (T.NomicBertForTokenClassification, nomic(num_hidden_layers=1)),
    "eurobert": (T.EuroBertForSequenceClassification, eurobert()),
    "eurobert_mean": (T.EuroBertForSequenceClassification, eurobert(classifier_pooling="mean", num_key_value_heads=1)),
    "eurobert_bos": (T.EuroBertForSequenceClassification, eurobert(classifier_pooling="bos", attention_bias=True)),
    "eurobert_mlm": (T.EuroBertForMaskedLM, eurobert()),
    "eurobert_tied_mlm": (T.EuroBertForMaskedLM, eurobert(tie_word_embeddings=True, mlp_bias=True)),
    "eurobert_tags": (T.EuroBertForTokenClassification, eurobert()),
    "esm": (T.EsmForSequenceClassification, esm()),
    "esm_mlm": (T.EsmForMaskedLM, esm()),
    "esm_tags": (T.EsmForTokenClassification, esm(**ESM_1B)),
    "albert": (T.AlbertForSequenceClassification, albert()),
    "albert_mlm": (T.AlbertForMaskedLM, albert()),
    "albert_tags": (T.AlbertForTokenClassification, albert()),
    "t5": (T.T5ForConditionalGeneration, t5()),
    "t5_gated": (T.T5ForConditionalGeneration, t5(**GATED)),
    "mt5": (T.MT5ForConditionalGeneration, t5(T.MT5Config, num_layers=1, **GATED)),
    "bart": (T.BartForConditionalGeneration, bart()),
    "bart_scaled": (T.BartForConditionalGeneration, bart(scale_embedding=True, decoder_layers=1, activation_function="relu")),
    "mbart": (T.MBartForConditionalGeneration, bart(T.MBartConfig, scale_embedding=True, encoder_layers=1)),
    "mbart_plain": (T.MBartForConditionalGeneration, bart(T.MBartConfig, decoder_layers=1)),
    "t5_classes": (T.T5ForSequenceClassification, t5(num_labels=3, classifier_dropout=0.0, feed_forward_proj="gated-gelu")),
    "marian": (T.MarianMTModel, bart(T.MarianConfig, activation_function="swish", scale_embedding=True, decoder_layers=1, **UNTOLD)),
    "pegasus": (T.PegasusForConditionalGeneration, bart(T.PegasusConfig, activation_function="relu", scale_embedding=True, pad_token_id=0,
                                                        eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=1, **FEW_UNITS)),
    "m2m_100": (T.M2M100ForConditionalGeneration, bart(T.M2M100Config, encoder_layerdrop=0.0, decoder_layerdrop=0.0, **FEW_UNITS)),
    "bart_classes": (T.BartForSequenceClassification, bart(num_labels=3)),
    "mbart_classes": (T.MBartForSequenceClassification, bart(T.MBartConfig, scale_embedding=True, num_labels=3)),
    "modernbert": (T.ModernBertForSequenceClassification, modernbert()),
    "modernbert_cls": (T.ModernBertForSequenceClassification, modernbert(classifier_pooling="cls", num_hidden_layers=3,
                                                                         classifier_activation="relu", **BIASES)),
    "modernbert_mlm": (T.ModernBertForMaskedLM, modernbert()),
    "modernbert_tags": (T.ModernBertForTokenClassification, modernbert(norm_bias=True, classifier_bias=True)),
    "mpnet": (T.MPNetForSequenceClassification, mpnet()),
    "mpnet_mlm": (T.MPNetForMaskedLM, mpnet()),
    "mpnet_tags": (T.MPNetForTokenClassification, mpnet()),
    "cohere": (T.CohereForCausalLM, decoder(T.CohereConfig, rope_parameters=TURNS, logit_scale=0.25, attention_bias=True)),
    "cohere2": (T.Cohere2ForCausalLM, decoder(T.Cohere2Config, rope_parameters=TURNS, tie_word_embeddings=False, **SLIDES)),
    "deberta": (T.DebertaV2ForSequenceClassification, deberta()),
    "deberta_1": (T.DebertaForSequenceClassification, deberta_1()),
    "deberta_1_own": (T.DebertaForSequenceClassification, deberta_1(max_relative_positions=3, position_biased_input=True, type_vocab_size=2,
                                                                    pos_att_type=["p2c"], pooler_hidden_act="tanh")),
    "deberta_1_mlm": (T.DebertaForMaskedLM, deberta_1(hidden_act="gelu_new")),
    "deberta_1_newer_mlm": (T.DebertaForMaskedLM, deberta_1(legacy=False, relative_attention=False)),
    "deberta_1_tags": (T.DebertaForTokenClassification, deberta_1(pos_att_type=["c2p"])),
    "deberta_1_answers": (T.DebertaForQuestionAnswering, deberta_1(num_labels=2)),
    "deberta_own": (T.DebertaV2ForSequenceClassification, deberta(**DEBERTA_OWN, pooler_hidden_act="tanh")),
    "deberta_c2p_tags": (T.DebertaV2ForTokenClassification, deberta(pos_att_type=["c2p"], share_att_key=False, norm_rel_ebd="none")),
    "deberta_conv": (T.DebertaV2ForSequenceClassification, deberta(conv_kernel_size=3, conv_act="gelu")),
    "deberta_conv_one": (T.DebertaV2ForSequenceClassification, deberta(num_hidden_layers=1, conv_kernel_size=3, conv_act="silu")),
    "deberta_conv_tags": (T.DebertaV2ForTokenClassification, deberta(conv_kernel_size=5)),
    "deberta_mlm": (T.DebertaV2ForMaskedLM, deberta(hidden_act="gelu_new")),
    "deberta_newer_mlm": (T.DebertaV2ForMaskedLM, deberta(legacy=False, relative_attention=False, norm_rel_ebd="none")),
    "deberta_tags": (T.DebertaV2ForTokenClassification, deberta(pos_att_type=["p2c"])),
    "ernie4_5": (T.Ernie4_5ForCausalLM, decoder(T.Ernie4_5Config, rope_parameters=TURNS, use_bias=True)),
    "exaone4": (T.Exaone4ForCausalLM, decoder(T.Exaone4Config, rope_parameters=TURNS, **SLIDES)),
    "exaone4_plain": (T.Exaone4ForCausalLM, without_windows(decoder(T.Exaone4Config, rope_parameters=TURNS, num_hidden_layers=1, tie_word_embeddings=True))),
    "gemma": (T.GemmaForCausalLM, decoder(T.GemmaConfig, num_key_value_heads=1)),
    "glm": (T.GlmForCausalLM, decoder(T.GlmConfig, rope_parameters=HALF_TURNS)),
    "glm4": (T.Glm4ForCausalLM, decoder(T.Glm4Config, rope_parameters=HALF_TURNS, attention_bias=False)),
    "glm4_classes": (T.Glm4ForSequenceClassification, decoder(T.Glm4Config, attention_bias=False,
                                                             rope_parameters=dict(TURNS, partial_rotary_factor=0.75))),
    "granite": (T.GraniteForCausalLM, decoder(T.GraniteConfig, head_dim=None, **ODD, **GRANITE)),
    "granitemoe": (T.GraniteMoeForCausalLM, decoder(T.GraniteMoeConfig, head_dim=None, **ODD, **GRANITE, intermediate_size=8, num_local_experts=5,
                                                    num_experts_per_tok=2, rope_parameters=TURNS, tie_word_embeddings=True)),
    "granitemoe_balanced": (T.GraniteMoeForCausalLM, decoder(T.GraniteMoeConfig, intermediate_size=12, num_local_experts=6, num_experts_per_tok=3,
                                                             attention_multiplier=0.3, attention_bias=True, output_router_logits=True,
                                                             router_aux_loss_coef=0.7)),
    "granitemoeshared": (T.GraniteMoeSharedForCausalLM, decoder(T.GraniteMoeSharedConfig, head_dim=None, **ODD, **GRANITE, num_local_experts=4,
                                                                intermediate_size=8, shared_intermediate_size=20, rope_parameters=TURNS)),
    "granitemoeshared_alone": (T.GraniteMoeSharedForCausalLM, decoder(T.GraniteMoeSharedConfig, num_hidden_layers=1)),
    "gemma2": (T.Gemma2ForCausalLM, decoder(T.Gemma2Config, query_pre_attn_scalar=5, sliding_window=3, attn_logit_softcapping=2.0,
                                            final_logit_softcapping=3.0)),
    "gemma3": (T.Gemma3ForCausalLM, decoder(T.Gemma3TextConfig, **GEMMA3)),
    "gemma3_pictures": (T.Gemma3ForConditionalGeneration, pictures()),
    "gemma3_pictures_classes": (T.Gemma3ForSequenceClassification, pictures()),
    "hunyuan": (T.HunYuanDenseV1ForCausalLM, decoder(T.HunYuanDenseV1Config, rope_parameters=ALPHA, tie_word_embeddings=True)),
    "hunyuan_classes": (T.HunYuanDenseV1ForSequenceClassification, decoder(T.HunYuanDenseV1Config, attention_bias=True)),
    "llama": (T.LlamaForCausalLM, decoder(T.LlamaConfig, rope_parameters=LLAMA3)),
    "llama_biases": (T.LlamaForCausalLM, decoder(T.LlamaConfig, rope_parameters=YARN, attention_bias=True, mlp_bias=True,
                                                 tie_word_embeddings=True)),
    "llama_classes": (T.LlamaForSequenceClassification, decoder(T.LlamaConfig)),
    "ministral": (T.MinistralForCausalLM, decoder(T.MinistralConfig, rope_parameters=TURNS, **SLIDES)),
    "mistral": (T.MistralForCausalLM, decoder(T.MistralConfig, sliding_window=3)),
    "olmo": (T.OlmoForCausalLM, decoder(T.OlmoConfig, rope_parameters=TURNS, head_dim=None, **ODD)),
    "olmo_classes": (T.OlmoForSequenceClassification, decoder(T.OlmoConfig, attention_bias=True)),
    "olmo2": (T.Olmo2ForCausalLM, decoder(T.Olmo2Config, hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=None)),
    "olmo3": (T.Olmo3ForCausalLM, decoder(T.Olmo3Config, num_hidden_layers=4, hidden_size=24, num_attention_heads=3, num_key_value_heads=1,
                                          head_dim=None, sliding_window=3,
                                          rope_parameters=dict(full_attention=YARN, sliding_attention=dict(rope_type="default", rope_theta=10.0)))),
    "olmoe": (T.OlmoeForCausalLM, decoder(T.OlmoeConfig, head_dim=None, **ODD, rope_parameters=TURNS, num_experts=5, num_experts_per_tok=2)),
    "opt": (T.OPTForCausalLM, opt()),
    "opt_projected": (T.OPTForCausalLM, opt(word_embed_proj_dim=8, do_layer_norm_before=False, activation_function="gelu", num_hidden_layers=3)),
    "opt_plain": (T.OPTForCausalLM, opt(enable_bias=False, _remove_final_layer_norm=True, tie_word_embeddings=False, word_embed_proj_dim=24,
                                        activation_function="silu")),
    "opt_classes": (T.OPTForSequenceClassification, opt(num_hidden_layers=3)),
    "opt_projected_classes": (T.OPTForSequenceClassification, opt(word_embed_proj_dim=8, do_layer_norm_before=False, num_hidden_layers=1)),
    "phi": (T.PhiForCausalLM, decoder(T.PhiConfig, num_key_value_heads=None, head_dim=None, hidden_size=24, num_attention_heads=3,
                                      rope_parameters=dict(rope_type="default", rope_theta=10.0, partial_rotary_factor=0.75))),
    "phi_tied": (T.PhiForCausalLM, decoder(T.PhiConfig, tie_word_embeddings=True, hidden_act="gelu")),
    "phi_classes": (T.PhiForSequenceClassification, decoder(T.PhiConfig, num_hidden_layers=3)),
    "phi3": (T.Phi3ForCausalLM, decoder(T.Phi3Config, hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=None,
                                        partial_rotary_factor=0.75, sliding_window=5)),
    "qwen2": (T.Qwen2ForCausalLM, decoder(T.Qwen2Config, hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=None,
                                          tie_word_embeddings=True, use_sliding_window=True, sliding_window=4, max_window_layers=1,
                                          rope_parameters=dict(rope_type="default", rope_theta=10.0))),  # a key's bias shows
    "qwen3": (T.Qwen3ForCausalLM, decoder(T.Qwen3Config)),
    "qwen3_regression": (T.Qwen3ForSequenceClassification, decoder(T.Qwen3Config, num_labels=1, problem_type="regression")),
    "qwen2_moe": (T.Qwen2MoeForCausalLM, decoder(T.Qwen2MoeConfig, head_dim=None, hidden_size=24, num_attention_heads=3, num_key_value_heads=1,
                                                 moe_intermediate_size=8, shared_expert_intermediate_size=12, num_experts=5, num_experts_per_tok=2,
                                                 num_hidden_layers=3, mlp_only_layers=[1], use_sliding_window=True, sliding_window=3,
                                                 max_window_layers=2, rope_parameters=TURNS, tie_word_embeddings=True)),
    "qwen2_moe_balanced": (T.Qwen2MoeForCausalLM, decoder(T.Qwen2MoeConfig, head_dim=None, **ODD, moe_intermediate_size=8, num_experts=6,
                                                          shared_expert_intermediate_size=16, num_experts_per_tok=3, norm_topk_prob=True,
                                                          qkv_bias=False, tie_word_embeddings=True, output_router_logits=True,
                                                          router_aux_loss_coef=0.7)),
    "qwen2_moe_classes": (T.Qwen2MoeForSequenceClassification, decoder(T.Qwen2MoeConfig, head_dim=None, moe_intermediate_size=8, num_experts=4,
                                                                       hidden_size=32, shared_expert_intermediate_size=20,
                                                                       num_experts_per_tok=2, decoder_sparse_step=2)),
    "qwen3_moe": (T.Qwen3MoeForCausalLM, decoder(T.Qwen3MoeConfig, moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2,
                                                 mlp_only_layers=[1], norm_topk_prob=True)),
    "qwen3_moe_classes": (T.Qwen3MoeForSequenceClassification, decoder(T.Qwen3MoeConfig, moe_intermediate_size=8, num_experts=6,
                                                                       num_experts_per_tok=3, attention_bias=True)),
    "mixtral": (T.MixtralForCausalLM, decoder(T.MixtralConfig, num_local_experts=4, sliding_window=3)),
    "qwen3_moe_balanced": (T.Qwen3MoeForCausalLM, decoder(T.Qwen3MoeConfig, num_hidden_layers=3, moe_intermediate_size=8, num_experts=5,
                                                          num_experts_per_tok=2, mlp_only_layers=[1], output_router_logits=True,
                                                          router_aux_loss_coef=0.7)),
    "mixtral_balanced": (T.MixtralForCausalLM, decoder(T.MixtralConfig, num_local_experts=4, sliding_window=None, output_router_logits=True,
                                                       router_aux_loss_coef=1.5)),
    "gpt_oss": (T.GptOssForCausalLM, gpt_oss()),
    "gpt_oss_balanced": (T.GptOssForCausalLM, gpt_oss(sliding_window=50, swiglu_limit=7.0, output_router_logits=True, router_aux_loss_coef=0.9)),
    "gpt_oss_classes": (T.GptOssForSequenceClassification, gpt_oss(num_hidden_layers=3, attention_bias=False, swiglu_limit=7.0, swiglu_alpha=1.702, rope_parameters=None)),
    "lfm2": (T.Lfm2ForCausalLM, lfm2()),
    "lfm2_published": (T.Lfm2ForCausalLM, lfm2(layer_types=["conv", "conv", "full_attention"])),
    "lfm2_biases": (T.Lfm2ForCausalLM, lfm2(conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False, intermediate_size=40, head_dim=8,
                                            rope_parameters=dict(rope_type="default", rope_theta=1e6),
                                            num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False, norm_eps=1e-2)),
    "seed_oss": (T.SeedOssForCausalLM, decoder(T.SeedOssConfig, rope_parameters=TURNS, attention_out_bias=True, mlp_bias=True,
                                               attention_dropout=0.0, residual_dropout=0.0)),
    "seed_oss_classes": (T.SeedOssForSequenceClassification, decoder(T.SeedOssConfig, rope_parameters=TURNS, attention_bias=False,
                                                                     attention_dropout=0.0, residual_dropout=0.0)),
    "smollm3": (T.SmolLM3ForCausalLM, decoder(T.SmolLM3Config, num_hidden_layers=4, hidden_size=24, num_attention_heads=3,
                                              num_key_value_heads=1, head_dim=None)),
    "stablelm": (T.StableLmForCausalLM, decoder(T.StableLmConfig, head_dim=None, **ODD, use_qkv_bias=True, rope_parameters=HALF_TURNS)),
    "stablelm_parallel": (T.StableLmForCausalLM, decoder(T.StableLmConfig, head_dim=None, **ODD, use_parallel_residual=True,
                                                         tie_word_embeddings=True, rope_parameters=dict(TURNS, partial_rotary_factor=0.25))),
    "stablelm_classes": (T.StableLmForSequenceClassification, decoder(T.StableLmConfig, head_dim=None, **ODD, use_parallel_residual=True,
                                                                      rope_parameters=HALF_TURNS)),
    "starcoder2": (T.Starcoder2ForCausalLM, decoder(T.Starcoder2Config, hidden_size=24, num_attention_heads=6, head_dim=None, sliding_window=3,
                                                    rope_parameters=dict(rope_type="default", rope_theta=10.0), initializer_range=0.1)),
    "starcoder2_plain": (T.Starcoder2ForCausalLM, decoder(T.Starcoder2Config, use_bias=False, tie_word_embeddings=False, hidden_act="silu")),
    "starcoder2_classes": (T.Starcoder2ForSequenceClassification, decoder(T.Starcoder2Config, num_hidden_layers=3,
                                                                                 rope_parameters=dict(rope_type="default", rope_theta=10.0))),
}
WITHOUT_DEFAULTS = ["arcee_classes", "nemotron_classes", "bloom_classes", "cohere2", "falcon_classes", "glm4_classes", "gpt2_classes", "gpt_bigcode_classes", "gpt_neo_classes", "gpt_oss_classes", "gptj_classes", "granitemoeshared_alone", "hunyuan_classes", "lfm2_biases", "opt_classes", "phi_classes", "stablelm_classes", "starcoder2_classes", "starcoder2_plain"]  # of config.json


for family, config in (("Bert", bert()), ("Roberta", roberta()), ("DistilBert", distilbert(qa_dropout=0.0)), ("Electra", electra()), ("Albert", albert()),
                       ("ModernBert", modernbert(norm_bias=True, classifier_bias=True, num_labels=2)), ("MPNet", mpnet()), ("DebertaV2", deberta())):
    config.num_labels = 2
    CASES[family.lower().removesuffix("v2") + "_answers"] = (getattr(T, family + "ForQuestionAnswering"), config)


def inputs(name, cfg, g):
    B = len(LENGTHS)
    mask = torch.tensor([[1] * n + [0] * (S - n) for n in LENGTHS])
    ids = torch.randint(5, V, (B, S), generator=g) * mask + (cfg.get_text_config().pad_token_id or 0) * (1 - mask)
    if cfg.model_type == "esm":
        ids[0, 1] = ids[0, 4] = ids[2, 2] = cfg.mask_token_id
    d = {"input_ids": ids, "attention_mask": mask}
    if name.endswith("_classes") and cfg.is_encoder_decoder:  # whose head reads the end token
        for row, n in enumerate(LENGTHS):
            ids[row, n - 1 if n < 2 or name != "mbart_classes" else n - 2] = cfg.eos_token_id
    elif cfg.is_encoder_decoder:
        width = max(TARGET_LENGTHS)
        real = torch.tensor([[1] * n + [0] * (width - n) for n in TARGET_LENGTHS])
        return {**d, "decoder_attention_mask": real, "labels": torch.where(real == 1, torch.randint(5, V, real.shape, generator=g), -100)}
    if getattr(cfg, "type_vocab_size", 1) > 1:
        d["token_type_ids"] = torch.tensor([[0] * (n // 2) + [1] * (n - n // 2) + [0] * (S - n) for n in LENGTHS])
    if cfg.num_labels == 1:
        d["labels"] = torch.randn(B, generator=g)
    elif name.endswith("_multilabel"):
        d["labels"] = torch.randint(0, 2, (B, cfg.num_labels), generator=g).float()
    elif name.endswith("_mlm"):
        d["labels"] = torch.where((torch.rand(B, S, generator=g) < 0.4) & (mask == 1), ids, -100)
    elif name.endswith("_tags"):
        d["labels"] = torch.where((torch.rand(B, S, generator=g) < 0.6) & (mask == 1), ids % cfg.num_labels, -100)
    elif name.endswith("_answers"):  # 1 where the answer starts, 2 where it ends
        d["labels"] = torch.tensor([[0] * n + [-100] * (S - n) for n in LENGTHS])
        for row, (start, end) in enumerate([(2, 6), (0, 0), (5, 5), (0, 0)]):
            d["labels"][row, start] += 1
            d["labels"][row, end] += 2
    elif "LM" in cfg.architectures[0].removeprefix("XLM") or "Generation" in cfg.architectures[0]:
        d["labels"] = torch.where(mask == 1, ids, -100)
    else:
        d["labels"] = torch.tensor([2, 0, 1, 2])
    return d


def in_file(cfg, name):
    """transformers 5.23 has a name of its own for GPT-NeoX's output embeddings, which no file has."""
    return "embed_out.weight" if cfg.model_type == "gpt_neox" and name == "lm_head.weight" else name


def untie(model):
    """transformers 5 makes a T5 model with tied embeddings, whatever its configuration says; a folder with lm_head.weight is not tied."""
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach() * 0.2)
    model.all_tied_weights_keys.pop("lm_head.weight", None)


def perturb(model, g):
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:  # else it is a table of sines
                p.add_(torch.randn(p.shape, generator=g) * 0.05)
        for n, b in model.named_buffers():
            if n == "final_logits_bias":
                b.copy_(torch.randn(b.shape, generator=g) * 0.1)
            if n.endswith("inv_freq") and model.config.model_type == "esm":  # files have them, and not always the usual ones
                b.mul_(1.3)


def alone(model, d):
    """A model's rows one by one, without padding: behind a window that has passed the row's end padding sees no key, and transformers'
    gradients are not finite. The loss is the mean over all targets."""
    shift = 0 if model.config.model_type == "modernbert" else 1
    rows = [model(input_ids=d["input_ids"][i:i + 1, :n]).logits for i, n in enumerate(LENGTHS)]
    if rows[0].ndim == 2:
        logits = torch.cat(rows)
        return T.modeling_outputs.SequenceClassifierOutput(loss=torch.nn.functional.cross_entropy(logits, d["labels"]), logits=logits)
    losses = [torch.nn.functional.cross_entropy(r[0, :n - shift], d["labels"][i, shift:n], reduction="sum")
              for i, (n, r) in enumerate(zip(LENGTHS, rows)) if n > shift]
    rows = [torch.nn.functional.pad(r, (0, 0, 0, S - r.shape[1])) for r in rows]
    targets = (d["labels"][:, shift:] != -100).sum()
    return T.modeling_outputs.CausalLMOutput(loss=sum(losses) / targets, logits=torch.cat(rows))


def answers(model, d):
    """Where answers start and end, by a softmax over each row's own tokens: transformers' is over the padding too."""
    rows, losses = [], []
    for i, n in enumerate(LENGTHS):
        out = model(**{k: v[i:i + 1, :n] for k, v in d.items() if k not in ("labels", "attention_mask")})
        marks = d["labels"][i, :n]
        for side, z in enumerate((out.start_logits, out.end_logits)):
            losses.append(torch.nn.functional.cross_entropy(z[0], (marks >> side & 1).argmax()))
        rows.append(torch.nn.functional.pad(torch.stack([out.start_logits, out.end_logits], 2), (0, 0, 0, S - n)))
    return T.modeling_outputs.TokenClassifierOutput(loss=sum(losses) / len(losses), logits=torch.cat(rows))


def units_are_clear(model, d):
    """Whether no ReLU reads almost 0: rounding to 16 bits must not turn it, which changes gradients by as much as it is worth."""
    units = [m.activation_fn for n, m in model.named_modules() if isinstance(getattr(m, "activation_fn", None), torch.nn.ReLU)]
    seen, hooks = [], [m.register_forward_hook(lambda m, x, y: seen.append(x[0].detach())) for m in units]
    for i, n in enumerate(LENGTHS):
        targets = dict(labels=d["labels"][i:i + 1, :TARGET_LENGTHS[i]]) if model.config.is_encoder_decoder else {}
        model(input_ids=d["input_ids"][i:i + 1, :n], **targets)
    for h in hooks:
        h.remove()
    return all((x.abs() / x.std()).min() > 0.01 for x in seen)


def choices_are_clear(model, d):
    """Whether no router of experts decides narrowly for a token: rounding to 16 bits must not send it elsewhere."""
    routers = [m for n, m in model.named_modules() if n.endswith((".mlp.gate", ".mlp.router", ".block_sparse_moe.router"))]
    if not routers:
        return True
    seen, hooks = [], [m.register_forward_hook(lambda m, x, y: seen.append((y[0].detach(), m.top_k))) for m in routers]
    for i, n in enumerate(LENGTHS):
        model(input_ids=d["input_ids"][i:i + 1, :n])
    for h in hooks:
        h.remove()
    gaps = [(z.topk(k + 1).values[:, k - 1:].diff().abs() / z.std()).min() for z, k in seen]
    return not gaps or min(gaps) > 0.03


def limits_are_clear(model, d):
    """Whether no gate or up of gpt-oss is almost at its limit: rounding to 16 bits must not bring it to the other side."""
    experts = [m for n, m in model.named_modules() if n.endswith(".mlp.experts") and hasattr(m, "_apply_gate")]
    seen = []
    for m in experts:
        m._apply_gate = lambda x, m=m: (seen.append((x[..., ::2] / m.limit - 1).abs().min()), seen.append((x[..., 1::2].abs() / m.limit - 1).abs().min()),
                                        type(m)._apply_gate(m, x))[2]
    for i, n in enumerate(LENGTHS):
        model(input_ids=d["input_ids"][i:i + 1, :n])
    for m in experts:
        del m._apply_gate
    return not seen or min(seen) > 0.006


def row_by_row(model, d):
    """The loss and the norm of its gradient where each row is a micro-batch, which counts by its targets."""
    model.zero_grad()
    counts = [n - 1 for n in LENGTHS]
    loss = sum(model(input_ids=d["input_ids"][i:i + 1, :n], labels=d["input_ids"][i:i + 1, :n]).loss * (n - 1) / sum(counts)
               for i, n in enumerate(LENGTHS) if n > 1)
    loss.backward()
    return {"rows.loss": loss.detach().reshape(1), "rows.grad_norm": torch.stack([p.grad.norm() for p in model.parameters()]).norm().reshape(1)}


def expert_shares(model, d):
    """The largest and the smallest share of the real tokens' choices that an expert has in any layer."""
    routers = [m for n, m in model.named_modules() if n.endswith((".mlp.gate", ".mlp.router", ".block_sparse_moe.router"))]
    chosen = {m: [] for m in routers}
    hooks = [m.register_forward_hook(lambda m, x, y: chosen[m].append(y[2].flatten())) for m in routers]
    for i, n in enumerate(LENGTHS):
        model(input_ids=d["input_ids"][i:i + 1, :n])
    for h in hooks:
        h.remove()
    counts = [torch.bincount(torch.cat(chosen[m]), minlength=m.num_experts) for m in routers]
    shares = torch.stack([c / c.sum() for c in counts])
    return {"rows.expert_shares": torch.stack([shares.max(), shares.min()])}


def as_liquid_has_it(path):
    """LFM2's config.json as its makers publish it: keys that transformers turns into others, or never reads."""
    was = T.AutoConfig.from_pretrained(path)
    c = json.load(open(path + "/config.json"))
    types, size, rope, _ = c.pop("layer_types"), c.pop("intermediate_size"), c.pop("rope_parameters"), c.pop("norm_eps")
    c.update(full_attn_idxs=[i for i, t in enumerate(types) if t == "full_attention"], block_ff_dim=size, intermediate_size=48, rope_theta=rope["rope_theta"], tie_embedding=True,
             tie_word_embeddings=False, block_dim=16, block_mlp_init_scale=1.0, block_norm_eps=0.5, block_out_init_scale=1.0, block_use_swiglu=True,
             block_use_xavier_init=True, conv_dim=16, conv_dim_out=16, conv_use_xavier_init=True, num_heads=2, use_pos_enc=True, theta=7.0, hidden_act="relu", attention_dropout=0.5, rms_norm_eps=0.5)
    with open(path + "/config.json", "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)
        f.write("\n")
    now = T.AutoConfig.from_pretrained(path)
    assert all(getattr(was, k) == getattr(now, k) for k in ("layer_types", "intermediate_size", "rope_parameters", "tie_word_embeddings")), path


def leave_out_defaults(path):
    """Of a config.json what its class has by default: what a reader must know without being told."""
    was = T.AutoConfig.from_pretrained(path)
    full, usual = json.load(open(path + "/config.json")), type(was)().to_dict()
    kept = {k: v for k, v in full.items() if k in ("architectures", "model_type") or k not in usual or v != usual[k]}
    if was.model_type == "gpt_oss":
        del kept["layer_types"]  # its class makes them of the number of layers
    with open(path + "/config.json", "w") as f:
        json.dump(kept, f, indent=2, sort_keys=True)
        f.write("\n")
    assert T.AutoConfig.from_pretrained(path).to_dict() == was.to_dict(), path


softmax, to, narrow = torch.nn.functional.softmax, torch.Tensor.to, torch.Tensor.float


def golden(name, cls, cfg, seed):
    """False: with another seed."""
    g = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    cfg._attn_implementation = cfg._experts_implementation = "eager"
    model = cls(cfg)
    if cfg.is_encoder_decoder and not cfg.tie_word_embeddings or name in ("t5_gated", "mt5"):
        untie(model)
    perturb(model, g)
    path = os.path.join(here, name)
    cfg.architectures = [cls.__name__]
    d = inputs(name, cfg, g)
    if not choices_are_clear(model, d) or cfg.model_type == "gpt_oss" and not limits_are_clear(model, d) or cfg.model_type in ("opt", "pegasus", "m2m_100") and not units_are_clear(model, d):
        return False
    model.save_pretrained(path)
    if os.path.exists(path + "/generation_config.json"):
        os.remove(path + "/generation_config.json")
    if name == "gemma":  # as its first releases have it, who mean what transformers makes of it
        text = open(path + "/config.json").read().replace('"gelu_pytorch_tanh"', '"gelu"')
        open(path + "/config.json", "w").write(text)
    if name == "qwen2_moe":  # as published folders are, whose layers' types follow from other settings
        kept = {k: v for k, v in json.load(open(path + "/config.json")).items() if k != "layer_types"}
        open(path + "/config.json", "w").write(json.dumps(kept, indent=2, sort_keys=True) + "\n")
    if name == "lfm2_published":
        as_liquid_has_it(path)
    if name in WITHOUT_DEFAULTS:
        leave_out_defaults(path)

    model = model.double().eval()
    # Eager attention rounds its softmax to fp32: noise that is all of the gradient of a key's bias, which is 0. OPT's weights make it large.
    # Where scores are not scaled it is large too, and GPT-Neo and GPT-J make the scores themselves of queries and keys in fp32.
    whole = cfg.model_type in ("opt", "bloom", "gpt_bigcode", "gpt_neo", "gptj")
    torch.nn.functional.softmax = (lambda x, dim, dtype=None: softmax(x, dim)) if whole else softmax
    torch.Tensor.to = (lambda x, *a, **k: x if a == (torch.float32,) else to(x, *a, **k)) if whole else to
    torch.Tensor.float = (lambda x: x) if cfg.model_type == "deberta" else narrow  # its norms are in fp32 too
    windows = (getattr(cfg.get_text_config(), "sliding_window", None) or S) < S
    out = answers(model, d) if name.endswith("_answers") else alone(model, d) if windows else model(**{k: v.double() if v.is_floating_point() else v for k, v in d.items()})
    out.loss.backward()
    torch.Tensor.float = narrow
    e = {"logits": out.logits.detach(), "loss": out.loss.detach().reshape(1)}
    e.update({"grad." + in_file(cfg, n): p.grad for n, p in model.named_parameters() if p.grad is not None})
    e = tensors_as_saved(cfg.model_type, e)
    if name.endswith("_balanced"):
        e.update(row_by_row(model, d))
        e.update(expert_shares(model, d))
    save_file({k: v.contiguous() for k, v in d.items()}, path + "/inputs.safetensors")
    save_file({k: v.float().contiguous().clone() for k, v in e.items()}, path + "/expected.safetensors")
    return True


def trajectory(name, make, steps=4):
    if wanted and name not in wanted:
        return
    g = torch.Generator().manual_seed(8)
    ps = [torch.nn.Parameter(torch.randn(s, generator=g)) for s in [(5,), (3, 7), (1,), (9, 4)]]
    e = {f"param.{i}.0": p.detach().clone() for i, p in enumerate(ps)}
    opt = make(ps)
    for t in range(steps):
        for i, p in enumerate(ps):
            p.grad = torch.randn(p.shape, generator=g) * 10.0 ** torch.randint(-4, 2, (1,), generator=g).item()
            e[f"grad.{i}.{t}"] = p.grad.clone()
        opt.step()
        e.update({f"param.{i}.{t + 1}": p.detach().clone() for i, p in enumerate(ps)})
    os.makedirs(here + "/optim", exist_ok=True)
    save_file(e, f"{here}/optim/{name}.safetensors")


def trainer(name, freeze=(), loss=None, several=False, begin=None, **kw):
    """The Trainer's own loop over 24 rows in their order; loss, norm and rate of every step, and the final weights. Weights whose
    names match a pattern of `freeze` have requires_grad=False. `loss` is torch's, of logits and labels; several: labels to a row.
    begin: a case of CASES, whose recorded weights it begins with."""
    if wanted and name not in wanted:
        return

    class Sequential(T.Trainer):
        def _get_train_sampler(self, *a, **k):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    class Log(T.TrainerCallback):
        rows = []
        def on_log(self, a, st, c, logs=None, **k):
            self.rows.append(dict(step=st.global_step, **{k: v for k, v in logs.items() if k in ("loss", "grad_norm", "learning_rate")}))

    g = torch.Generator().manual_seed(9)
    torch.manual_seed(9)
    cfg = bert()
    cfg._attn_implementation = "eager"
    model = CASES[begin][0].from_pretrained(f"{here}/{begin}", attn_implementation="eager") if begin else T.BertForSequenceClassification(cfg)
    path = f"{here}/trainer"
    if not wanted:
        model.save_pretrained(path + "/init")
    for n, p in model.named_parameters():
        p.requires_grad = not any(fnmatch.fnmatchcase(n, f) for f in freeze)
    ids = torch.randint(5, V, (24, S), generator=g)
    labels = ids[:, 0] % 3
    if not wanted:
        save_file({"input_ids": ids, "labels": labels}, path + "/data.safetensors")
    if several:
        labels = torch.stack([ids[:, 0] % 2, ids[:, 1] % 3 == 0, ids[:, 2] % 5 > 2], 1).float()
        save_file({"input_ids": ids, "labels": labels}, path + "/several.safetensors")
    rows = [{"input_ids": ids[i], "attention_mask": torch.ones(S, dtype=torch.long), "labels": labels[i]} for i in range(24)]
    log = Log()
    log.rows = []
    args = T.TrainingArguments(output_dir="/tmp/golden-trainer", report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True,
                               use_cpu=True, log_level="error", **kw)
    compute = loss and (lambda out, labels, num_items_in_batch=None: loss(out.logits, labels))
    run = Sequential(model=model, args=args, train_dataset=rows, callbacks=[log], compute_loss_func=compute)
    run.train()
    if kw["optim"].startswith("schedule_free"):
        run.optimizer.eval()  # puts the average into the weights, which the Trainer does before it evaluates or saves a checkpoint
    model.save_pretrained(f"{path}/{name}")
    with open(f"{path}/{name}/log.json", "w") as f:
        json.dump({"args": kw, "log": log.rows}, f, indent=1)


for case, (cls, cfg) in CASES.items():
    seed = 7
    while (not wanted or case in wanted) and not golden(case, cls, cfg, seed):
        seed += 1
trajectory("adamw", lambda ps: torch.optim.AdamW(ps, lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01))
trajectory("sgd_momentum", lambda ps: torch.optim.SGD(ps, lr=1e-2, momentum=0.9, weight_decay=0.01))
trajectory("sgd_nesterov", lambda ps: torch.optim.SGD(ps, lr=1e-2, momentum=0.9, nesterov=True))
trajectory("adafactor", lambda ps: T.Adafactor(ps, lr=1e-2, scale_parameter=False, relative_step=False))
trajectory("adafactor_relative", lambda ps: T.Adafactor(ps, scale_parameter=True, relative_step=True, warmup_init=True, clip_threshold=0.5))
trajectory("adafactor_beta1", lambda ps: T.Adafactor(ps, lr=1e-2, scale_parameter=True, relative_step=False, beta1=0.9, weight_decay=0.01,
                                                     decay_rate=-0.7, eps=(1e-8, 0.5)))
base = dict(per_device_train_batch_size=4, num_train_epochs=2, learning_rate=1e-3, weight_decay=0.01, max_grad_norm=1.0,
            warmup_steps=3, lr_scheduler_type="linear", optim="adamw_torch")
trainer("adamw", **base)
trainer("cosine_clip_smooth", **{**base, "lr_scheduler_type": "cosine", "max_grad_norm": 0.05, "label_smoothing_factor": 0.1})
# The Trainer adds up the means of micro-batches where the model computes the loss; its label smoother divides by the rows of the step.
trainer("drop_last", **{**base, "label_smoothing_factor": 0.1, "per_device_train_batch_size": 5, "gradient_accumulation_steps": 3, "dataloader_drop_last": True})
trainer("adafactor", **{**base, "optim": "adafactor"})
trainer("schedule_free", **{**base, "optim": "schedule_free_adamw", "lr_scheduler_type": "constant"})
trainer("freeze", ["bert.embeddings.*", "bert.encoder.layer.0.*", "*.self.query.*", "*.LayerNorm.bias"],
        **{**base, "max_grad_norm": 0.05})
weights = torch.tensor([0.25, 1.5, 3.0])
trainer("class_weights", loss=torch.nn.CrossEntropyLoss(weight=weights), **base)
trainer("class_weights_smooth", loss=torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=0.1), **base)
trainer("label_weights", loss=torch.nn.BCEWithLogitsLoss(pos_weight=weights), several=True, **base)
for case in ("roberta", "distilbert", "deberta_conv"):
    trainer(case, begin=case, **{**base, "weight_decay": 5.0})
if not wanted:
    with open(here + "/versions.txt", "w") as f:
        f.write(f"torch {torch.__version__}, transformers {T.__version__}, float64\n")
