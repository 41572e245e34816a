#!/usr/bin/env python3
"""Matrix products of language models on a GPU by PyTorch, in TFLOP/s: of bf16, and of 8-bit floats with one scale for a matrix and with one
for each row, either way with sums that stay in the matrix units (fast) and that do not. Factors are random.

    bench/peers/fp8_products.py       half a minute; needs torch on a GPU of compute capability 8.9 or later
"""
import torch

# Rows, inputs, outputs: of Llama-3.2-1B, Qwen2.5-1.5B, Qwen2.5-7B, Llama-3.1-8B and Qwen2.5-0.5B.
SIZES = [(16384, 2048, 3072), (16384, 2048, 2048), (16384, 2048, 16384), (16384, 8192, 2048), (16384, 1536, 2048), (16384, 1536, 17920),
         (16384, 8960, 1536), (8192, 3584, 4608), (8192, 3584, 37888), (8192, 18944, 3584), (8192, 4096, 6144), (8192, 4096, 28672),
         (8192, 14336, 4096), (16384, 896, 9728), (16384, 4864, 896)]


def seconds(f, n=30):
    for _ in range(5):
        f()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(n):
        f()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / n / 1000


print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: rows, in, out | bf16 | fp8 fast | a row, fast | fp8 | a row")
for rows, inner, outer in SIZES:
    x, w = torch.randn(rows, inner, device="cuda").bfloat16(), torch.randn(outer, inner, device="cuda").bfloat16()
    x8, w8 = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    of_rows = torch.ones(rows, 1, device="cuda"), torch.ones(1, outer, device="cuda")
    times = [seconds(lambda: x @ w.t())]
    for fast in (True, False):
        for a, b in ((one, one), of_rows):
            times.append(seconds(lambda: torch._scaled_mm(x8, w8.t(), scale_a=a, scale_b=b, out_dtype=torch.bfloat16, use_fast_accum=fast)))
    print(rows, inner, outer, "|", " | ".join(f"{2e-12 * rows * inner * outer / t:.0f}" for t in times), flush=True)
