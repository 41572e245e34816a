"""Records the frequencies of rotary positions as transformers computes them, from the spelling of config.json that published models have.
Run with: python rotary.py, which writes rotary.json. transformers computes in float32."""
import json, os
import transformers as T
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

here = os.path.dirname(os.path.abspath(__file__))
LLAMA3 = dict(rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
# head size, max_position_embeddings, rope_theta, rope_scaling
CASES = {
    "no scaling": (128, 32768, 1000000.0, None),
    "linear": (128, 2048, 10000.0, dict(type="linear", factor=8.0)),
    "dynamic": (64, 4096, 10000.0, dict(rope_type="dynamic", factor=2.0)),
    "Llama-3.1": (128, 131072, 500000.0, dict(factor=8.0, **LLAMA3)),
    "Llama-3.2": (64, 131072, 500000.0, dict(factor=32.0, **LLAMA3)),
    "Qwen2.5 with YaRN": (128, 32768, 1000000.0, dict(type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    "YaRN with two scales": (64, 163840, 10000.0, dict(type="yarn", factor=40.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=0.8,
                                                      original_max_position_embeddings=4096)),
    "YaRN, not truncated": (64, 131072, 150000.0, dict(rope_type="yarn", factor=32.0, truncate=False, attention_factor=1.25,
                                                      original_max_position_embeddings=4096)),
    "Phi-3-mini-128k": (96, 131072, 10000.0, dict(type="longrope", original_max_position_embeddings=4096,
                                                  short_factor=[1 + 0.02 * i for i in range(48)], long_factor=[1.05 + i for i in range(48)])),
}
# What transformers 5 has written, and what a model card tells people to add, which then counts.
BOTH = {"Qwen3, saved anew, with YaRN": dict(rope_theta=10.0, rope_type="default")}
CASES["Qwen3, saved anew, with YaRN"] = CASES["Qwen2.5 with YaRN"]
out = {}
for name, (size, positions, theta, scaling) in CASES.items():
    c = dict(max_position_embeddings=positions, rope_theta=theta, rope_scaling=scaling)
    c.update({"rope_parameters": BOTH[name]} if name in BOTH else {})
    cfg = T.LlamaConfig(head_dim=size, **json.loads(json.dumps(c)))
    kind = cfg.rope_parameters["rope_type"]
    if kind == "default":
        f, factor = T.models.llama.modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters(cfg)
    else:
        f, factor = ROPE_INIT_FUNCTIONS[kind](cfg, "cpu")
    longer = {}
    if kind == "longrope":
        longer["longer"] = ROPE_INIT_FUNCTIONS[kind](cfg, "cpu", 4097)[0].tolist()
    out[name] = {**longer, "config": c, "head_size": size, "frequencies": f.tolist(), "factor": float(factor)}
with open(here + "/rotary.json", "w") as f:
    json.dump({"transformers": T.__version__, "cases": out}, f, indent=1)
    f.write("\n")
