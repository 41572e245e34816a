"""Fine-tunes a model folder on labelled text with Hugging Face Trainer, on the CPU, and prints one JSON line.

    accuracy            on the test file after each epoch; of an encoder-decoder, which writes the label (--writes), eval_loss instead
    train_s             seconds in Trainer.train() without the evaluations
    samples_per_s       training rows per second of train_s
    eval_samples_per_s  test rows per second of the evaluations
    first_step_s        from the start of this program to the end of the first optimizer step

Batches are padded to their longest row; linear schedule, warm-up over a tenth of the steps, weight decay 0.01.
"""
import argparse
import csv
import json
import tempfile
import time

START = time.perf_counter()

import torch
from transformers import (AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer,
                          DataCollatorForSeq2Seq, DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments)

import peer_arguments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face model folder")
parser.add_argument("train", help="CSV file: a header, then text,label")
parser.add_argument("test", help="CSV file of the same form")
parser.add_argument("--learning-rate", type=float, default=2e-4)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--eval-batch", type=int, default=64)
parser.add_argument("--max-length", type=int, default=128)
parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--writes", action="store_true", help="the model is an encoder-decoder, and writes the label")
args = peer_arguments.parse(parser)


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def tokens_of(texts):
    return tokenizer(texts, truncation=True, max_length=args.max_length)


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.encoded = tokens_of([text for text, _ in rows])
        labels = [label for _, label in rows]
        self.labels = tokens_of(labels)["input_ids"] if args.writes else [label_ids[label] for label in labels]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {**{key: column[i] for key, column in self.encoded.items()}, "labels": self.labels[i]}


class FirstStep(TrainerCallback):
    seconds = None

    def on_step_end(self, *_, **__):
        self.seconds = self.seconds or time.perf_counter() - START


tokenizer = AutoTokenizer.from_pretrained(args.model)
train_rows, test_rows = read_rows(args.train), read_rows(args.test)
label_ids = {label: i for i, label in enumerate(sorted({label for _, label in train_rows}))}
torch.manual_seed(args.seed)
if args.writes:
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model)
    judged, collator, compute = "loss", DataCollatorForSeq2Seq(tokenizer, model), None
else:
    model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=len(label_ids))
    judged, collator = "accuracy", DataCollatorWithPadding(tokenizer)
    compute = lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}
first_step = FirstStep()
with tempfile.TemporaryDirectory() as output_dir:
    trainer = Trainer(
        model=model, train_dataset=Rows(train_rows), eval_dataset=Rows(test_rows), callbacks=[first_step],
        data_collator=collator, compute_metrics=compute,
        args=TrainingArguments(
            output_dir=output_dir, num_train_epochs=args.epochs, per_device_train_batch_size=args.batch,
            per_device_eval_batch_size=args.eval_batch, learning_rate=args.learning_rate, warmup_steps=0.1,
            weight_decay=0.01, seed=args.seed, use_cpu=True, bf16=args.precision == "bf16", eval_strategy="epoch",
            prediction_loss_only=args.writes, save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
            log_level="error"))
    total_s = trainer.train().metrics["train_runtime"]
evaluations = [entry for entry in trainer.state.log_history if f"eval_{judged}" in entry]
eval_s = sum(entry["eval_runtime"] for entry in evaluations)
train_s = total_s - eval_s
print(json.dumps({
    "precision": args.precision,
    "eval_loss" if args.writes else "accuracy": [round(entry[f"eval_{judged}"], 4) for entry in evaluations],
    "train_s": round(train_s, 1),
    "samples_per_s": round(len(train_rows) * args.epochs / train_s, 1),
    "eval_samples_per_s": round(len(test_rows) * len(evaluations) / eval_s, 1),
    "first_step_s": round(first_step.seconds, 1)}))
