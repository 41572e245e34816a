"""Trains a model of random weights on rows of random tokens with Hugging Face Trainer, on the CPU, and prints one JSON line.

    step_samples_per_s  from the median optimizer step
    best_samples_per_s  from the fastest one
    rss_mb              the largest resident memory of this process, MiB

The first step is left out of both rates.
"""
import argparse
import json
import resource
import tempfile
import time

import numpy
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from transformers.utils import logging

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="folder with a config.json; weights are not read")
parser.add_argument("--rows", type=int, default=32)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--precision", choices=["fp32", "bf16", "purebf16"], default="fp32",
                    help="bf16: autocast, weights in fp32; purebf16: weights and states in bf16 too")
parser.add_argument("--threads", type=int, default=0, help="0: what PyTorch chooses")
args = parser.parse_args()

logging.set_verbosity_error()
if args.threads:
    torch.set_num_threads(args.threads)
random = numpy.random.default_rng(0)
config = AutoConfig.from_pretrained(args.model, num_labels=2)
tokens = torch.from_numpy(random.integers(100, config.vocab_size, (args.rows, args.length)))
labels = torch.from_numpy(random.integers(0, 2, args.rows))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return args.rows

    def __getitem__(self, i):
        return {"input_ids": tokens[i], "labels": labels[i]}


class StepEnds(TrainerCallback):
    def __init__(self):
        self.seconds = []

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter())


torch.manual_seed(0)
model = AutoModelForSequenceClassification.from_config(config)
if args.precision == "purebf16":
    model = model.bfloat16()
step_ends = StepEnds()
with tempfile.TemporaryDirectory() as output_dir:
    Trainer(model=model, train_dataset=Rows(), callbacks=[step_ends], args=TrainingArguments(
        output_dir=output_dir, num_train_epochs=1, per_device_train_batch_size=args.batch, use_cpu=True,
        bf16=args.precision == "bf16", save_strategy="no", logging_strategy="no", eval_strategy="no", report_to="none",
        disable_tqdm=True, log_level="error")).train()
steps = numpy.diff(step_ends.seconds)
print(json.dumps({
    "precision": args.precision,
    "step_samples_per_s": round(args.batch / float(numpy.median(steps)), 3),
    "best_samples_per_s": round(args.batch / float(steps.min()), 3),
    "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
