"""One run of Hugging Face Trainer on a decoder language model with random weights: tokens per second and memory.

On one GPU, or under torchrun on several: with a copy of the model on each (DDP), or with --fsdp a shard. Prints one JSON line; memory is
that of the first GPU. Rows are random tokens of full length, the loss is over all of them; AdamW (fused), clipping at 1.0.
Weights, gradients and states are bf16 unless --autocast is given; an adapter's own are fp32 then, as peft makes them.
"""
import argparse
import json
import os
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments, logging

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="folder with a config.json")
parser.add_argument("--rows", type=int, required=True, help="of a step, on each GPU")
parser.add_argument("--length", type=int, required=True, help="tokens of a row")
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--autocast", action="store_true", help="fp32 weights and states, bf16 arithmetic")
parser.add_argument("--liger", action="store_true", help="Liger's kernels")
parser.add_argument("--lora", action="store_true", help="adapters of rank 16 on all linear layers")
parser.add_argument("--in-4-bits", action="store_true", help="the base's weights as bitsandbytes has them (nf4), below adapters")
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--fsdp", action="store_true", help="full shards, wrapped by layer")
args = parser.parse_args()
logging.set_verbosity_error()
rank, gpus = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))

config = AutoConfig.from_pretrained(args.model)
if args.liger:
    from liger_kernel.transformers import _apply_liger_kernel

    _apply_liger_kernel(config.model_type)
torch.manual_seed(0)
with torch.device("cuda"):
    dtype = torch.float32 if args.autocast else torch.bfloat16
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype)
model.config.use_cache = False
if args.in_4_bits:
    import bitsandbytes as bnb

    for name, m in list(model.named_modules()):
        if isinstance(m, torch.nn.Linear) and name != "lm_head":
            small = bnb.nn.Linear4bit(m.in_features, m.out_features, m.bias is not None, torch.bfloat16, quant_type="nf4", device="meta")
            small.weight = bnb.nn.Params4bit(m.weight.data.cpu(), requires_grad=False, quant_type="nf4", module=small).cuda()
            small.bias = m.bias
            model.set_submodule(name, small)
    model.is_loaded_in_4bit = True
    torch.cuda.empty_cache()
if args.lora:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"))
    if args.checkpointing:
        model.enable_input_require_grads()


class Rows(torch.utils.data.Dataset):
    ids = torch.randint(100, 30000, (min(args.rows * args.steps * gpus, 512), args.length))

    def __len__(self):
        return args.rows * args.steps * gpus

    def __getitem__(self, i):
        row = self.ids[i % len(self.ids)]
        return {"input_ids": row, "labels": row}


class Clock(TrainerCallback):
    ends = []

    def on_step_end(self, *_, **__):
        torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


clock = Clock()
shards = {}
if args.fsdp:
    shards = {"fsdp": "full_shard auto_wrap",
              "fsdp_config": {"transformer_layer_cls_to_wrap": [type(model.get_decoder().layers[0]).__name__]}}
Trainer(model=model, train_dataset=Rows(), callbacks=[clock], args=TrainingArguments(
    output_dir="/tmp/peer", max_steps=args.steps, per_device_train_batch_size=args.rows, bf16=True, optim="adamw_torch_fused",
    gradient_checkpointing=args.checkpointing, report_to="none", save_strategy="no", logging_strategy="no", disable_tqdm=True,
    dataloader_num_workers=2, **shards)).train()
steps = sorted([b - a for a, b in zip(clock.ends, clock.ends[1:])][args.steps // 3:])
if rank == 0:
    free, total = torch.cuda.mem_get_info()
    print(json.dumps({"tokens_per_s": round(gpus * args.rows * args.length / steps[len(steps) // 2], 1), "device_bytes": total - free}))
