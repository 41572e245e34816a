"""Weights as files have them, where transformers 5 has other names or other tensors."""
import torch

NOMIC = (("layers.", "encoder.layers."), ("embeddings.LayerNorm", "emb_ln"), ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2"),
         ("self_attn.o_proj", "attn.out_proj"), ("gate_proj", "fc12"), ("up_proj", "fc11"), ("down_proj", "fc2"))


def nomic(weights):
    """Names of its own, and queries, keys and values apart."""
    out = {}
    for name, w in weights.items():
        if ".self_attn.q_proj." in name:
            w = torch.cat([weights[name.replace("q_proj", p)] for p in ("q_proj", "k_proj", "v_proj")])
            name = name.replace("self_attn.q_proj", "attn.Wqkv")
        for own, file in NOMIC:
            name = name.replace(own, file)
        if ".k_proj." not in name and ".v_proj." not in name:
            out[name] = w
    return out


def experts(mixtral, weights):
    """The weights of all experts as one; files have those of each."""
    names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    out = {}
    for name, w in weights.items():
        name = name.replace(".mlp.", ".block_sparse_moe.") if mixtral else name
        layer, found, what = name.partition(".experts.")
        for i in range(w.shape[0] if found else 0):
            parts = [(names[2], w[i])] if what == "down_proj" else zip(names, w[i].chunk(2))
            out.update({f"{layer}.experts.{i}.{part}.weight": x for part, x in parts})
        if not found:
            out[name] = w
    return out


GRANITE_EXPERTS = (("experts.gate_up_proj", "input_linear.weight"), ("experts.down_proj", "output_linear.weight"), (".router.", ".router.layer."))


def granite(weights):
    """The weights of all experts as one, under names of their own."""
    out = {}
    for name, w in weights.items():
        for own, file in GRANITE_EXPERTS:
            name = name.replace(own, file)
        out[name] = w
    return out


def tensors_as_saved(model_type, weights):
    """weights: tensors by name, in float or on the device "meta"."""
    if model_type == "gpt_oss":
        return weights
    if model_type.startswith("granitemoe"):
        return granite(weights)
    return nomic(weights) if model_type == "nomic_bert" else experts(model_type == "mixtral", weights)
