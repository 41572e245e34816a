"""Greedy generation with a model of random weights, by transformers and by snug in turn; prints a JSON line for each.

    tokens_per_s   of all prompts together: the time of --tokens new ones less that of an eighth of them, so that loading, starting and the
                   prompts themselves are left out
    same           how many of the new tokens of all prompts both have alike, up to the first that is another
    seconds        of the longer run: of snug of the whole command, of transformers of generate() alone

Each does both runs --times times; the fastest counts. The folder's weights are made anew, and kept beside the results in --work.
"""
import argparse
import json
import subprocess
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import peer_arguments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="folder with a config.json; weights are not read")
parser.add_argument("--snug", default="build/snug", help="the command")
parser.add_argument("--prompts", type=int, default=1, help="at once")
parser.add_argument("--length", type=int, default=20, help="tokens of a prompt")
parser.add_argument("--tokens", type=int, default=256, help="new ones")
parser.add_argument("--times", type=int, default=3)
parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--work", default="/tmp/hf_generate")
args = peer_arguments.parse(parser)
dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
torch.manual_seed(1)
config = AutoConfig.from_pretrained(args.model)
config.eos_token_id = None  # nothing ends before its time
model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
model.save_pretrained(args.work)
with open(args.work + "/generation_config.json", "w") as f:
    json.dump({}, f)
model = model.to(args.device)
prompts = torch.randint(3, config.vocab_size, (args.prompts, args.length))
with open(args.work + "/prompts.jsonl", "w") as f:
    f.writelines(json.dumps({"input_ids": ids}) + "\n" for ids in prompts.tolist())


def transformers(n):
    ids = prompts.to(args.device)
    began = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, min_new_tokens=n, max_new_tokens=n, pad_token_id=0)
    rows = out[:, args.length:].tolist()
    return time.perf_counter() - began, rows


def snug(n):
    command = [args.snug, "generate", "--model", args.work, "--data", args.work + "/prompts.jsonl", "--json", "--device", args.device, "--dtype",
               args.precision, "--max-new-tokens", str(n), "--per-device-eval-batch-size", str(args.prompts)]
    began = time.perf_counter()
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    rows = sorted((json.loads(line) for line in out.splitlines()), key=lambda row: row["prompt"])
    return time.perf_counter() - began, [row["ids"] for row in rows]


short, rows = max(1, args.tokens // 8), {}
for name, run in (("transformers", transformers), ("snug", snug)):
    run(short)  # kernels are chosen and loaded, and files are in the cache
    least = {n: min((run(n) for _ in range(args.times)), key=lambda made: made[0]) for n in (short, args.tokens)}
    seconds, rows[name] = least[args.tokens]
    rate = args.prompts * (args.tokens - short) / (seconds - least[short][0])
    print(json.dumps({"of": name, "precision": args.precision, "prompts": args.prompts, "tokens_per_s": round(rate, 1), "seconds": round(seconds, 2)}),
          flush=True)
same = sum(next((i for i, (a, b) in enumerate(zip(x, y)) if a != b), len(x)) for x, y in zip(rows["transformers"], rows["snug"]))
print(json.dumps({"same": same, "of": args.prompts * args.tokens}))
