#!/usr/bin/env python3
"""Compares the ids of `snug tokenize` with those of Hugging Face's tokenizers library, text by text.

    pip install tokenizers
    python3 differential.py --snug build/snug --model DIR [--generated 100000 [--seed 1]] [--code-points] [FILE ...]

DIR holds a tokenizer.json. FILE is a .csv with a column "text", a .json with lists of [text, label], or lines of text.
--code-points tries every code point alone, between letters, and with accents. Prints a line for each source, the first
differences, and as the last line the sum; exits with 1 if anything differs.
"""
import argparse
import csv
import json
import random
import subprocess
import sys

from tokenizers import Tokenizer


def file_texts(path):
    if path.endswith(".csv"):
        with open(path, encoding="utf-8", newline="") as f:
            return [row["text"] for row in csv.DictReader(f)]
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as f:
            return [text for rows in json.load(f).values() for text, _ in rows]
    with open(path, encoding="utf-8", newline="\n") as f:
        return f.read().split("\n")


def code_points():
    return (chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != 10)


def generated_texts(n, tokenizer, seed=1):
    """Letters, words of the vocabulary, accents and characters of every plane, in any mixture."""
    r = random.Random(seed)
    vocabulary = sorted(tokenizer.get_vocab())
    planes = [(0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x10FF), (0x1100, 0x2BFF), (0x2E80, 0x9FFF), (0xA000, 0xD7FF),
              (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x323AF), (0x323B0, 0x10FFFF), (0, 0x1F)]

    def part():
        kind = r.random()
        if kind < 0.3:
            return r.choice(vocabulary).replace("##", "", r.randrange(2))
        if kind < 0.5:
            return " " * r.randrange(1, 3)
        if kind < 0.6:
            return "".join(r.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ") for _ in range(r.randrange(1, 12)))
        if kind < 0.7:
            return r.choice("aeiouEIUcnüßİ") + "".join(chr(r.randrange(0x300, 0x370)) for _ in range(r.randrange(1, 4)))
        first, last = r.choice(planes)
        return "".join(chr(r.randrange(first, last + 1)) for _ in range(r.randrange(1, 4)))

    for _ in range(n):
        text = "".join(part() for _ in range(r.randrange(1, 16)))
        yield "".join(c for c in text if c != "\n" and not 0xD800 <= ord(c) < 0xE000)


class Comparison:
    def __init__(self, snug, model):
        self.command = [snug, "tokenize", "--model", model, "--json", "-"]
        self.tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.differences = 0

    def compare(self, texts):
        lines = "".join(text + "\n" for text in texts)
        done = subprocess.run(self.command, input=lines.encode(), stdout=subprocess.PIPE, check=True)
        ours = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(ours) == len(texts), f"{len(texts)} texts, {len(ours)} answers"
        for text, mine, theirs in zip(texts, ours, self.tokenizer.encode_batch(texts)):
            if mine["ids"] != theirs.ids or mine["type_ids"] != theirs.type_ids:
                self.differences += 1
                if self.differences <= 10:
                    print(f"{ascii(text)}: snug {mine['ids']}, tokenizers {theirs.ids}")

    def source(self, name, texts):
        before, n, block = self.differences, 0, []
        for text in texts:
            block.append(text.replace("\n", " "))
            n += 1
            if len(block) == 50000:
                self.compare(block)
                block = []
        if block:
            self.compare(block)
        print(f"{name}: {n} texts, {self.differences - before} differences", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--snug", default="build/snug")
    p.add_argument("--model", required=True)
    p.add_argument("--generated", type=int, default=0)
    p.add_argument("--seed", type=int, default=1, help="of the generated texts")
    p.add_argument("--code-points", action="store_true")
    p.add_argument("files", nargs="*")
    args = p.parse_args()
    c = Comparison(args.snug, args.model)
    for path in args.files:
        c.source(path, file_texts(path))
    if args.generated:
        c.source("generated", generated_texts(args.generated, c.tokenizer, args.seed))
    if args.code_points:
        c.source("code points alone", code_points())
        c.source("code points between letters", (f"a{x}b" for x in code_points()))
        c.source("code points with accents", (f"e{x}\u0301\u0323{x}" for x in code_points()))
    print(f"differences: {c.differences}")
    sys.exit(c.differences > 0)


main()
