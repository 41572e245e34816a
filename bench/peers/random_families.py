"""Makes model folders of MiniLM's size with random weights, one of each family: six layers of 384, twelve heads, the families' own shapes
otherwise, and the tokenizer of another folder.

usage: random_families.py TOKENIZER_FOLDER OUTPUT [FAMILY…]      OUTPUT/FAMILY; all families if none is named
       --hidden N --layers N --heads N                           other sizes
"""
import argparse
import pathlib

import torch
import transformers as T

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("tokenizer")
parser.add_argument("output")
parser.add_argument("families", nargs="*", metavar="FAMILY")
parser.add_argument("--hidden", type=int, default=384)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--heads", type=int, default=12)
args = parser.parse_args()
H, L, A, F = args.hidden, args.layers, args.heads, 4 * args.hidden
SIZE = dict(hidden_size=H, num_hidden_layers=L, num_attention_heads=A, intermediate_size=F)
T.utils.logging.set_verbosity_error()
T.utils.logging.disable_progress_bar()
tokenizer = T.PreTrainedTokenizerFast(
    tokenizer_object=T.AutoTokenizer.from_pretrained(args.tokenizer).backend_tokenizer, model_max_length=512, pad_token="[PAD]",
    unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    model_input_names=["input_ids", "attention_mask"])
CLS, SEP = tokenizer.cls_token_id, tokenizer.sep_token_id
DECODER = dict(**SIZE, num_key_value_heads=A // 2, head_dim=H // A, pad_token_id=0, bos_token_id=CLS, eos_token_id=SEP)
SEQ2SEQ = dict(pad_token_id=0, decoder_start_token_id=CLS, eos_token_id=SEP)
FAMILIES = {
    "bert": lambda: T.BertConfig(**SIZE),
    "distilbert": lambda: T.DistilBertConfig(dim=H, n_layers=L, n_heads=A, hidden_dim=F),
    "roberta": lambda: T.RobertaConfig(**SIZE, max_position_embeddings=514, type_vocab_size=1),
    "xlm-roberta": lambda: T.XLMRobertaConfig(**SIZE, max_position_embeddings=514, type_vocab_size=1),
    "electra": lambda: T.ElectraConfig(**SIZE, embedding_size=128),
    "albert": lambda: T.AlbertConfig(**SIZE, embedding_size=128, hidden_dropout_prob=0.1,
                                     attention_probs_dropout_prob=0.1),
    "mpnet": lambda: T.MPNetConfig(**SIZE, max_position_embeddings=514),
    "modernbert": lambda: T.ModernBertConfig(**SIZE, pad_token_id=0, bos_token_id=CLS, eos_token_id=SEP,
                                             cls_token_id=CLS, sep_token_id=SEP),
    "deberta-v3": lambda: T.DebertaV2Config(
        **SIZE, relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True,
        pos_att_type="p2c|c2p", position_biased_input=False, max_relative_positions=-1, type_vocab_size=0),
    "deberta-v2": lambda: T.DebertaV2Config(
        **SIZE, relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p",
        position_biased_input=False, max_relative_positions=-1, type_vocab_size=0, conv_kernel_size=3, conv_act="gelu"),
    "t5": lambda: T.T5Config(d_model=H, d_kv=H // A, num_heads=A, d_ff=F, num_layers=L, **SEQ2SEQ),
    "bart": lambda: T.BartConfig(d_model=H, encoder_layers=L, decoder_layers=L, encoder_attention_heads=A,
                                 decoder_attention_heads=A, encoder_ffn_dim=F, decoder_ffn_dim=F,
                                 bos_token_id=CLS, forced_eos_token_id=SEP, **SEQ2SEQ),
    "llama": lambda: T.LlamaConfig(**DECODER),
    "qwen3": lambda: T.Qwen3Config(**DECODER),
    "mixtral": lambda: T.MixtralConfig(**DECODER, num_local_experts=4, num_experts_per_tok=2),
}

for family in args.families or FAMILIES:
    folder = pathlib.Path(args.output) / family
    config = FAMILIES[family]()
    config.vocab_size = len(tokenizer)
    torch.manual_seed(1)
    kind = T.AutoModelForSeq2SeqLM if config.is_encoder_decoder else T.AutoModel
    kind.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(folder, flush=True)
