"""Trains classifiers from the same random weights of each family with Hugging Face Trainer and with snug, with several seeds each, and
compares the share of test rows that are right in the end: heads, dropout and the order of rows differ from seed to seed.

usage: hf_family_seeds.py TOKENIZER_FOLDER TRAIN.csv TEST.csv [FAMILY…] [--seeds 1 2 3] [--trainer-seeds 1] [--epochs 10] [--snug COMMAND]
       CSV: a header, then text,label. Folders of random weights are made where they are not there (random_families.py).
       One line for each family, as of a Markdown table: the runs of the Trainer, those of snug, both means, their difference.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch
import transformers as T

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("tokenizer")
parser.add_argument("train")
parser.add_argument("test")
parser.add_argument("families", nargs="*", default=["bert", "distilbert", "roberta", "xlm-roberta", "electra", "albert", "mpnet",
                                                    "modernbert", "deberta-v3", "deberta-v2", "t5", "bart", "llama", "qwen3", "mixtral"])
parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
parser.add_argument("--trainer-seeds", type=int, nargs="+", help="of the Trainer, if others")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--snug", default="build/snug")
parser.add_argument("--folder", default=".cache/family-seeds", help="of the random weights")
args = parser.parse_args()
T.utils.logging.set_verbosity_error()
T.utils.logging.disable_progress_bar()


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


train_rows, test_rows = read_rows(args.train), read_rows(args.test)
label_ids = {label: i for i, label in enumerate(sorted({label for _, label in train_rows}))}


class Rows(torch.utils.data.Dataset):
    def __init__(self, tokenizer, rows):
        self.encoded = tokenizer([text for text, _ in rows], truncation=True, max_length=128)
        self.labels = [label_ids[label] for _, label in rows]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {**{key: column[i] for key, column in self.encoded.items()}, "labels": self.labels[i]}


def trainer(model, seed):
    torch.manual_seed(seed)
    tokenizer = T.AutoTokenizer.from_pretrained(model)
    net = T.AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(label_ids))
    with tempfile.TemporaryDirectory() as out:
        run = T.Trainer(
            model=net, train_dataset=Rows(tokenizer, train_rows), eval_dataset=Rows(tokenizer, test_rows),
            data_collator=T.DataCollatorWithPadding(tokenizer),
            compute_metrics=lambda p: {"right": float(((p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions).argmax(-1)
                                                       == p.label_ids).mean())},
            args=T.TrainingArguments(
                output_dir=out, num_train_epochs=args.epochs, per_device_train_batch_size=args.batch, per_device_eval_batch_size=64,
                learning_rate=args.learning_rate, warmup_steps=0.1, weight_decay=0.01, seed=seed, use_cpu=True, save_strategy="no",
                logging_strategy="no", report_to="none", disable_tqdm=True, log_level="error"))
        run.remove_callback(T.PrinterCallback)
        run.train()
        return 100 * run.evaluate()["eval_right"]


def snug(model, seed):
    with tempfile.TemporaryDirectory() as out:
        command = [args.snug, "train", "--model", model, "--train-data", args.train, "--eval-data", args.test, "--task",
                   "sequence-classification", "--num-train-epochs", args.epochs, "--batch-size", args.batch, "--eval-batch-size", 64,
                   "--learning-rate", args.learning_rate, "--warmup-steps", 0.1, "--weight-decay", 0.01, "--max-length", 128,
                   "--save-strategy", "no", "--eval-strategy", "epoch", "--seed", seed, "--output-dir", out]
        subprocess.run([str(x) for x in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(pathlib.Path(out, "log.jsonl"), encoding="utf-8") as log:
            return 100 * [row["eval_accuracy"] for row in map(json.loads, log) if "eval_accuracy" in row][-1]


def shown(runs):
    return ", ".join(f"{x:.1f}" for x in runs)


for family in args.families:
    model = str(pathlib.Path(args.folder, family))
    if not pathlib.Path(model, "model.safetensors").exists():
        subprocess.run([sys.executable, pathlib.Path(__file__).with_name("random_families.py"), args.tokenizer, args.folder, family,
                        "--hidden", "128", "--layers", "2", "--heads", "4"], check=True, stdout=subprocess.DEVNULL)
    theirs, ours = [trainer(model, seed) for seed in args.trainer_seeds or args.seeds], [snug(model, seed) for seed in args.seeds]
    apart = statistics.mean(ours) - statistics.mean(theirs)
    print(f"| {family} | {shown(theirs)} | {shown(ours)} | {statistics.mean(theirs):.1f} | {statistics.mean(ours):.1f} | {apart:+.1f} |",
          flush=True)
