"""Makes model folders of MiniLM's size with random weights, one of each family: six layers of 384, twelve heads, the families' own shapes
otherwise, and the tokenizer of another folder.

usage: random_families.py TOKENIZER_FOLDER OUTPUT [FAMILY…]      OUTPUT/FAMILY; all families if none is named
"""
import pathlib
import sys

import torch
import transformers as T

SIZE = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
SEQ2SEQ = dict(pad_token_id=0, decoder_start_token_id=101, eos_token_id=102)
FAMILIES = {
    "bert": lambda: T.BertConfig(**SIZE),
    "distilbert": lambda: T.DistilBertConfig(dim=384, n_layers=6, n_heads=12, hidden_dim=1536),
    "roberta": lambda: T.RobertaConfig(**SIZE, max_position_embeddings=514, type_vocab_size=1),
    "xlm-roberta": lambda: T.XLMRobertaConfig(**SIZE, max_position_embeddings=514, type_vocab_size=1),
    "electra": lambda: T.ElectraConfig(**SIZE, embedding_size=128),
    "albert": lambda: T.AlbertConfig(**SIZE, embedding_size=128, hidden_dropout_prob=0.1,
                                     attention_probs_dropout_prob=0.1),
    "mpnet": lambda: T.MPNetConfig(**SIZE, max_position_embeddings=514),
    "modernbert": lambda: T.ModernBertConfig(**SIZE, pad_token_id=0, bos_token_id=101, eos_token_id=102,
                                             cls_token_id=101, sep_token_id=102),
    "deberta-v3": lambda: T.DebertaV2Config(
        **SIZE, relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True,
        pos_att_type="p2c|c2p", position_biased_input=False, max_relative_positions=-1, type_vocab_size=0),
    "t5": lambda: T.T5Config(d_model=384, d_kv=32, num_heads=12, d_ff=1536, num_layers=6, **SEQ2SEQ),
    "bart": lambda: T.BartConfig(d_model=384, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12,
                                 decoder_attention_heads=12, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
                                 bos_token_id=101, forced_eos_token_id=102, **SEQ2SEQ),
}

T.utils.logging.set_verbosity_error()
T.utils.logging.disable_progress_bar()
tokenizer = T.PreTrainedTokenizerFast(
    tokenizer_object=T.AutoTokenizer.from_pretrained(sys.argv[1]).backend_tokenizer, model_max_length=512, pad_token="[PAD]",
    unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    model_input_names=["input_ids", "attention_mask"])
for family in sys.argv[3:] or FAMILIES:
    folder = pathlib.Path(sys.argv[2]) / family
    config = FAMILIES[family]()
    config.vocab_size = len(tokenizer)
    torch.manual_seed(1)
    kind = T.AutoModelForSeq2SeqLM if config.is_encoder_decoder else T.AutoModel
    kind.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(folder, flush=True)
