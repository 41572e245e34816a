"""Folders of a tiny Llama as transformers saves them when bitsandbytes has quantised it, and the numbers of its weights. For
tests/format/bitsandbytes.c and tests/run/lora_codes.c.

usage: record.py    with the packages bitsandbytes, torch, transformers and xxhash; writes beside itself (those used: versions.txt)

nested     nf4, scales in codes too; in shards, which part the codes of a weight from what stands beside them
fp4        codes and scales of 32 bits
storage    nf4, codes in tensors of bf16; down_proj is left in bf16
int8       8 bits
NAME.json  the weights as bitsandbytes' own functions give them: shape, XXH3-128 of their F32
"""
import json, os, shutil
import bitsandbytes as bnb, numpy as np, torch, transformers as T, xxhash

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {
    "nested": (dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True), 272),
    "fp4": (dict(load_in_4bit=True, bnb_4bit_quant_type="fp4"), 48),
    "storage": (dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_quant_storage=torch.bfloat16, llm_int8_skip_modules=["lm_head", "down_proj"]), 48),
    "int8": (dict(load_in_8bit=True), 48),
}


def numbers(module):
    if isinstance(module, bnb.nn.Linear4bit):
        s = module.weight.quant_state
        shape, s.shape, s.dtype = s.shape, torch.Size((1, s.shape.numel())), torch.float32
        codes = module.weight.data.view(torch.uint8).reshape(-1, 1)  # in one row: on a CPU rows of fewer than 64 are mixed up (0.50.2)
        return bnb.functional.dequantize_4bit(codes, s).reshape(shape)
    return bnb.functional.int8_vectorwise_dequant(module.weight.data, module.weight.SCB)


for name, (settings, inner) in CASES.items():
    torch.manual_seed(7)
    plain = os.path.join(HERE, "plain")
    config = T.LlamaConfig(vocab_size=32, hidden_size=64 if inner > 64 else 16, intermediate_size=inner, num_hidden_layers=1, num_attention_heads=2,
                           num_key_value_heads=1, max_position_embeddings=16, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None)
    T.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(plain)
    model = T.AutoModelForCausalLM.from_pretrained(plain, quantization_config=T.BitsAndBytesConfig(**settings), dtype=torch.bfloat16, device_map="cpu")
    shutil.rmtree(plain)
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="20KB" if name == "nested" else "5GB")
    os.remove(folder + "/generation_config.json")
    expected = {}
    for path, module in model.named_modules():
        if isinstance(module, (bnb.nn.Linear4bit, bnb.nn.Linear8bitLt)):
            w = numbers(module).float().contiguous().numpy()
            expected[path + ".weight"] = [list(w.shape), xxhash.xxh3_128_hexdigest(w.tobytes())]
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        json.dump(expected, f, indent=1)
        f.write("\n")
with open(os.path.join(HERE, "versions.txt"), "w") as f:
    f.write(f"bitsandbytes {bnb.__version__}, torch {torch.__version__}, transformers {T.__version__}\n")
