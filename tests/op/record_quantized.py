"""Records weights in 4 bits as bitsandbytes makes them: codes, what they are multiplied with, and the numbers that they stand for.
Run with: python record_quantized.py   (bitsandbytes 0.50.2, torch 2.15.0)

17,024 normal numbers in 266 blocks, so that nested magnitudes are two groups; one block is 0, one has a lone large number."""
import os, torch
from bitsandbytes import functional as F
from safetensors.torch import save_file

g = torch.Generator().manual_seed(3)
x = torch.randn(266, 64, generator=g).mul(torch.rand(266, 1, generator=g) + 0.1).bfloat16().float()
x[5] = 0
x[9, 7] = 40
out = {"x": x.bfloat16()}
for kind in ("nf4", "fp4"):
    for nested in (False, True):
        codes, s = F.quantize_4bit(x.reshape(1, -1), quant_type=kind, compress_statistics=nested)
        name = kind + (".nested" if nested else "")
        out[name + ".codes"] = codes.flatten()
        out[name + ".absmax"] = s.absmax
        if nested:
            out[name + ".floats"] = torch.cat([s.offset.reshape(1), s.state2.absmax])
        out[name + ".y"] = F.dequantize_4bit(codes, s).flatten()[::7]  # of all blocks some
save_file({k: v.contiguous().clone() for k, v in out.items() if not (k.endswith(".codes") and "nested" in k)}, os.path.dirname(os.path.abspath(__file__)) + "/quantized.safetensors")
