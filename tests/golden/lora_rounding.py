"""How far gradients of the recorded adapters are from those in float64 where a GPU rounds the factors of products: PEFT's own, and snug's.
Prints, for each case and type, the worst tensor by its relative distance (norms). Bounds of tests/run/lora.c come from here.

Needs a GPU, peft and transformers.     python lora_rounding.py SNUG [NAME...]
"""
import os, subprocess, sys, tempfile
import torch, transformers as T, peft
from safetensors.torch import load_file
from lora import CASES, alone, here, name_of

T.logging.set_verbosity_error()


def worst(got, want):
    errors = {n: float((got[n].double().cpu() - w.double()).norm() / w.double().norm()) for n, w in want.items() if n.startswith("grad.")}
    name = max(errors, key=errors.get)
    return f"{errors[name]:.1e} {name}"


def of_peft(case, cls, base, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    experts = dict(experts_implementation="eager") if "moe" in base or "mixtral" in base else {}
    m = cls.from_pretrained(f"{here}/{base}", attn_implementation="eager", dtype=torch.float32, **experts)
    m = peft.PeftModel.from_pretrained(m, f"{here}/lora/{case}", is_trainable=True).cuda().eval()
    d = {k: v.cuda() for k, v in load_file(f"{here}/{base}/inputs.safetensors").items()}
    (alone(m, d) if getattr(m.config, "sliding_window", None) else m(**d)).loss.backward()
    return {"grad." + name_of(n): p.grad for n, p in m.named_parameters() if p.requires_grad}


def of_snug(snug, case, base, dtype):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "gradients.safetensors")
        subprocess.run([snug, "debug", "grad", f"{here}/{base}", f"{here}/{base}/inputs.safetensors", out, "--adapter", f"{here}/lora/{case}",
                        "--device", "cuda", "--dtype", dtype], check=True, capture_output=True)
        return load_file(out)


print("| case | type | snug | PEFT |\n|---|---|---|---|")
for case, (cls, base, *_) in CASES.items():
    if sys.argv[2:] and case not in sys.argv[2:]:
        continue
    want = load_file(f"{here}/lora/{case}/expected.safetensors")
    for dtype in ("fp32", "tf32", "fp16", "bf16"):
        try:
            theirs = worst(of_peft(case, cls, base, dtype == "tf32"), want) if dtype in ("fp32", "tf32") else ""
        except Exception as e:  # a version of peft or transformers that does not take it
            theirs = type(e).__name__
        print(f"| {case} | {dtype} | {worst(of_snug(sys.argv[1], case, base, dtype), want)} | {theirs} |", flush=True)
