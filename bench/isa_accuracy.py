#!/usr/bin/env python3
"""Fine-tunes a model with the kernels of each instruction set that this processor has, with several seeds, and compares.

Prints the accuracy of each run, in percent, and the mean of each instruction set; ends with status 1 where two means are
further apart than --within points. What is not an option here goes to `snug train` after --.

    bench/isa_accuracy.py --model $(scripts/demo-model) --train train.csv --test test.csv -- --num-train-epochs 3 --dtype bf16
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--command", default="build/snug")
parser.add_argument("--model", required=True)
parser.add_argument("--train", required=True)
parser.add_argument("--test", required=True)
parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
parser.add_argument("--isas", nargs="+", help="names as SNUG_CPU_ISA takes them; all but generic if not given")
parser.add_argument("--within", type=float, default=0.5, help="points between the means (default 0.5)")
parser.add_argument("options", nargs=argparse.REMAINDER)
args = parser.parse_args()
options = args.options[1:] if args.options[:1] == ["--"] else args.options


def usable():
    """The names that the command lists when it is asked for one that is not there."""
    refused = subprocess.run([args.command, "info"], env=os.environ | {"SNUG_CPU_ISA": "?"}, stderr=subprocess.PIPE, text=True)
    names = re.search(r"kernels for (.*)", refused.stderr)
    return [name for name in names[1].split(", ") if name != "generic"] if names else sys.exit(refused.stderr)


def accuracy(isa, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [args.command, "train", "--model", args.model, "--train-data", args.train, "--eval-data", args.test,
                   "--device", "cpu", "--learning-rate", "2e-4", "--warmup-steps", "0.1", "--batch-size", "32",
                   "--max-length", "128", "--eval-strategy", "epoch", "--save-strategy", "no", "--seed", str(seed),
                   "--output-dir", folder, *options]
        subprocess.run(command, env=os.environ | {"SNUG_CPU_ISA": isa}, stdout=subprocess.DEVNULL, check=True)
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as log:
            return 100 * [row["eval_accuracy"] for row in map(json.loads, log) if "eval_accuracy" in row][-1]


means = {}
for isa in args.isas or usable():
    runs = []
    for seed in args.seeds:
        runs.append(accuracy(isa, seed))
        print(f"{isa:12} seed {seed}  {runs[-1]:6.2f}", flush=True)
    means[isa] = statistics.mean(runs)
    print(f"{isa:12} mean    {means[isa]:6.2f}", flush=True)
apart = max(means.values()) - min(means.values())
print(f"means are {apart:.2f} points apart, {args.within} allowed")
sys.exit(apart > args.within)
