#!/usr/bin/env python3
"""Records what Hugging Face's tokenizers library makes of many texts, for tests/tokenizer/tokenizer.c.

    pip install tokenizers==0.23.3 transformers==5.23.0 xxhash==4.1.0 && python3 record.py

Writes beside itself
  NAME/tokenizer.json  tokenizers with a small vocabulary; uncased and cased come with vocab.txt and tokenizer_config.json
  cases.jsonl          [tokenizer, max_length, text, pair or null, ids, type_ids], a line each; type_ids is left out when all 0
  generated.txt        tokenizer and XXH3-128 of the ids of 1,000 generated texts, a line for each 1,000
  folders.jsonl        {"files": {name: text}, "text", "max_length", "ids"}: what transformers' AutoTokenizer makes of such a folder
  unicode.txt          normaliser, plane, XXH3-128 of what becomes of each of its code points
"""
import json
import os
import struct
import tempfile

import xxhash
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

HERE = os.path.dirname(os.path.abspath(__file__))
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def vocabulary():
    words = """the a an i to of and is in it you my on for card account money bank transfer how do can what why when pay
        payment not was this that have get with new my your Hello hello Hi World world York new un aff able want need ice cream
        I My Card Zürich zurich café cafe naïve naive don won can't co op 2024 19 10 100 $ € £ 中国 中 国 文 日本 日 本 豈 𠀀 한국 한
        да нет Да й и ё е ελλ ας α σ ς ω שלום ש سلام س क ก ᄒ かき か が カ 😀 👨 👩 ﬁ fi ß ss ẞ ı i̇ ø ł æ œ đ ñ n ü u ʼ 〇 ℃ Ⅷ ⅷ Ω ω
        Å å ǅ ǆ ⓐ ａ １ ! ¿ « » … — “ ” ،""".split()
    pieces = """s ed ing ly er est tion ment 's able aff un York é e ß ss ı i̇ ø ł ̇ ́ ̣ ̈ ̱ 中 文 ा ि ् า ี ᅡ ᆫ ᆨ ᅮ 국 ゙ か き 👩 ‍ ️ 🏽
        😀 α σ ς λ ω и е й да нет ת ל م ل י ְ ɐ ﬁ fi ª º ² ½""".split()
    chars = [chr(c) for c in range(33, 127)]
    alnum = [c for c in chars if c.isalnum()]
    tokens = SPECIAL + chars + ["##" + c for c in alnum] + words + ["##" + p for p in pieces]
    return {t: i for i, t in enumerate(dict.fromkeys(tokens))}


VOCAB = vocabulary()
CLS, SEP = ("[CLS]", VOCAB["[CLS]"]), ("[SEP]", VOCAB["[SEP]"])
BERT = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[CLS, SEP])


def make(normalizer=None, split=True, processor=BERT, special=True, **model):
    t = Tokenizer(models.WordPiece(VOCAB, unk_token="[UNK]", **model))
    if normalizer is not None:
        t.normalizer = normalizers.BertNormalizer(**normalizer)
    if split:
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if processor:
        t.post_processor = processor
    if special:
        t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in SPECIAL])
    return t


def with_added():
    t = make({})
    t.add_tokens([
        AddedToken("[NEW]", special=True, normalized=False),
        AddedToken("<l>", lstrip=True, normalized=False),
        AddedToken("<r>", rstrip=True, normalized=False),
        AddedToken("<lr>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("word", single_word=True, normalized=True),
        AddedToken("Wört", single_word=True, normalized=False),
        AddedToken("Ünï", normalized=True),
        AddedToken("abc", normalized=False),
        AddedToken("abcde", normalized=False),
        AddedToken("cdX", normalized=False),
        AddedToken("中文", normalized=True),
        AddedToken("new york", normalized=True, lstrip=True),
        AddedToken("hello", normalized=True),
        AddedToken("XY", normalized=True, rstrip=True),
        AddedToken("é", normalized=False),
        AddedToken("\U0001f468\u200d\U0001f469", normalized=False),
    ])
    return t


def with_spaces():
    """Added tokens that are white space, beside some that take white space with them."""
    t = make({})
    t.add_tokens([AddedToken("<r>", rstrip=True, normalized=False), AddedToken("<l>", lstrip=True, normalized=False), AddedToken("  ", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("\u3000", normalized=False), AddedToken("XY", rstrip=True), AddedToken("hello ", rstrip=True, lstrip=True)])
    return t


def left():
    t = make({})
    t.enable_truncation(8, direction="left")
    return t


OFF = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
TOKENIZERS = {
    "uncased": make({}),
    "cased": make(dict(lowercase=False)),
    "added": with_added(),
    "spaces": with_spaces(),
    "unclean": make(dict(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)),
    "lower-only": make(dict(strip_accents=False, lowercase=True)),
    "prefix": make({}, processor=processors.BertProcessing(SEP, CLS), continuing_subword_prefix="", max_input_chars_per_word=5),
    "whole-words": make({}, continuing_subword_prefix="@@"),
    "bare": make(None, split=False, processor=None, special=False),
    "left": left(),
    "template": make({}, processor=processors.TemplateProcessing(
        single="[SEP]:3 $A:2 two:1", pair="$B:1 [SEP]:0 $A:4", special_tokens=[SEP, {"id": "two", "ids": [7, 8], "tokens": ["x", "y"]}])),
}

TEXTS = [
    "", " ", "   ", "\t\n\r", "\u00a0\u3000\u2028", "\x00", "\x00\x01\x02\x7f", "a\x00b", "hello", "Hello, World!",
    "hello unaffable wanted", "What can I do if my card still hasn't arrived after 2 weeks?", "don't can't won't co-op",
    "[CLS] hello [SEP] world [MASK][PAD][UNK]", "[cls] [Sep] [ MASK ]", "[MASK", "[[MASK]]", "[MA[MASK]SK]", "##ing ing ##", "###",
    "I paid $100.19, £2, €3: 50% (ok?)", "a.b.c...d", "!!!", "a!b", "`~!@#$%^&*()_+-={}[]|\\:\";'<>?,./", "x" * 99, "x" * 100, "x" * 101,
    "é" * 100, "é" * 101, "e\u0301" * 100, "中" * 120, "Zürich ZÜRICH Zu\u0308rich", "café CAFÉ cafe\u0301 cafe\u0301\u0323 cafe\u0323\u0301", "naïve Ñandú",
    "İstanbul ıI İ i̇", "Straße STRASSE ẞ ß", "ﬁne oﬃce ﬁ", "Ǆ ǅ ǆ", "ΕΛΛΑΣ ΟΔΥΣΣΕΥΣ ας Σ σ ς", "Да, нет Й Ё й ё и\u0306", "中国 日本 豈 豈 \U00020000 \U0002f800 \U0002a6df\U0002a700\U0002b740\U0002b81f\U0002b820\U0002b920\U0002ceaf\U0002ceb0\U00030000",
    "中国人 is 中 国", "〇々〆 かき がが ガ ｶﾞ カ", "한국 한국어 한 \u1112\u1161\u11ab \u1112\u1161\u11ab국 ᄒᆞ", "שלום עולם", "שָׁלוֹם", "سلام عليكم", "مُحَمَّد", "\u202bשלום\u202c \u200fabc\u200e", "abc שלום 123 سلام",
    "क्षि नमस्ते", "ก็ กำ ที่นี่", "👨\u200d👩\u200d👧\u200d👦", "😀👍🏽 ✌️ 🏴\U000e0067\U000e0062\U000e007f", "1️⃣", "\u200b\u200c\u200d\u2060\ufeff", "a\u200bb a\u00adb a\ufeffb", "\ufffd \ufffe \uffff", "a\ufffdb a\uffffb",
    "\ue000 a\ue000b \U000f0000 \U0010ffff a\U0010fffdb", "\u0378 a\u0378b \U0001fbff \U000e0080", "\u0085a\u0085b \u000ba\u000cb", "\u1680 a\u2003b\u2009c\u202fd\u205fe\u3000f", "\u2028a\u2029b", "a\u0301\u0302\u0303\u0304",
    "\u0301", "\u0301a", "a \u0301 b", "\u0344 \u0340 \u0343 \u1f82 \u1fb7 \u0390 \u01d5", "\u212b \u2126 \u212a Å Ω K", "a\u0327\u0301 a\u0301\u0327 a\u0301\x01\u0327", "\u0f71\u0f72\u0f74 \u0f73\u0f75\u0f81", "\u302e\u302f \u3099か\u3099",
    "\U00011938 \U000105c9 \u0344", "\U0001d15e \U0001d160\U0001d165\U0001d16d", "ÀÁÂÃÄÅÆÇÈÉ ĲŁŊØŒ", "ᏸ Ᏸ ꭰ Ꭰ", "Ა ა", "\U00010400\U00010428", "Ⓐⓐ Ⅷ ⅷ ª º ² ½ ℃ ①", "ＡＢＣ１２３！", "…—“”‘’«»¿¡،؛؟。、「」", "© ® ™ ° ± × ÷ ¦ § ¶", "\u0488a\u0489 \u20dd\u20e0 \u309a",
    "word wordy sword word! Word WORD word-word _word word_", "Wört Wörter aWört Wört! wört Wo\u0308rt", "aWört\u0301", "x[NEW]y [NEW] [new]", "a  <l>  b", "a  <r>  b", "a  <lr>  b<lr><l> <r> c", "\u3000<lr>\u2003x",
    "Ünï uni UNI U\u0308ni\u0308 xunix", "abc abcde abcd abcdX abcdeX cdX xabcx", "中文 中 文 x中文y 中文中文", "in New York, NEW  YORK new york newyork", "Hello hello HELLO xhellox", "XY xy  a XY", "é e\u0301 É", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "a<r>  b <r>   c<r>\u3000d", "a  <l>b   <l> \u3000<l>", "XY    a XY  b", "hello   hello  a  hello ", "<l><r><lr>", "  <r>  <r>  ", "  <l>  <l>  ", "word\u200d word\u0301 \u24b6word", "new york" * 3, "\nnew york\n",
]
# The library panics when a token lies well inside the white space that another one took.
SPACES = ["", "a  b", "<r>  b", "a<r>  b", "  <l>b", "a  <l>  <r>  b", "x\u3000y", "<r>\u3000y", "a<r>\u3000 y", "XY  b", "hello   hello  a", " hello  hello ", "a    b"]
PAIRS = [("hello", "world"), ("", ""), ("hello", ""), ("", "world"), ("the card is new", "my account"), ("what is the money in my account", "bank"),
         ("a", "how do i get the money to my new account"), ("[SEP] a", "b [CLS]"), ("a b c d e", "f g h i j"), ("中国", "日本 café")]
LIMITS = [4, 5, 6, 7, 8, 9, 12, 100]


def encode(t, text, pair, max_length):
    direction = t.truncation["direction"] if t.truncation else "right"
    if max_length:
        t.enable_truncation(max_length, direction=direction)
    e = t.encode(text, pair) if pair is not None else t.encode(text)
    if max_length:
        t.no_truncation()
        if direction == "left":
            t.enable_truncation(10**6, direction=direction)
    return e.ids, e.type_ids


def write_cases(path):
    with open(path, "w", encoding="utf-8") as f:
        def case(name, text, pair=None, max_length=0):
            ids, types = encode(TOKENIZERS[name], text, pair, max_length)
            row = [name, max_length, text, pair, ids] + ([types] if any(types) else [])
            f.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).replace("\x7f", "\\u007f") + "\n")

        for name in TOKENIZERS:
            TOKENIZERS[name].no_padding()
            if name == "left":
                TOKENIZERS[name].enable_truncation(10**6, direction="left")
            for text in TEXTS if name != "spaces" else SPACES:
                case(name, text)
            for a, b in PAIRS:
                case(name, a, b)
        for name in ("uncased", "left", "prefix", "template"):
            for a, b in PAIRS:
                for limit in LIMITS:
                    case(name, a, b, limit)
                    case(name, a, None, limit)
                    case(name, b, None, limit)


# ORDER generator: struct generator in tests/tokenizer/tokenizer.c
class Generator:
    """Texts over all planes from a linear congruential generator (Knuth's MMIX)."""

    RANGES = [(0x61, 0x7A), (0x61, 0x7A), (0x20, 0x20), (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x5FF), (0x600, 0x1FFF),
              (0x2000, 0x2FFF), (0x3000, 0x9FFF), (0xA000, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x2FFFF), (0, 0x1F), (0xE0000, 0x10FFFF)]
    WORDS = ["hello", " ", "[SEP]", "<lr>", "word", "new york", "Zürich", "中文", "e\u0301\u0323", "İ", "한", "un", "able", ", ", "ＡＢ", "\u3000"]

    def __init__(self, seed):
        self.state = seed

    def draw(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def text(self):
        out = ""
        for _ in range(self.draw(12)):
            kind = self.draw(32)
            if kind >= 16:
                out += self.WORDS[kind - 16]
                continue
            first, last = self.RANGES[kind]
            for _ in range(1 + self.draw(4)):
                out += chr(first + self.draw(last - first + 1))
        return out


def write_generated(path):
    with open(path, "w") as f:
        for name in TOKENIZERS:
            if name == "spaces":
                continue
            TOKENIZERS[name].no_truncation()
            for block in range(12):
                generator, h = Generator(block), xxhash.xxh3_128()
                for _ in range(1000):
                    ids = TOKENIZERS[name].encode(generator.text()).ids
                    h.update(struct.pack(f"<{len(ids) + 1}i", *ids, -1))
                f.write(f"{name} {block} {h.hexdigest()}\n")


def write_unicode(path):
    normals = {"none": OFF, "clean": dict(OFF, clean_text=True), "han": dict(OFF, handle_chinese_chars=True), "strip": dict(OFF, strip_accents=True),
               "lower": dict(OFF, lowercase=True), "all": dict(clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True)}
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    with open(path, "w") as f:
        for name, options in normals.items():
            normalize = normalizers.BertNormalizer(**options).normalize_str
            for plane in range(17):
                h = xxhash.xxh3_128()
                for c in range(plane << 16, (plane + 1) << 16):
                    if 0xD800 <= c < 0xE000:
                        continue
                    normal = normalize(f"a{chr(c)}\x01\U0001d165{chr(c)}b")  # U+1D165: combining class 216, and no nonspacing mark
                    h.update("\x1f".join([normal] + [w for w, _ in split(normal)]).encode() + b"\n")
                f.write(f"{name} {plane} {h.hexdigest()}\n")


SMALL = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c ##a ##b ##c abc hello ! ; Hello café cafe 中 国".split()
LINES = "".join(token + "\n" for token in SMALL)


def small(**normalizer):
    vocab = {token: i for i, token in enumerate(SMALL)}
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(**normalizer), pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in SPECIAL])
    return t.to_str()


def added(**flags):
    return dict(dict(content="Xyz", lstrip=False, rstrip=False, normalized=False, single_word=False, special=False), **flags)


def write_folders(path):
    from transformers import AutoTokenizer

    text = "hello Hello [MASK] abc café Café 中国 Xyz xyz <x>"
    config = [
        {"do_lower_case": True}, {"do_lower_case": False}, {"do_lower_case": False, "strip_accents": True}, {"strip_accents": False},
        {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False}, {"tokenize_chinese_chars": True, "do_lower_case": True},
        {"do_lower_case": True, "strip_accents": None}, {"do_lower_case": True, "additional_special_tokens": ["<x>"]},
        {"do_lower_case": True, "extra_special_tokens": ["<x>", "Xyz"]}, {"do_lower_case": True, "added_tokens_decoder": {"20": added()}},
        {"do_lower_case": True, "added_tokens_decoder": {"20": {"content": "Xyz"}, "21": {"content": "<x>", "special": True}}},
        {"do_lower_case": True, "added_tokens_decoder": {"21": added(content="<x>", special=True), "20": added(normalized=True)}},
        {"do_lower_case": True, "added_tokens_decoder": {"12": added(content="hello", lstrip=True), "4": added(content="[MASK]", special=True, lstrip=True)}},
        {"do_lower_case": True, "extra_special_tokens": {"image_token": "<x>"}}, {"do_lower_case": True, "truncation_side": "left"},
        {"do_lower_case": True, "mask_token": "hello", "sep_token": ";", "model_max_length": 10**30},
        {"do_lower_case": True, "cls_token": {"__type": "AddedToken", "content": "abc", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}},
    ]
    folders = [{"vocab.txt": v} for v in (LINES, LINES[:-1], LINES.replace("\n", "\r\n"), LINES.replace("abc\n", "abc\n\n", 1), LINES.replace("abc\n", "abc \t\n", 1),
                                          LINES.replace("abc\n", " abc\n", 1), LINES.replace("abc\n", "abc\u3000\u2028\n", 1), LINES.replace("abc\n", "\u2028\n", 1))]
    folders += [{"vocab.txt": LINES, "tokenizer_config.json": json.dumps(c)} for c in config]
    folders += [{"tokenizer.json": small(), "tokenizer_config.json": json.dumps(c)} for c in config if "cls_token" not in c and "sep_token" not in c]
    folders += [{"tokenizer.json": small(lowercase=False), "tokenizer_config.json": json.dumps(c)} for c in config[:3]]
    folders += [{"vocab.txt": LINES, "special_tokens_map.json": json.dumps({"cls_token": "abc", "mask_token": None})},
                {"tokenizer.json": small(lowercase=False), "tokenizer_config.json": json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True})}]
    with open(path, "w", encoding="utf-8") as f:
        for files in folders:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in {**files, "config.json": '{"model_type": "bert"}'}.items():
                    write(f"{folder}/{name}", content)
                max_length = 8 if "truncation_side" in str(files) else 0
                ids = AutoTokenizer.from_pretrained(folder)(text, truncation=max_length > 0, max_length=max_length)["input_ids"]
            f.write(json.dumps({"files": files, "text": text, "max_length": max_length, "ids": ids}, ensure_ascii=False, separators=(",", ":")) + "\n")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(text)


def main():
    for name, t in TOKENIZERS.items():
        write(f"{HERE}/{name}/tokenizer.json", t.to_str() + "\n")
        if name in ("uncased", "cased"):
            write(f"{HERE}/{name}/vocab.txt", "".join(token + "\n" for token in VOCAB))
            config = {"do_lower_case": name == "uncased", "model_max_length": 64, "tokenizer_class": "BertTokenizer"}
            write(f"{HERE}/{name}/tokenizer_config.json", json.dumps(config, indent=2) + "\n")
    write_cases(f"{HERE}/cases.jsonl")
    write_generated(f"{HERE}/generated.txt")
    write_folders(f"{HERE}/folders.jsonl")
    write_unicode(f"{HERE}/unicode.txt")


main()
