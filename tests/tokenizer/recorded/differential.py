#!/usr/bin/env python3
"""Compares the ids of `snug tokenize` with those of Hugging Face's tokenizers library, text by text, and what both decode.

    pip install tokenizers
    python3 differential.py [FILE ...] --snug build/snug [--generated 1000000 [--seed 1]] [--code-points] --model DIR [DIR ...]

DIR holds a tokenizer.json, or the files of a class of transformers that has none, such as MarianTokenizer: then it is that class that is
compared with (pip install transformers sentencepiece), by the ids of sources. FILE is a .csv with a column "text", a .json with lists of [text, label], or lines of text.
--code-points tries every code point alone, between letters, and with accents. Prints a line for each source, the first
differences, and the CPU seconds of one thread: of tokenizers those of encode_batch, the texts being there; of snug those of the
whole command, with reading the lines and printing the ids as JSON. Exits with 1 if anything differs.

A million texts of a model take some minutes; texts are made and compared 50,000 at a time, so --generated 100000 with another
--seed each time is the same in shorter runs.
"""
import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import time
import types

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
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


class OfTransformers:
    """A class of transformers, as one of tokenizers."""

    def __init__(self, model):
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.get_vocab = self.tokenizer.get_vocab

    def encode_batch(self, texts):
        return [types.SimpleNamespace(ids=ids, type_ids=[0] * len(ids)) for ids in self.tokenizer(texts)["input_ids"]]

    def decode_batch(self, rows, skip_special_tokens):
        return [self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens) for ids in rows]


def open_tokenizer(model):
    if not os.path.exists(f"{model}/tokenizer.json"):
        return OfTransformers(model)
    tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class Comparison:
    def __init__(self, snug, model):
        self.name = os.path.basename(model.rstrip("/"))
        self.command = [snug, "tokenize", "--model", model, "--json"]
        self.seconds = {"tokenizers": 0.0, "snug": 0.0}
        self.tokenizer = open_tokenizer(model)
        self.differences = 0

    def snug(self, lines, *more):
        """An object for each line, and the seconds that it took."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*self.command, *more, "-"], input="".join(line + "\n" for line in lines).encode(), stdout=subprocess.PIPE, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(lines), f"{len(lines)} lines, {len(answers)} answers"
        return answers, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def differs(self, what, mine, theirs):
        self.differences += 1
        if self.differences <= 10:
            print(f"{self.name}: {ascii(what)}: snug {mine}, tokenizers {theirs}")

    def compare(self, texts):
        ours, seconds = self.snug(texts)
        self.seconds["snug"] += seconds
        begun = time.process_time()
        encodings = self.tokenizer.encode_batch(texts)
        self.seconds["tokenizers"] += time.process_time() - begun
        for text, mine, theirs in zip(texts, ours, encodings):
            if mine["ids"] != theirs.ids or mine["type_ids"] != theirs.type_ids:
                self.differs(text, mine["ids"], theirs.ids)
        some = [e.ids for e in encodings if e.ids]
        decoded, _ = self.snug([" ".join(map(str, ids)) for ids in some], "--decode")
        for ids, mine, theirs in zip(some, decoded, self.tokenizer.decode_batch(some, skip_special_tokens=False)):
            if mine["text"] != theirs:
                self.differs(ids, ascii(mine["text"]), ascii(theirs))

    def source(self, name, texts):
        before, n, block, seconds = self.differences, 0, [], dict(self.seconds)
        for text in texts:
            block.append(text.replace("\n", " "))
            n += 1
            if len(block) == 50000:
                self.compare(block)
                block = []
        if block:
            self.compare(block)
        theirs, ours = (self.seconds[who] - seconds[who] for who in ("tokenizers", "snug"))
        print(f"{self.name}, {name}: {n} texts, {self.differences - before} differences; tokenizers {theirs:.1f} s, snug {ours:.1f} s, {theirs / ours:.1f} times", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--snug", default="build/snug")
    p.add_argument("--model", required=True, nargs="+")
    p.add_argument("--generated", type=int, default=0)
    p.add_argument("--seed", type=int, default=1, help="of the generated texts")
    p.add_argument("--code-points", action="store_true")
    p.add_argument("files", nargs="*", default=[])
    args = p.parse_args()
    differences = 0
    for model in args.model:
        c = Comparison(args.snug, model)
        for path in args.files:
            c.source(path, file_texts(path))
        if args.generated:
            c.source("generated", generated_texts(args.generated, c.tokenizer, args.seed))
        if args.code_points:
            c.source("code points alone", code_points())
            c.source("code points between letters", (f"a{x}b" for x in code_points()))
            c.source("code points with accents", (f"e{x}\u0301\u0323{x}" for x in code_points()))
        differences += c.differences
    print(f"differences: {differences}")
    sys.exit(differences > 0)


main()
