"""Records what transformers' EarlyStoppingCallback decides on written sequences of metrics: stopping.json. Run with:
python record_stopping.py (versions used are in the file). The best metric is kept by the Trainer's own function.
"""
import json, os, types
import transformers as T

nan, inf = float("nan"), float("inf")
SERIES = {
    "falls": [0.9, 0.8, 0.7, 0.6, 0.5],
    "rises": [0.1, 0.2, 0.3, 0.4, 0.5],
    "turns": [0.9, 0.7, 0.6, 0.65, 0.61, 0.59, 0.7, 0.8, 0.5, 0.9],
    "equal": [0.5, 0.5, 0.5, 0.5],
    "little by little": [1.0, 0.995, 0.99, 0.985, 0.98, 0.9, 0.899, 0.898],
    "nan first": [nan, 0.5, 0.4, nan, nan, 0.3],
    "nan": [0.5, nan, 0.4, nan, nan, nan, 0.1],
    "infinite": [inf, 0.5, -inf, 0.4, -inf, 3.0],
    "negative": [-0.1, -0.3, -0.2, -0.25, -0.4, -0.39, -0.38],
}


def decide(metrics, patience, threshold, greater):
    args = types.SimpleNamespace(metric_for_best_model="eval_x", greater_is_better=greater, save_strategy="steps",
                                 eval_strategy="steps", load_best_model_at_end=True)
    state, control = T.TrainerState(), T.TrainerControl()
    trainer = types.SimpleNamespace(args=args, state=state)
    callback = T.EarlyStoppingCallback(patience, threshold)
    callback.on_train_begin(args, state, control)
    counts, stops = [], []
    for m in metrics:
        callback.on_evaluate(args, state, control, {"eval_x": m})
        T.Trainer._determine_best_metric(trainer, {"eval_x": m}, None)
        counts.append(callback.early_stopping_patience_counter)
        stops.append(bool(control.should_training_stop))
    return dict(patience=patience, threshold=threshold, greater=greater, counts=counts, stops=stops)


cases = []
for name, metrics in SERIES.items():
    for greater in (False, True):
        for patience, threshold in [(1, 0.0), (2, 0.0), (3, 0.0), (1, 0.01), (2, 0.05)]:
            written = [m if abs(m) < inf else repr(m) for m in metrics]
            cases.append(dict(name=name, metrics=written, **decide(metrics, patience, threshold, greater)))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "stopping.json"), "w") as f:
    f.write(json.dumps({"versions": f"transformers {T.__version__}"})[:-1] + ', "cases": [\n')
    f.write(",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
