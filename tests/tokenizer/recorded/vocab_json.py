#!/usr/bin/env python3
"""Records the ids that transformers gives for folders with vocab.json and merges.txt, and for tokenizer.json with add_bos_token or
add_eos_token beside it, for tests/tokenizer/files.c.

    pip install transformers==5.17.0 tokenizers==0.23.3 && python3 vocab_json.py > vocab_json.jsonl

{"files": {name: text}, "text", "max_length", "ids"}, a line each.
"""
import json
import os
import tempfile

from transformers import AutoTokenizer, GPT2Tokenizer, RobertaTokenizer

OWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
CHARS = [chr(b) for b in OWN] + [chr(256 + i) for i in range(256 - len(OWN))]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o", "r l", "Ġ Ġ"]
TEXT = "hello world<|endoftext|>  it's <s>x</s> <mask> é 12"


def vocabulary(*special):
    return {t: i for i, t in enumerate([*special, *CHARS, *(m.replace(" ", "") for m in MERGES)])}


def row(files, cls):
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            with open(os.path.join(d, name), "w", encoding="utf-8") as f:
                f.write(text)
        ids = cls.from_pretrained(d)(TEXT)["input_ids"]
    print(json.dumps({"files": files, "text": TEXT, "max_length": 0, "ids": ids}, ensure_ascii=False, separators=(",", ":")))


def old(vocab, config):
    files = {"vocab.json": json.dumps(vocab, ensure_ascii=False), "merges.txt": "#version: 0.2\n" + "\n".join(MERGES) + "\n"}
    return {**files, "tokenizer_config.json": json.dumps(config)} if config else files


def new(config):
    vocab = vocabulary("<s>", "</s>")
    special = [{"id": vocab[t], "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for t in ("<s>", "</s>")]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    t = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None, "pre_tokenizer": level, "post_processor": level,
         "decoder": level, "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "vocab": vocab, "merges": MERGES}}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", **config}
    return {"tokenizer.json": json.dumps(t, ensure_ascii=False), "tokenizer_config.json": json.dumps(config)}


gpt2, roberta = vocabulary("<|endoftext|>"), vocabulary("<s>", "<pad>", "</s>", "<unk>", "<mask>")
row(old(gpt2, {"tokenizer_class": "GPT2Tokenizer"}), GPT2Tokenizer)
row(old(gpt2, None), GPT2Tokenizer)
row(old(gpt2, {"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": True}), GPT2Tokenizer)
row(old(roberta, {"tokenizer_class": "RobertaTokenizer"}), RobertaTokenizer)
row(old(roberta, None), RobertaTokenizer)
row(old(roberta, {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True, "mask_token": {"content": "<mask>", "lstrip": True, "__type": "AddedToken"}}), RobertaTokenizer)
row(old(gpt2, {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True}), GPT2Tokenizer)
row(old(gpt2, {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": False, "add_eos_token": True}), GPT2Tokenizer)
row(old(roberta, {"tokenizer_class": "RobertaTokenizer", "add_eos_token": True}), RobertaTokenizer)
row(new({}), AutoTokenizer)
row(new({"add_bos_token": True, "add_eos_token": True}), AutoTokenizer)  # tokenizer.json has its own word
