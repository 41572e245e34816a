"""Records what scikit-learn says about a made-up evaluation of 150 classes: writes classes.json beside itself. The worst classes are
those with rows or predictions, by F1 and then by number; pairs of classes are by rows, then by actual, then by predicted class.

Needs numpy and scikit-learn; their versions are in the file. Nothing in it comes from snug.
usage: python3 tests/report/classes.py
"""
import json
import os
import warnings

import numpy as np
import sklearn
from sklearn import metrics as sk

warnings.filterwarnings("ignore")
random = np.random.default_rng(150)
CLASSES, ROWS, SHOWN = 150, 900, 20

actual = random.integers(0, CLASSES - 3, ROWS)  # the last three have no rows
guess = np.where(random.random(ROWS) < 0.7, actual, random.integers(0, CLASSES - 1, ROWS))  # nobody predicts the last
for a, p in (7, 8), (8, 7), (90, 3):
    guess[actual == a] = p
precision, recall, f1, support = sk.precision_recall_fscore_support(actual, guess, labels=range(CLASSES))
matrix = sk.confusion_matrix(actual, guess, labels=range(CLASSES))
met = [c for c in range(CLASSES) if matrix[c].sum() + matrix[:, c].sum()]
worst = sorted(met, key=lambda c: (round(f1[c], 9), c))[:SHOWN]
wrong = [(int(matrix[a, p]), a, p) for a in range(CLASSES) for p in range(CLASSES) if a != p and matrix[a, p]]
pairs = sorted(wrong, key=lambda w: (-w[0], w[1], w[2]))[:SHOWN]

record = {"versions": {"numpy": np.__version__, "scikit-learn": sklearn.__version__}, "classes": CLASSES,
          "actual": actual.tolist(), "predicted": guess.tolist(),
          "worst": [[c, precision[c], recall[c], f1[c], int(support[c])] for c in worst],
          "pairs": [[a, p, n, int(matrix[a].sum())] for n, a, p in pairs]}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "classes.json"), "w") as f:
    f.write(json.dumps(record, separators=(",", ":")) + "\n")
