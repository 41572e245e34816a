#!/usr/bin/env python3
"""How long `snug plan` searches for ways that fit a budget, offers included; a line for each run, with seconds of one core.

Runs are by data sheets of GPUs, so no GPU is needed and every machine finds the same ways. With --against another build's command the
two have to say the same, to the last byte; both times are printed then.
"""
import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile

LLAMA_8B = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0, "hidden_act": "silu", "max_position_embeddings": 8192, "bos_token_id": 128000, "eos_token_id": 128001,
            "tie_word_embeddings": False}
BERT = "--model bench/models/bert-large --batch-size 32 --max-length 512 --gpu h200"
GPT2_XL = "--model bench/models/gpt2-xl --max-length 1024 --gpu h200 --bf16"
LLAMA = "--model LLAMA_8B --max-length 2048 --gpu h100 --bf16"
JOBS = {
    "BERT-large, 6 GiB": f"{BERT} --bf16 --memory-budget 6GiB",
    "BERT-large, fp32, 8 GiB": f"{BERT} --memory-budget 8GiB",
    "GPT-2 XL, 12 rows, 28 GiB": f"{GPT2_XL} --batch-size 12 --memory-budget 28GiB",
    "GPT-2 XL, LoRA, 8 GiB": f"{GPT2_XL} --batch-size 12 --use-peft --memory-budget 8GiB",
    "8B, an H100": f"{LLAMA} --batch-size 8",
    "8B, 24 GB": f"{LLAMA} --batch-size 8 --max-grad-norm 0 --memory-budget 24GB",
    "8B, LoRA, 24 GiB": f"{LLAMA} --batch-size 4 --use-peft --memory-budget 24GiB",
    "8B, refused in 16 GiB": f"{LLAMA} --batch-size 8 --memory-budget 16GiB",
}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--command", default="build/snug")
parser.add_argument("--against", metavar="COMMAND", help="of another build")
parser.add_argument("--job", action="append", metavar="OPTIONS",
                    help="options of `snug plan`, one string, in place of the jobs built in; may be repeated")
args = parser.parse_args()


def plan(command, options):
    """Seconds of one core, and all that was said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    process = subprocess.run([command, "plan", "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.returncode not in (0, 4):
        sys.exit(f"{shlex.join(process.args)}: {process.stderr.strip()}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, (process.returncode, process.stdout, process.stderr)


differ = 0
with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(LLAMA_8B, f)
    for name, job in ({job: job for job in args.job} if args.job else JOBS).items():
        options = [folder if word == "LLAMA_8B" else word for word in shlex.split(job)]
        seconds, said = plan(args.command, options)
        line = f"{name:28}{seconds:8.2f} s"
        if args.against:
            other_seconds, other = plan(args.against, options)
            differ += other != said
            line += f"{other_seconds:10.2f} s  {'the same' if other == said else 'DIFFERENT'}"
        print(line, flush=True)
sys.exit(differ > 0)
