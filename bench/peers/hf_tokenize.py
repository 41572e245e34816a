#!/usr/bin/env python3
"""CPU seconds of one thread: Hugging Face's tokenizers library and `snug tokenize`, on the same lines.

    pip install tokenizers
    python3 bench/peers/hf_tokenize.py --snug build/snug [--lines 40000] FILES MODEL [MODEL ...]

FILES: text files with commas between them, whose lines that are not empty are taken, again and again up to --lines. MODEL holds a
tokenizer.json. Those of tokenizers are encode_batch's alone, the lines being there as texts; those of snug are the whole command's, with
reading the lines and printing the ids. Prints a row of a table for each model.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
from tokenizers import Tokenizer


def of_tokenizers(model, lines):
    t = Tokenizer.from_file(f"{model}/tokenizer.json")
    t.no_truncation()
    t.no_padding()
    t.encode_batch(lines[:100])
    begun = time.process_time()
    ids = [e.ids for e in t.encode_batch(lines)]
    return time.process_time() - begun, ids


def of_snug(snug, model, lines):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([snug, "tokenize", "--model", model, "--json", "-"], input="".join(line + "\n" for line in lines).encode(),
                          stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ids = [json.loads(line)["ids"] for line in done.stdout.splitlines()]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ids


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--snug", default="build/snug")
    p.add_argument("--lines", type=int, default=40000)
    p.add_argument("files")
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    lines = []
    for path in args.files.split(","):
        with open(path, encoding="utf-8") as f:
            lines += [line.strip() for line in f if line.strip()]
    lines = (lines * (args.lines // len(lines) + 1))[: args.lines]
    print(f"{len(lines)} lines, {sum(len(line.encode()) + 1 for line in lines) / 1e6:.2f} MB")
    print("| like | tokenizers | snug | times |\n|---|---|---|---|")
    for model in args.models:
        theirs, want = of_tokenizers(model, lines)
        ours, got = of_snug(args.snug, model, lines)
        note = "" if got == want else ", other ids"
        print(f"| {os.path.basename(model.rstrip('/'))}{note} | {theirs:.2f} | {ours:.2f} | {theirs / ours:.1f} |", flush=True)


main()
