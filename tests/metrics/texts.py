"""Records what rouge_score and sacrebleu say about texts beside the expected ones: writes texts.json beside itself.

Needs rouge_score and sacrebleu; nothing in the file comes from snug.
usage: python3 tests/metrics/texts.py
"""
import json, os, random
from importlib.metadata import version
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import CHRF

random.seed(23)
SCORER, WORDS = RougeScorer(["rougeL"], use_stemmer=False), "the cat sat on a mat and saw 2 dogs, 10 birds; no fish".split()


def case(name, *pairs):
    texts, expected = [list(x) for x in zip(*pairs)]
    return {"name": name, "pairs": [[a, b] for a, b in pairs], "expected": {
        "exact_match": 100 * sum(a == b for a, b in pairs) / len(pairs),
        "rougeL": 100 * sum(SCORER.score(b, a)["rougeL"].fmeasure for a, b in pairs) / len(pairs),
        "chrf": CHRF(char_order=6, word_order=0, beta=2).corpus_score(texts, [expected]).score}}


def words(n):
    return " ".join(random.choice(WORDS) for _ in range(n))


CASES = [
    case("the same", ("a small cat", "a small cat")),
    case("nothing alike", ("xyz", "a small cat")),
    case("both empty", ("", "")),
    case("no text", ("", "a small cat")),
    case("nothing expected", ("a small cat", "")),
    case("nothing expected, and a row", ("a small cat", ""), ("a dog", "a dog ran")),
    case("blanks only", (" \t\n", "cat"), ("cat", "  "), (" ", " ")),
    case("upper case", ("A Small CAT", "a small cat")),
    case("punctuation", ("well, it's (a) cat!", "well it s a cat"), ("...", "..."), ("can't", "cant")),
    case("digits", ("in 1999 or 2,000", "in 1999, 2000"), ("v2x3", "v2 x3")),
    case("repeats", ("the the the the", "the cat the"), ("aaaaaaaaaa", "aaa"), ("ababababab", "bababa")),
    case("order", ("cat small a", "a small cat"), ("d c b a", "a b c d")),
    case("short", ("a", "a"), ("ab", "abc"), ("abcde", "abcdef")),
    case("seven characters", ("abcdefg", "abcdefg"), ("abcdefg", "gabcdef")),
    case("accents", ("café déjà vu", "cafe deja vu"), ("naïve", "naïve")),
    case("letters that become ASCII", ("İstanbul 5 \u212A", "i stanbul 5 k"), ("\u212Aelvin", "kelvin"), ("\u017Fo", "so")),
    case("other scripts", ("Привет мир", "Привет, мир"), ("東京タワー", "東京の塔"), ("مرحبا", "مرحبا بك")),
    case("beyond the first plane", ("😀😁 ok 𝒳𝒴", "😀 ok 😁𝒳"), ("\U0010FFFFa", "\U0010FFFF b")),
    case("odd white space", ("a\u00a0b\u2003c\u3000d", "a b c d"), ("a\x1cb\u0085c", "abc"), ("a\u200bb", "ab")),
    case("a nul", ("a\x00b c", "a b c"), ("\x00", "\x00")),
    case("composed or not", ("e\u0301te\u0301", "\u00e9t\u00e9")),
    *[case(f"{n} rows", *[(words(random.randint(0, 30)), words(random.randint(1, 30))) for _ in range(n)]) for n in (1, 4, 40)],
    case("long", (words(600), words(500))),
]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "texts.json"), "w") as f:
    f.write('{"rouge_score": "%s", "sacrebleu": "%s", "cases": [\n%s\n]}\n' % (
        version("rouge_score"), version("sacrebleu"), ",\n".join(json.dumps(c, ensure_ascii=False) for c in CASES)))
