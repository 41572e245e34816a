#!/usr/bin/env python3
"""Small models of every encoder family with random settings and weights: exported by `snug export --onnx`, run by ONNX Runtime, compared
with transformers.

usage: random_models.py SNUG [SEED [COUNT]]      needs numpy, onnx, onnxruntime, torch and transformers; by default seed 0, 100 models

Fails where a number is off by more than 1e-4 of the largest. What failed is made again by its seed.
"""
import os
import random
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
import torch
import transformers

BOUND = 1e-4
TASKS = ["ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM", "Model"]
ACTS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh"]


def common(r):
    heads = r.randint(1, 4)
    return dict(vocab_size=r.randint(20, 90), hidden_size=heads * r.choice([4, 6, 8, 16]), num_hidden_layers=r.randint(1, 3),
                num_attention_heads=heads, intermediate_size=r.randint(5, 50), max_position_embeddings=r.choice([20, 40, 70]),
                hidden_act=r.choice(ACTS), layer_norm_eps=r.choice([1e-12, 1e-5, 1e-3]), initializer_range=0.3,
                num_labels=r.choice([1, 2, 3, 7]))


def distilbert(c, r):
    names = dict(hidden_size="dim", num_hidden_layers="n_layers", num_attention_heads="n_heads", intermediate_size="hidden_dim")
    kept = {names.get(k, k): v for k, v in c.items() if k not in ("hidden_act", "layer_norm_eps")}
    return dict(kept, activation=r.choice(["gelu", "relu"]))


def modernbert(c, r):
    def yes():
        return r.random() < 0.5
    eps, act = c.pop("layer_norm_eps"), c.pop("hidden_act")
    return dict(c, norm_eps=eps, hidden_activation=act, local_attention=r.choice([2, 4, 10, 128]),
                global_attn_every_n_layers=r.randint(1, 3), attention_bias=yes(), mlp_bias=yes(), norm_bias=yes(), classifier_bias=yes(),
                decoder_bias=yes(), classifier_pooling=r.choice(["cls", "mean"]), pad_token_id=0, bos_token_id=1, eos_token_id=2,
                cls_token_id=1, sep_token_id=2)


def deberta(c, r):
    return dict(c, relative_attention=r.random() < 0.8, position_buckets=r.choice([-1, 4, 8]),
                max_relative_positions=r.choice([-1, c["max_position_embeddings"]]),
                pos_att_type=r.choice([["c2p"], ["p2c"], ["p2c", "c2p"]]), share_att_key=r.random() < 0.5,
                norm_rel_ebd=r.choice(["none", "layer_norm"]), position_biased_input=r.random() < 0.5, type_vocab_size=r.choice([0, 2]),
                pooler_hidden_size=c["hidden_size"])


def roberta(c, r):
    return dict(c, type_vocab_size=r.choice([1, 2]), pad_token_id=r.choice([1, 1, 3]))


FAMILIES = {
    "Albert": lambda c, r: dict(c, embedding_size=r.choice([c["hidden_size"], 7]), inner_group_num=r.randint(1, 2),
                                num_hidden_groups=r.randint(1, c["num_hidden_layers"])),
    "Bert": lambda c, r: dict(c, type_vocab_size=r.choice([1, 2, 5])),
    "DebertaV2": deberta,
    "DistilBert": distilbert,
    "Electra": lambda c, r: dict(c, embedding_size=r.choice([c["hidden_size"], 5, 12]), type_vocab_size=r.choice([1, 2, 4])),
    "MPNet": lambda c, r: c,
    "ModernBert": modernbert,
    "Roberta": roberta,
    "XLMRoberta": roberta,
}


def make(r, folder):
    family, task = r.choice(list(FAMILIES)), r.choice(TASKS)
    settings = FAMILIES[family](common(r), r)
    if task == "ForQuestionAnswering":
        settings["num_labels"] = 2
    config = getattr(transformers, family + "Config")(**settings)
    model = getattr(transformers, family + task)(config).eval()
    model.save_pretrained(folder)
    return family + task, model


def batch(r, config):
    length = r.randint(1, config.max_position_embeddings - 5)
    lengths = [length] + [r.randint(1, length) for _ in range(r.randint(0, 3))]
    mask = numpy.array([[1] * n + [0] * (length - n) for n in lengths])
    ids = numpy.array([[r.randint(5, config.vocab_size - 1) for _ in range(length)] for _ in lengths])
    types = numpy.array([[r.randrange(getattr(config, "type_vocab_size", 0) or 1) for _ in range(length)] for _ in lengths])
    return {"input_ids": numpy.where(mask == 1, ids, config.pad_token_id or 0), "attention_mask": mask, "token_type_ids": types}


def difference(model, session, feed, mask):
    feed = {i.name: feed[i.name].astype(numpy.int64) for i in session.get_inputs()}
    with torch.no_grad():
        out = model(**{k: torch.tensor(v) for k, v in feed.items()})
    worst = 0
    for o, got in zip(session.get_outputs(), session.run(None, feed)):
        want = out[o.name].numpy()
        if want.shape[:2] == mask.shape and o.shape[1] == "sequence_length":  # what stands at padding means nothing
            want, got = want[mask == 1], got[mask == 1]
        worst = max(worst, float(abs(got - want).max() / max(1, abs(want).max())))
    return worst


def check(snug, seed, folder):
    r = random.Random(seed)
    torch.manual_seed(seed)
    model_folder, out = os.path.join(folder, "model"), os.path.join(folder, "out")
    name, model = make(r, model_folder)
    subprocess.run([snug, "export", model_folder, "--onnx", "--output-dir", out], check=True, stdout=subprocess.DEVNULL)
    path = os.path.join(out, "model.onnx")
    onnx.checker.check_model(path, full_check=True)
    feed = batch(r, model.config)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return name, difference(model, session, feed, feed["attention_mask"])


def main():
    first, count = [int(x) for x in sys.argv[2:4] + ["0", "100"][len(sys.argv) - 2:]]
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    onnxruntime.set_default_logger_severity(3)
    failed, largest = 0, 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            name, worst = check(sys.argv[1], seed, folder)
        largest = max(largest, worst)
        if not worst <= BOUND:
            failed += 1
            print(f"seed {seed}: {name} is off by {worst:.1e}")
    print(f"{count} models, the largest difference is {largest:.1e}, {failed} are off by more than {BOUND:g}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
