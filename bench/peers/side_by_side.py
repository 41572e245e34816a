"""Runs two commands in turn, A B A B …, and prints how B compares with A, pair by pair.

Each command ends its output with one line of JSON; its numbers are compared by name. Added for both, measured from outside:
wall_s, cpu_s (user and system) and rss_mb (the largest resident memory of one process). In turn, because the speed of
a machine drifts by more than many differences that matter; the ratio of neighbours does not.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pairs", type=int, default=3)
parser.add_argument("--names", nargs=2, default=["A", "B"])
parser.add_argument("command_a", help="one string, split as a shell splits words")
parser.add_argument("command_b")
args = parser.parse_args()


def run(name, command):
    start = time.perf_counter()
    process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - start
    if status:
        sys.exit(f"{name} failed with status {os.waitstatus_to_exitcode(status)}: {command}")
    result = json.loads(output.splitlines()[-1])
    result |= {"wall_s": round(wall_s, 1), "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
               "rss_mb": usage.ru_maxrss // 1024}
    print(name, json.dumps(result), flush=True)
    # Of a list (one accuracy an epoch) the last counts.
    last = {key: value[-1] if isinstance(value, list) else value for key, value in result.items()}
    return {key: value for key, value in last.items() if isinstance(value, (int, float))}


pairs = [(run(args.names[0], args.command_a), run(args.names[1], args.command_b)) for _ in range(args.pairs)]
a, b = args.names
print(f"\n{'':20}{a:>12}{b:>12}{b + '/' + a:>14}   lowest to highest pair    (medians of {args.pairs} pairs)")
for key in pairs[0][0]:
    if key not in pairs[0][1]:
        continue
    ratios = sorted(y[key] / x[key] for x, y in pairs if x[key])
    if ratios:
        print(f"{key:20}{statistics.median(x[key] for x, _ in pairs):12.4g}{statistics.median(y[key] for _, y in pairs):12.4g}"
              f"{statistics.median(ratios):14.3f}   {ratios[0]:.3f} to {ratios[-1]:.3f}")
