#!/usr/bin/env python3
"""Records what Hugging Face's tokenizers library makes of texts, for tests/tokenizer/families.c.

    pip install tokenizers==0.23.3
    python3 families.py --steps NAME...   tokenizers of STEPS, such as that of a new step, on texts that are recorded here
    python3 families.py GOLDEN            everything

GOLDEN is a folder of full recordings: GOLDEN/tokenizers/NAME has a tokenizer.json and thousands of rows that were made with the
library (make_golden_tokenizers.py beside them). Writes families/NAME/tokenizer.json and rows.jsonl:
  - of families of models: their tokenizer.json, and some of their rows; of XLM-RoBERTa also rows by the installed library;
  - of steps that no such family has: tokenizers made here, with rows by the installed library. Their model gives each byte an id of
    its own, another one at the end of a word, so that ids show what normalizers and pre-tokenizers did.
"""
import gzip
import json
import os
import random
import sys

from tokenizers import Tokenizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families")
ONLY = sys.argv[2:] if sys.argv[1] == "--steps" else None
GOLDEN = None if ONLY else os.path.join(sys.argv[1], "tokenizers")
FAMILIES = "gpt2 roberta_prefix_space llama3 qwen2 llama2 mistral gemma smollm2 modernbert xlm_roberta bert_cased added_tokens".split()


def lines(*path):
    with gzip.open(os.path.join(GOLDEN, *path), "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def recorded_texts():
    with open(os.path.join(HERE, "gpt2", "rows.jsonl"), encoding="utf-8") as f:
        return [row["text"] for row in map(json.loads, f) if row["kind"] == "text"]


STRINGS = recorded_texts() if ONLY else [row["text"] for row in lines("strings.jsonl.gz")]


def write(name, tokenizer, rows):
    os.makedirs(os.path.join(HERE, name), exist_ok=True)
    with open(os.path.join(HERE, name, "tokenizer.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")) + "\n")
    with open(os.path.join(HERE, name, "rows.jsonl"), "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


# Characters that make clusters of many kinds, and that a charsmap replaces: marks, marks in front, controls, joiners, Hangul, flags, pictures.
CLUSTERED = ([chr(c) for c in (0x2122, 0xBA, 0xBD, 0xFB01, 0x958, 0x340, 0x341, 0x344, 0x301, 0x85A, 0x600, 0x6DD, 0x113D1, 0x11A3A, 0x200D, 0x94D, 0x915, 0x1100,
                               0x1161, 0x11A8, 0xAC00, 0x1F1E6, 0x1F1E7, 0x1F600, 0x1F3FB, 0x2764, 0xFE0F, 0xA9, 0xD, 0x9, 0x61C, 0xAD, 0x200B, 0x2028, 0xE9, 0x903)] + list("an "))


def clusters(library, rng):
    """The Precompiled step looks at grapheme clusters: of a control character and a mark it keeps both."""
    for _ in range(80):
        text = "".join(rng.choice(CLUSTERED) for _ in range(rng.randrange(2, 12)))
        yield {"kind": "text", "text": text, "ids": library.encode(text).ids}
    # Marks beyond U+FFFF that Unicode 16 has, and some that it always had, behind a cluster that is looked up whole without them.
    for c in (0x10D69, 0x10EFC, 0x113BC, 0x113D2, 0x113E2, 0x11B60, 0x11F5A, 0x1611E, 0x1E5EE, 0x1E6F5, 0x11000, 0x1D165, 0x1F3FB, 0xE0100, 0x10D70):
        text = f"U\u0324\u0350{chr(c)}n"
        yield {"kind": "text", "text": text, "ids": library.encode(text).ids}


def family(name):
    rng = random.Random(name)
    t = json.load(open(os.path.join(GOLDEN, name, "tokenizer.json"), encoding="utf-8"))
    library = Tokenizer.from_str(json.dumps(t))
    for a in t["added_tokens"]:  # the library gives a token of the model's vocabulary the model's id, whatever the file says
        a["id"] = library.token_to_id(a["content"])
    texts = [{"kind": "text", "text": s, **e} for s, e in zip(STRINGS, lines(name, "expected.jsonl.gz"))]
    rows = texts[:60] + rng.sample([r for r in texts[60:] if len(r["text"]) < 120], 60)
    more = [r for r in lines(name, "more.jsonl.gz") if "ids" in r and len(r["ids"]) < 60]
    for kind in "no special tokens", "pair", "truncated pair", "decode":
        some = [r for r in more if r["kind"] == kind and r.get("strategy", "longest_first") == "longest_first" and r.get("direction", "right") == "right"]
        rows += rng.sample(some, min(20, len(some)))
    if name == "xlm_roberta":
        library.no_truncation()
        rows += clusters(library, rng)
    write(name, t, rows)


def byte_chars():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in own] + [chr(256 + i) for i in range(256 - len(own))]


BYTES = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": "</w>", "fuse_unk": False,
         "byte_fallback": False, "ignore_merges": False, "vocab": {c + e: i for i, (c, e) in enumerate((c, e) for e in ("", "</w>") for c in byte_chars())}, "merges": []}
TO_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
FROM_BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def tokenizer(model=BYTES, normalizer=None, pre=None, post=None, decoder=FROM_BYTES):
    if model is BYTES:
        pre = {"type": "Sequence", "pretokenizers": ([pre] if pre else []) + [TO_BYTES]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer, "pre_tokenizer": pre,
            "post_processor": post, "decoder": decoder, "model": model}


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def vocab(*tokens):
    return {t: i for i, t in enumerate(tokens)}


WORDS = vocab("[UNK]", "[CLS]", "[SEP]", "i", "my", "card", "the", "what", ".", "?", "'", "to", "a", "s", "is")
PIECES = vocab(*"a b c d e i m n o r s t y ' ? .".split(), *(c + "</w>" for c in "a b c d e i m n o r s t y ' ? .".split()), "th", "the</w>", "ca", "rd</w>", "my</w>", "<unk>", "h", "h</w>", "he</w>")
UNIGRAM = [["<unk>", 0.0], ["▁", -2.0], ["▁my", -4.0], ["▁card", -6.5], ["a", -3.0], ["e", -3.1], ["er", -4.5], ["in", -4.0], ["ing", -5.0], ["t", -3.2], ["h", -3.5], ["the", -5.5],
           ["i", -3.3], ["n", -3.4], ["g", -4.0], ["é", -7.0], ["▁the", -4.2], ["s", -3.3], ["o", -3.4], ["r", -3.5], ["d", -3.6], ["l", -3.7], ["c", -3.9], ["m", -3.9], ["y", -4.1]] + \
          [["<0x%02X>" % b, -9.0 - b / 256] for b in range(256)]
STEPS = {
    "nfd": tokenizer(normalizer={"type": "NFD"}),
    "nfc": tokenizer(normalizer={"type": "NFC"}),
    "nfkc": tokenizer(normalizer={"type": "NFKC"}),
    "nfkd_lower": tokenizer(normalizer=sequence({"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"})),
    "nmt_strip": tokenizer(normalizer=sequence({"type": "Nmt"}, {"type": "Strip", "strip_left": True, "strip_right": True}, replace({"Regex": " {2,}"}, "▁"), replace({"Regex": "\\s*$"}, "|"))),
    "whitespace": tokenizer(pre={"type": "Whitespace"}),
    "whitespace_split": tokenizer(pre={"type": "WhitespaceSplit"}),
    "punctuation": tokenizer(pre={"type": "Punctuation", "behavior": "Contiguous"}),
    "punctuation_isolated": tokenizer(pre={"type": "Punctuation"}),
    "digits": tokenizer(pre={"type": "Digits", "individual_digits": False}),
    "split_removed": tokenizer(pre=split({"Regex": "\\s+|\\d"}, "Removed")),
    "split_previous": tokenizer(pre=split({"Regex": "\\p{P}"}, "MergedWithPrevious")),
    "split_next": tokenizer(pre=split({"Regex": "[^\\w\\s]|[\\p{Lu}[0-9]]"}, "MergedWithNext")),
    "split_inverted": tokenizer(pre=split({"Regex": "[\\p{L}\\p{M}]+"}, "MergedWithNext", True)),
    "split_string": tokenizer(pre=split({"String": "a"}, "Contiguous")),
    "split_empty": tokenizer(pre=split({"Regex": "(?=e)|x*"}, "Isolated")),
    "cl100k": tokenizer(pre=split({"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}, "Isolated")),
    "o200k": tokenizer(pre=split({"Regex": "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "Removed", True)),
    "metaspace_first": tokenizer(pre={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}, decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}),
    "metaspace_never": tokenizer(pre={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}, decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}),
    "word_level": tokenizer({"type": "WordLevel", "vocab": WORDS, "unk_token": "[UNK]"}, {"type": "Lowercase"}, {"type": "Whitespace"}, {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}, None),
    "bert_wordpiece": tokenizer({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 10, "vocab": {**WORDS, **{"##" + c: len(WORDS) + i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")}}},
                                {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}, {"type": "BertPreTokenizer"}, None, {"type": "WordPiece", "prefix": "##", "cleanup": True}),
    "bpe_suffix": tokenizer({**BYTES, "unk_token": "<unk>", "vocab": PIECES, "merges": [["h", "e</w>"], ["t", "h"], ["t", "he</w>"], ["c", "a"], ["r", "d</w>"], ["m", "y</w>"]]}, {"type": "Lowercase"}, {"type": "WhitespaceSplit"}, None, {"type": "BPEDecoder", "suffix": "</w>"}),
    "unigram_bytes": tokenizer({"type": "Unigram", "unk_id": 0, "vocab": UNIGRAM, "byte_fallback": True}, None, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}, None,
                               {"type": "Sequence", "decoders": [replace({"String": "▁"}, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
    "prepend": tokenizer(normalizer=sequence({"type": "Prepend", "prepend": "▁"}, replace({"String": " "}, "▁"))),
    "roberta_pair": tokenizer(post={"type": "Sequence", "processors": [TO_BYTES, {"type": "RobertaProcessing", "sep": ["!", 0], "cls": ["\"", 1], "trim_offsets": True, "add_prefix_space": True}]}),
}


def steps(name, t):
    rng = random.Random(name)
    library = Tokenizer.from_str(json.dumps(t))
    short = [s for s in STRINGS if 0 < len(s) < 60]
    texts = ["", " ", "a", " a  b ", "É e\u0301 ﬁ Ⅻ ㋿ 한국", "x\u0323\u0307 \u1E9B\u0323 ǅ İ ſ", "\u11935\u11930 ཀ", "I'll can't 'S 'ſ", "1234 5６٣ ½ 三", "a\t\n\r\n b\u3000c\u0085d\u180Ee"] + rng.sample(short, 50)
    rows = []
    for s in texts:
        e = library.encode(s)
        rows.append({"kind": "text", "text": s, "ids": e.ids, "decoded": library.decode(e.ids, skip_special_tokens=False)})
    for a, b in zip(texts[10:20], texts[30:40]):
        e = library.encode(a, b)
        rows.append({"kind": "pair", "a": a, "b": b, "ids": e.ids, "type_ids": e.type_ids})
    top = library.get_vocab_size()
    for _ in range(20):
        ids = [rng.randrange(top) for _ in range(rng.randrange(1, 12))]
        rows.append({"kind": "decode", "ids": ids, "decoded": library.decode(ids, skip_special_tokens=False), "decoded_skip_special": library.decode(ids)})
    write(name, t, rows)


for name in [] if ONLY else FAMILIES:
    family(name)
for name in ONLY or STEPS:
    steps(name, STEPS[name])
