"""Records the rows of the highest loss among those that made-up predictions get wrong, by scikit-learn's losses of single rows: writes
mistakes.json beside itself.

Needs numpy, scipy and scikit-learn; their versions are in the file. Nothing in it comes from snug.
usage: python3 tests/report/mistakes.py
"""
import json
import os

import numpy as np
import scipy
import scipy.special
import sklearn
from sklearn import metrics as sk

random = np.random.default_rng(20)
SHOWN = 20


def case(name, kind, outputs, labels, losses, wrong):
    worst = sorted((r for r in range(len(losses)) if wrong[r]), key=lambda r: (-losses[r], r))[:SHOWN]
    return {"name": name, "kind": kind, "width": outputs.shape[1], "outputs": outputs.tolist(), "labels": labels.tolist(),
            "mistakes": [[r, losses[r]] for r in worst]}


def single_label(name, rows, classes, signal):
    y = random.integers(0, classes, rows)
    z = random.normal(size=(rows, classes)).round(2)
    z[np.arange(rows), y] += signal
    p = scipy.special.softmax(z, axis=1)
    losses = [sk.log_loss([y[r]], [p[r]], labels=range(classes)) for r in range(rows)]
    return case(name, "single_label", z, y, losses, z.argmax(axis=1) != y)


def multi_label(name, rows, labels):
    y = random.integers(0, 2, (rows, labels))
    z = (random.normal(size=(rows, labels)) + 2 * y - 1).round(2)
    p = scipy.special.expit(z)
    losses = [np.mean([sk.log_loss([y[r, c]], [p[r, c]], labels=[0, 1]) for c in range(labels)]) for r in range(rows)]
    return case(name, "multi_label", z, y, losses, ((p > 0.5) != y).any(axis=1))


def regression(name, rows, outputs):
    y = random.normal(size=(rows, outputs)).astype(np.float32).astype(np.float64)
    x = (y + random.normal(size=(rows, outputs))).round(2)
    x[3] = y[3]  # no mistake
    return case(name, "regression", x, y, [sk.mean_squared_error(y[r], x[r]) for r in range(rows)], (x != y).any(axis=1))


cases = [single_label("classes", 70, 4, 0.5), single_label("few_mistakes", 30, 3, 2.5), single_label("two", 40, 2, 0),
         multi_label("labels", 40, 3), regression("number", 30, 1), regression("numbers", 12, 3)]
record = {"versions": {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "scipy": scipy.__version__}, "cases": cases}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mistakes.json"), "w") as f:
    f.write(json.dumps(record, separators=(",", ":")) + "\n")
