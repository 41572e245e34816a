"""A tiny gpt-oss whose experts are in MXFP4, as its files have them, and the numbers of these weights as transformers dequantises them. For
tests/format/mxfp4.c.

usage: record.py    with the packages safetensors, torch, transformers and xxhash; writes beside itself (those used: versions.txt)

folder         all codes and scales from 2^-10 to 2^3, drawn at random; the other weights are in bf16
folder.json    the experts' weights: shape, XXH3-128 of their F32
"""
import json, os, shutil, tempfile
import torch, transformers as T, xxhash
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

HERE = os.path.dirname(os.path.abspath(__file__))
g = torch.Generator().manual_seed(5)
torch.manual_seed(5)
config = T.GptOssConfig(vocab_size=37, hidden_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8, intermediate_size=32,
                        num_local_experts=3, num_experts_per_tok=2, max_position_embeddings=16, sliding_window=8, pad_token_id=0, bos_token_id=1,
                        eos_token_id=2, initializer_range=0.1)
folder, numbers = HERE + "/folder", tempfile.mkdtemp()
T.GptOssForCausalLM(config).to(torch.bfloat16).save_pretrained(numbers)
os.makedirs(folder, exist_ok=True)
shutil.copy(numbers + "/config.json", folder)
packed, expected = {}, {}
for name, w in load_file(numbers + "/model.safetensors").items():
    if not name.endswith(("gate_up_proj", "down_proj")):
        packed[name] = w
        continue
    experts, inner, out = w.shape
    blocks = torch.randint(0, 256, (experts, out, inner // 32, 16), generator=g).to(torch.uint8)
    scales = torch.randint(117, 126, (experts, out, inner // 32), generator=g).to(torch.uint8)
    packed[name + "_blocks"], packed[name + "_scales"] = blocks, scales
    plain = convert_moe_packed_tensors(blocks, scales)
    assert plain.shape == w.shape
    expected[name] = [list(w.shape), xxhash.xxh3_128_hexdigest(plain.float().contiguous().view(torch.uint8).numpy().tobytes())]
shutil.rmtree(numbers)
save_file(packed, folder + "/model.safetensors", {"format": "pt"})
c = json.load(open(folder + "/config.json"))
c["quantization_config"] = {"quant_method": "mxfp4",
                            "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
for path, value in ((folder + "/config.json", c), (HERE + "/folder.json", expected)):
    with open(path, "w") as f:
        json.dump(value, f, indent=2, sort_keys=True)
        f.write("\n")
with open(HERE + "/versions.txt", "w") as f:
    f.write(f"torch {torch.__version__}\ntransformers {T.__version__}\n")
