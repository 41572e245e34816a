"""The loss of a text by transformers, with the numbers that bitsandbytes' codes of 4 bits stand for in place of a model's linear layers.

    hf_quantized.py MODEL TEXT        beside: snug eval --model MODEL --data FILE --task causal-lm --load-in-4bit, FILE: {"text": TEXT}

Everything is fp32. Nested magnitudes are coded by bitsandbytes, and once more by the nearest code. Needs bitsandbytes; no GPU, no network.
"""
import sys

import bitsandbytes.functional as F
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

logging.set_verbosity_error()
folder, text = sys.argv[1:]
ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt").input_ids
MAP = F.create_dynamic_map()


def coded(w, kind, nested):
    codes, s = F.quantize_4bit(w, quant_type=kind, compress_statistics=nested == "bitsandbytes")
    if nested != "nearest":
        return F.dequantize_4bit(codes, s)
    mean = s.absmax.double().mean().float()
    beyond = torch.nn.functional.pad(s.absmax - mean, (0, -len(s.absmax) % 256)).reshape(-1, 256)
    most = beyond.abs().amax(1, keepdim=True)
    near = ((beyond / most)[..., None] - MAP).abs().argmin(-1)
    absmax = (MAP[near] * most).flatten()[:len(s.absmax)] + mean
    places = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten().long()
    return (s.code[places].reshape(-1, 64) * absmax[:, None]).reshape(w.shape)


for kind, nested in ((None, None), ("nf4", None), ("nf4", "bitsandbytes"), ("nf4", "nearest"), ("fp4", None)):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for name, m in model.named_modules():
        if kind and isinstance(m, torch.nn.Linear) and name != "lm_head":
            m.weight.data = coded(m.weight.data, kind, nested)
    with torch.no_grad():
        print(kind or "as it is", "nested, by " + nested if nested else "", f"{model(input_ids=ids, labels=ids).loss.item():.5f}")
