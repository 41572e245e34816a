"""Trains an encoder-decoder's folder to write the label of a text with Hugging Face Trainer, on the CPU, and prints one JSON line.

    samples_per_s, eval_samples_per_s, train_s, first_step_s      as hf_text.py has them; an evaluation is of the loss alone
    eval_loss                                                     after each epoch

Sources and targets are padded to the longest of their batch; the rest is as in hf_text.py.
"""
import argparse
import csv
import json
import tempfile
import time

START = time.perf_counter()

import torch
from transformers import (AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainerCallback,
                          TrainingArguments)

import peer_arguments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face model folder")
parser.add_argument("train", help="CSV file: a header, then source,target")
parser.add_argument("test", help="CSV file of the same form")
parser.add_argument("--learning-rate", type=float, default=2e-4)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--eval-batch", type=int, default=64)
parser.add_argument("--max-length", type=int, default=128)
parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
parser.add_argument("--seed", type=int, default=1)
args = peer_arguments.parse(parser)


def encoded(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    sources = tokenizer([source for source, _ in rows], truncation=True, max_length=args.max_length)["input_ids"]
    targets = tokenizer([target for _, target in rows], truncation=True, max_length=args.max_length)["input_ids"]
    return [{"input_ids": source, "attention_mask": [1] * len(source), "labels": target}
            for source, target in zip(sources, targets)]


class FirstStep(TrainerCallback):
    seconds = None

    def on_step_end(self, *_, **__):
        self.seconds = self.seconds or time.perf_counter() - START


tokenizer = AutoTokenizer.from_pretrained(args.model)
train_rows, test_rows = encoded(args.train), encoded(args.test)
torch.manual_seed(args.seed)
model = AutoModelForSeq2SeqLM.from_pretrained(args.model)
first_step = FirstStep()
with tempfile.TemporaryDirectory() as output_dir:
    trainer = Trainer(
        model=model, train_dataset=train_rows, eval_dataset=test_rows, callbacks=[first_step],
        data_collator=DataCollatorForSeq2Seq(tokenizer, model),
        args=TrainingArguments(
            output_dir=output_dir, num_train_epochs=args.epochs, per_device_train_batch_size=args.batch,
            per_device_eval_batch_size=args.eval_batch, learning_rate=args.learning_rate, warmup_steps=0.1,
            weight_decay=0.01, seed=args.seed, use_cpu=True, bf16=args.precision == "bf16", eval_strategy="epoch",
            prediction_loss_only=True, save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
            log_level="error"))
    total_s = trainer.train().metrics["train_runtime"]
evaluations = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
eval_s = sum(entry["eval_runtime"] for entry in evaluations)
train_s = total_s - eval_s
print(json.dumps({
    "precision": args.precision,
    "eval_loss": [round(entry["eval_loss"], 4) for entry in evaluations],
    "train_s": round(train_s, 1),
    "samples_per_s": round(len(train_rows) * args.epochs / train_s, 1),
    "eval_samples_per_s": round(len(test_rows) * len(evaluations) / eval_s, 1),
    "first_step_s": round(first_step.seconds, 1)}))
