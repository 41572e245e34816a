"""Records which weights transformers gives well-known models: from their published config.json, for each class the number of parameters,
the names and shapes of weights (of the layers the first alone), and which of them its Trainer does not decay.
Run with: python published.py, which writes published.json. No weights are made or fetched."""
import copy, json, os, re, sys
import torch, transformers as T

here = os.path.dirname(os.path.abspath(__file__))
sys.path.append(here + "/../golden")
from as_saved import tensors_as_saved

ROBERTA = dict(architectures=["RobertaForMaskedLM"], attention_probs_dropout_prob=0.1, bos_token_id=0, eos_token_id=2, hidden_act="gelu",
               hidden_dropout_prob=0.1, hidden_size=768, initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-05,
               max_position_embeddings=514, model_type="roberta", num_attention_heads=12, num_hidden_layers=12, pad_token_id=1,
               type_vocab_size=1, vocab_size=50265)
DISTILBERT = dict(activation="gelu", architectures=["DistilBertForMaskedLM"], attention_dropout=0.1, dim=768, dropout=0.1, hidden_dim=3072,
                  initializer_range=0.02, max_position_embeddings=512, model_type="distilbert", n_heads=12, n_layers=6, pad_token_id=0,
                  qa_dropout=0.1, seq_classif_dropout=0.2, sinusoidal_pos_embds=False, tie_weights_=True,
                  transformers_version="4.10.0.dev0", vocab_size=30522)
BERT = dict(architectures=["BertForMaskedLM"], attention_probs_dropout_prob=0.1, gradient_checkpointing=False, hidden_act="gelu",
            hidden_dropout_prob=0.1, hidden_size=768, initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-12,
            max_position_embeddings=512, model_type="bert", num_attention_heads=12, num_hidden_layers=12, pad_token_id=0,
            position_embedding_type="absolute", transformers_version="4.6.0.dev0", type_vocab_size=2, use_cache=True, vocab_size=30522)
ELECTRA = dict(architectures=["ElectraForMaskedLM"], attention_probs_dropout_prob=0.1, embedding_size=128, hidden_act="gelu",
               hidden_dropout_prob=0.1, hidden_size=256, initializer_range=0.02, intermediate_size=1024, layer_norm_eps=1e-12,
               max_position_embeddings=512, model_type="electra", num_attention_heads=4, num_hidden_layers=12, pad_token_id=0,
               summary_activation="gelu", summary_last_dropout=0.1, summary_type="first", summary_use_proj=True, type_vocab_size=2,
               vocab_size=30522)
ALBERT = dict(architectures=["AlbertForMaskedLM"], attention_probs_dropout_prob=0, bos_token_id=2, classifier_dropout_prob=0.1,
              down_scale_factor=1, embedding_size=128, eos_token_id=3, gap_size=0, hidden_act="gelu_new", hidden_dropout_prob=0,
              hidden_size=768, initializer_range=0.02, inner_group_num=1, intermediate_size=3072, layer_norm_eps=1e-12,
              max_position_embeddings=512, model_type="albert", net_structure_type=0, num_attention_heads=12, num_hidden_groups=1,
              num_hidden_layers=12, num_memory_blocks=0, pad_token_id=0, type_vocab_size=2, vocab_size=30000)
MODERNBERT = dict(architectures=["ModernBertForMaskedLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=50281,
                  classifier_activation="gelu", classifier_bias=False, classifier_dropout=0.0, classifier_pooling="mean",
                  cls_token_id=50281, decoder_bias=True, deterministic_flash_attn=False, embedding_dropout=0.0, eos_token_id=50282,
                  global_attn_every_n_layers=3, global_rope_theta=160000.0, gradient_checkpointing=False, hidden_activation="gelu",
                  hidden_size=768, initializer_cutoff_factor=2.0, initializer_range=0.02, intermediate_size=1152, layer_norm_eps=1e-05,
                  local_attention=128, local_rope_theta=10000.0, max_position_embeddings=8192, mlp_bias=False, mlp_dropout=0.0,
                  model_type="modernbert", norm_bias=False, norm_eps=1e-05, num_attention_heads=12, num_hidden_layers=22,
                  pad_token_id=50283, position_embedding_type="absolute", sep_token_id=50282, tie_word_embeddings=True,
                  torch_dtype="float32", vocab_size=50368)
MPNET = dict(architectures=["MPNetForMaskedLM"], attention_probs_dropout_prob=0.1, bos_token_id=0, eos_token_id=2, hidden_act="gelu",
             hidden_dropout_prob=0.1, hidden_size=768, initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-05,
             max_position_embeddings=514, model_type="mpnet", num_attention_heads=12, num_hidden_layers=12, pad_token_id=1,
             relative_attention_num_buckets=32, vocab_size=30527)
# The published file is the bare model's, without `architectures`: those of nli-deberta-v3-base.
DEBERTA_V3 = dict(architectures=["DebertaV2ForSequenceClassification"], attention_probs_dropout_prob=0.1, hidden_act="gelu",
                  hidden_dropout_prob=0.1, hidden_size=768, id2label={"0": "contradiction", "1": "entailment", "2": "neutral"},
                  initializer_range=0.02, intermediate_size=3072, label2id={"contradiction": 0, "entailment": 1, "neutral": 2},
                  layer_norm_eps=1e-07, max_position_embeddings=512, max_relative_positions=-1, model_type="deberta-v2",
                  norm_rel_ebd="layer_norm", num_attention_heads=12, num_hidden_layers=12, pad_token_id=0, pooler_dropout=0,
                  pooler_hidden_act="gelu", pooler_hidden_size=768, pos_att_type=["p2c", "c2p"], position_biased_input=False,
                  position_buckets=256, relative_attention=True, share_att_key=True, type_vocab_size=0, vocab_size=128100)
# The published file is the bare model's, without `architectures`: those of deberta-base-mnli.
DEBERTA = dict(architectures=["DebertaForSequenceClassification"], attention_probs_dropout_prob=0.1, hidden_act="gelu", hidden_dropout_prob=0.1,
               hidden_size=768, id2label={"0": "CONTRADICTION", "1": "NEUTRAL", "2": "ENTAILMENT"}, initializer_range=0.02, intermediate_size=3072,
               label2id={"CONTRADICTION": 0, "ENTAILMENT": 2, "NEUTRAL": 1}, layer_norm_eps=1e-07, max_position_embeddings=512,
               max_relative_positions=-1, model_type="deberta", num_attention_heads=12, num_hidden_layers=12, pad_token_id=0, padding_idx=0,
               pooler_dropout=0, pooler_hidden_act="gelu", pooler_hidden_size=768, pos_att_type=["c2p", "p2c"], position_biased_input=False,
               relative_attention=True, type_vocab_size=0, vocab_size=50265)
ESM2 = dict(architectures=["EsmForMaskedLM"], attention_probs_dropout_prob=0.0, classifier_dropout=None, emb_layer_norm_before=False,
            esmfold_config=None, hidden_act="gelu", hidden_dropout_prob=0.0, hidden_size=320, initializer_range=0.02, intermediate_size=1280,
            is_folding_model=False, layer_norm_eps=1e-05, mask_token_id=32, max_position_embeddings=1026, model_type="esm",
            num_attention_heads=20, num_hidden_layers=6, pad_token_id=1, position_embedding_type="rotary", token_dropout=True,
            torch_dtype="float32", transformers_version="4.25.0.dev0", use_cache=True, vocab_list=None, vocab_size=33)
ERNIE3 = dict(architectures=["ErnieForMaskedLM"], attention_probs_dropout_prob=0.1, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=768,
              initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-05, max_position_embeddings=2048, model_type="ernie",
              num_attention_heads=12, num_hidden_layers=12, pad_token_id=0, task_type_vocab_size=3, type_vocab_size=4, use_task_id=True,
              vocab_size=40000)
MEGATRON = dict(architectures=["MegatronBertForMaskedLM"], attention_probs_dropout_prob=0.1, hidden_act="gelu", hidden_dropout_prob=0.1,
                hidden_size=1024, initializer_range=0.02, intermediate_size=4096, layer_norm_eps=1e-12, max_position_embeddings=512,
                model_type="megatron-bert", num_attention_heads=16, num_hidden_layers=24, pad_token_id=0, type_vocab_size=2, vocab_size=30592)
NOMIC_CODE = "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert."
NOMIC = dict(activation_function="swiglu", architectures=["NomicBertForMaskedLM"], attn_pdrop=0.0,
             auto_map={"AutoConfig": "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig",
                       "AutoModel": NOMIC_CODE + "NomicBertModel", "AutoModelForMaskedLM": NOMIC_CODE + "NomicBertForPreTraining"},
             bos_token_id=None, causal=False, dense_seq_output=True, embd_pdrop=0.0, eos_token_id=None, fused_bias_fc=True,
             fused_dropout_add_ln=True, initializer_range=0.02, layer_norm_epsilon=1e-12, max_trained_positions=2048, mlp_fc1_bias=False,
             mlp_fc2_bias=False, model_type="nomic_bert", n_embd=768, n_head=12, n_inner=3072, n_layer=12, n_positions=8192,
             pad_vocab_size_multiple=64, parallel_block=False, parallel_block_tied_norm=False, prenorm=False, qkv_proj_bias=False,
             resid_pdrop=0.0, rotary_emb_base=1000, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None,
             rotary_scaling_factor=None, scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True, torch_dtype="float32",
             transformers_version="4.34.0", type_vocab_size=2, use_cache=True, use_flash_attn=True, use_rms_norm=False, vocab_size=30528)
EUROBERT = dict(architectures=["EuroBertForMaskedLM"], attention_bias=False, attention_dropout=0.0,
                auto_map={"AutoConfig": "configuration_eurobert.EuroBertConfig", "AutoModelForMaskedLM": "modeling_eurobert.EuroBertForMaskedLM"},
                bos_token="<|begin_of_text|>", bos_token_id=128000, clf_pooling="late", eos_token="<|end_of_text|>", eos_token_id=128001,
                head_dim=64, hidden_act="silu", hidden_dropout=0.0, hidden_size=768, initializer_range=0.02, intermediate_size=3072,
                mask_token="<|mask|>", mask_token_id=128002, max_position_embeddings=8192, mlp_bias=False, model_type="eurobert",
                num_attention_heads=12, num_hidden_layers=12, num_key_value_heads=12, pad_token="<|end_of_text|>", pad_token_id=128001,
                pretraining_tp=1, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=250000, tie_word_embeddings=False,
                torch_dtype="bfloat16", use_cache=False, vocab_size=128256)
GPT2 = dict(activation_function="gelu_new", architectures=["GPT2LMHeadModel"], attn_pdrop=0.1, bos_token_id=50256, embd_pdrop=0.1,
            eos_token_id=50256, initializer_range=0.02, layer_norm_epsilon=1e-05, model_type="gpt2", n_ctx=1024, n_embd=768, n_head=12,
            n_layer=12, n_positions=1024, resid_pdrop=0.1, summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True,
            summary_type="cls_index", summary_use_proj=True, task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}},
            vocab_size=50257)
BLOOM = dict(apply_residual_connection_post_layernorm=False, architectures=["BloomForCausalLM"], attention_dropout=0.0,
             attention_softmax_in_fp32=True, bias_dropout_fusion=True, bos_token_id=1, eos_token_id=2, hidden_dropout=0.0,
             initializer_range=0.02, layer_norm_epsilon=1e-05, masked_softmax_fusion=True, model_type="bloom", n_embed=1024, n_inner=None,
             n_layer=24, num_attention_heads=16, offset_alibi=100, pad_token_id=3, pretraining_tp=1, skip_bias_add=True,
             skip_bias_add_qkv=False, slow_but_exact=False, transformers_version="4.20.0", unk_token_id=0, use_cache=True,
             vocab_size=250880)
FALCON = dict(alibi=False, apply_residual_connection_post_layernorm=False, architectures=["FalconForCausalLM"], attention_dropout=0.0,
              auto_map={"AutoConfig": "configuration_falcon.FalconConfig", "AutoModel": "modeling_falcon.FalconModel",
                        "AutoModelForCausalLM": "modeling_falcon.FalconForCausalLM"},
              bias=False, bos_token_id=11, eos_token_id=11, hidden_dropout=0.0, hidden_size=4544, initializer_range=0.02, layer_norm_epsilon=1e-05,
              model_type="falcon", multi_query=True, new_decoder_architecture=False, num_attention_heads=71, num_hidden_layers=32,
              parallel_attn=True, torch_dtype="bfloat16", transformers_version="4.27.4", use_cache=True, vocab_size=65024)
GPT_NEO = dict(activation_function="gelu_new", architectures=["GPTNeoForCausalLM"], attention_dropout=0,
               attention_layers=["global", "local"] * 6, attention_types=[[["global", "local"], 6]], bos_token_id=50256, embed_dropout=0,
               eos_token_id=50256, gradient_checkpointing=False, hidden_size=768, initializer_range=0.02, intermediate_size=None,
               layer_norm_epsilon=1e-05, max_position_embeddings=2048, model_type="gpt_neo", num_heads=12, num_layers=12, resid_dropout=0,
               summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True, summary_type="cls_index",
               summary_use_proj=True, transformers_version="4.9.0.dev0", use_cache=True, vocab_size=50257, window_size=256)
GPTJ = dict(activation_function="gelu_new", architectures=["GPTJForCausalLM"], attn_pdrop=0.0, bos_token_id=50256, embd_pdrop=0.0,
            eos_token_id=50256, gradient_checkpointing=False, initializer_range=0.02, layer_norm_epsilon=1e-05, model_type="gptj", n_embd=4096,
            n_head=16, n_inner=None, n_layer=28, n_positions=2048, resid_pdrop=0.0, rotary=True, rotary_dim=64, scale_attn_weights=True,
            summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True,
            task_specific_params={"text-generation": {"do_sample": True, "max_length": 50, "temperature": 1.0}}, tie_word_embeddings=False,
            tokenizer_class="GPT2Tokenizer", transformers_version="4.18.0.dev0", use_cache=True, vocab_size=50400)
BIGCODE = dict(activation_function="gelu", architectures=["GPTBigCodeForCausalLM"], attention_softmax_in_fp32=True, attn_pdrop=0.1, bos_token_id=0,
               embd_pdrop=0.1, eos_token_id=0, inference_runner=0, initializer_range=0.02, layer_norm_epsilon=1e-05, max_batch_size=None,
               max_sequence_length=None, model_type="gpt_bigcode", multi_query=True, n_embd=2048, n_head=16, n_inner=8192, n_layer=24,
               n_positions=8192, pad_key_length=True, pre_allocate_kv_cache=False, resid_pdrop=0.1, scale_attention_softmax_in_fp32=True,
               scale_attn_weights=True, summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True,
               summary_type="cls_index", summary_use_proj=True, transformers_version="4.28.1", use_cache=True, validate_runner_input=True,
               vocab_size=49152)
LLAMA = dict(architectures=["LlamaForCausalLM"], attention_bias=False, attention_dropout=0.0, hidden_act="silu", initializer_range=0.02,
             model_type="llama", pretraining_tp=1, rms_norm_eps=1e-05, rope_scaling=None, tie_word_embeddings=False, use_cache=True)
LLAMA_1B = {**LLAMA, **dict(bos_token_id=128000, eos_token_id=[128001, 128008, 128009], head_dim=64, hidden_size=2048, intermediate_size=8192,
                            max_position_embeddings=131072, mlp_bias=False, num_attention_heads=32, num_hidden_layers=16,
                            num_key_value_heads=8, rope_theta=500000.0, tie_word_embeddings=True, vocab_size=128256,
                            rope_scaling=dict(factor=32.0, high_freq_factor=4.0, low_freq_factor=1.0,
                                              original_max_position_embeddings=8192, rope_type="llama3"))}
TINYLLAMA = {**LLAMA, **dict(bos_token_id=1, eos_token_id=2, hidden_size=2048, intermediate_size=5632, max_position_embeddings=2048,
                             num_attention_heads=32, num_hidden_layers=22, num_key_value_heads=4, rope_theta=10000.0, vocab_size=32000)}
SMOLLM2 = {**LLAMA, **dict(bos_token_id=0, eos_token_id=0, hidden_size=576, initializer_range=0.041666666666666664, intermediate_size=1536,
                           is_llama_config=True, max_position_embeddings=8192, num_attention_heads=9, num_hidden_layers=30,
                           num_key_value_heads=3, rope_interleaved=False, rope_theta=100000, tie_word_embeddings=True, vocab_size=49152)}
SMOLLM3 = dict(architectures=["SmolLM3ForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=128000, eos_token_id=128012,
               hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=11008, layer_types=["full_attention"] * 36,
               max_position_embeddings=65536, max_window_layers=28, mlp_bias=False, model_type="smollm3", no_rope_layer_interval=4,
               no_rope_layers=[1, 1, 1, 0] * 9, num_attention_heads=16, num_hidden_layers=36, num_key_value_heads=4, pad_token_id=128004,
               pretraining_tp=2, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=5000000.0, sliding_window=None,
               use_cache=False, use_sliding_window=False, vocab_size=128256)
MISTRAL = dict(architectures=["MistralForCausalLM"], bos_token_id=1, eos_token_id=2, hidden_act="silu", hidden_size=4096,
               initializer_range=0.02, intermediate_size=14336, max_position_embeddings=32768, model_type="mistral",
               num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8, rms_norm_eps=1e-05, rope_theta=10000.0,
               sliding_window=4096, tie_word_embeddings=False, use_cache=True, vocab_size=32000)
QWEN25 = dict(architectures=["Qwen2ForCausalLM"], attention_dropout=0.0, bos_token_id=151643, eos_token_id=151643, hidden_act="silu",
              hidden_size=896, initializer_range=0.02, intermediate_size=4864, max_position_embeddings=32768, max_window_layers=24,
              model_type="qwen2", num_attention_heads=14, num_hidden_layers=24, num_key_value_heads=2, rms_norm_eps=1e-06,
              rope_theta=1000000.0, sliding_window=32768, tie_word_embeddings=True, use_cache=True, use_mrope=False,
              use_sliding_window=False, vocab_size=151936)
QWEN3 = dict(architectures=["Qwen3ForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=151643, eos_token_id=151645,
             head_dim=128, hidden_act="silu", hidden_size=1024, initializer_range=0.02, intermediate_size=3072,
             max_position_embeddings=40960, max_window_layers=28, model_type="qwen3", num_attention_heads=16, num_hidden_layers=28,
             num_key_value_heads=8, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=1000000, sliding_window=None,
             tie_word_embeddings=True, use_cache=True, use_sliding_window=False, vocab_size=151936)
MIXTRAL = {**MISTRAL, **dict(architectures=["MixtralForCausalLM"], attention_dropout=0.0, model_type="mixtral", num_experts_per_tok=2,
                             num_local_experts=8, output_router_logits=False, rope_theta=1000000.0, router_aux_loss_coef=0.02,
                             sliding_window=None)}
QWEN3_MOE = {**QWEN3, **dict(architectures=["Qwen3MoeForCausalLM"], decoder_sparse_step=1, hidden_size=2048, intermediate_size=6144,
                             max_window_layers=48, mlp_only_layers=[], model_type="qwen3_moe", moe_intermediate_size=768,
                             norm_topk_prob=True, num_attention_heads=32, num_experts=128, num_experts_per_tok=8, num_hidden_layers=48,
                             num_key_value_heads=4, output_router_logits=False, router_aux_loss_coef=0.001, tie_word_embeddings=False)}
QWEN2_MOE = dict(architectures=["Qwen2MoeForCausalLM"], attention_dropout=0.0, bos_token_id=151643, decoder_sparse_step=1, eos_token_id=151643,
                 hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=5632, max_position_embeddings=8192,
                 max_window_layers=21, model_type="qwen2_moe", moe_intermediate_size=1408, norm_topk_prob=False, num_attention_heads=16,
                 num_experts=60, num_experts_per_tok=4, num_hidden_layers=24, num_key_value_heads=16, output_router_logits=False,
                 rms_norm_eps=1e-06, rope_theta=1000000.0, router_aux_loss_coef=0.001, shared_expert_intermediate_size=5632,
                 sliding_window=32768, tie_word_embeddings=False, use_cache=True, use_sliding_window=False, vocab_size=151936)
QWEN2_57B = {**QWEN2_MOE, **dict(hidden_size=3584, intermediate_size=18944, max_position_embeddings=131072, max_window_layers=28,
                                 moe_intermediate_size=2560, num_attention_heads=28, num_experts=64, num_experts_per_tok=8,
                                 num_hidden_layers=28, num_key_value_heads=4, shared_expert_intermediate_size=20480, sliding_window=65536)}
PYTHIA = dict(architectures=["GPTNeoXForCausalLM"], bos_token_id=0, eos_token_id=0, hidden_act="gelu", hidden_size=768,
              initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-05, max_position_embeddings=2048, model_type="gpt_neox",
              num_attention_heads=12, num_hidden_layers=12, rotary_emb_base=10000, rotary_pct=0.25, tie_word_embeddings=False,
              torch_dtype="float16", transformers_version="4.24.0", use_cache=True, use_parallel_residual=True, vocab_size=50304)
GEMMA2 = dict(architectures=["Gemma2ForCausalLM"], attention_bias=False, attention_dropout=0.0, attn_logit_softcapping=50.0, bos_token_id=2,
              cache_implementation="hybrid", eos_token_id=1, final_logit_softcapping=30.0, head_dim=256, hidden_act="gelu_pytorch_tanh",
              hidden_activation="gelu_pytorch_tanh", hidden_size=2304, initializer_range=0.02, intermediate_size=9216,
              max_position_embeddings=8192, model_type="gemma2", num_attention_heads=8, num_hidden_layers=26, num_key_value_heads=4,
              pad_token_id=0, query_pre_attn_scalar=256, rms_norm_eps=1e-06, rope_theta=10000.0, sliding_window=4096, use_cache=True,
              vocab_size=256000)
GEMMA3 = dict(architectures=["Gemma3ForCausalLM"], attention_bias=False, attention_dropout=0.0, attn_logit_softcapping=None, bos_token_id=2,
              cache_implementation="hybrid", eos_token_id=[1, 106], final_logit_softcapping=None, head_dim=256,
              hidden_activation="gelu_pytorch_tanh", hidden_size=1152, initializer_range=0.02, intermediate_size=6912,
              max_position_embeddings=32768, model_type="gemma3_text", num_attention_heads=4, num_hidden_layers=26, num_key_value_heads=1,
              pad_token_id=0, query_pre_attn_scalar=256, rms_norm_eps=1e-06, rope_local_base_freq=10000, rope_scaling=None,
              rope_theta=1000000, sliding_window=512, sliding_window_pattern=6, use_cache=True, vocab_size=262144)
GEMMA3_PICTURES = dict(architectures=["Gemma3ForConditionalGeneration"], boi_token_index=255999, eoi_token_index=256000, eos_token_id=[1, 106],
                       image_token_index=262144, initializer_range=0.02, mm_tokens_per_image=256, model_type="gemma3",
                       text_config=dict(hidden_size=2560, intermediate_size=10240, model_type="gemma3_text", num_hidden_layers=34,
                                        rope_scaling=dict(factor=8.0, rope_type="linear"), sliding_window=1024),
                       torch_dtype="bfloat16", transformers_version="4.50.0.dev0",
                       vision_config=dict(hidden_size=1152, image_size=896, intermediate_size=4304, model_type="siglip_vision_model",
                                          num_attention_heads=16, num_hidden_layers=27, patch_size=14, vision_use_head=False))
PHI2 = dict(architectures=["PhiForCausalLM"], attention_dropout=0.0, bos_token_id=50256, embd_pdrop=0.0, eos_token_id=50256,
            hidden_act="gelu_new", hidden_size=2560, initializer_range=0.02, intermediate_size=10240, layer_norm_eps=1e-05,
            max_position_embeddings=2048, model_type="phi", num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32,
            partial_rotary_factor=0.4, qk_layernorm=False, resid_pdrop=0.1, rope_scaling=None, rope_theta=10000.0,
            tie_word_embeddings=False, use_cache=True, vocab_size=51200)
PHI1_5 = {**PHI2, **dict(bos_token_id=None, eos_token_id=None, hidden_size=2048, intermediate_size=8192, num_hidden_layers=24,
                         num_key_value_heads=None, partial_rotary_factor=0.5, resid_pdrop=0.0)}
PHI3 = dict(architectures=["Phi3ForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=1, embd_pdrop=0.0, eos_token_id=32000,
            auto_map={"AutoConfig": "configuration_phi3.Phi3Config", "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
            hidden_act="silu", hidden_size=3072, initializer_range=0.02, intermediate_size=8192, max_position_embeddings=4096,
            model_type="phi3", num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, original_max_position_embeddings=4096,
            pad_token_id=32000, resid_pdrop=0.0, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=10000.0, sliding_window=2047,
            tie_word_embeddings=False, use_cache=True, vocab_size=32064)
OLMO2 = dict(architectures=["Olmo2ForCausalLM"], attention_bias=False, attention_dropout=0.0, eos_token_id=100257, hidden_act="silu",
             hidden_size=2048, initializer_range=0.02, intermediate_size=8192, max_position_embeddings=4096, model_type="olmo2",
             num_attention_heads=16, num_hidden_layers=16, num_key_value_heads=16, pad_token_id=100277, rms_norm_eps=1e-06,
             rope_scaling=None, rope_theta=500000, tie_word_embeddings=False, use_cache=True, vocab_size=100352)
OLMO3 = dict(architectures=["Olmo3ForCausalLM"], attention_bias=False, attention_dropout=0.0, eos_token_id=100257, hidden_act="silu",
             hidden_size=4096, initializer_range=0.02, intermediate_size=11008,
             layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 8, max_position_embeddings=65536, model_type="olmo3",
             num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, pad_token_id=100277, rms_norm_eps=1e-06,
             rope_scaling=dict(attention_factor=1.2079441541679836, beta_fast=32.0, beta_slow=1.0, factor=8.0,
                               original_max_position_embeddings=8192, rope_type="yarn"),
             rope_theta=500000, sliding_window=4096, tie_word_embeddings=False, use_cache=False, vocab_size=100278)
GRANITE = dict(architectures=["GraniteForCausalLM"], attention_bias=False, attention_dropout=0.0, attention_multiplier=0.015625, bos_token_id=0,
               embedding_multiplier=12.0, eos_token_id=0, hidden_act="silu", hidden_size=2048, initializer_range=0.02,
               intermediate_size=8192, logits_scaling=8.0, max_position_embeddings=131072, mlp_bias=False, model_type="granite",
               num_attention_heads=32, num_hidden_layers=40, num_key_value_heads=8, pad_token_id=0, residual_multiplier=0.22,
               rms_norm_eps=1e-05, rope_scaling=None, rope_theta=10000000.0, tie_word_embeddings=True, use_cache=True, vocab_size=49159)
GRANITE_MOE = {**{k: v for k, v in GRANITE.items() if k != "mlp_bias"}, "architectures": ["GraniteMoeForCausalLM"], "hidden_size": 1024,
               "intermediate_size": 512, "logits_scaling": 6.0, "model_type": "granitemoe", "num_attention_heads": 16, "num_experts_per_tok": 8,
               "num_hidden_layers": 24, "num_local_experts": 32, "output_router_logits": False, "rms_norm_eps": 1e-06, "rope_theta": 5000000.0,
               "router_aux_loss_coef": 0.0, "vocab_size": 49155}
MINITRON = dict(architectures=["NemotronForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=2, eos_token_id=3, head_dim=128,
                hidden_act="relu2", hidden_size=3072, initializer_range=0.0134, intermediate_size=9216, max_position_embeddings=4096, mlp_bias=False,
                model_type="nemotron", norm_eps=1e-05, num_attention_heads=24, num_hidden_layers=32, num_key_value_heads=8,
                partial_rotary_factor=0.5, rope_theta=10000.0, tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True,
                vocab_size=256000)
AFM = dict(architectures=["ArceeForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=128000, eos_token_id=128001, head_dim=128,
           hidden_act="relu2", hidden_size=2560, initializer_range=0.02, intermediate_size=18432, max_position_embeddings=65536, mlp_bias=False,
           model_type="arcee", num_attention_heads=20, num_hidden_layers=36, num_key_value_heads=4, rms_norm_eps=1e-05,
           rope_scaling=dict(beta_fast=32.0, beta_slow=1.0, factor=20.0, mscale=1.0, original_max_position_embeddings=4096, rope_type="yarn"),
           rope_theta=10000.0, tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True, vocab_size=128005)
GEMMA = dict(architectures=["GemmaForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=2, eos_token_id=1, head_dim=256,
             hidden_act="gelu", hidden_size=2048, initializer_range=0.02, intermediate_size=16384, max_position_embeddings=8192,
             model_type="gemma", num_attention_heads=8, num_hidden_layers=18, num_key_value_heads=1, pad_token_id=0, rms_norm_eps=1e-06,
             rope_scaling=None, rope_theta=10000.0, use_cache=True, vocab_size=256000)
STARCODER2 = dict(architectures=["Starcoder2ForCausalLM"], attention_dropout=0.1, bos_token_id=0, embedding_dropout=0.1, eos_token_id=0,
                  hidden_act="gelu_pytorch_tanh", hidden_size=3072, initializer_range=0.018042, intermediate_size=12288,
                  max_position_embeddings=16384, mlp_type="default", model_type="starcoder2", norm_epsilon=1e-05, num_attention_heads=24,
                  num_hidden_layers=30, num_key_value_heads=2, residual_dropout=0.1, rope_theta=999999.4420358813, sliding_window=4096,
                  use_bias=True, use_cache=True, vocab_size=49152)
OPT = dict(_remove_final_layer_norm=False, activation_dropout=0.0, activation_function="relu", architectures=["OPTForCausalLM"],
           attention_dropout=0.0, bos_token_id=2, do_layer_norm_before=True, dropout=0.1, eos_token_id=2, ffn_dim=3072, hidden_size=768,
           init_std=0.02, layerdrop=0.0, max_position_embeddings=2048, model_type="opt", num_attention_heads=12, num_hidden_layers=12,
           pad_token_id=1, prefix="</s>", use_cache=True, vocab_size=50272, word_embed_proj_dim=768)
T5 = dict(architectures=["T5ForConditionalGeneration"], d_ff=2048, d_kv=64, d_model=512, decoder_start_token_id=0, dropout_rate=0.1,
          eos_token_id=1, initializer_factor=1.0, is_encoder_decoder=True, layer_norm_epsilon=1e-06, model_type="t5", n_positions=512,
          num_heads=8, num_layers=6, output_past=True, pad_token_id=0, relative_attention_num_buckets=32, vocab_size=32128)
GATED = dict(feed_forward_proj="gated-gelu", relative_attention_max_distance=128, tie_word_embeddings=False, tokenizer_class="T5Tokenizer")
FLAN_T5 = {**T5, **GATED, **dict(d_model=768, num_decoder_layers=12, num_heads=12, num_layers=12)}
MT5 = {**T5, **GATED, **dict(architectures=["MT5ForConditionalGeneration"], d_ff=1024, model_type="mt5", num_decoder_layers=8, num_heads=6,
                             num_layers=8, vocab_size=250112)}
THREE = {str(i): f"LABEL_{i}" for i in range(3)}
BART = dict(activation_dropout=0.1, activation_function="gelu", architectures=["BartForConditionalGeneration"], attention_dropout=0.1,
            bos_token_id=0, classifier_dropout=0.1, d_model=768, decoder_attention_heads=12, decoder_ffn_dim=3072, decoder_layerdrop=0.0,
            decoder_layers=6, decoder_start_token_id=2, dropout=0.1, encoder_attention_heads=12, encoder_ffn_dim=3072,
            encoder_layerdrop=0.0, encoder_layers=6, eos_token_id=2, id2label=THREE, forced_bos_token_id=0, forced_eos_token_id=2, init_std=0.02,
            is_encoder_decoder=True, max_position_embeddings=1024, model_type="bart", normalize_before=False, normalize_embedding=True,
            num_hidden_layers=6, pad_token_id=1, scale_embedding=False, vocab_size=50265)
MARIAN = dict(_num_labels=3, activation_dropout=0.0, activation_function="swish", add_bias_logits=False, add_final_layer_norm=False,
              architectures=["MarianMTModel"], attention_dropout=0.0, bad_words_ids=[[58100]], bos_token_id=0, classif_dropout=0.0, d_model=512,
              decoder_attention_heads=8, decoder_ffn_dim=2048, decoder_layerdrop=0.0, decoder_layers=6, decoder_start_token_id=58100,
              dropout=0.1, encoder_attention_heads=8, encoder_ffn_dim=2048, encoder_layerdrop=0.0, encoder_layers=6, eos_token_id=0,
              extra_pos_embeddings=58101, init_std=0.02, is_encoder_decoder=True, max_length=512, max_position_embeddings=512,
              model_type="marian", normalize_before=False, normalize_embedding=False, num_beams=6, num_hidden_layers=6, pad_token_id=58100,
              scale_embedding=True, static_position_embeddings=True, vocab_size=58101)
PEGASUS = dict(activation_dropout=0.1, activation_function="relu", add_bias_logits=False, add_final_layer_norm=True,
               architectures=["PegasusForConditionalGeneration"], attention_dropout=0.1, bos_token_id=0, classif_dropout=0.0,
               classifier_dropout=0.0, d_model=1024, decoder_attention_heads=16, decoder_ffn_dim=4096, decoder_layerdrop=0.0, decoder_layers=16,
               decoder_start_token_id=0, dropout=0.1, encoder_attention_heads=16, encoder_ffn_dim=4096, encoder_layerdrop=0.0,
               encoder_layers=16, eos_token_id=1, extra_pos_embeddings=1, force_bos_token_to_be_generated=False, forced_eos_token_id=1,
               gradient_checkpointing=False, init_std=0.02, is_encoder_decoder=True, length_penalty=0.6, max_length=64,
               max_position_embeddings=512, model_type="pegasus", normalize_before=True, normalize_embedding=False, num_beams=8,
               num_hidden_layers=16, pad_token_id=0, scale_embedding=True, static_position_embeddings=True, vocab_size=96103)
NLLB = dict(activation_dropout=0.0, activation_function="relu", architectures=["M2M100ForConditionalGeneration"], attention_dropout=0.1,
            bos_token_id=0, d_model=1024, decoder_attention_heads=16, decoder_ffn_dim=4096, decoder_layerdrop=0, decoder_layers=12,
            decoder_start_token_id=2, dropout=0.1, encoder_attention_heads=16, encoder_ffn_dim=4096, encoder_layerdrop=0, encoder_layers=12,
            eos_token_id=2, init_std=0.02, is_encoder_decoder=True, max_length=200, max_position_embeddings=1024, model_type="m2m_100",
            num_hidden_layers=12, pad_token_id=1, scale_embedding=True, tokenizer_class="NllbTokenizer", use_cache=True, vocab_size=256206)
MBART = dict(_num_labels=3, activation_dropout=0.0, activation_function="gelu", add_bias_logits=False, add_final_layer_norm=True,
             architectures=["MBartForConditionalGeneration"], attention_dropout=0.0, bos_token_id=0, classif_dropout=0.0,
             classifier_dropout=0.0, d_model=1024, decoder_attention_heads=16, decoder_ffn_dim=4096, decoder_layerdrop=0.0,
             decoder_layers=12, dropout=0.1, encoder_attention_heads=16, encoder_ffn_dim=4096, encoder_layerdrop=0.0, encoder_layers=12,
             eos_token_id=2, forced_eos_token_id=2, id2label=THREE, init_std=0.02, is_encoder_decoder=True, max_position_embeddings=1024,
             model_type="mbart", normalize_before=True, normalize_embedding=True, num_hidden_layers=12, output_past=True, pad_token_id=1,
             scale_embedding=True, static_position_embeddings=False, vocab_size=250027)
MINISTRAL = {**MISTRAL, **dict(architectures=["MinistralForCausalLM"], attention_dropout=0.0, head_dim=128, intermediate_size=12288,
                               layer_types=(["full_attention"] + ["sliding_attention"] * 3) * 9, model_type="ministral", num_hidden_layers=36,
                               rope_theta=100000000.0, sliding_window=32768, vocab_size=131072)}
SEED_OSS = dict(architectures=["SeedOssForCausalLM"], attention_bias=True, attention_dropout=0.1, attention_out_bias=False, bos_token_id=0,
                eos_token_id=2, head_dim=128, hidden_act="silu", hidden_size=5120, initializer_range=0.02, intermediate_size=27648,
                max_position_embeddings=524288, mlp_bias=False, model_type="seed_oss", num_attention_heads=80, num_hidden_layers=64,
                num_key_value_heads=8, pad_token_id=1, residual_dropout=0.1, rms_norm_eps=1e-06, rope_scaling=dict(rope_type="default"),
                rope_theta=10000000.0, tie_word_embeddings=False, use_cache=True, vocab_size=155136)
HUNYUAN = dict(architectures=["HunYuanDenseV1ForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=120000, eod_token_id=120020,
               eos_token_id=120020, head_dim=128, hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=6144,
               max_position_embeddings=262144, mlp_bias=False, model_type="hunyuan_v1_dense", norm_type="rms", num_attention_heads=16,
               num_hidden_layers=32, num_key_value_heads=4, pad_token_id=120002, pretraining_tp=1, rms_norm_eps=1e-05,
               rope_scaling=dict(alpha=1000.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0, mscale_all_dim=1.0, type="dynamic"),
               rope_theta=10000.0, tie_word_embeddings=True, use_cache=True, use_cla=False, use_qk_norm=True, vocab_size=120818)
GLM = dict(architectures=["GlmForCausalLM"], attention_bias=True, attention_dropout=0.0, eos_token_id=[151329, 151336, 151338], head_dim=128,
           hidden_act="silu", hidden_size=4096, initializer_range=0.02, intermediate_size=13696, max_position_embeddings=131072,
           model_type="glm", num_attention_heads=32, num_hidden_layers=40, num_key_value_heads=2, pad_token_id=151329,
           partial_rotary_factor=0.5, rms_norm_eps=1.5625e-07, rope_theta=10000.0, tie_word_embeddings=False, use_cache=True,
           vocab_size=151552)
COHERE = dict(architectures=["CohereForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=5, eos_token_id=255001,
              hidden_act="silu", hidden_size=4096, initializer_range=0.02, intermediate_size=14336, layer_norm_eps=1e-05, logit_scale=0.0625,
              max_position_embeddings=8192, model_type="cohere", num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8,
              pad_token_id=0, rope_theta=10000.0, use_cache=True, use_qk_norm=False, vocab_size=256000)
COHERE2 = {**COHERE, **dict(_sliding_window_pattern=4, architectures=["Cohere2ForCausalLM"], cache_implementation="hybrid", head_dim=128,
                            layer_switch=4, logit_scale=0.25, max_position_embeddings=132096, model_type="cohere2",
                            order_of_interleaved_layers="local_attn_first", position_embedding_type="rope_gptj", rope_scaling=None,
                            rope_theta=50000, rotary_pct=1.0, sliding_window=4096, sliding_window_pattern=4, use_embedding_sharing=True,
                            use_gated_activation=True, use_parallel_block=True, use_parallel_embedding=True)}
STABLELM = dict(architectures=["StableLmForCausalLM"], attention_dropout=0.0, bos_token_id=100257, eos_token_id=100257, hidden_act="silu",
                hidden_dropout=0.0, hidden_size=2048, initializer_range=0.02, intermediate_size=5632, layer_norm_eps=1e-05,
                max_position_embeddings=4096, model_type="stablelm", num_attention_heads=32, num_hidden_layers=24, num_key_value_heads=32,
                partial_rotary_factor=0.25, qk_layernorm=False, rope_theta=10000, tie_word_embeddings=False, use_cache=True,
                use_parallel_residual=False, use_qkv_bias=True, vocab_size=100352)
EXAONE4 = dict(architectures=["Exaone4ForCausalLM"], attention_dropout=0.0, bos_token_id=1, eos_token_id=361, head_dim=64, hidden_act="silu",
               hidden_size=2048, initializer_range=0.02, intermediate_size=4096, layer_types=["full_attention"] * 30,
               max_position_embeddings=65536, model_type="exaone4", num_attention_heads=32, num_hidden_layers=30, num_key_value_heads=8,
               pad_token_id=0, rms_norm_eps=1e-05, rope_theta=1000000, sliding_window=None, sliding_window_pattern=None,
               rope_scaling=dict(factor=16.0, high_freq_factor=4.0, low_freq_factor=1.0, original_max_position_embeddings=8192,
                                 rope_type="llama3"), tie_word_embeddings=True, use_cache=True, vocab_size=102400)
EXAONE4_32B = {**EXAONE4, **dict(head_dim=128, hidden_size=5120, intermediate_size=27392, max_position_embeddings=131072,
                                 layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16, num_attention_heads=40, num_hidden_layers=64,
                                 sliding_window=4096, sliding_window_pattern="LLLG", tie_word_embeddings=False)}
ERNIE4_5 = dict(architectures=["Ernie4_5ForCausalLM"], bos_token_id=1, eos_token_id=2, head_dim=128, hidden_act="silu", hidden_size=1024,
                intermediate_size=3072, max_position_embeddings=131072, model_type="ernie4_5", num_attention_heads=16, num_hidden_layers=18,
                num_key_value_heads=2, pad_token_id=0, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=500000, tie_word_embeddings=True,
                use_bias=False, use_cache=False, vocab_size=103424)
OLMO = dict(architectures=["OlmoForCausalLM"], attention_bias=False, attention_dropout=0.0, clip_qkv=None, eos_token_id=50279,
            hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=8192, max_position_embeddings=2048,
            model_type="olmo", num_attention_heads=16, num_hidden_layers=16, num_key_value_heads=16, pad_token_id=1, rope_scaling=None,
            rope_theta=10000.0, tie_word_embeddings=True, use_cache=True, vocab_size=50304)
OLMOE = dict(architectures=["OlmoeForCausalLM"], attention_bias=False, attention_dropout=0.0, clip_qkv=None, eos_token_id=50279,
             hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=1024, max_position_embeddings=4096,
             model_type="olmoe", norm_topk_prob=False, num_attention_heads=16, num_experts=64, num_experts_per_tok=8, num_hidden_layers=16,
             num_key_value_heads=16, output_router_logits=False, pad_token_id=1, rope_scaling=None, rope_theta=10000.0,
             router_aux_loss_coef=0.01, tie_word_embeddings=False, use_cache=True, vocab_size=50304)
GPT_OSS = dict(architectures=["GptOssForCausalLM"], attention_bias=True, attention_dropout=0.0, eos_token_id=200002, experts_per_token=4, head_dim=64,
               hidden_act="silu", hidden_size=2880, initial_context_length=4096, initializer_range=0.02, intermediate_size=2880,
               layer_types=["sliding_attention", "full_attention"] * 12, max_position_embeddings=131072, model_type="gpt_oss",
               num_attention_heads=64, num_experts_per_tok=4, num_hidden_layers=24, num_key_value_heads=8, num_local_experts=32,
               output_router_logits=False, pad_token_id=199999, rms_norm_eps=1e-05,
               rope_scaling=dict(beta_fast=32.0, beta_slow=1.0, factor=32.0, original_max_position_embeddings=4096, rope_type="yarn", truncate=False),
               rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=128, swiglu_limit=7.0, tie_word_embeddings=False, use_cache=True,
               vocab_size=201088)
LFM2 = dict(architectures=["Lfm2ForCausalLM"], block_auto_adjust_ff_dim=True, block_dim=2048, block_ff_dim=12288, block_ffn_dim_multiplier=1.0,
            block_mlp_init_scale=1.0, block_multiple_of=256, block_norm_eps=1e-05, block_out_init_scale=1.0, block_use_swiglu=True,
            block_use_xavier_init=True, conv_L_cache=3, conv_bias=False, conv_dim=2048, conv_dim_out=2048, conv_use_xavier_init=True, eos_token_id=7,
            full_attn_idxs=[2, 5, 8, 10, 12, 14], hidden_size=2048, initializer_range=0.02, max_position_embeddings=128000, model_type="lfm2",
            norm_eps=1e-05, num_attention_heads=32, num_heads=32, num_hidden_layers=16, num_key_value_heads=8, pad_token_id=0,
            rope_theta=1000000.0, torch_dtype="bfloat16", use_cache=True, use_pos_enc=True, vocab_size=65536)
NO_LIMIT = 1 << 20
# name: config.json as published, and the most tokens of an input that its tokenizer allows
MODELS = {
    "bert-base-uncased": (BERT, 512),
    "gpt2": (GPT2, 1024),
    "bloom-560m": (BLOOM, NO_LIMIT),
    "falcon-7b": (FALCON, 2048),
    "falcon-40b": ({**FALCON, "hidden_size": 8192, "new_decoder_architecture": True, "num_attention_heads": 128, "num_hidden_layers": 60,
                    "num_kv_heads": 8}, 2048),
    "gpt-neo-125m": (GPT_NEO, 2048),
    "gpt-j-6b": (GPTJ, 2048),
    "starcoderbase-1b": (BIGCODE, 8192),
    "gpt_bigcode-santacoder": ({**BIGCODE, "activation_function": "gelu_fast", "bos_token_id": 49152, "eos_token_id": 49152, "n_positions": 2048,
                                "vocab_size": 49280}, 2048),
    "roberta-base": (ROBERTA, 512),
    "distilroberta-base": ({**ROBERTA, "num_hidden_layers": 6}, 512),
    "xlm-roberta-base": ({**ROBERTA, "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "output_past": True,
                          "position_embedding_type": "absolute", "transformers_version": "4.17.0.dev0", "use_cache": True,
                          "vocab_size": 250002}, 512),
    "distilbert-base-uncased": (DISTILBERT, 512),
    "distilbert-base-uncased-finetuned-sst-2-english": ({
        **DISTILBERT, "architectures": ["DistilBertForSequenceClassification"], "finetuning_task": "sst-2",
        "id2label": {"0": "NEGATIVE", "1": "POSITIVE"}, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}, "output_past": True,
        "transformers_version": "4.5.0.dev0"}, 512),
    "electra-small-generator": (ELECTRA, 512),
    "albert-base-v2": (ALBERT, 512),
    "ModernBERT-base": (MODERNBERT, 8192),
    "mpnet-base": (MPNET, 512),
    "esm2_t6_8M_UR50D": (ESM2, 1026),
    "esm2_t33_650M_UR50D": ({**ESM2, "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 33}, 1026),
    "esm1b_t33_650M_UR50S": ({**ESM2, "emb_layer_norm_before": True, "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 33,
                              "position_embedding_type": "absolute"}, 1024),
    "ernie-2.0-base-en": ({**ERNIE3, "architectures": ["ErnieForSequenceClassification"], "max_position_embeddings": 512, "use_task_id": False,
                           "vocab_size": 30522}, 512),
    "ernie-3.0-base-zh": (ERNIE3, 2048),
    "megatron-bert-uncased-345m": (MEGATRON, 512),
    "data2vec-text-base": ({**ROBERTA, "architectures": ["Data2VecTextForMaskedLM"], "model_type": "data2vec-text"}, 512),
    "efficient_mlm_m0.40": ({**ROBERTA, "architectures": ["RobertaPreLayerNormForMaskedLM"], "hidden_size": 1024, "intermediate_size": 4096,
                             "model_type": "roberta-prelayernorm", "num_attention_heads": 16, "num_hidden_layers": 24}, 512),
    "xlm-roberta-xl": ({**ROBERTA, "architectures": ["XLMRobertaXLForMaskedLM"], "hidden_size": 2560, "intermediate_size": 10240,
                        "model_type": "xlm-roberta-xl", "num_attention_heads": 32, "num_hidden_layers": 36, "vocab_size": 250880}, 512),
    "nomic-embed-text-v1.5": (NOMIC, 2048),
    "EuroBERT-210m": (EUROBERT, 8192),
    "deberta-base-mnli": (DEBERTA, 512),
    "deberta-large": ({**DEBERTA, "architectures": ["DebertaForMaskedLM"], "hidden_size": 1024, "intermediate_size": 4096,
                       "num_attention_heads": 16, "num_hidden_layers": 24, "pooler_hidden_size": 1024, "pos_att_type": "c2p|p2c"}, 512),
    "nli-deberta-v3-base": (DEBERTA_V3, 512),
    "deberta-v3-large": ({**DEBERTA_V3, "architectures": ["DebertaV2ForMaskedLM"], "hidden_size": 1024, "intermediate_size": 4096,
                          "num_attention_heads": 16, "num_hidden_layers": 24, "pooler_hidden_size": 1024, "pos_att_type": "p2c|c2p"}, 512),
    "deberta-v2-xlarge": ({**DEBERTA_V3, "attention_head_size": 64, "conv_act": "gelu", "conv_kernel_size": 3, "hidden_size": 1536,
                           "intermediate_size": 6144, "num_attention_heads": 24, "num_hidden_layers": 24, "pooler_hidden_size": 1536,
                           "pos_att_type": "p2c|c2p"}, 512),
    "Llama-3.2-1B-Instruct": (LLAMA_1B, 131072),
    "TinyLlama-1.1B-Chat-v1.0": (TINYLLAMA, 2048),
    "SmolLM2-135M": (SMOLLM2, 8192),
    "SmolLM3-3B": (SMOLLM3, 65536),
    "Mistral-7B-v0.1": (MISTRAL, 32768),
    "Qwen2.5-0.5B": (QWEN25, 32768),
    "Qwen3-0.6B": (QWEN3, 40960),
    "Mixtral-8x7B-v0.1": (MIXTRAL, 32768),
    "Qwen1.5-MoE-A2.7B": (QWEN2_MOE, 8192),
    "Qwen2-57B-A14B": (QWEN2_57B, 131072),
    "Qwen3-30B-A3B": (QWEN3_MOE, 40960),
    "camembert-base": ({**ROBERTA, "architectures": ["CamembertForMaskedLM"], "bos_token_id": 5, "eos_token_id": 6, "model_type": "camembert",
                        "output_past": True, "vocab_size": 32005}, 512),
    "gemma-2b": (GEMMA, 8192),
    "granite-3.3-2b-instruct": (GRANITE, 131072),
    "Minitron-4B-Base": (MINITRON, 4096),
    "AFM-4.5B": (AFM, 65536),
    "granite-3.1-1b-a400m-instruct": (GRANITE_MOE, 131072),
    "granite-3.1-3b-a800m-instruct": ({**GRANITE_MOE, "hidden_size": 1536, "num_attention_heads": 24, "num_hidden_layers": 32,
                                       "num_local_experts": 40, "rope_theta": 10000000.0}, 131072),
    # no folder of this type is at hand: the sizes above with a shared expert
    "granitemoeshared": ({**GRANITE_MOE, "architectures": ["GraniteMoeSharedForCausalLM"], "model_type": "granitemoeshared",
                          "shared_intermediate_size": 1024}, 131072),
    "Olmo-3-1025-7B": (OLMO3, 65536),
    "starcoder2-3b": (STARCODER2, 16384),
    "starcoder2-15b": ({**STARCODER2, "hidden_size": 6144, "initializer_range": 0.01275, "intermediate_size": 24576, "num_attention_heads": 48,
                        "num_hidden_layers": 40, "num_key_value_heads": 4, "rope_theta": 100000, "tie_word_embeddings": False}, 16384),
    "pythia-160m": (PYTHIA, 2048),
    "gemma-2-2b": (GEMMA2, 8192),
    "gemma-3-1b-it": (GEMMA3, 32768),
    "gemma-3-4b-it": (GEMMA3_PICTURES, 131072),
    "opt-125m": (OPT, 2048),
    "opt-350m": ({**OPT, "do_layer_norm_before": False, "ffn_dim": 4096, "hidden_size": 1024, "num_attention_heads": 16,
                  "num_hidden_layers": 24, "word_embed_proj_dim": 512}, 2048),
    "phi-1_5": (PHI1_5, 2048),
    "phi-2": (PHI2, 2048),
    "Phi-3-mini-4k-instruct": (PHI3, 4096),
    "OLMo-2-0425-1B": (OLMO2, 4096),
    "Ministral-8B-Instruct-2410": (MINISTRAL, 32768),
    "Seed-OSS-36B-Instruct": (SEED_OSS, 524288),
    "Hunyuan-1.8B-Instruct": (HUNYUAN, 262144),
    "glm-4-9b-chat-hf": (GLM, 131072),
    "glm-edge-1.5b-chat": ({**GLM, "attention_bias": False, "eos_token_id": [59246, 59253, 59255], "hidden_size": 2048, "intermediate_size": 6144,
                            "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 4,
                            "pad_token_id": 59246, "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-05, "tie_word_embeddings": True,
                            "vocab_size": 59264}, 8192),
    "GLM-4-9B-0414": ({**GLM, "architectures": ["Glm4ForCausalLM"], "max_position_embeddings": 32768, "model_type": "glm4",
                       "rms_norm_eps": 1e-05}, 32768),
    "aya-23-8B": (COHERE, 8192),
    "c4ai-command-r7b-12-2024": (COHERE2, 132096),
    "stablelm-2-1_6b": (STABLELM, 4096),
    "stablelm-zephyr-3b": ({**STABLELM, "bos_token_id": 0, "eos_token_id": 0, "hidden_size": 2560, "intermediate_size": 6912,
                            "num_hidden_layers": 32, "use_qkv_bias": False, "vocab_size": 50304}, 4096),
    "EXAONE-4.0-1.2B": (EXAONE4, 65536),
    "EXAONE-4.0-32B": (EXAONE4_32B, 131072),
    "ERNIE-4.5-0.3B-PT": (ERNIE4_5, 131072),
    "OLMo-1B-hf": (OLMO, 2048),
    "OLMoE-1B-7B-0924": (OLMOE, 4096),
    "gpt-oss-20b": (GPT_OSS, 131072),
    "gpt-oss-120b": ({**GPT_OSS, "layer_types": ["sliding_attention", "full_attention"] * 18, "num_hidden_layers": 36, "num_local_experts": 128}, 131072),
    "LFM2-350M": ({**LFM2, "block_dim": 1024, "block_ff_dim": 6656, "conv_dim": 1024, "conv_dim_out": 1024, "hidden_size": 1024,
                   "num_attention_heads": 16, "num_heads": 16}, 128000),
    "LFM2-1.2B": (LFM2, 128000),
    "t5-small": (T5, NO_LIMIT),
    "t5-3b": ({**T5, "d_ff": 16384, "d_kv": 128, "d_model": 1024, "num_heads": 32, "num_layers": 24}, NO_LIMIT),
    "flan-t5-base": (FLAN_T5, NO_LIMIT),
    "mt5-small": (MT5, NO_LIMIT),
    "bart-base": (BART, 1024),
    "bart-large-mnli": ({**BART, "_num_labels": 3, "activation_dropout": 0.0, "architectures": ["BartForSequenceClassification"],
                         "attention_dropout": 0.0, "classifier_dropout": 0.0, "d_model": 1024, "decoder_attention_heads": 16,
                         "decoder_ffn_dim": 4096, "decoder_layers": 12, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096,
                         "encoder_layers": 12, "id2label": {"0": "contradiction", "1": "neutral", "2": "entailment"},
                         "label2id": {"contradiction": 0, "entailment": 2, "neutral": 1}, "num_hidden_layers": 12}, 1024),
    "opus-mt-en-de": (MARIAN, 512),
    "pegasus-xsum": (PEGASUS, 512),
    "nllb-200-distilled-600M": (NLLB, 1024),
    "mbart-large-cc25": (MBART, 1024),
    "mbart-large-50-many-to-many-mmt": ({**MBART, "decoder_start_token_id": 2, "early_stopping": True, "gradient_checkpointing": False,
                                         "max_length": 200, "num_beams": 5, "tokenizer_class": "MBart50Tokenizer",
                                         "vocab_size": 250054}, 1024),
}


BESIDE = ("model.vision_tower.", "model.multi_modal_projector.", "esm.contact_head.")  # what is taken over as it is


out = {}
for name, (config, longest) in MODELS.items():
    cfg = T.CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(config))  # it writes rope_theta into rope_scaling
    classes = {}
    own = config["architectures"][0]
    prefix = re.match(r"\w+?(?=For|LMHead|MTModel)", own)[0] + ("Text" if config["model_type"] == "gemma3_text" else "")
    classifier = prefix + "ForSequenceClassification"
    for cls in sorted({own} | ({classifier} if hasattr(T, classifier) else set())):
        with torch.device("meta"):
            model = getattr(T, cls)(cfg)
        model.tie_weights()
        if cls in ("T5ForConditionalGeneration", "MT5ForConditionalGeneration") and config.get("tie_word_embeddings") is False:  # transformers 5 ties until it sees the weights
            model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
            model.all_tied_weights_keys.pop("lm_head.weight", None)
        saved_as = model.all_tied_weights_keys  # second name: the name in the file
        if own == "GPTNeoXForCausalLM":  # transformers 5.23 has a name of its own, which no file has
            saved_as["lm_head.weight"] = "embed_out.weight"
        ps = {saved_as.get(n, n): p for n, p in model.named_parameters() if not n.startswith(BESIDE) and p.requires_grad}  # without sines
        own_names = dict(model.named_parameters())  # of a tied weight the first, by which the Trainer goes
        decayed = {saved_as.get(n, n) for n in T.Trainer.get_decay_parameter_names(None, model) if n in own_names} & ps.keys()
        ps, decayed = tensors_as_saved(config["model_type"], ps), set(tensors_as_saved(config["model_type"], {n: ps[n] for n in decayed}))
        first = {n: p for n, p in ps.items() if not re.search(r"\.[1-9]\d*\.", n)}
        classes[cls] = {"parameters": sum(p.numel() for p in ps.values()), "tensors": len(ps),
                        "weights": {n: list(p.shape) for n, p in first.items()}, "not_decayed": [n for n in first if n not in decayed]}
    out[name] = {"config": config, "longest": longest, "classes": classes}
with open(here + "/published.json", "w") as f:
    json.dump({"transformers": T.__version__, "models": out}, f, indent=1)
    f.write("\n")
for name, m in out.items():
    print(name, {c: (v["parameters"], v["tensors"], len(v["not_decayed"])) for c, v in m["classes"].items()})
