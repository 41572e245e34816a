"""Records windows, labels, answers and scores of extractive question answering: writes expected.json beside itself, for the rows of
questions.jsonl. Windows are those of the tokenizers library (truncation of the second text with a stride). Labels, the choice of answers
and their scores restate run_qa.py, utils_qa.py and SQuAD's evaluate-v2.0.py; the logits are random. What differs from run_qa.py:
an answer that begins in the last token of a window keeps its place there; a token has the same place in each window, where the library
counts the blank before the first one of a later window to it; and types are those of the first window, which RoBERTa's are not there; where a question has no candidate its answer is "".

usage: python3 tests/data/questions/record.py
"""
import collections, json, math, os, random, re, string
from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
random.seed(4)


Window = collections.namedtuple("Window", "ids type_ids sequence_ids offsets")


def windows(t, row, most, stride):
    t.enable_truncation(most, stride=stride, strategy="only_second")
    first = t.encode(row["question"].lstrip(), row["context"])
    t.no_truncation()
    places, at, all = t.encode(row["context"], add_special_tokens=False).offsets, 0, []
    for w in [first] + first.overflowing:
        tokens = [i for i, s in enumerate(w.sequence_ids) if s == 1]
        offsets = [(0, 0)] * len(w.ids)
        for k, i in enumerate(tokens):
            offsets[i] = places[at + k]
        at += len(tokens) - stride
        all.append(Window(w.ids, w.type_ids if any(first.type_ids) else [0] * len(w.ids), w.sequence_ids, offsets))
    return all


def label(w, answers):
    if not answers["text"]:
        return 0, 0
    start, end = answers["answer_start"][0], answers["answer_start"][0] + len(answers["text"][0])
    tokens = [i for i, s in enumerate(w.sequence_ids) if s == 1]
    if not tokens or w.offsets[tokens[0]][0] > start or w.offsets[tokens[-1]][1] < end:
        return 0, 0
    return max(i for i in tokens if w.offsets[i][0] <= start), min(i for i in tokens if w.offsets[i][1] >= end)


def find(row, ws, logits, longest, negative, threshold, most=20):
    found, null = [], None
    for w, (s, e) in zip(ws, logits):
        null = s[0] + e[0] if null is None else min(null, s[0] + e[0])
        largest = lambda z: sorted(range(len(z)), key=lambda i: -z[i])[:most]
        for a in largest(s):
            for b in largest(e):
                if w.sequence_ids[a] == 1 == w.sequence_ids[b] and a <= b <= a + longest - 1:
                    found.append((s[a] + e[b], row["context"][w.offsets[a][0]:w.offsets[b][1]]))
    if negative:
        found.append((null, None))
    found = sorted(found, key=lambda f: -f[0])[:most]
    if negative and all(text is not None for _, text in found):
        found.append((null, None))
    found = [(score, text or "") for score, text in found] or [(0, "")]
    total = sum(math.exp(score - found[0][0]) for score, _ in found)
    best = 0
    if negative:
        best = next((i for i, f in enumerate(found) if f[1]), None)
        if best is None or null - found[best][0] > threshold:
            best = next(i for i, f in enumerate(found) if not f[1])
    found.insert(0, found.pop(best))
    return [[text, round(math.exp(score - max(f[0] for f in found)) / total, 9)] for score, text in found]


def normalize(s):
    s = "".join(c for c in s.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())


def score(answer, right):
    right = [a for a in right if normalize(a)] or [""]

    def f1(a, b):
        a, b = normalize(a).split(), normalize(b).split()
        if not a or not b:
            return int(a == b)
        same = sum((collections.Counter(a) & collections.Counter(b)).values())
        return 2 * same / (len(a) + len(b))
    return max(int(normalize(answer) == normalize(r)) for r in right), max(f1(answer, r) for r in right)


expected = []
rows = [json.loads(line) for line in open(here + "/questions.jsonl")]
for folder, most, stride in (("uncased", 40, 8), ("families/roberta_prefix_space", 64, 20), ("families/xlm_roberta", 48, 0)):
    j = json.load(open(f"{here}/../../tokenizer/recorded/{folder}/tokenizer.json"))
    j["truncation"] = j["padding"] = None
    t = Tokenizer.from_str(json.dumps(j))
    case = {"folder": folder, "max_length": most, "doc_stride": stride, "questions": []}
    for row in rows:
        ws = windows(t, row, most, stride)
        logits = [[[round(random.gauss(0, 2), 3) for _ in w.ids] for _ in range(2)] for w in ws]
        case["questions"].append({
            "windows": [{"ids": w.ids, "types": w.type_ids, "label": label(w, row["answers"]), "start": s, "end": e}
                        for w, (s, e) in zip(ws, logits)],
            "answers": find(row, ws, logits, 6, False, 0), "or_none": find(row, ws, logits, 6, True, 1.5)})
    expected.append(case)
right = ["the Eiffel Tower", "An A-Team, a plan", "", "İstanbul’s  B", "42 %", "a", "x the y", "_the_", "a–b", "Ça va", "naïve the", "don't"]
scores = [[a, r, *score(a, r)] for a in right for r in ([], ["the"], ["eiffel tower!"], ["plan", "a team plan"], ["İSTANBUL’S b"], ["42"], ["x y"],
                                                     ["b"], ["ça  VA ça"], ["dont", "naïve"])]
with open(here + "/expected.json", "w") as f:
    json.dump({"cases": expected, "scores": scores}, f, ensure_ascii=False, separators=(",", ":"))
    f.write("\n")
