"""Records what the tokenizers library gives for texts that are cut into words (is_pretokenized), with the first token of each word:
writes words.jsonl beside itself, for tokenizers of families/. ByteLevel gets add_prefix_space, as transformers' examples have it.

usage: python3 tests/tokenizer/recorded/words.py
"""
import json, os
from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
TEXTS = [["Anna", "visits", "New", "York", "."], ["card"], [], ["don't", "(1984)", "…", "ﬁne", "É́lan", "日本語"], ["", "  ", " lead", "trail ", "in side"],
         ["[SEP]", "a[MASK]b", "<s>", "<mask>"], ["\u200b", "\ufffd", "x" * 120], ["w%d" % i for i in range(30)]]


def record(family):
    j = json.load(open(f"{here}/families/{family}/tokenizer.json"))
    pre = j.get("pre_tokenizer") or {}
    for step in [pre] + pre.get("pretokenizers", []):
        if step.get("type") == "ByteLevel":
            step["add_prefix_space"] = True
    j["truncation"] = j["padding"] = None
    t = Tokenizer.from_str(json.dumps(j))
    for words in TEXTS:
        for most in (0, 9):
            t.no_truncation()
            if most:
                t.enable_truncation(most)
            e = t.encode(words, is_pretokenized=True)
            first = [w if w is not None and w not in e.word_ids[:i] else -1 for i, w in enumerate(e.word_ids)]
            yield {"family": family, "words": words, "max_length": most, "ids": e.ids, "first": first}


with open(here + "/words.jsonl", "w") as f:
    for family in ("bert_cased", "gpt2", "roberta_prefix_space", "modernbert", "xlm_roberta"):
        for row in record(family):
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
