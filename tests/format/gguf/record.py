"""What the gguf package (0.19) writes and reads, for tests/format/gguf.c.

usage: record.py          with the packages gguf and numpy; writes beside itself

types.gguf           a tensor of each type that is read, and metadata of each type
types.json           the metadata as the package reads them
types.safetensors    the tensors as gguf.quants.dequantize gives them, F32 (F16, BF16, F64: as they are stored)
"""
import json, os, struct
import numpy as np
from gguf import GGMLQuantizationType as T, GGUFReader, GGUFValueType as V, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

HERE = os.path.dirname(os.path.abspath(__file__))
STORED = {T.F32: "F32", T.F16: "F16", T.BF16: "BF16", T.F64: "F64"}
# Where a block has its numbers in fp16, in bytes. Everything else of a block may be any bits.
HALVES = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}


def safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)"""
    header, data = {}, b""
    for name, (dtype, shape, raw) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def blocks(rng, kind, rows, width):
    """Random bytes as blocks: any bits, but finite scales from 1e-7 (subnormal) to 1, of either sign."""
    size, nbytes = GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (rows, width // size, nbytes), dtype=np.uint8)
    for at in HALVES[kind]:
        d = rng.choice([-1, 1], raw.shape[:2]) * 10.0 ** rng.uniform(-7, 0, raw.shape[:2])
        raw[:, :, at:at + 2] = d.astype(np.float16).reshape(*d.shape, 1).view(np.uint8)
    return raw.reshape(rows, -1)


def types():
    rng = np.random.default_rng(19)
    path = HERE + "/types.gguf"
    w = GGUFWriter(path, "test")
    w.add_uint8("a.uint8", 255); w.add_int8("a.int8", -128); w.add_uint16("a.uint16", 65535); w.add_int16("a.int16", -32768)
    w.add_uint32("a.uint32", 2**32 - 1); w.add_int32("a.int32", -2**31); w.add_uint64("a.uint64", 2**63 - 1); w.add_int64("a.int64", -2**63)
    w.add_float32("a.float32", 0.1); w.add_float64("a.float64", 0.1); w.add_bool("a.true", True); w.add_bool("a.false", False)
    w.add_string("a.string", "naïve 日本 😀\n"); w.add_string("a.empty", "")
    w.add_array("a.strings", ["a", "", "Ġb"]); w.add_array("a.ints", [1, -2, 3]); w.add_array("a.floats", [0.5, -1e30]); w.add_array("a.bools", [True, False])
    w.add_tensor("f32", rng.standard_normal((3, 5)).astype(np.float32))
    w.add_tensor("f16", rng.standard_normal(7).astype(np.float16))
    w.add_tensor("f64", rng.standard_normal((2, 2)))
    w.add_tensor("bf16", quantize(rng.standard_normal((2, 6)).astype(np.float32), T.BF16), raw_dtype=T.BF16)
    w.add_tensor("cube", rng.standard_normal((2, 3, 4)).astype(np.float32))
    for kind in HALVES:
        w.add_tensor(kind.name.lower(), blocks(rng, kind, 3, 768 if GGML_QUANT_SIZES[kind][0] == 256 else 96), raw_dtype=kind)
    for kind in (T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1):  # as the package makes them of weights
        w.add_tensor("made." + kind.name.lower(), quantize(rng.standard_normal((2, 64)).astype(np.float32), kind), raw_dtype=kind)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

    r = GGUFReader(path)
    values = {k: f.contents() for k, f in r.fields.items() if not k.startswith("GGUF.")}
    with open(HERE + "/types.json", "w", encoding="utf-8") as f:
        json.dump(values, f, ensure_ascii=False, indent=1, default=lambda x: x.item()); f.write("\n")
    out = {}
    for t in r.tensors:
        kind, shape = t.tensor_type, [int(n) for n in reversed(t.shape)]
        raw = t.data.tobytes() if kind in STORED else dequantize(t.data, kind).astype(np.float32).tobytes()
        out[t.name] = (STORED.get(kind, "F32"), shape, raw)
    safetensors(HERE + "/types.safetensors", out)


if __name__ == "__main__":
    types()
