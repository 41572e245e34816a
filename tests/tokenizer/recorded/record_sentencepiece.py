#!/usr/bin/env python3
"""Records what transformers makes of folders with a model of SentencePiece and no tokenizer.json, for tests/tokenizer/families.c.

    pip install transformers==5.23.0 sentencepiece==0.2.3 protobuf
    python3 sentencepiece.py

Trains small models on texts that are recorded here, with rules of normalization that are few (those of the library's own take 240 kB),
and writes sentencepiece/NAME: the model under the name that the class looks for, config.json, tokenizer_config.json and rows.jsonl with
the ids and decoded texts of the class of transformers. Models are only trained where they are not there: training is not the same
everywhere.
"""
import json
import os
import random
import shutil
import tempfile

import sentencepiece
from transformers import AutoTokenizer, LlamaTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "sentencepiece")
# From and to, in hexadecimal, as spm_train wants them: ligatures, wide letters, blanks, the accents of some letters, two characters to one.
RULES = [("FB01", "66 69"), ("FF21", "41"), ("FF41", "61"), ("3000", "20"), ("A0", "20"), ("9", "20"), ("D", "20"), ("C9", "45 301"),
         ("65 301", "E9"), ("2122", "54 4D"), ("200B", ""), ("BD", "31 2044 32"), ("915 94D", "4B")]


def recorded_texts():
    with open(os.path.join(HERE, "families", "gpt2", "rows.jsonl"), encoding="utf-8") as f:
        return [row["text"] for row in map(json.loads, f) if row["kind"] == "text"]


TEXTS = recorded_texts()
LLAMA = dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, vocab_size=700)
MODELS = {
    "llama": dict(LLAMA, split_digits=True, user_defined_symbols=["<|x|>", "</b>"]),
    "gemma": dict(LLAMA, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>",
                  user_defined_symbols=["<mask>", "<start_of_turn>", "<end_of_turn>", "\n", "\n\n", "▁▁"]),
    "t5": dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>"),
    "xlmr": dict(),
    "albert": dict(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>", control_symbols=["[CLS]", "[SEP]", "[MASK]"], user_defined_symbols=["(", ")", '"', "-"]),
    "deberta": dict(pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]"),
}
LSTRIP = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False}
# NAME: the model, its file's name, model_type, tokenizer_config.json
FOLDERS = {
    "llama": ("llama", "tokenizer.model", "llama", dict(tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>", unk_token="<unk>")),
    "llama_legacy": ("llama", "tokenizer.model", "llama", dict(tokenizer_class="LlamaTokenizerFast", add_bos_token=True, add_eos_token=True, legacy=True, pad_token="<pad>")),
    "llama_no_prefix": ("llama", "tokenizer.model", "mistral", dict(tokenizer_class="LlamaTokenizer", add_prefix_space=False, added_tokens_decoder={
        "0": dict(content="<unk>", lstrip=False, normalized=False, rstrip=False, single_word=False, special=True),
        "700": dict(content="<|im_start|>", lstrip=False, normalized=False, rstrip=True, single_word=False, special=True)})),
    "gemma": ("gemma", "tokenizer.model", "gemma2", dict(tokenizer_class="GemmaTokenizer", add_bos_token=True, add_eos_token=False)),
    "t5": ("t5", "spiece.model", "t5", dict(model_max_length=512)),
    "t5_extra": ("t5", "spiece.model", "mt5", dict(tokenizer_class="T5Tokenizer", extra_ids=3)),
    "xlmr": ("xlmr", "sentencepiece.bpe.model", "xlm-roberta", None),
    "xlmr_lstrip": ("xlmr", "sentencepiece.bpe.model", "xlm-roberta", dict(mask_token=LSTRIP, model_max_length=512)),
    "camembert": ("xlmr", "sentencepiece.bpe.model", "camembert", None),
    "mbart": ("xlmr", "sentencepiece.bpe.model", "mbart", dict(src_lang="de_DE")),
    "mbart50": ("xlmr", "sentencepiece.bpe.model", "mbart", dict(tokenizer_class="MBart50Tokenizer", tgt_lang="sl_SI", model_max_length=64)),
    "pegasus": ("t5", "spiece.model", "pegasus", None),
    "pegasus_offset": ("t5", "spiece.model", "pegasus", dict(tokenizer_class="PegasusTokenizer", offset=9)),
    "albert": ("albert", "spiece.model", "albert", None),
    "albert_accents": ("albert", "spiece.model", "albert", dict(tokenizer_class="AlbertTokenizer", do_lower_case=False, keep_accents=True)),
    "deberta": ("deberta", "spm.model", "deberta-v2", dict(do_lower_case=False, vocab_type="spm")),
    "deberta_lower": ("deberta", "spm.model", "deberta-v2", dict(do_lower_case=True, split_by_punct=True, add_prefix_space=False)),
}


def train(name):
    """The bytes of a model; the first folder that has it keeps them."""
    for folder, (model, file, _, _) in FOLDERS.items():
        path = os.path.join(OUT, folder, file)
        if model == name and os.path.exists(path):
            return open(path, "rb").read()
    with tempfile.TemporaryDirectory() as tmp:
        rules = os.path.join(tmp, "rules.tsv")
        with open(rules, "w") as f:
            f.writelines(f"{a}\t{b}\n" for a, b in RULES)
        args = dict(MODELS[name])
        if "normalization_rule_name" not in args:
            args["normalization_rule_tsv"] = rules
        lines = [t.replace("\n", " ") for t in TEXTS if t.strip() and t.isprintable() and max(t) < "\u0180"]
        with open(os.path.join(tmp, "text"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines * 5) + "\n")
        sentencepiece.SentencePieceTrainer.train(**{**dict(input=os.path.join(tmp, "text"), model_prefix=os.path.join(tmp, "m"), vocab_size=300, hard_vocab_limit=False,
                                                            num_threads=1, minloglevel=2, character_coverage=0.98), **args})
        return open(os.path.join(tmp, "m.model"), "rb").read()


def rows(name, t):
    rng = random.Random(name)
    library = t.backend_tokenizer
    library.no_truncation()
    texts = ["", " ", "a", " a  b ", "  Hello\tworld\r\n\n 12 3", "É e\u0301 ﬁ ＡＢａ ½ ™ क्ष क्", "e\u0301e\u0301 \u200B a\u200Bb\u00A0c\u3000d", "</s><s>x <unk>y<pad> z", "a<mask> b <mask>c [MASK] d[MASK]",
             "<extra_id_0> a<extra_id_1>b <extra_id_99>", "x <|im_start|>  user\n<|x|>y</b> z", "<start_of_turn>user\nhi<end_of_turn>\n\n\n", "``quoted'' (a-b) \"c\"", "ÀÉÎõü ǅ İ ſ Σς", "日本語 한국어 😀👍🏽 \U0001F1E6\U0001F1E7",
             "[CLS] a [SEP]", "a▁b ▁ c▁▁d", "..,,!!?? ''", "Don't can't I'm"] + rng.sample([s for s in TEXTS if 0 < len(s) < 80], 40)
    for s in texts:
        e = library.encode(s)
        yield {"kind": "text", "text": s, "ids": e.ids, "decoded": library.decode(e.ids, skip_special_tokens=False), "decoded_skip_special": library.decode(e.ids)}
        yield {"kind": "no special tokens", "text": s, "ids": library.encode(s, add_special_tokens=False).ids}
    for a, b in zip(texts[2:14], texts[20:32]):
        e = library.encode(a, b)
        yield {"kind": "pair", "a": a, "b": b, "ids": e.ids, "type_ids": e.type_ids}
    top = library.get_vocab_size()
    for _ in range(15):
        ids = [rng.randrange(top) for _ in range(rng.randrange(1, 12))]
        yield {"kind": "decode", "ids": ids, "decoded": library.decode(ids, skip_special_tokens=False), "decoded_skip_special": library.decode(ids)}


models = {name: train(name) for name in MODELS}
for name, (model, file, model_type, config) in FOLDERS.items():
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, file), "wb") as f:
        f.write(models[model])
    with open(os.path.join(folder, "config.json"), "w") as f:
        f.write(json.dumps({"model_type": model_type}) + "\n")
    if config is not None:
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            f.write(json.dumps(config, indent=1) + "\n")
    # Of model types other than "llama" AutoTokenizer takes a generic class, without the blank before a text that these models know.
    load = LlamaTokenizer if model == "llama" else AutoTokenizer
    t = load.from_pretrained(folder)
    print(name, type(t).__name__, len(t))
    with open(os.path.join(folder, "rows.jsonl"), "w", encoding="utf-8") as f:
        for row in rows(name, t):
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
