"""Records what seqeval says, in its default mode, about tags that are right, wrong and odd: writes entities.json beside itself.

Needs seqeval; nothing in the file comes from snug.
usage: python3 tests/metrics/entities.py
"""
import json, os, random, warnings
from importlib.metadata import version
from seqeval import metrics as M
from seqeval.metrics.sequence_labeling import get_entities

warnings.filterwarnings("ignore")
random.seed(11)
SETS = {
    "bio": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-new-york", "I-new-york"],
    "bioes": ["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B"],
    "inside alone": ["O", "I-X", "I-Y", "I-Z"],
    "no marks": ["NOUN", "VERB", "ADJ", "NUM"],
    "odd": ["O", ".", "B", "I", "B_PER", "I_PER", "BIG-PER", "L-ORG", "U-ORG", "O-PER", "é-PER", "B-PER"],
}


def made(tags, rows, wrong):
    actual = [[random.choice(tags) for _ in range(random.randint(0 if rows > 1 else 1, 12))] for _ in range(rows)]
    return actual, [[t if random.random() > wrong else random.choice(tags) for t in row] for row in actual]


def case(name, tags, actual, predicted):
    kept = [(a, p) for a, p in zip(actual, predicted) if a]
    a, p = [k[0] for k in kept], [k[1] for k in kept]
    expected = {"accuracy": M.accuracy_score(a, p), "precision": M.precision_score(a, p), "recall": M.recall_score(a, p), "f1": M.f1_score(a, p)}
    kinds = {"macro_f1": "macro", "weighted_f1": "weighted"}
    expected.update({k: M.f1_score(a, p, average=v) if get_entities(a) or get_entities(p) else 0.0 for k, v in kinds.items()})
    found = get_entities(p)
    report = M.classification_report(a, p, output_dict=True) if get_entities(a) or found else {}
    types = {t: {"precision": r["precision"], "recall": r["recall"], "f1": r["f1-score"], "support": int(r["support"]),
                 "predicted": sum(e[0] == t for e in found)} for t, r in report.items() if not t.endswith(" avg")}
    return {"name": name, "labels": tags, "actual": actual, "predicted": predicted, "expected": {k: float(v) for k, v in expected.items()},
            "types": {t: {k: float(v) for k, v in n.items()} for t, n in types.items()}}


cases = [case(f"{name}, {rows} rows, {wrong} wrong", tags, *made(tags, rows, wrong))
         for name, tags in SETS.items() for rows in (1, 6, 15) for wrong in (0.0, 0.2, 0.7, 1.0)]
cases.append(case("nothing", ["O", "B-A"], [["O", "O"]], [["O", "O"]]))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "entities.json"), "w") as f:
    f.write('{"seqeval": "%s", "cases": [\n%s\n]}\n' % (version("seqeval"), ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)))
