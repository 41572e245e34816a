#!/usr/bin/env python3
"""Makes a language model without weights and text for it: what docs/benchmarks.md compares precisions by (bench/seeds.py).

A row of text is a sentence of CLINC150 or BANKING77 with its label, or 2,000 characters of snug's documents and source. A twentieth of the
rows, shuffled, goes to OUT/eval.jsonl, the others to OUT/train.jsonl. OUT/model is Llama's shape with twelve layers of 1,024, and the
tokenizer's files.

    bench/text_model.py OUT --tokenizer FOLDER --clinc data_full.json --banking train.csv test.csv
"""
import argparse
import csv
import json
import pathlib
import random
import shutil

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("out", type=pathlib.Path)
parser.add_argument("--tokenizer", type=pathlib.Path, required=True, help="folder with tokenizer.json, of at most 2048 tokens")
parser.add_argument("--clinc", type=pathlib.Path, required=True)
parser.add_argument("--banking", type=pathlib.Path, nargs="+", required=True)
args = parser.parse_args()

source = pathlib.Path(__file__).resolve().parent.parent
rows = [f"{text} -> {label}" for part in json.loads(args.clinc.read_text()).values() for text, label in part]
for path in args.banking:
    with open(path, encoding="utf-8") as f:
        rows += [f"{row['text']} -> {row['category']}" for row in csv.DictReader(f)]
for path in sorted(source.glob("docs/*.md")) + sorted(source.glob("src/**/*.[ch]")):
    text = path.read_text(encoding="utf-8")
    rows += [text[at:at + 2000] for at in range(0, len(text), 2000)]
random.Random(1).shuffle(rows)

model = args.out / "model"
model.mkdir(parents=True, exist_ok=True)
held_out = len(rows) // 20
for name, part in (("eval", rows[:held_out]), ("train", rows[held_out:])):
    with open(args.out / f"{name}.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": row}) + "\n" for row in part)
for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
    if (args.tokenizer / name).exists():
        shutil.copyfile(args.tokenizer / name, model / name)
(model / "config.json").write_text(json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 2048, "hidden_size": 1024,
    "intermediate_size": 2816, "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 2048,
    "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "initializer_range": 0.02, "attention_dropout": 0.0}))
