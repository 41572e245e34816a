"""Records tests/format/data/models.bin: 200 small random models as the safetensors library serializes them.

    pip install safetensors==0.8.0 numpy
    python record_safetensors.py

Each is 4 bytes of length (little-endian), then the file. Names have escapes, control characters and characters of one to
four bytes; shapes have none to four dimensions, some of them 0; all dtypes that snug keeps occur. Metadata has at most
one key: the library keeps it in a hash map, so the order of more would change from run to run.
"""
import os
import random
import struct

import numpy as np
from safetensors import TensorSpec, serialize

DTYPES = {
    "uint64": 8, "int64": 8, "float64": 8, "float32": 4, "uint32": 4, "int32": 4, "bfloat16": 2, "float16": 2,
    "uint16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}
PIECES = ["encoder.layer.%d." % i for i in range(12)] + [
    "weight", "bias", "A", "a", "Z", "_", ".", "/", "\\", '"', "\b", "\t", "\n", "\f", "\r", "\x01", "\x1f", "\x7f", " ",
    "é", "ß", "€", "\ufffd", "😀", "𝄞", "__metadata", "0", "10", "2",
]


def text(rng, low, high):
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(low, high)))


def model(rng):
    tensors, alive = {}, []
    for _ in range(rng.choice([0, 1, 2, 3, 5, 8])):
        dtype = rng.choice(list(DTYPES))
        shape = [rng.choice([0, 1, 1, 2, 3, 5]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4]))]
        data = np.frombuffer(rng.randbytes(int(np.prod(shape, dtype=np.int64)) * DTYPES[dtype]), np.uint8)
        alive.append(data)
        spec = TensorSpec(dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
        tensors[text(rng, 1, 4)] = spec
    metadata = rng.choice([None, None, {"format": "pt"}, {text(rng, 0, 3): text(rng, 0, 5)}])
    return serialize(tensors, metadata)


def main():
    rng = random.Random(1)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "data", "models.bin"), "wb") as out:
        for _ in range(200):
            data = model(rng)
            out.write(struct.pack("<I", len(data)) + data)


main()
