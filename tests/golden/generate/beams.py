"""Records what transformers finds with beams, into NAME/beams.json: for each of some settings the ids behind each prompt.

A result is kept where float64, float32 and weights disturbed by 1e-5 give the same. Run with: python beams.py NAME...
"""
import json, os, sys
import torch, transformers as T

here = os.path.dirname(os.path.abspath(__file__))
torch.set_num_threads(1)
SETTINGS = [{"num_beams": n, **more} for n, more in
            [(2, {}), (4, {"early_stopping": True}), (4, {"early_stopping": "never", "length_penalty": 2.0}),
             (3, {"no_repeat_ngram_size": 2, "min_new_tokens": 4, "length_penalty": 0.0, "repetition_penalty": 1.3})]]


def search(d, settings, dtype, disturbed=0.0):
    seq2seq = T.AutoConfig.from_pretrained(d).is_encoder_decoder
    auto = T.AutoModelForSeq2SeqLM if seq2seq else T.AutoModelForCausalLM
    model = auto.from_pretrained(d, dtype=dtype, attn_implementation="eager").eval()
    g = torch.Generator().manual_seed(17)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=g).to(p.dtype) * disturbed)
    for row in open(d + "/prompts.jsonl"):
        ids = torch.tensor([json.loads(row)["input_ids"]])
        made = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False,
                              **settings)[0, 1 if seq2seq else ids.shape[1]:].tolist()
        yield made


for name in sys.argv[1:]:
    d, runs = os.path.join(here, name), []
    for settings in SETTINGS:
        made = list(search(d, settings, torch.float64))
        others = list(search(d, settings, torch.float32)), list(search(d, settings, torch.float64, 1e-5))
        runs.append({"settings": settings, "ids": [m if all(o[i] == m for o in others) else None for i, m in enumerate(made)]})
    with open(d + "/beams.json", "w") as f:
        f.write("[" + ",\n".join(json.dumps(r) for r in runs) + "]\n")
