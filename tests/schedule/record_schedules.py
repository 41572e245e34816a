"""Records the learning rates that transformers' get_scheduler gives: schedules.json. Run with: python record_schedules.py
(versions used are in the file). Every update of a run, for schedules that go by steps; after every evaluation, for those that go
by a metric.
"""
import json, os, warnings
import torch, transformers as T
from transformers.optimization import get_scheduler

warnings.simplefilter("ignore")


def by_steps(name, total, warmup, lr, kwargs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    s = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total, scheduler_specific_kwargs=kwargs or None)
    rates = []
    for t in range(total):
        rates.append(s.get_last_lr()[0])
        optimizer.step()
        if t < total - 1:  # behind the last one polynomial divides by 0 where warm-up is all there is
            s.step()
    return dict(type=name, kwargs=kwargs, learning_rate=lr, warmup=warmup, total=total, rates=rates)


def by_metric(name, metrics, lr, kwargs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    s = get_scheduler(name, optimizer, scheduler_specific_kwargs=kwargs)
    rates = []
    for m in metrics:
        s.step(m)
        rates.append(optimizer.param_groups[0]["lr"])
    return dict(type=name, kwargs=kwargs, learning_rate=lr, metrics=metrics, rates=rates)


steps = []
for name, all_kwargs in {
    "linear": [{}],
    "cosine": [{}, {"num_cycles": 1.5}],
    "cosine_with_restarts": [{}, {"num_cycles": 3}],
    "polynomial": [{}, {"power": 2.5, "lr_end": 1e-5}],
    "constant": [{}],
    "constant_with_warmup": [{}],
    "inverse_sqrt": [{}, {"timescale": 5}],
    "cosine_with_min_lr": [{"min_lr_rate": 0.1}, {"min_lr": 2e-5, "num_cycles": 0.75}],
    "cosine_warmup_with_min_lr": [{"min_lr_rate": 0.1}, {"min_lr": 1e-5, "warmup_lr_rate": 0.2, "num_cycles": 0.4}],
    "warmup_stable_decay": [{"num_decay_steps": 6}, {"num_decay_steps": 5, "num_stable_steps": 3, "min_lr_ratio": 0.2},
                            {"num_decay_steps": 7, "warmup_type": "cosine", "decay_type": "linear"},
                            {"num_decay_steps": 30, "warmup_type": "1-sqrt", "decay_type": "1-sqrt", "min_lr_ratio": 0.1},
                            {"num_decay_steps": 0}, {"num_decay_steps": 6, "num_cycles": 1.25}],
}.items():
    for kwargs in all_kwargs:
        for total, warmup in [(20, 0), (23, 5), (9, 1), (4, 4)]:
            if name == "constant" and warmup:
                continue
            steps.append(by_steps(name, total, warmup, 3e-4, kwargs))

falling = [2.0 / (1 + 0.3 * i) for i in range(8)]
stuck = [0.5 + 0.01 * (-1) ** i for i in range(12)]
jumpy = [1.0, 0.8, 0.81, 0.79, 0.79, 0.790001, 0.7899, 0.6, 0.9, 0.5, 0.50004, 0.49996, 0.4, 0.41, 0.42, 0.43, 0.44, 0.45]
metrics = []
for series in [falling + stuck, jumpy, [-m for m in jumpy], stuck * 3]:
    for kwargs in [dict(patience=0), dict(patience=2, factor=0.5, cooldown=2), dict(patience=1, mode="max", threshold=1e-2),
                   dict(patience=0, threshold_mode="abs", threshold=1e-3, min_lr=1e-5), dict(patience=0, factor=0.9, eps=2e-5), {}]:
        metrics.append(by_metric("reduce_lr_on_plateau", series, 3e-4, kwargs))
    for kwargs in [{}, dict(patience=0, min_lr=1e-5, max_lr=1e-3), dict(patience=1, min_lr=1e-4, factor=0.5, reset_start=2, mode="max"),
                   dict(patience=0, min_lr=1e-6, factor=0.7, cooldown=1, warmup=2, threshold_mode="rel", threshold=1e-3),
                   dict(patience=0, min_lr=2e-4, factor=0.6, reset_start=1, eps=1e-5)]:
        metrics.append(by_metric("greedy", series, 3e-4, kwargs))

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schedules.json"), "w") as f:
    f.write(json.dumps({"versions": f"torch {torch.__version__}, transformers {T.__version__}"})[:-1] + ', "cases": [\n')
    f.write(",\n".join(json.dumps(c) for c in steps + metrics) + "\n]}\n")
