"""How far gradients of recorded models are from transformers' in float64 (expected.safetensors), on a device and in a dtype: the norm of the
difference as a share of the tensor's, or that norm itself where the tensor is zero. Prints the worst tensor of the worst models.

    python3 rounding.py build/snug cuda bf16 [NAME ...]      NAME: folders here; all of them without any; "bf16 --fp8" is a dtype too
"""
import glob
import os
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

snug, device, dtype, *names = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
names = names or sorted(os.path.basename(os.path.dirname(path)) for path in glob.glob(here + "/*/expected.safetensors"))
worst, everything = [], []
for name in names:
    folder = f"{here}/{name}"
    with tempfile.TemporaryDirectory() as out:
        run = subprocess.run([snug, "debug", "grad", folder, folder + "/inputs.safetensors", out + "/gradients", "--device", device, "--dtype", *dtype.split()],
                             capture_output=True, text=True)
        if run.returncode:
            print(f"{name}: {run.stderr.strip().splitlines()[-1]}")
            continue
        expected, got = load_file(folder + "/expected.safetensors"), load_file(out + "/gradients")
    distances = []
    for tensor in (key for key in expected if key.startswith("grad.")):
        want, have = expected[tensor].astype(float), got[tensor].astype(float)
        size, off = np.linalg.norm(want), np.linalg.norm(want - have)
        distances.append((off / size if size > 1e-9 else off, name, tensor))
    worst.append(max(distances))
    everything += [distance for distance, _, _ in distances]
for distance, name, tensor in sorted(worst, reverse=True)[:5]:
    print(f"{distance:.2e} {name} {tensor}")
print(f"{device} {dtype}: {len(worst)} of {len(names)} models; of all tensors the median is {np.median(everything):.1e}")
