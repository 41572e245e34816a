"""Folders of a tiny Llama whose linear layers are quantised in the ways of others, and the numbers of these weights. For
tests/format/quantised.c and tests/run/lora_codes.c.

usage: record.py AUTOAWQ    with the packages compressed-tensors, torch, transformers and xxhash, and the unpacked source of AutoAWQ;
                            writes beside itself (versions used: versions.txt)

What codes stand for is said by
fp8, fp8_tensor, fbgemm     transformers' _dequantize_fp8_weight; of rows, as FBGEMM has it, torch's product
packed, odd, plain, mixed   the compressors of compressed-tensors. weight_g_idx, which they no longer write, is as older ones used it:
                            each column has its group's scale
gptq, gptq_order, gptq_2    the functions pack and dequantize_weight of GPTQModel 7.7.0 say it (nn_modules/qlinear), and are written here once
                            more for numpy, as that package asks for a GPU. Word by word, zero points of the first version are one less
awq                         AutoAWQ's dequantize_gemm; it packs as WQLinear_GEMM.from_linear does
Scales are taken as F32 before they are multiplied with, so that the numbers are not rounded to the type of the scales.

NAME.json   the weights: shape, XXH3-128 of their F32
"""
import importlib.util, json, os, shutil, sys
import numpy as np, torch, transformers as T, xxhash
import compressed_tensors as ct
from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import _dequantize_fp8_weight

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("packing", os.path.join(sys.argv[1], "awq/utils/packing_utils.py"))
awq = importlib.util.module_from_spec(spec)
spec.loader.exec_module(awq)


def ceil(a, b):
    return (a + b - 1) // b


# Each gives the tensors that stand in the place of a weight, by what follows the layer's name, and the numbers.


def fp8(w, i, block=None, dtype=torch.float8_e4m3fn, scales=torch.float32):
    most = torch.finfo(dtype).max
    if block is None:
        s = (w.abs().max() / most).to(scales)
        codes = (w / s.float()).to(dtype)
    else:
        rows, columns = ceil(w.shape[0], block[0]), ceil(w.shape[1], block[1])
        s = torch.tensor([[w[r * block[0]:(r + 1) * block[0], c * block[1]:(c + 1) * block[1]].abs().max() / most for c in range(columns)]
                          for r in range(rows)]).to(scales)
        wide = s.float().repeat_interleave(block[0], 0)[:w.shape[0]].repeat_interleave(block[1], 1)[:, :w.shape[1]]
        codes = (w / wide).clamp(-most, most).to(dtype)
    tensors = {"weight": codes, "weight_scale_inv": s}
    if i == 0:
        tensors["activation_scale"] = torch.tensor(1.0)
    return tensors, _dequantize_fp8_weight(codes, s, block, torch.float32)


def fbgemm(w, i):
    s = w.abs().amax(1, keepdim=True) / 448
    codes = (w / s).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale": s, "input_scale_ub": torch.tensor([1200.0])}, codes.float() * s


def compressed(w, i, compressor, args, scales=torch.bfloat16, order=None):
    args = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    if args.strategy == "group":
        size = args.group_size
    elif args.strategy == "block":
        size = None
    else:
        size = w.shape[1]
    low, high = (-448, 448) if args.type == "float" else (-2 ** (args.num_bits - 1), 2 ** (args.num_bits - 1) - 1)
    x = w if order is None else w[:, torch.argsort(order, stable=True)]
    if size is None:
        h, v = args.block_structure
        s = torch.tensor([[x[r:r + h, c:c + v].abs().max() / high for c in range(0, x.shape[1], v)] for r in range(0, x.shape[0], h)])
    else:
        parts = x.reshape(x.shape[0], -1, size)
        if args.symmetric:
            s = parts.abs().amax(2) / high
        else:
            s = (parts.amax(2) - parts.amin(2)) / (high - low)
    if args.strategy == "tensor":
        s = s.max().reshape(1)
    s = s.to(scales)
    state = {"weight": x, "weight_scale": s.float()}
    if not args.symmetric:
        state["weight_zero_point"] = (low - parts.amin(2) / s.float()).round().clamp(low, high).to(torch.int8)
    tensors = compressor.compress(state, scheme)
    numbers = compressor.decompress(tensors, scheme)["weight"].float()
    tensors["weight_scale"] = s
    if order is not None:
        back = torch.argsort(torch.argsort(order, stable=True))
        numbers = numbers[:, back]
        group = {k: v for k, v in tensors.items()}
        codes = ct.compressors.pack_quantized.helpers.unpack_from_int32(group["weight_packed"], args.num_bits, torch.Size(w.shape))[:, back]
        tensors["weight_packed"] = ct.compressors.pack_quantized.helpers.pack_to_int32(codes.contiguous(), args.num_bits)
        tensors["weight_g_idx"] = order.to(torch.int32)
    return tensors, numbers


def pack_words(codes, bits):
    """Codes (n, m), n packed downwards into int32 words."""
    words = np.zeros((ceil(codes.shape[0] * bits, 32), codes.shape[1]), np.uint32)
    for k in range(codes.shape[0]):
        words[k * bits // 32] |= codes[k].astype(np.uint32) << np.uint32(k * bits % 32)
    return words


def gptq(w, i, bits, size, v1=True, order=None, sym=False):
    w = w.numpy()
    inputs, most = w.shape[1], 2**bits - 1
    size = inputs if size < 0 else size
    idx = np.arange(inputs) // size if order is None else order(inputs, size)
    groups = ceil(inputs, size)
    scales, zeros = np.zeros((groups, w.shape[0]), np.float16), np.zeros((groups, w.shape[0]), np.int64)
    for g in range(groups):
        part = w[:, idx == g]
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if sym:
            high = np.maximum(-low, high)
            low = -high
        scales[g] = (high - low) / most
        zeros[g] = 2 ** (bits - 1) if sym else np.clip(np.round(-low / scales[g].astype(np.float32)), 1, most)
    s, z = scales.astype(np.float32)[idx].T, zeros[idx].T
    codes = np.clip(np.round(w / s) + z, 0, most).astype(np.int64)
    qzeros = pack_words(zeros.T, bits).T.copy()
    if v1:
        qzeros -= np.uint32(sum(1 << b for b in range(0, 32, bits)))
    tensors = {"qweight": pack_words(codes.T, bits), "qzeros": qzeros, "g_idx": idx.astype(np.int32)}
    tensors = {k: torch.from_numpy(v.view(np.int32).copy()) for k, v in tensors.items()}
    tensors["scales"] = torch.from_numpy(scales)
    if i == 1 and order is None:
        del tensors["g_idx"]
    return tensors, torch.from_numpy((codes - z).astype(np.float32) * s)


def awq_gemm(w, i, size):
    groups = w.shape[1] // size
    parts = w.reshape(w.shape[0], groups, size)
    s = ((parts.amax(2) - parts.amin(2)) / 15).to(torch.float16)
    z = (-parts.amin(2) / s.float()).round().clamp(0, 15)
    codes = (parts / s.float()[..., None] + z[..., None]).round().clamp(0, 15).reshape(w.shape).to(torch.int64).T
    zeros = z.to(torch.int64).T

    def pack(x):
        words = torch.zeros(x.shape[0], x.shape[1] // 8, dtype=torch.int64)
        for k, output in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
            words |= x[:, output::8] << (4 * k)
        return torch.from_numpy(words.numpy().astype(np.uint32).view(np.int32).copy())

    tensors = {"qweight": pack(codes), "qzeros": pack(zeros), "scales": s.T.contiguous()}
    numbers = awq.dequantize_gemm(tensors["qweight"], tensors["qzeros"], tensors["scales"].float(), 4, size).T
    return tensors, numbers.float()


def shuffled(inputs, size):
    return np.random.default_rng(3).permutation(inputs) // size


LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def groups(*args):
    """Layer i has the arguments i % n of n."""
    n = len(args)
    return {f"group_{k}": {"targets": ["Linear"] if n == 1 else [f"re:.*{layer}$" for layer in LAYERS[k::n]],
                           "weights": QuantizationArgs(**a).model_dump(), "input_activations": None, "output_activations": None}
            for k, a in enumerate(args)}


FLOAT = dict(num_bits=8, type="float", symmetric=True)
FLOATS = [dict(FLOAT, strategy="tensor"), dict(FLOAT, strategy="channel"), dict(FLOAT, strategy="block", block_structure=[16, 20])]
GROUP = dict(num_bits=4, type="int", strategy="group", group_size=16, symmetric=False)
ODD = dict(num_bits=3, type="int", strategy="channel", symmetric=True)
ODD_ZERO = dict(num_bits=5, type="int", strategy="channel", symmetric=False)
INT8 = dict(num_bits=8, type="int", strategy="channel", symmetric=True)
INT8_ZERO = dict(num_bits=8, type="int", strategy="group", group_size=8, symmetric=False)
pack, naive = PackedQuantizationCompressor, NaiveQuantizationCompressor
CASES = {
    "fp8": (dict(quant_method="fp8", weight_block_size=[12, 20], activation_scheme="dynamic"),
            lambda w, i: fp8(w, i, (12, 20), scales=torch.bfloat16 if i == 2 else torch.float32)),
    "fp8_tensor": (dict(quant_method="fp8", weight_block_size=None, activation_scheme="static"),
                   lambda w, i: fp8(w, i, dtype=torch.float8_e5m2 if i % 2 else torch.float8_e4m3fn)),
    "fbgemm": (dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0), fbgemm),
    "packed": (dict(quant_method="compressed-tensors", format="pack-quantized", ignore=["lm_head"], config_groups=groups(GROUP)),
               lambda w, i: compressed(w, i, pack, GROUP, order=torch.from_numpy(shuffled(w.shape[1], 16)) if i == 3 else None)),
    "odd": (dict(quant_method="compressed-tensors", format="pack-quantized", config_groups=groups(ODD, ODD_ZERO)),
            lambda w, i: compressed(w, i, pack, ODD_ZERO if i % 2 else ODD, scales=torch.float16)),
    "plain": (dict(quant_method="compressed-tensors", format="naive-quantized", config_groups=groups(INT8, INT8_ZERO)),
              lambda w, i: compressed(w, i, naive, INT8_ZERO if i % 2 else INT8)),
    "mixed": (dict(quant_method="compressed-tensors", format="mixed-precision",
                   config_groups=groups(*FLOATS)),
              lambda w, i: compressed(w, i, naive, FLOATS[i % 3], scales=torch.float32)),
    "gptq": (dict(quant_method="gptq", bits=4, group_size=16, desc_act=False, sym=False, checkpoint_format="gptq"), lambda w, i: gptq(w, i, 4, 16)),
    "gptq_order": (dict(quant_method="gptq", bits=8, group_size=8, desc_act=True, sym=True, checkpoint_format="gptq_v2"),
                   lambda w, i: gptq(w, i, 8, 8, v1=False, order=shuffled, sym=True)),
    "gptq_2": (dict(quant_method="gptq", bits=2, group_size=-1, desc_act=False, sym=True), lambda w, i: gptq(w, i, 2, -1, sym=True)),
    "awq": (dict(quant_method="awq", bits=4, group_size=8, version="gemm", zero_point=True), lambda w, i: awq_gemm(w, i, 8)),
}

for name, (settings, quantise) in CASES.items():
    torch.manual_seed(7)
    inner = 272 if name in ("fp8", "packed", "gptq", "awq") else 48  # more columns than are decoded at once
    config = T.LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=inner, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                           max_position_embeddings=16, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None, dtype="bfloat16")
    model = T.LlamaForCausalLM(config)
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    tensors, expected, i = {}, {}, 0
    for path, w in model.state_dict().items():
        if path == "lm_head.weight":
            continue
        if not path.endswith("proj.weight"):
            tensors[path] = w.to(torch.bfloat16)
            continue
        parts, numbers = quantise(w.clone(), i)
        for suffix, t in parts.items():
            tensors[path.removesuffix("weight") + suffix] = t.contiguous()
        x = numbers.contiguous().numpy()
        assert np.abs(x - w.numpy()).max() < np.abs(w.numpy()).max(), path
        expected[path] = [list(x.shape), xxhash.xxh3_128_hexdigest(x.tobytes())]
        i += 1
    save_file(tensors, folder + "/model.safetensors", {"format": "pt"})
    said = config.to_dict()
    said.update(architectures=["LlamaForCausalLM"], quantization_config=settings)
    for path, content in ((folder + "/config.json", said), (folder + ".json", expected)):
        with open(path, "w") as f:
            json.dump(content, f, indent=1)
            f.write("\n")
with open(os.path.join(HERE, "versions.txt"), "w") as f:
    f.write(f"AutoAWQ 0.2.9, compressed-tensors {ct.__version__}, torch {torch.__version__}, transformers {T.__version__}\n")
