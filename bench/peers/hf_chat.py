"""Trains a language model folder on conversations with Hugging Face Trainer and PEFT, in fp32, and prints a JSON object for each logged
step ({"step", "loss"}) and one for the evaluation at the end ({"eval_loss"}): what `snug train` writes into log.jsonl.

Rows come in the order of the file. Of each, the assistant's last message with the token that ends it is learned. Linear schedule with a warm-up
over a tenth of the steps, AdamW without weight decay, clipping at 1.0. With --adapter a LoRA adapter goes on, without it the whole model is trained.
"""
import argparse
import json
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

import peer_arguments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face model folder")
parser.add_argument("train", help="JSON lines with messages")
parser.add_argument("test", help="file of the same form")
parser.add_argument("--adapter", help="PEFT folder of the adapter to begin with")
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
args = peer_arguments.parse(parser)


def encode(line):
    messages = json.loads(line)["messages"]
    ids = tokenizer.apply_chat_template(messages, return_dict=False)
    n = len(tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True, return_dict=False))
    end = len(ids) - ids[::-1].index(tokenizer.eos_token_id)
    return {"input_ids": ids, "labels": [-100] * n + ids[n:end] + [-100] * (len(ids) - end)}


def read_rows(path):
    with open(path, encoding="utf-8") as file:
        return [encode(line) for line in file]


def pad(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    column = lambda values, filler: torch.tensor([v + [filler] * (longest - len(v)) for v in values])
    return {"input_ids": column([row["input_ids"] for row in rows], tokenizer.eos_token_id),
            "attention_mask": column([[1] * len(row["input_ids"]) for row in rows], 0),
            "labels": column([row["labels"] for row in rows], -100)}


class Tell(TrainerCallback):
    def on_log(self, _, state, control, logs=None, **kwargs):
        print(json.dumps({"step": state.global_step, **{k: v for k, v in logs.items() if k in ("loss", "eval_loss")}}), flush=True)


tokenizer = AutoTokenizer.from_pretrained(args.model)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
if args.adapter:
    import peft
    model = peft.PeftModel.from_pretrained(model, args.adapter, is_trainable=True)
with tempfile.TemporaryDirectory() as output_dir:
    trainer = Trainer(
        model=model, train_dataset=read_rows(args.train), eval_dataset=read_rows(args.test), data_collator=pad, callbacks=[Tell()],
        args=TrainingArguments(
            output_dir=output_dir, max_steps=args.steps, per_device_train_batch_size=args.batch, learning_rate=args.learning_rate,
            lr_scheduler_type="linear", warmup_steps=args.steps // 10, weight_decay=0.0, max_grad_norm=1.0, logging_steps=1,
            train_sampling_strategy="sequential", remove_unused_columns=False, save_strategy="no", report_to="none",
            use_cpu=args.device == "cpu", label_names=["labels"]))
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    trainer.evaluate()
