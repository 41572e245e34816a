"""Trains classifiers from the same random weights of each family with Hugging Face Trainer and with snug, with several seeds each, and
compares the share of test rows that are right in the end: heads, dropout and the order of rows differ from seed to seed.

usage: hf_family_seeds.py TOKENIZER_FOLDER TRAIN.csv TEST.csv [FAMILY…] [--seeds 1 2 3] [--epochs 10] [--device cpu|cuda] [--jobs 1]
       CSV: a header, then text,label. Folders of random weights are made where they are not there (random_families.py).
       The table has a line for each family: the runs of the Trainer, those of snug, both means with standard deviations, their difference.
       --results FILE keeps each run as a line; what is there is not run again. --stop-after SECONDS begins no run after that.
"""
import argparse
import concurrent.futures
import csv
import json
import multiprocessing
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import transformers as T

FAMILIES = ["bert", "distilbert", "roberta", "xlm-roberta", "electra", "albert", "mpnet", "modernbert", "deberta-v3", "deberta-v2", "t5",
            "bart", "llama", "qwen3", "mixtral"]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("tokenizer")
parser.add_argument("train")
parser.add_argument("test")
parser.add_argument("families", nargs="*", default=FAMILIES)
parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--warmup", type=float, default=0.1)
parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
parser.add_argument("--sides", nargs="+", choices=["Trainer", "snug"], default=["Trainer", "snug"])
parser.add_argument("--results", help="file of the runs, one a line")
parser.add_argument("--stop-after", type=float, default=1e9)
parser.add_argument("--snug", default="build/snug")
parser.add_argument("--folder", default=".cache/family-seeds", help="of the random weights")
parser.add_argument("--sizes", type=int, nargs=3, default=[128, 2, 4], metavar=("HIDDEN", "LAYERS", "HEADS"))
args = parser.parse_args()
begun = time.monotonic()
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


def right(prediction):
    logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    return {"right": float((logits.argmax(-1) == prediction.label_ids).mean())}


def trainer(model, seed):
    torch.set_num_threads(max(1, torch.get_num_threads() // args.jobs))
    torch.manual_seed(seed)
    tokenizer = T.AutoTokenizer.from_pretrained(model)
    net = T.AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(label_ids), dtype=torch.float32)
    with tempfile.TemporaryDirectory() as out:
        run = T.Trainer(
            model=net, train_dataset=Rows(tokenizer, train_rows), eval_dataset=Rows(tokenizer, test_rows),
            data_collator=T.DataCollatorWithPadding(tokenizer), compute_metrics=right,
            args=T.TrainingArguments(
                output_dir=out, num_train_epochs=args.epochs, per_device_train_batch_size=args.batch, per_device_eval_batch_size=64,
                learning_rate=args.learning_rate, warmup_steps=args.warmup, weight_decay=0.01, seed=seed, use_cpu=args.device == "cpu",
                bf16=args.precision == "bf16", save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
                log_level="error"))
        run.remove_callback(T.PrinterCallback)
        run.train()
        return 100 * run.evaluate()["eval_right"]


def snug(model, seed):
    with tempfile.TemporaryDirectory() as out:
        command = [args.snug, "train", "--model", model, "--train-data", args.train, "--eval-data", args.test, "--task",
                   "sequence-classification", "--num-train-epochs", args.epochs, "--batch-size", args.batch, "--eval-batch-size", 64,
                   "--learning-rate", args.learning_rate, "--warmup-steps", args.warmup, "--weight-decay", 0.01, "--max-length", 128,
                   "--save-strategy", "no", "--eval-strategy", "epoch", "--seed", seed, "--output-dir", out, "--device", args.device,
                   "--dtype", args.precision]
        done = subprocess.run([str(x) for x in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        with open(pathlib.Path(out, "log.jsonl"), encoding="utf-8") as log:
            return 100 * [row["eval_accuracy"] for row in map(json.loads, log) if "eval_accuracy" in row][-1]


def run(side, family, seed):
    """The share of rows that are right; None where there was no time left."""
    if time.monotonic() - begun > args.stop_after:
        return None
    return {"Trainer": trainer, "snug": snug}[side](str(pathlib.Path(args.folder, family)), seed)


def make_folders():
    missing = [f for f in args.families if not pathlib.Path(args.folder, f, "model.safetensors").exists()]
    if missing:
        sizes = [word for name, n in zip(("--hidden", "--layers", "--heads"), args.sizes) for word in (name, str(n))]
        subprocess.run([sys.executable, pathlib.Path(__file__).with_name("random_families.py"), args.tokenizer, args.folder, *missing,
                        *sizes], check=True, stdout=subprocess.DEVNULL)


def kept():
    """What is known of earlier runs, by side, family and seed."""
    path = pathlib.Path(args.results or "/dev/null")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(r["side"], r["family"], r["seed"]): r["right"] for r in map(json.loads, lines)}


def all_runs(known):
    """Adds to what is known. Runs are processes: a side by itself for each seed, families of one seed before those of the next."""
    wanted = [(side, f, seed) for seed in args.seeds for f in args.families for side in args.sides]
    with concurrent.futures.ProcessPoolExecutor(args.jobs, multiprocessing.get_context("fork"), max_tasks_per_child=None) as pool:
        runs = {pool.submit(run, *what): what for what in wanted if what not in known}
        for ended in concurrent.futures.as_completed(runs):
            what = runs[ended]
            if ended.exception():
                print(*what, ended.exception(), file=sys.stderr, flush=True)
            elif ended.result() is not None:
                known[what] = ended.result()
                if args.results:
                    with open(args.results, "a", encoding="utf-8") as file:
                        print(json.dumps(dict(zip(("side", "family", "seed"), what), right=known[what])), file=file)


def spread(runs):
    return f"{statistics.mean(runs):.1f} ± {statistics.stdev(runs) if len(runs) > 1 else 0:.1f}"


def table(known):
    for family in args.families:
        theirs, ours = ([known[side, family, s] for s in args.seeds if (side, family, s) in known] for side in ("Trainer", "snug"))
        shown = [", ".join(f"{x:.1f}" for x in runs) for runs in (theirs, ours)]
        if theirs and ours:
            apart = statistics.mean(ours) - statistics.mean(theirs)
            print(f"| {family} | {shown[0]} | {shown[1]} | {spread(theirs)} | {spread(ours)} | {apart:+.1f} |", flush=True)


make_folders()
results = kept()
all_runs(results)
table(results)
