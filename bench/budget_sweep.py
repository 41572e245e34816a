#!/usr/bin/env python3
"""Memory against speed: plans a run for budgets from what it takes without one down to the least possible, in equal steps.

Prints a line for each budget and draws a picture. Seconds of a step are those of the plan, measured or estimated as it says.
With --run each plan is trained as well, and must keep to its bytes; where all budgets have one cut of the step
(--gradient-accumulation-steps in the options), losses must be the same to the last bit.

    bench/budget_sweep.py --svg docs/budgets.svg \\
        --job "BERT-large, 32 rows of 512=--model bench/models/bert-large ... --gpu h200 --bf16 --batch-size 32"
"""
import argparse
import json
import shlex
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--command", default="build/snug")
parser.add_argument("--job", action="append", default=[], metavar="NAME=OPTIONS", help="may be repeated")
parser.add_argument("--read", action="append", default=[], metavar="FILE", help="sweeps that --json wrote, to draw; may be repeated")
parser.add_argument("--point", action="append", default=[], metavar="NAME=BYTES,SECONDS",
                    help="what another system takes for the first sweep's step, to draw beside it; may be repeated")
parser.add_argument("--budgets", type=int, default=20)
parser.add_argument("--run", action="store_true", help="train each plan; not with --gpu in the options")
parser.add_argument("--svg", metavar="FILE")
parser.add_argument("--json", metavar="FILE")
args = parser.parse_args()


def snug(command, options, budget):
    """The lines of JSON that a command prints; None where it says that nothing fits."""
    line = [args.command, command, "--json", *options, "--memory-budget", f"{budget}B"]
    process = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.returncode == 4 and "--memory-budget" in process.stderr:
        return None
    if process.returncode:
        sys.exit(f"{shlex.join(line)}: {process.stderr.strip()}")
    return [json.loads(text) for text in process.stdout.splitlines() if text.startswith("{")]


def plan(options, budget):
    lines = snug("plan", options, budget)
    if lines is None:
        return None
    o, = lines
    way = next((w for w in o.get("ways", []) if w["taken"]), {})
    return {"budget": budget, "bytes": way.get("bytes", o["arena_bytes"]), "arena_bytes": o["arena_bytes"],
            "seconds": o["time"]["step_seconds"], "basis": o["time"]["basis"], "rows": way.get("batch_size"),
            "times": way.get("gradient_accumulation_steps"), "recomputed": way.get("recomputed_layers", 0),
            "typical_seconds": way.get("typical_seconds")}


def least(options, most):
    """The fewest bytes in which there is a way, to a thousandth."""
    low, best = 0, most
    while best["bytes"] - low > most["bytes"] / 1000:
        middle = (low + best["bytes"]) // 2
        found = plan(options, middle)
        if found:
            best = found
        else:
            low = middle
    return best


def run(options, point):
    """Trains within the budget; the losses of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        lines = snug("train", [*options, "--logging-steps", "1", "--discard-model", "--no-report", "--output-dir", folder + "/out"],
                     point["budget"])
    allocated = [line["arena_bytes"] for line in lines if "arena_bytes" in line]
    if allocated != [point["arena_bytes"]]:
        sys.exit(f"budget {point['budget']}: planned {point['arena_bytes']} bytes, the run allocated {allocated}")
    return [line["loss"] for line in lines if "loss" in line]


def sweep(name, options):
    most = plan(options, 1 << 50)
    bottom = least(options, most)
    span = most["bytes"] - bottom["bytes"]
    points, losses = [], None
    for i in range(args.budgets):
        point = plan(options, most["bytes"] - span * i // (args.budgets - 1))
        print(f"{name}: {point['budget']:>14,} B  {point['bytes']:>14,} B  {1e3 * point['seconds']:9.2f} ms a step, {point['basis']}  "
              f"{point['rows']} x {point['times']}  {point['recomputed']} layers computed again", flush=True)
        if points and point["typical_seconds"] < points[-1]["typical_seconds"]:
            sys.exit(f"{name}: less memory is said to be faster")
        points.append(point)
        if args.run:
            now = run(options, point)
            if losses is not None and "--gradient-accumulation-steps" in options and now != losses:
                sys.exit(f"{name}: losses differ from those without a budget")
            losses = losses if losses is not None else now
    return points


# ---- the picture ----

STYLES = """<style>svg{color-scheme:light dark}text{font:13px system-ui,sans-serif;fill:#1f2430}.quiet{fill:#5b6472}
.paper{fill:#fff}.grid{stroke:#8a93a1;stroke-opacity:.3}.l0{stroke:#3b6fb6}.l1{stroke:#c2703d}.l2{stroke:#2f9272}.l3{stroke:#7a5ea8}
.d0{fill:#3b6fb6}.d1{fill:#c2703d}.d2{fill:#2f9272}.d3{fill:#7a5ea8}polyline{fill:none;stroke-width:2}
@media (prefers-color-scheme:dark){text{fill:#e6e9ef}.quiet{fill:#a3acba}.paper{fill:#14171d}.l0{stroke:#5b93dd}.l1{stroke:#e0925c}
.l2{stroke:#45b78f}.l3{stroke:#a487d6}.d0{fill:#5b93dd}.d1{fill:#e0925c}.d2{fill:#45b78f}.d3{fill:#a487d6}}</style>"""


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def picture(sweeps, others):
    """Shares of the run without a budget: across its memory, upwards its speed. others: name, bytes and seconds of the first's step."""
    left, right, top, bottom = 60, 700, 60, 400
    whole = next(iter(sweeps.values()))[0]
    beside = [(name, at / whole["bytes"], whole["seconds"] / seconds) for name, at, seconds in others]
    floor = min(p["bytes"] / points[0]["bytes"] for points in sweeps.values() for p in points) // 0.1 * 0.1
    slowest = min([points[0]["seconds"] / p["seconds"] for points in sweeps.values() for p in points]
                  + [speed for _, _, speed in beside]) // 0.1 * 0.1
    ceiling = max([1] + [-(-memory // 0.1) * 0.1 for _, memory, _ in beside])
    x = lambda share: left + (right - left) * (share - floor) / (ceiling - floor)
    y = lambda share: bottom - (bottom - top) * (share - slowest) / (1.05 - slowest)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" width="740" height="{460 + 20 * len(sweeps)}"'
           f' viewBox="0 0 740 {460 + 20 * len(sweeps)}">', '<title id="title">Memory against speed</title>',
           '<desc id="desc">' + "; ".join(
               f"{escape(name)}: with {100 * p[-1]['bytes'] / p[0]['bytes']:.0f} % of the memory "
               f"{100 * p[0]['seconds'] / p[-1]['seconds']:.0f} % of the speed" for name, p in sweeps.items()) + "</desc>",
           STYLES, '<rect class="paper" width="100%" height="100%"/>',
           f'<text x="{left}" y="30">speed of a step, % of that without a budget</text>']
    for i in range(round(slowest * 10), 11):
        out.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y(i / 10):.1f}" y2="{y(i / 10):.1f}"/>'
                   f'<text class="quiet" text-anchor="end" x="{left - 8}" y="{y(i / 10) + 4:.1f}">{10 * i}</text>')
    for i in range(round(floor * 10), round(ceiling * 10) + 1):
        out.append(f'<line class="grid" y1="{top}" y2="{bottom}" x1="{x(i / 10):.1f}" x2="{x(i / 10):.1f}"/>'
                   f'<text class="quiet" text-anchor="middle" x="{x(i / 10):.1f}" y="{bottom + 18}">{10 * i}</text>')
    out.append(f'<text text-anchor="end" x="{right}" y="{bottom + 40}">memory, % of that without a budget</text>')
    for k, (name, points) in enumerate(sweeps.items()):
        at = [(x(p["bytes"] / points[0]["bytes"]), y(points[0]["seconds"] / p["seconds"])) for p in points]
        out.append(f'<polyline class="l{k % 4}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in at)}"/>')
        out += [f'<circle class="d{k % 4}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in at]
        label = f"{name}: {points[0]['bytes'] / 2**30:.2f} GiB, {1e3 * points[0]['seconds']:.0f} ms; least {points[-1]['bytes'] / 2**30:.2f} GiB"
        out.append(f'<circle class="d{k % 4}" cx="{left + 6}" cy="{bottom + 60 + 20 * k}" r="5"/>'
                   f'<text x="{left + 18}" y="{bottom + 64 + 20 * k}">{escape(label)}</text>')
    for name, memory, speed in beside:
        out.append(f'<circle class="d0" cx="{x(memory):.1f}" cy="{y(speed):.1f}" r="5"/>'
                   f'<text text-anchor="end" x="{x(memory) - 8:.1f}" y="{y(speed) + 4:.1f}">{escape(name)}</text>')
    return "\n".join(out) + "\n</svg>\n"


def read_point(text):
    name, _, numbers = text.partition("=")
    memory, _, seconds = numbers.partition(",")
    try:
        return name, float(memory), float(seconds)
    except ValueError:
        sys.exit(f"--point {text}: is not NAME=BYTES,SECONDS")


others = [read_point(text) for text in args.point]
sweeps = {}
for path in args.read:
    with open(path) as file:
        sweeps |= json.load(file)
for job in args.job:
    name, _, options = job.partition("=")
    if not options:
        sys.exit(f"--job {job}: has no '='; give a name, '=' and the options of snug plan")
    sweeps[name] = sweep(name, shlex.split(options))
if not sweeps:
    sys.exit("nothing to sweep: give --job or --read")
for path, text in ((args.json, json.dumps(sweeps, indent=1) + "\n"), (args.svg, picture(sweeps, others))):
    if path:
        with open(path, "w") as file:
            file.write(text)
