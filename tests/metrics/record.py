"""Records what scikit-learn and scipy say about small made-up evaluations: writes recorded.json beside itself.

Needs numpy, scikit-learn and scipy; their versions are in the file. Nothing in it comes from snug.
usage: python3 tests/metrics/record.py
"""
import json
import math
import os
import warnings

import numpy as np
import scipy
import scipy.special
import scipy.stats
import sklearn
from sklearn import metrics as sk

warnings.filterwarnings("ignore")
random = np.random.default_rng(7)


def number(x):
    """NaN as null."""
    return None if math.isnan(x) else float(x)


def mean_of_defined(values):
    """ROC-AUC is averaged over the classes that have rows, and others."""
    defined = [v for v in values if not math.isnan(v)]
    return float(np.mean(defined)) if defined else math.nan


def auc(truth, scores):
    return sk.roc_auc_score(truth, scores) if 0 < sum(truth) < len(truth) else math.nan


def single_label(name, logits, labels, smoothing=0.0):
    logits = np.asarray(logits, np.float64)
    rows, classes = logits.shape
    y = np.asarray(labels)
    p = scipy.special.softmax(logits, axis=1)
    guess = logits.argmax(axis=1)
    log_p = scipy.special.log_softmax(logits, axis=1)
    loss = -(1 - smoothing) * log_p[np.arange(rows), y] - smoothing * log_p.mean(axis=1)
    # In the order of the probabilities, and different where those are rounded to 1.
    scores = logits - logits[:, ::-1] if classes == 2 else log_p
    scores = scores.astype(np.float32)  # so that scores which are equal but for rounding are equal
    aucs = [auc((y == c).astype(int), scores[:, c]) for c in range(classes)]
    expected = {"loss": loss.mean(), "accuracy": sk.accuracy_score(y, guess), "roc_auc": mean_of_defined(aucs),
                "matthews_correlation": sk.matthews_corrcoef(y, guess), "micro_f1": sk.f1_score(y, guess, average="micro")}
    for average in "macro", "weighted":
        for score in "precision", "recall", "f1":
            expected[f"{average}_{score}"] = getattr(sk, f"{score}_score")(y, guess, average=average)
    if classes == 2:
        for score in "precision", "recall", "f1":
            expected[score] = getattr(sk, f"{score}_score")(y, guess)
        if 0 < y.sum() < rows and p.max() < 1:
            assert math.isclose(expected["roc_auc"], sk.roc_auc_score(y, p[:, 1]), rel_tol=1e-12)
    elif len(set(y)) == classes:
        assert math.isclose(expected["roc_auc"], sk.roc_auc_score(y, p, multi_class="ovr"), rel_tol=1e-3)
    by = sk.precision_recall_fscore_support(y, guess, labels=range(classes))
    of_labels = [{"precision": by[0][c], "recall": by[1][c], "f1": by[2][c], "support": int(by[3][c]),
                  "predicted": int((guess == c).sum()), "roc_auc": number(aucs[c])} for c in range(classes)]
    return {"name": name, "kind": "single_label", "width": classes, "smoothing": smoothing, "threshold": 0.5,
            "outputs": logits.tolist(), "labels": y.tolist(),
            "expected": {k: number(v) for k, v in expected.items()}, "by_label": of_labels,
            "confusion_matrix": sk.confusion_matrix(y, guess, labels=range(classes)).tolist()}


def multi_label(name, logits, labels, threshold=0.5):
    logits, y = np.asarray(logits, np.float64), np.asarray(labels)
    p = scipy.special.expit(logits)
    guess = (p > threshold).astype(int)
    aucs = [auc(y[:, c], p[:, c]) for c in range(y.shape[1])]
    loss = np.maximum(logits, 0) - logits * y + np.log1p(np.exp(-np.abs(logits)))
    expected = {"loss": loss.mean(), "accuracy": sk.accuracy_score(y, guess), "roc_auc": mean_of_defined(aucs),
                "hamming_loss": sk.hamming_loss(y, guess)}
    for average in "macro", "micro":
        for score in "precision", "recall", "f1":
            expected[f"{average}_{score}"] = getattr(sk, f"{score}_score")(y, guess, average=average)
    for average in "weighted", "samples":
        expected[f"{average}_f1"] = sk.f1_score(y, guess, average=average)
    by = sk.precision_recall_fscore_support(y, guess)
    of_labels = [{"precision": by[0][c], "recall": by[1][c], "f1": by[2][c], "support": int(by[3][c]),
                  "predicted": int(guess[:, c].sum()), "roc_auc": number(aucs[c]),
                  "accuracy": sk.accuracy_score(y[:, c], guess[:, c])} for c in range(y.shape[1])]
    return {"name": name, "kind": "multi_label", "width": y.shape[1], "smoothing": 0.0, "threshold": threshold,
            "outputs": logits.tolist(), "labels": y.tolist(),
            "expected": {k: number(v) for k, v in expected.items()}, "by_label": of_labels}


def output(x, y):
    """Of one output. Correlations of a single row or of constant numbers are not defined."""
    defined = len(x) > 1 and len(set(x)) > 1 and len(set(y)) > 1
    return {"mse": sk.mean_squared_error(y, x), "mae": sk.mean_absolute_error(y, x),
            "r2": number(sk.r2_score(y, x)),
            "pearson": number(scipy.stats.pearsonr(x, y)[0]) if defined else None,
            "spearman": number(scipy.stats.spearmanr(x, y)[0]) if defined else None}


def regression(name, predicted, labels):
    x = np.asarray(predicted, np.float64)
    y = np.asarray(labels, np.float32).astype(np.float64)  # labels are kept as float32
    of_outputs = [output(x[:, c], y[:, c]) for c in range(x.shape[1])]
    expected = {"mse": sk.mean_squared_error(y, x), "mae": sk.mean_absolute_error(y, x), "r2": sk.r2_score(y, x),
                "rmse": sk.root_mean_squared_error(y, x), "loss": sk.mean_squared_error(y, x)}
    for score in "pearson", "spearman":
        values = [o[score] for o in of_outputs]
        expected[score] = math.nan if None in values else np.mean(values)
    return {"name": name, "kind": "regression", "width": x.shape[1], "smoothing": 0.0, "threshold": 0.5,
            "outputs": x.tolist(), "labels": y.tolist(),
            "expected": {k: number(v) for k, v in expected.items()}, "by_label": of_outputs}


def logits(rows, classes, labels=None, signal=1.0, digits=2):
    z = random.normal(size=(rows, classes))
    if labels is not None:
        z[np.arange(rows), labels] += signal
    return z.round(digits)


def cases():
    y = random.integers(0, 2, 40)
    yield single_label("binary", logits(40, 2, y), y)
    yield single_label("binary_tied_scores", logits(40, 2, y, digits=0), y)
    yield single_label("binary_constant_scores", np.tile([0.5, -0.25], (9, 1)), [0, 1, 1, 0, 1, 0, 0, 0, 1])
    yield single_label("binary_one_class", logits(6, 2), [1] * 6)
    yield single_label("binary_never_predicted", np.column_stack([np.arange(6) + 1.0, -np.arange(6)]), [0, 1, 0, 1, 1, 0])
    yield single_label("binary_saturated", [[0, 60], [0, 50], [0, 70], [80, 0], [0, 40], [90, 0]], [1, 0, 1, 0, 1, 1])
    y = random.integers(0, 5, 60)
    yield single_label("five_classes", logits(60, 5, y), y)
    yield single_label("smoothed", logits(60, 5, y), y, smoothing=0.1)
    yield single_label("ties_in_argmax", logits(60, 5, y, digits=0), y)
    # Class 1 has no rows, class 4 no predictions, class 5 neither.
    y = random.choice([0, 2, 3, 4], 30)
    z = logits(30, 6, y)
    z[:, 4] -= 9
    z[:, 5] -= 9
    yield single_label("missing_classes", z, y)
    yield single_label("all_right", np.eye(4)[[0, 1, 2, 3, 2]], [0, 1, 2, 3, 2])
    yield single_label("one_row", [[0.5, 1.5, -1]], [1])
    yield single_label("one_row_wrong", [[0.5, 1.5, -1]], [2])

    y = (random.random((50, 4)) < [0.5, 0.3, 0.1, 0.7]).astype(int)
    z = (random.normal(size=(50, 4)) + 2 * y - 1).round(2)
    yield multi_label("labels", z, y)
    yield multi_label("labels_threshold", z, y, threshold=0.3)
    yield multi_label("labels_high_threshold", z, y, threshold=0.9)
    y[:, 1], y[:, 2] = 0, 1
    z[:, 3] = -5
    yield multi_label("labels_without_rows_or_predictions", z, y)
    yield multi_label("labels_nothing", -np.ones((3, 2)), np.zeros((3, 2), int))
    yield multi_label("labels_one_row", [[1.0, -1.0, 2.0]], [[1, 1, 0]])

    y = (random.random(40) * 5).round(1)
    yield regression("numbers", (y[:, None] * 0.7 + random.normal(size=(40, 1))).round(2), y[:, None])
    yield regression("numbers_tied", (y[:, None] + random.normal(size=(40, 1))).round(0), y[:, None].round(0))
    yield regression("far_from_zero", (y[:, None] + 1e6 + random.normal(size=(40, 1))).round(2), y[:, None] + 1e6)
    yield regression("constant_labels", random.normal(size=(7, 1)).round(2), np.full((7, 1), 0.5))
    yield regression("constant_labels_hit", np.full((5, 1), 0.5), np.full((5, 1), 0.5))
    yield regression("constant_predictions", np.full((8, 1), 0.1), random.normal(size=(8, 1)).round(1))
    yield regression("numbers_one_row", [[1.5]], [[2.0]])
    yield regression("numbers_two_rows", [[1.5], [1.0]], [[2.0], [3.0]])
    yield regression("three_outputs", random.normal(size=(20, 3)).round(2), random.normal(size=(20, 3)).round(1))


recorded = [json.dumps(c, separators=(",", ":")) for c in cases()]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.json"), "w") as f:
    versions = {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "scipy": scipy.__version__}
    f.write('{"versions": ' + json.dumps(versions) + ', "cases": [\n')
    f.write(",\n".join(recorded) + "\n]}\n")
