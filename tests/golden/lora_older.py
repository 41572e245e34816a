"""Records adapters of each expert's layers, which PEFT wrote while transformers 4 had these as layers, and what a model computes with them.
Needs peft, transformers and torch. Run with python lora_older.py [NAME...], first with transformers 4 (4.57, PEFT 0.18), then with 5.

With 4 the folder is written, and what the model computes and becomes when merged. With 5 the same adapter is put together by hand as one of
parameters: it must compute the same. Where PEFT converts the folder as a whole, its tensors must be the same too. From it come the gradients,
under the names that such an adapter has (adapter.NAME: its tensors). Everything is computed as in lora.py.
"""
import json, math, os, shutil, sys
import torch, transformers as T, peft
from safetensors.torch import load_file, save_file
from lora import here, name_of

T.logging.set_verbosity_error()
GATE_UP, OLDER = r".*\.gate_up_proj", T.__version__.startswith("4.")
CASES = {  # name: (folder of the base, settings, the same for parameters, whether PEFT converts all of it)
    "mixtral_each_layer": ("mixtral_balanced", dict(target_modules=["w1", "w2", "w3", "gate", "v_proj"]),
                           dict(target_modules=["v_proj"], target_parameters=["gate_up_proj", "down_proj", "gate.weight"],
                                rank_pattern={GATE_UP: 8}, alpha_pattern={GATE_UP: 16}), True),
    # of which PEFT loses layer 1, which has no experts, and the scale of gate_up_proj
    "qwen3_moe_each_layer": ("qwen3_moe", dict(target_modules="all-linear", use_rslora=True, rank_pattern={r"experts\.\d+\.down_proj": 3}),
                             dict(target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], use_rslora=True,
                                  target_parameters=["gate_up_proj", "experts.down_proj", "gate.weight"] +
                                                    [f"layers.1.mlp.{n}_proj.weight" for n in ("gate", "up", "down")],
                                  rank_pattern={GATE_UP: 8, r".*\.experts\.down_proj": 3}, alpha_pattern={GATE_UP: 8 * math.sqrt(2)}), False),
    # an expression, which PEFT compares with names that are no longer there
    "mixtral_expression": ("mixtral_balanced", dict(target_modules=r".*layers\.1\.block_sparse_moe\.(gate|experts\.\d\.w[13])|.*\.0\..*q_proj"),
                           dict(target_modules=["layers.0.self_attn.q_proj"], rank_pattern={GATE_UP: 8}, alpha_pattern={GATE_UP: 16},
                                target_parameters=["layers.1.mlp.experts.gate_up_proj", "layers.1.mlp.gate.weight"]), False),
}
LAYERS = {"mixtral": {"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)},
          "qwen3_moe": {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}}


def load(base, dtype):
    config = json.load(open(f"{here}/{base}/config.json"))
    names = dict(num_experts=config["num_local_experts"]) if OLDER and config["model_type"] == "qwen3_moe" else {}
    names.update({} if OLDER else dict(experts_implementation="eager"))
    return T.AutoModelForCausalLM.from_pretrained(f"{here}/{base}", attn_implementation="eager", dtype=dtype, **names)


def compute(m, base):
    d = {k: v.double() if v.is_floating_point() else v for k, v in load_file(f"{here}/{base}/inputs.safetensors").items()}
    out = m.double().eval()(**d)
    return out, {"logits": out.logits.detach(), "loss": out.loss.detach().reshape(1)}


def config(settings):
    return peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, task_type="CAUSAL_LM", **settings)


def write(folder, base, settings):
    g = torch.Generator().manual_seed(13)
    torch.manual_seed(13)
    shutil.rmtree(folder, ignore_errors=True)
    m = peft.get_peft_model(load(base, torch.float32), config(settings))
    with torch.no_grad():
        for n, p in m.named_parameters():
            if p.requires_grad:
                p.add_(torch.randn(p.shape, generator=g) * (0.2 if "lora_B" in n else 0.05))
    m.save_pretrained(folder)
    os.remove(folder + "/README.md")
    c = json.load(open(folder + "/adapter_config.json"))
    c["base_model_name_or_path"] = f"../../{base}"
    if isinstance(c["target_modules"], list):
        c["target_modules"].sort()  # peft writes a set, in any order
    with open(folder + "/adapter_config.json", "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)
        f.write("\n")
    m = peft.PeftModel.from_pretrained(load(base, torch.float64), folder, autocast_adapter_dtype=False)
    _, e = compute(m, base)
    before = dict(load(base, torch.float64).named_parameters())
    e.update({"merged." + n: p.detach() for n, p in m.merge_and_unload().named_parameters() if not torch.equal(before[n], p)})
    save_file({k: v.contiguous().clone() for k, v in e.items()}, folder + "/older.safetensors")


def put_together(m, own):
    """The tensors `own` of the file as the weights of an adapter of parameters."""
    names = LAYERS[m.config.model_type]
    used = set()

    def take(path):
        used.update({f"{path}.lora_A.weight", f"{path}.lora_B.weight"})
        return own[f"{path}.lora_A.weight"].double(), own[f"{path}.lora_B.weight"].double()

    for path, module in m.get_base_model().named_modules():
        if not hasattr(module, "lora_A"):
            continue
        in_file = path.replace(".mlp.", ".block_sparse_moe.") if m.config.model_type == "mixtral" else path
        layers = names.get(getattr(module, "parameter_name", ""))
        if layers is None:
            a, b = take(in_file.replace(".base_layer", ""))
        else:
            pairs = [[take(f"{in_file.replace('.base_layer', '')}.{e}.{n}") for n in layers] for e in range(module.num_experts)]
            a = torch.cat([a for expert in pairs for a, _ in expert])
            b = torch.stack([torch.block_diag(*[b for _, b in expert]) for expert in pairs], 2).flatten(1)  # (O, r, E)
        with torch.no_grad():
            module.lora_A["default"].weight.copy_(a)
            module.lora_B["default"].weight.copy_(b)
    assert used == set(own), used ^ set(own)


def record(folder, base, settings, converted):
    older = load_file(folder + "/older.safetensors")
    own = {n.removeprefix("base_model.model."): t for n, t in load_file(folder + "/adapter_model.safetensors").items()}
    m = peft.get_peft_model(load(base, torch.float64), config(settings), autocast_adapter_dtype=False).double()
    put_together(m, own)
    out, e = compute(m, base)
    for key, bound in (("logits", 1e-10), ("loss", 1e-6)):  # transformers takes the loss in float32
        torch.testing.assert_close(e[key], older[key], rtol=bound, atol=bound)
    out.loss.backward()
    weights = {name_of(n): p for n, p in m.named_parameters() if p.requires_grad}
    if converted:
        loaded = peft.get_peft_model_state_dict(peft.PeftModel.from_pretrained(load(base, torch.float64), folder, autocast_adapter_dtype=False))
        assert {n.removeprefix("base_model.model.") for n in loaded} == set(weights)
        assert all(torch.equal(p.double(), weights[n.removeprefix("base_model.model.")]) for n, p in loaded.items())
    e.update({"grad." + n: p.grad for n, p in weights.items()})
    e.update({"adapter." + n: p.detach() for n, p in weights.items()})
    e.update({k: v for k, v in older.items() if k.startswith("merged.")})
    save_file({k: v.float().contiguous().clone() for k, v in e.items()}, folder + "/expected.safetensors")
    os.remove(folder + "/older.safetensors")


for case, (base, settings, of_parameters, converted) in CASES.items():
    if sys.argv[1:] and case not in sys.argv[1:]:
        continue
    if OLDER:
        write(f"{here}/lora/{case}", base, settings)
    else:
        record(f"{here}/lora/{case}", base, of_parameters, converted)
