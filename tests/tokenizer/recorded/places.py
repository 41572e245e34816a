"""Records where the tokenizers library says that tokens stand in a text (offsets), as bytes of its UTF-8: writes places.jsonl
beside itself, for tokenizers of families/ and uncased/.

usage: python3 tests/tokenizer/recorded/places.py
"""
import json, os
from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
PAIRS = [("Who visits New York?", "Anna visits New York, and it rains."), ("card", "card"), ("", " "),
         ("  lead", "trail  \n\n two\ttabs  "), ("É́lan vital", "Crème brûlée – naïve ﬁne Å İstanbul ǅ ﬄ ½"), ("日本語", "東京は日本の首都。x日本y"),
         ("don't", "(1984) it's… 12,500.75 — “so”"), ("[SEP]", "a[MASK]b <s> <mask>x </s>"), ("\u200bz", "a\u0301\u0327b \ufffd ㎒ ｆｕｌｌ 👍🏽 \u00a0q"),
         ("x" * 101, "wy end")]


def record(folder):
    j = json.load(open(f"{here}/{folder}/tokenizer.json"))
    j["truncation"] = j["padding"] = None
    t = Tokenizer.from_str(json.dumps(j))
    for pair in PAIRS:
        row = {"pair": pair, "ids": [], "places": []}
        for text in pair:
            at = [0]
            for c in text:
                at.append(at[-1] + len(c.encode()))
            e = t.encode(text, add_special_tokens=False)
            row["ids"].append(e.ids)
            row["places"].append([x for start, end in e.offsets for x in (at[start], at[end])])
        yield row


with open(here + "/places.jsonl", "w") as f:
    folders = ["uncased"] + ["families/" + name for name in sorted(os.listdir(here + "/families"))]
    for folder in folders:
        if os.path.exists(f"{here}/{folder}/tokenizer.json"):
            row = {"folder": folder, "pairs": list(record(folder))}
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
