#!/usr/bin/env python3
"""Records hidden.safetensors: what the bare models of some folders of tests/golden give for their inputs in double, as transformers has
it: the last hidden state, 0 where there is padding.

usage: hidden.py      needs torch, transformers and safetensors
"""
import os

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "..", "golden")
NAMES = "albert bert deberta distilbert electra modernbert mpnet roberta".split()


def main():
    out = {}
    for name in NAMES:
        folder = os.path.join(GOLDEN, name)
        model = AutoModel.from_pretrained(folder, dtype=torch.float64).eval()
        inputs = load_file(os.path.join(folder, "inputs.safetensors"))
        names = [n for n in ("input_ids", "attention_mask", "token_type_ids") if n in inputs]
        with torch.no_grad():
            hidden = model(**{n: inputs[n] for n in names}).last_hidden_state
        out[name] = torch.where(inputs["attention_mask"][..., None] == 1, hidden, 0)
        print(name, tuple(hidden.shape), float(out[name].abs().mean()))
    save_file(out, os.path.join(HERE, "hidden.safetensors"))


if __name__ == "__main__":
    main()
