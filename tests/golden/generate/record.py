"""Records what transformers generates greedily, into expected.jsonl beside the prompts. Run with: python record.py NAME...

The files here are of transformers 5.17.0 and torch 2.11.0, in float64 on a CPU. Each result was the same in float32 and with weights
disturbed by 1e-5, so that no choice was close.
"""
import json, os, sys
import torch, transformers as T

here = os.path.dirname(os.path.abspath(__file__))
for name in sys.argv[1:]:
    d = os.path.join(here, name)
    model = T.AutoModelForCausalLM.from_pretrained(d, dtype=torch.float64, attn_implementation="eager").eval()
    with open(os.path.join(d, "prompts.jsonl")) as prompts, open(os.path.join(d, "expected.jsonl"), "w") as out:
        for row in prompts:
            ids = torch.tensor([json.loads(row)["input_ids"]])
            made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
            out.write(json.dumps(made[0, ids.shape[1]:].tolist()) + "\n")
