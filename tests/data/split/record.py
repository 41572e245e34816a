"""Rows of each class that scikit-learn holds out: python3 record.py > cases.json (made with scikit-learn 1.9.1).

One case: [share, [rows of each class], [rows of each that are held out]]. Where two classes have equal claims to a row
scikit-learn draws lots, or rounding decides: such cases are left out.
"""
import json, math, random

import numpy
from sklearn.model_selection import StratifiedShuffleSplit

rng = random.Random(1)
cases = []
while len(cases) < 60:
    counts = [rng.randrange(2, rng.choice([6, 40, 300])) for _ in range(rng.randrange(2, 12))]
    share = rng.choice([0.05, 0.1, 0.15, 0.2, 0.25, 1 / 3, 0.5, 0.7])
    y = numpy.repeat(range(len(counts)), counts)
    try:
        found = {tuple(numpy.bincount(y[next(StratifiedShuffleSplit(1, test_size=share, random_state=seed).split(y, y))[1]],
                                      minlength=len(counts)).tolist()) for seed in range(20)}
    except ValueError:  # fewer rows than classes
        continue
    held_out, total = next(iter(found)), sum(counts)
    want = math.ceil(share * total)
    rest, claims = want - sum(want * n // total for n in counts), sorted((want * n % total for n in counts), reverse=True)
    if rest and claims[rest - 1] == claims[rest]:
        continue
    if len(found) == 1 and all(h < n for h, n in zip(held_out, counts)):
        cases.append([share, counts, list(held_out)])
print("[" + ",\n".join(json.dumps(c) for c in cases) + "]")
