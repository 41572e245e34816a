#!/usr/bin/env python3
"""Runs ONNX models of `snug export --onnx` with ONNX Runtime, and compares them with what transformers computed (tests/golden/make.py).

usage: check.py SNUG [NAME ...]      needs numpy, onnx, onnxruntime and safetensors; NAME: folders of tests/golden, or all encoders

Each model is checked by onnx.checker, and run as it is and without ONNX Runtime's optimizations; then with a batch that is padded by up to
ten more columns, and row by row without padding. Prints the largest difference of a logit of each. Fails where one is above 1e-4.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from safetensors.numpy import load_file

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "..", "golden")
FAMILIES = "albert bert camembert deberta distilbert electra modernbert mpnet roberta xlm_roberta".split()
BOUND = 1e-4


def session(path, optimized=True):
    o = onnxruntime.SessionOptions()
    o.log_severity_level = 3
    if not optimized:
        o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def logits(s, feed):
    names = [i.name for i in s.get_inputs()]
    out = s.run(None, {n: feed[n] for n in names})
    return numpy.stack(out, -1) if len(out) == 2 else out[0]


def difference(got, want, mask):
    assert got.dtype == numpy.float32
    if want.ndim == 3:  # what stands at padding means nothing
        got, want = got[:, :want.shape[1]][mask == 1], want[mask == 1]
    assert got.shape == want.shape, (got.shape, want.shape)
    return float(abs(got - want).max())


def check(snug, name, folder):
    model = os.path.join(GOLDEN, name)
    out = os.path.join(folder, name)
    subprocess.run([snug, "export", model, "--onnx", "--output-dir", out], check=True, stdout=subprocess.DEVNULL)
    path = os.path.join(out, "model.onnx")
    onnx.checker.check_model(path, full_check=True)
    feed = load_file(os.path.join(model, "inputs.safetensors"))
    want = load_file(os.path.join(model, "expected.safetensors"))["logits"].astype(numpy.float32)
    mask = feed["attention_mask"]
    s = session(path)
    worst = [difference(logits(s, feed), want, mask), difference(logits(session(path, False), feed), want, mask)]
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    more = min(10, config["max_position_embeddings"] - mask.shape[1])
    pad = {"input_ids": config.get("pad_token_id") or 0}
    wider = {k: numpy.pad(v, ((0, 0), (0, more)), constant_values=pad.get(k, 0)) for k, v in feed.items() if v.shape == mask.shape}
    worst.append(difference(logits(s, wider), want, mask))
    for b in range(len(mask)):
        n = mask[b].sum()
        row = {k: v[b:b + 1, :n] for k, v in feed.items() if v.shape == mask.shape}
        expected = want[b:b + 1, :n] if want.ndim == 3 else want[b:b + 1]
        worst.append(difference(logits(s, row), expected, mask[b:b + 1, :n]))
    return [i.name for i in s.get_inputs()], [o.name for o in s.get_outputs()], max(worst)


def main():
    names = sys.argv[2:] or sorted(n for n in os.listdir(GOLDEN)
                                   if os.path.isfile(os.path.join(GOLDEN, n, "inputs.safetensors")) and
                                   any(n == f or n.startswith(f + "_") for f in FAMILIES))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            inputs, outputs, worst = check(sys.argv[1], name, folder)
            print(f"{name:24s} {worst:.1e}  {', '.join(inputs)} -> {', '.join(outputs)}")
            failed += not worst <= BOUND
    print(f"{len(names)} models, {failed} differ by more than {BOUND:g}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
