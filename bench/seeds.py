#!/usr/bin/env python3
"""Fine-tunes a model in several ways, each with several seeds, and compares what the held-out rows say at the end.

A way is a name and options of `snug train`: --way "NAME: OPTIONS". With --isas the ways are the instruction sets of this processor
instead. Prints the figure of each run, and the mean and the standard deviation of each way; ends with status 1 where two means are
further apart than --within. What is not an option here goes to `snug train` after --, for all ways.

    bench/seeds.py --model $(scripts/demo-model) --train train.csv --test test.csv --isas -- --device cpu --dtype bf16
    bench/seeds.py --model DIR --train train.jsonl --test test.jsonl --metric loss --seeds 1 2 3 4 5 --within 0.02
        --way "bf16: --dtype bf16" --way "pure bf16: --pure-bf16" -- --assistant-only-loss --max-steps 200
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
ways = parser.add_mutually_exclusive_group(required=True)
ways.add_argument("--way", action="append", default=[], help='"NAME: OPTIONS"; several times')
ways.add_argument("--isas", nargs="*", help="names as SNUG_CPU_ISA takes them; all but generic if none is given")
parser.add_argument("--metric", default="accuracy", help="of eval_METRIC in the log; accuracy is shown in percent (default accuracy)")
parser.add_argument("--within", type=float, default=0.5, help="between the means (default 0.5, which are points of accuracy)")
parser.add_argument("options", nargs=argparse.REMAINDER)
args = parser.parse_args()
common = args.options[1:] if args.options[:1] == ["--"] else args.options


def usable_isas():
    """The names that the command lists when it is asked for one that is not there."""
    refused = subprocess.run([args.command, "info"], env=os.environ | {"SNUG_CPU_ISA": "?"}, stderr=subprocess.PIPE, text=True)
    names = re.search(r"kernels for (.*)", refused.stderr)
    return [name for name in names[1].split(", ") if name != "generic"] if names else sys.exit(refused.stderr)


def figure(options, environment, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [args.command, "train", "--model", args.model, "--train-data", args.train, "--eval-data", args.test,
                   "--save-strategy", "no", "--seed", str(seed), "--output-dir", folder, *common, *options]
        run = subprocess.run(command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if run.returncode:
            sys.exit(run.stderr or f"{' '.join(command)}: status {run.returncode}")
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as log:
            last = [row[f"eval_{args.metric}"] for row in map(json.loads, log) if f"eval_{args.metric}" in row][-1]
        return 100 * last if args.metric == "accuracy" else last


if args.isas is not None:
    compared = [(isa, [], {"SNUG_CPU_ISA": isa}) for isa in args.isas or usable_isas()]
else:
    compared = [(name.strip(), options.split(), {}) for name, _, options in (way.partition(":") for way in args.way)]
means = []
for name, options, environment in compared:
    runs = []
    for seed in args.seeds:
        runs.append(figure(options, environment, seed))
        print(f"{name:12} seed {seed}  {runs[-1]:8.4f}", flush=True)
    means.append(statistics.mean(runs))
    print(f"{name:12} mean    {means[-1]:8.4f}, standard deviation {statistics.stdev(runs) if len(runs) > 1 else 0:.4f}", flush=True)
apart = max(means) - min(means)
print(f"means are {apart:.4f} apart, {args.within} allowed")
sys.exit(apart > args.within)
