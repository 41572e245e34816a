"""Runs `snug train` once and prints one JSON line with the figures of the peers' scripts, under the same names.

    accuracy            of each evaluation
    train_s             seconds of training without the evaluations
    samples_per_s       with --rows: rows times epochs per second of train_s
    eval_samples_per_s  with --eval-rows: rows per second of the evaluations
    first_step_s        from the start of the program to the end of the first optimizer step
    step_samples_per_s, best_samples_per_s
                        with --batch: from the median and the fastest optimizer step, the first left out

train_s is what the command prints at its end, the rest comes from OUTPUT/log.jsonl; the times of the steps are those at
which their lines appear there, so they need --logging-steps 1 and steps of some milliseconds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--command", default="build/snug")
parser.add_argument("--rows", type=int)
parser.add_argument("--epochs", type=float, default=1)
parser.add_argument("--eval-rows", type=int)
parser.add_argument("--batch", type=int)
parser.add_argument("options", nargs=argparse.REMAINDER, help="after --: what `snug train` gets, but --output-dir")
args = parser.parse_args()
options = args.options[1:] if args.options[:1] == ["--"] else args.options

rows, step_ends = [], []
with tempfile.TemporaryDirectory() as output_dir:
    log_path = os.path.join(output_dir, "log.jsonl")
    start = time.perf_counter()
    shown = tempfile.TemporaryFile("w+")
    process = subprocess.Popen([args.command, "train", "--json", *options, "--output-dir", output_dir], stdout=shown)
    ended, pending = False, ""
    log = None
    while True:
        ended = ended or process.poll() is not None
        if log is None and os.path.exists(log_path):
            log = open(log_path, encoding="utf-8")
        pending += log.read() if log else ""
        *lines, pending = pending.split("\n")
        now = time.perf_counter() - start
        for row in map(json.loads, lines):
            rows.append(row)
            if "loss" in row:
                step_ends.append(now)
        if ended and not lines:
            break
        time.sleep(0.002)
    if process.returncode:
        sys.exit(process.returncode)
if not rows:
    sys.exit("snug_run.py: the run wrote no log.jsonl")

evaluations = [row for row in rows if "eval_runtime" in row]
eval_s = sum(row["eval_runtime"] for row in evaluations)
shown.seek(0)
train_s = json.loads(shown.read().splitlines()[-1])["train_runtime"]
result = {"train_s": round(train_s, 1)}
if any("eval_accuracy" in row for row in evaluations):
    result["accuracy"] = [round(row["eval_accuracy"], 4) for row in evaluations]
if args.rows:
    result["samples_per_s"] = round(args.rows * args.epochs / train_s, 1)
if args.eval_rows and eval_s:
    result["eval_samples_per_s"] = round(args.eval_rows * len(evaluations) / eval_s, 1)
if step_ends:
    result["first_step_s"] = round(step_ends[0], 1)
steps = [b - a for a, b in zip(step_ends, step_ends[1:])]
if args.batch and steps:
    result["step_samples_per_s"] = round(args.batch / statistics.median(steps), 3)
    result["best_samples_per_s"] = round(args.batch / min(steps), 3)
print(json.dumps(result))
