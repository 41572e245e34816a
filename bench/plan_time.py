#!/usr/bin/env python3
"""How long `snug plan` says a step takes, beside what it takes in a run of the same options; a line for each pair.

Plan and run take turns. plan/run is the ratio of the seconds of a step, of the run the median without the first; "guess" is
what plan calls an estimate for which threads had to wait for a processor. On an idle machine the ratio is to lie between
0.75 and 1.25. Close other programs first, or leave them running on purpose.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys

JOBS = {f"BERT-large {rows}x{length}": "--model bench/models/bert-large --init-from-config "
        f"--train-data synthetic:{8 * rows}x{length} --max-length {length} --batch-size {rows}"
        for rows, length in [(4, 128), (4, 512), (16, 32)]}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--command", default="build/snug")
parser.add_argument("--pairs", type=int, default=3)
parser.add_argument("--steps", type=int, default=5, help="of each run")
parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"])
parser.add_argument("--job", action="append", metavar="OPTIONS",
                    help="options of `snug train`, one string, in place of the jobs built in; may be repeated")
args = parser.parse_args()
snug_run = os.path.join(os.path.dirname(__file__), "peers", "snug_run.py")


def output(*command):
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        sys.exit(f"{shlex.join(command)} failed with status {process.returncode}")
    return process.stdout


print(f"{'job':24}{'dtype':>6}{'plan, s':>10}{'run, s':>10}{'plan/run':>10}")
for name, job in ({job: job for job in args.job} if args.job else JOBS).items():
    for dtype in args.dtypes:
        options = [*shlex.split(job), "--dtype", dtype]
        for _ in range(args.pairs):
            plan = json.loads(output(args.command, "plan", "--json", *options))["time"]
            run = json.loads(output(sys.executable, snug_run, "--command", args.command, "--batch", "1", "--", *options,
                                    "--max-steps", str(args.steps), "--logging-steps", "1", "--save-strategy", "no"))
            step = 1 / run["step_samples_per_s"]
            print(f"{name:24}{dtype:>6}{plan['step_seconds']:10.4g}{step:10.4g}{plan['step_seconds'] / step:10.2f}"
                  f"{'   a guess' if plan['disturbed'] else ''}", flush=True)
