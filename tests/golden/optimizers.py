"""Records optimizer trajectories of the packages that define them, into optim/NAME.safetensors as make.py does: param.I.T and grad.I.T of
a few tensors. What a package computes in float32 is recorded in float64 where it can be (torch, optimi), so that tests
may be strict. Run with: python optimizers.py [NAME...]
Needs torch, bitsandbytes, and lomo-optim, torch-optimi and schedulefree of PyPI; the versions used are in optim/versions.txt."""
import importlib.metadata as metadata, os, sys
import torch
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))
wanted = sys.argv[1:]
SMALL = [(5,), (3, 7), (1,), (9, 4)]
BLOCKS = [(300,), (17, 31)]  # a block of 256 and a rest; two and a rest


def trajectory(name, make, steps=12, shapes=SMALL, double=True, step=None):
    """make: of a list of parameters, the optimizer. Gradients are the same float32 numbers whatever it computes in."""
    if wanted and name not in wanted:
        return
    g = torch.Generator().manual_seed(8)
    ps = [torch.nn.Parameter(torch.randn(s, generator=g).to(torch.float64 if double else torch.float32)) for s in shapes]
    e = {f"param.{i}.0": p.detach().float().clone() for i, p in enumerate(ps)}
    opt = make(ps)
    for t in range(steps):
        for i, p in enumerate(ps):
            grad = torch.randn(p.shape, generator=g) * 10.0 ** torch.randint(-4, 2, (1,), generator=g).item()
            e[f"grad.{i}.{t}"] = grad.clone()
            p.grad = grad.to(p.dtype)
        (step or (lambda o: o.step()))(opt)
        e.update({f"param.{i}.{t + 1}": p.detach().float().clone() for i, p in enumerate(ps)})
    os.makedirs(here + "/optim", exist_ok=True)
    save_file(e, f"{here}/optim/{name}.safetensors")


def to_codes(x, code, absmax, out, blocksize):
    """What the CUDA kernels of bitsandbytes do with a state: the nearest code, but never 0 for a negative number. Its functions for the
    CPU look codes up in a coarser table: a third of the codes of a state that spans six decades is not the nearest."""
    n = -x.numel() % blocksize
    blocks = torch.nn.functional.pad(x.flatten(), (0, n)).view(-1, blocksize)
    absmax.copy_(blocks.abs().amax(1))
    y = (blocks / absmax.clamp(min=1e-38)[:, None]).flatten()[:x.numel()]
    best = (y.double()[:, None] - code.double()[None]).abs().argmin(1)
    best -= ((x.flatten() < 0) & (code[best] >= 0)).long()
    out.copy_(best.to(torch.uint8).view(out.shape))


def bnb():
    import bitsandbytes.backends.cpu.ops as ops
    import bitsandbytes.optim as b
    ops._quant_blockwise_fp32_direct = to_codes
    from bitsandbytes.optim.ademamix import _ReferenceAdEMAMix
    trajectory("lion", lambda ps: b.Lion(ps, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1, optim_bits=32), double=False)
    trajectory("lion_8bit", lambda ps: b.Lion(ps, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1, optim_bits=8, min_8bit_size=1),
               double=False, shapes=BLOCKS)
    trajectory("ademamix", lambda ps: _ReferenceAdEMAMix(ps, lr=1e-2, betas=(0.9, 0.999, 0.9999), alpha=5.0, weight_decay=0.1))
    trajectory("ademamix_warm", lambda ps: b.AdEMAMix(ps, lr=1e-2, betas=(0.8, 0.99, 0.999), alpha=3.0, eps=1e-6, t_alpha=7, t_beta3=9,
                                                      weight_decay=0.0, optim_bits=32), double=False)
    trajectory("ademamix_8bit", lambda ps: b.AdEMAMix(ps, lr=1e-2, weight_decay=0.1, optim_bits=8, min_8bit_size=1), double=False,
               shapes=BLOCKS)
    trajectory("rmsprop_bnb", lambda ps: b.RMSprop(ps, lr=1e-3, alpha=0.99, weight_decay=0.1, optim_bits=32), double=False)
    trajectory("rmsprop_bnb_8bit", lambda ps: b.RMSprop(ps, lr=1e-3, alpha=0.9, weight_decay=0.1, optim_bits=8, min_8bit_size=1),
               double=False, shapes=BLOCKS)


class Holder(torch.nn.Module):
    def __init__(self, ps):
        super().__init__()
        self.ps = torch.nn.ParameterList(ps)


def lomo_step(opt):
    """What their hook does at the end of a backward pass, with the gradients that are there."""
    opt.lr = 1e-2
    if hasattr(opt, "step_num"):
        opt.step_num += 1
    opt.grad_func(0)


def lomo():
    from lomo_optim import AdaLomo, Lomo
    torch.Tensor.cuda = lambda self, *a, **k: self  # AdaLomo allocates its states on a GPU
    trajectory("lomo", lambda ps: Lomo(Holder(ps), lr=1e-2, weight_decay=0.1), double=False, step=lomo_step)
    trajectory("adalomo", lambda ps: AdaLomo(Holder(ps), lr=1e-2, loss_scale=None, weight_decay=0.1), double=False, step=lomo_step)


def stable():
    from optimi import StableAdamW
    trajectory("stable_adamw", lambda ps: StableAdamW(ps, lr=1e-2, betas=(0.9, 0.999), weight_decay=0.1, eps=1e-8, triton=False))
    trajectory("stable_adamw_betas", lambda ps: StableAdamW(ps, lr=1e-2, betas=(0.9, 0.9), weight_decay=0.0, eps=1e-8, triton=False))


class MuonAndAdamW:
    """Muon for matrices, AdamW for the rest, as its documentation has it. torch computes the products in bf16: not here."""

    def __init__(self, ps, weight_decay, **muon):
        flat = [p for p in ps if p.ndim != 2]
        self.parts = [O.Muon([p for p in ps if p.ndim == 2], lr=1e-2, weight_decay=weight_decay, **muon)]
        self.parts += [O.AdamW(flat, lr=1e-2, weight_decay=weight_decay)] if flat else []

    def step(self):
        import unittest.mock as mock
        to = torch.Tensor.to

        def exact(x, *a, **k):
            return to(x, *a, **{**k, "dtype": x.dtype} if k.get("dtype") == torch.bfloat16 else k)
        with mock.patch.object(torch.Tensor, "to", exact):
            for part in self.parts:
                part.step()


def schedule_free():
    """Of what is evaluated and saved, the average, which .eval() puts into the parameters."""
    import schedulefree as s

    def step(opt):
        opt.train(); opt.step(); opt.eval()
    trajectory("schedule_free_adamw", lambda ps: s.AdamWScheduleFree(ps, lr=1e-2, weight_decay=0.1, warmup_steps=5), step=step)
    trajectory("schedule_free_adamw_r", lambda ps: s.AdamWScheduleFree(ps, lr=1e-2, betas=(0.8, 0.999), r=1.5, weight_lr_power=0.5), step=step)
    trajectory("schedule_free_radam", lambda ps: s.RAdamScheduleFree(ps, lr=1e-2, betas=(0.9, 0.9), weight_decay=0.1), step=step)
    trajectory("schedule_free_sgd", lambda ps: s.SGDScheduleFree(ps, lr=1e-2, weight_decay=0.1, warmup_steps=4), step=step)


O = torch.optim
stable()
schedule_free()
MATRICES = SMALL + [(8, 8), (20, 12)]
trajectory("muon", lambda ps: MuonAndAdamW(ps, 0.1, adjust_lr_fn="match_rms_adamw"), shapes=MATRICES)
trajectory("muon_original", lambda ps: MuonAndAdamW(ps, 0.0, momentum=0.8, eps=1e-3, ns_steps=3), shapes=MATRICES)
trajectory("rmsprop", lambda ps: O.RMSprop(ps, lr=1e-3, weight_decay=0.1))
trajectory("rmsprop_all", lambda ps: O.RMSprop(ps, lr=1e-3, alpha=0.9, eps=1e-6, momentum=0.8, centered=True))
trajectory("adagrad", lambda ps: O.Adagrad(ps, lr=1e-2, weight_decay=0.1))
trajectory("adagrad_lr_decay", lambda ps: O.Adagrad(ps, lr=1e-2, lr_decay=0.25, eps=1e-3))
try:
    bnb()
    lomo()
except ImportError:  # enough for what needs none of them
    assert wanted
if not wanted:
    with open(here + "/optim/versions.txt", "w") as f:
        f.write(", ".join(f"{n} {metadata.version(n)}" for n in ("torch", "bitsandbytes", "lomo-optim", "torch-optimi", "schedulefree")) + "\n")
