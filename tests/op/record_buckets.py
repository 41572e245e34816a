"""Records the buckets that transformers gives distances: in both directions (MPNetEncoder.relative_position_bucket), and one way
(T5Attention._relative_position_bucket). Writes buckets.json.
usage: python3 tests/op/record_buckets.py
"""
import json, os
import torch
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder
from transformers.models.t5.modeling_t5 import T5Attention

rel = torch.arange(-600, 601)  # the key's place less the query's
sizes = ((32, 128), (8, 6), (64, 300), (4, 3))
rows = {f"{n} {far}": MPNetEncoder.relative_position_bucket(rel, n, far).tolist() for n, far in sizes}
one_way = {f"{n} {far}": T5Attention._relative_position_bucket(rel, False, n, far).tolist() for n, far in sizes}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "buckets.json"), "w") as f:
    f.write(json.dumps({"first": -600, "rows": rows, "one way": one_way}).replace('], "', '],\n "') + "\n")
