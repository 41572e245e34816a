"""Records the buckets that transformers gives distances in both directions (MPNetEncoder.relative_position_bucket): writes buckets.json.
usage: python3 tests/op/record_buckets.py
"""
import json, os
import torch
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

rel = torch.arange(-600, 601)  # the key's place less the query's
rows = {f"{n} {far}": MPNetEncoder.relative_position_bucket(rel, n, far).tolist() for n, far in ((32, 128), (8, 6), (64, 300), (4, 3))}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "buckets.json"), "w") as f:
    f.write(json.dumps({"first": -600, "rows": rows}).replace('], "', '],\n "') + "\n")
