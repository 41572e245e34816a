"""Trains a model of random weights on rows of random tokens with Hugging Face Trainer, and prints one JSON line.

    samples_per_s       over the last two thirds of the optimizer steps, the second step at the earliest
    tokens_per_s        likewise; every token is a real one
    step_samples_per_s  on the CPU, from the median optimizer step; the first one is left out
    best_samples_per_s  on the CPU, from the fastest one
    seconds             of all steps
    memory_bytes        GPU: in use on the whole device at the end, as NVML shows it; CPU: resident at the end
    before_bytes        GPU: the same when this program started
    peak_bytes          GPU: the most that PyTorch had in tensors; CPU: the largest resident memory
    rss_mb              the largest resident memory of this process, MiB

Under torchrun each process trains on its share of the rows (DDP); rates are of all, memory is the first one's.
"""
import argparse
import json
import os
import resource
import tempfile
import time

import numpy
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

import peer_arguments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="folder with a config.json; weights are not read")
parser.add_argument("--rows", type=int, default=32)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--accumulation", type=int, default=1)
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--precision", choices=["fp32", "tf32", "fp16", "bf16", "purebf16"], default="fp32",
                    help="fp16, bf16: autocast, weights in fp32; purebf16: weights and states in bf16 too")
parser.add_argument("--optim", help="as in TrainingArguments; its default if not given")
parser.add_argument("--compile", action="store_true", help="with torch.compile")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
args = peer_arguments.parse(parser)
on_gpu = args.device == "cuda"
rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def memory_in_use():
    if not on_gpu:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    try:
        import pynvml
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used
    except Exception:  # no such package; this leaves out what the driver keeps for itself, 0.6 GB on an H200
        free, total = torch.cuda.mem_get_info()
        return total - free


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return args.rows

    def __getitem__(self, i):
        return {"input_ids": tokens[i], "labels": labels[i]}


class StepEnds(TrainerCallback):
    """When steps ended. A GPU is waited for only where the timing begins and ends."""
    def __init__(self):
        self.seconds = []

    def on_train_begin(self, *_, **__):
        self.began = time.perf_counter()

    def on_step_end(self, *_, **__):
        if on_gpu and len(self.seconds) + 1 in (skipped, steps):
            torch.cuda.synchronize()
        self.seconds.append(time.perf_counter())


before_bytes = memory_in_use()
random = numpy.random.default_rng(0)
config = AutoConfig.from_pretrained(args.model, num_labels=2)
tokens = torch.from_numpy(random.integers(min(100, config.vocab_size // 2), config.vocab_size, (args.rows, args.length)))
labels = torch.from_numpy(random.integers(0, 2, args.rows))
samples_per_step = args.batch * args.accumulation * processes
steps = args.rows // samples_per_step
skipped = max(2, steps // 3)
if steps <= skipped:
    parser.error(f"{args.rows} rows are {steps} steps; 3 are needed")
torch.manual_seed(0)
model = AutoModelForSequenceClassification.from_config(config)
if args.precision == "purebf16":
    model = model.bfloat16()
settings = {"use_cpu": not on_gpu, "fp16": args.precision == "fp16", "bf16": args.precision == "bf16",
            "gradient_checkpointing": args.checkpointing, "torch_compile": args.compile}
if on_gpu:
    settings["tf32"] = args.precision == "tf32"
if args.optim:
    settings["optim"] = args.optim
step_ends = StepEnds()
with tempfile.TemporaryDirectory() as output_dir:
    Trainer(model=model, train_dataset=Rows(), callbacks=[step_ends], args=TrainingArguments(
        output_dir=output_dir, num_train_epochs=1, per_device_train_batch_size=args.batch,
        gradient_accumulation_steps=args.accumulation, save_strategy="no", logging_strategy="no", eval_strategy="no",
        report_to="none", disable_tqdm=True, log_level="error", **settings)).train()
timed = step_ends.seconds[steps - 1] - step_ends.seconds[skipped - 1]
rate = (steps - skipped) * samples_per_step / timed
result = {"precision": args.precision, "samples_per_s": round(rate, 3), "tokens_per_s": round(rate * args.length, 1),
          "seconds": round(step_ends.seconds[-1] - step_ends.began, 3), "memory_bytes": memory_in_use(),
          "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}
if on_gpu:
    result |= {"before_bytes": before_bytes, "peak_bytes": torch.cuda.max_memory_allocated(),
               "gpu": torch.cuda.get_device_name()}
else:
    each = numpy.diff(step_ends.seconds)
    result |= {"peak_bytes": result["rss_mb"] << 20,
               "step_samples_per_s": round(samples_per_step / float(numpy.median(each)), 3),
               "best_samples_per_s": round(samples_per_step / float(each.min()), 3)}
if rank == 0:
    print(json.dumps(result))
