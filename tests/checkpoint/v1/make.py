"""Writes step-00000007 beside this file: a checkpoint in format version 1, made without snug from the description in
src/checkpoint/manifest.c and checkpoint_state.c. Made with safetensors 0.8.0, numpy, xxhash 3; run again only when
the format changes (and then under another name):  python make.py"""
import json
import pathlib

import numpy as np
import xxhash
from safetensors.numpy import save

DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "uint8": "U8"}
tensors = {
    "b.weight": (np.arange(6, dtype=np.float32) / 8).reshape(2, 3),
    "a.half": np.array([0.5, -1, 65504, 0], dtype=np.float16),
    "b.codes": np.array([1, 2, 3, 254, 255], dtype=np.uint8),
    "scalar": np.array(256.0, dtype=np.float64),
}
state = {"position": {"step": 7, "epoch": 1}, "rate": 0.375, "labels": ["naïve", "b"],
         "about": {"output_dir": "x", "made_by": "python"}}


def digest(data):
    return xxhash.xxh3_128_hexdigest(data)


folder = pathlib.Path(__file__).parent / "step-00000007"
folder.mkdir(exist_ok=True)
files = {"rank-0000.safetensors": save(tensors),
         "state.json": (json.dumps(state, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()}
for name, data in files.items():
    (folder / name).write_bytes(data)

lines = ""
for name in sorted(tensors):
    t = tensors[name]
    lines += f"{name}\n{' '.join([DTYPES[str(t.dtype)]] + [str(d) for d in t.shape])}\n{digest(t.tobytes())}\n"
hashed = {k: v for k, v in state.items() if k != "about"}
canonical = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
lines += f"state\n{digest(canonical)}\n"

text = f"""{{
"format": "snug checkpoint",
"format_version": 1,
"step": 7,
"world_size": 1,
"state_hash": "{digest(lines.encode())}",
"versions": {{"snug": "0.1.0"}},
"files": [
"""
text += ",\n".join(f'{{"name": "{n}", "bytes": {len(d)}, "xxh3_128": "{digest(d)}"}}' for n, d in files.items())
text += '],\n"tensors": [\n'
text += ",\n".join(f'{{"name": "{n}", "file": "rank-0000.safetensors", "xxh3_128": "{digest(tensors[n].tobytes())}"}}'
                   for n in sorted(tensors))
text += "],\n"
text += f'"xxh3_128": "{digest(text.encode())}"\n}}\n'
(folder / "MANIFEST.json").write_text(text)
