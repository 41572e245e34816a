"""Classifies rows of tokens with a Hugging Face model of random weights, and prints one JSON line.

    samples_per_s  rows per second of all batches, in the order of the file, each padded to its longest row
    tokens_per_s   real tokens, padding left out
    memory_bytes   as hf_train.py has it

The rows are input_ids and attention_mask of a safetensors file, as `snug` reads it too. All of them are classified twice, and the second
time counts: kernels are chosen and loaded when a shape is met first.
"""
import argparse
import json
import resource
import time

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForSequenceClassification

import peer_arguments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="folder with a config.json; weights are not read")
parser.add_argument("rows", help="safetensors file")
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--precision", choices=["fp32", "tf32", "fp16", "bf16"], default="fp32")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
args = peer_arguments.parse(parser)
on_gpu = args.device == "cuda"
torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(args.precision, torch.float32)
torch.manual_seed(0)
model = AutoModelForSequenceClassification.from_config(AutoConfig.from_pretrained(args.model, num_labels=2))
model = model.to(args.device, dtype).eval()
run = torch.compile(model) if args.compile else model

rows = load_file(args.rows)
lengths = rows["attention_mask"].sum(1)


def wait():
    if on_gpu:
        torch.cuda.synchronize()


def classify(first):
    last = min(first + args.batch, len(lengths))
    longest = int(lengths[first:last].max())
    batch = {key: rows[key][first:last, :longest].long().to(args.device) for key in ("input_ids", "attention_mask")}
    if int(lengths[first:last].min()) == longest:
        del batch["attention_mask"]  # nothing to mask
    return run(**batch).logits.float().cpu()


with torch.inference_mode():
    for first in range(0, len(lengths), args.batch):
        classify(first)
    wait()
    began = time.perf_counter()
    for first in range(0, len(lengths), args.batch):
        classify(first)
    wait()
    seconds = time.perf_counter() - began
if on_gpu:
    free, total = torch.cuda.mem_get_info()
    memory = total - free
else:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
print(json.dumps({"precision": args.precision, "samples_per_s": round(len(lengths) / seconds, 2),
                  "tokens_per_s": round(int(lengths.sum()) / seconds, 1), "memory_bytes": memory}))
