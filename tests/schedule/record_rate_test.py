"""Records what fastai's learning-rate finder does with written losses: rate_test.json. Run with:
python record_rate_test.py (versions used are in the file). Rates, means and suggestions are by its own functions.
"""
import json, math, os, random, types
import fastai, torch
from fastai.callback.schedule import SchedExp, valley
from fastai.learner import AvgSmoothLoss

STEPS, LOW, HIGH = 100, 1e-8, 1.0
rates = [float(SchedExp(LOW, HIGH)(i / (STEPS - 1))) for i in range(STEPS)]


def run(losses):
    """The means up to the end, in double."""
    smooth, learn, best, means = AvgSmoothLoss(beta=0.98), types.SimpleNamespace(), float("inf"), []
    smooth.val = torch.tensor(0.0, dtype=torch.float64)
    for loss in losses:
        if not math.isfinite(loss):
            break
        learn.loss = torch.tensor(loss, dtype=torch.float64)
        smooth.accumulate(learn)
        mean = float(smooth.value)
        means.append(mean)
        best = min(best, mean)
        if mean > 4 * best:  # as LRFinder.after_batch with stop_div
            break
    return means


def suggest(means):
    lrs, losses = rates[: len(means)], means
    lrs, losses = lrs[STEPS // 10 : -5], losses[STEPS // 10 : -5]  # Learner.lr_find
    if len(losses) < 2 or all(b >= a for i, a in enumerate(losses) for b in losses[i + 1 :]):
        return None
    return valley(lrs, losses, STEPS)[0]


random.seed(7)
noise = [random.gauss(0, 1) for _ in range(STEPS)]
x = [math.log10(r) for r in rates]
rise = lambda a, at: [math.exp(min(a * (v - at), 60)) for v in x]
fall = lambda depth, at: [depth / (1 + math.exp(-3 * (v - at))) for v in x]
cases = {
    "falls and rises": [4.3 - f + r + 0.05 * n for f, r, n in zip(fall(2, -4.5), rise(3, -2), noise)],
    "deep": [7.9 - f + r for f, r in zip(fall(6, -3), rise(4, -0.5))],
    "noise": [1.1 + 0.2 * n for n in noise],
    "falls all along": [5.0 - 0.04 * i for i in range(STEPS)],
    "never falls": [1.0 + 0.01 * i for i in range(STEPS)],
    "diverges": [0.5 - f + r for f, r in zip(fall(0.4, -6), rise(5, -4))],
    "diverges early": [0.1 * 1.9**i for i in range(STEPS)],
    "nan at 60": [2.0 - f for f in fall(1, -5)][:60] + [float("nan")],
    "nan at once": [float("nan")],
    "short": [3.0, 2.0, 1.0] * 5 + [float("inf")],
}
out = dict(versions=f"fastai {fastai.__version__}, torch {torch.__version__}", rates=rates, cases=[])
for name, losses in cases.items():
    means = run(losses)
    out["cases"].append(dict(name=name, loss=[v if math.isfinite(v) else str(v) for v in losses], smoothed=means,
                             suggestion=suggest(means)))
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rate_test.json")
with open(path, "w") as f:
    f.write("{\n" + ",\n".join(f'"{k}": ' + ("[\n" + ",\n".join(map(json.dumps, v)) + "\n]" if k == "cases" else json.dumps(v))
                               for k, v in out.items()) + "\n}\n")
