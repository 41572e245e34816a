#!/usr/bin/env python3
"""Records the ids that transformers' EsmTokenizer gives for folders with vocab.txt, for tests/tokenizer/files.c.

    pip install transformers==5.24.0 && python3 vocab_esm.py > vocab_esm.jsonl

{"files": {name: text}, "text", "max_length", "ids"}, a line each.
"""
import json
import os
import tempfile

from transformers import EsmTokenizer

VOCAB = [*"<cls> <pad> <eos> <unk>".split(), *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
TEXTS = ["MKTAYIAKQRQISFVKSHFSRQ", "M K T\tA\n", "", "  MKT aab XX", "mkt<mask>AV <mask> K", "<cls>MK<eos>", "MKJJ..-*", "<null_1>A<null_1", "éM\u00a0K\u3000L",
         "a<mask> <mask>b <unk> c"]


def rows(files, texts, max_length=0):
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            with open(os.path.join(d, name), "w", encoding="utf-8") as f:
                f.write(text)
        t = EsmTokenizer.from_pretrained(d)
        for text in texts:
            ids = t(text, truncation=max_length > 0, max_length=max_length or None)["input_ids"]
            print(json.dumps({"files": files, "text": text, "max_length": max_length, "ids": ids}, ensure_ascii=False, separators=(",", ":")))


def folder(vocab, config=None, end=""):
    return {"vocab.txt": "\n".join(vocab) + end, **({"tokenizer_config.json": json.dumps(config)} if config else {})}


rows(folder(VOCAB, {"tokenizer_class": "EsmTokenizer", "unk_token": "<unk>", "model_max_length": 10**30}), TEXTS)
rows(folder(VOCAB, end="\n"), TEXTS[:5])
rows(folder(VOCAB, {"tokenizer_class": "EsmTokenizer"}), TEXTS[:1], 8)
other = [*VOCAB[:-1], "[M]", "AK", "PAKR"]
rows(folder(other, {"tokenizer_class": "EsmTokenizer", "mask_token": {"content": "[M]", "__type": "AddedToken", "lstrip": True}}), ["A K [M]AKPAKPAKR", "P [M] A"])
