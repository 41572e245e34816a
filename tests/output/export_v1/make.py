"""Writes model.safetensors beside this file as safetensors 0.8.0 does for the tensors of tests/output/export.c:
python make.py"""
import pathlib

import numpy as np
from safetensors.numpy import save

tensors = {
    "bert.embeddings.word_embeddings.weight": (np.arange(12, dtype=np.float32) / 4).reshape(4, 3),
    "classifier.bias": np.array([1, -1], dtype=np.float32),
    "classifier.weight": np.array([[0.5, 2], [3, 65504]], dtype=np.float16),
    "bert.embeddings.position_ids": np.arange(5, dtype=np.int64).reshape(1, 5),
}
data = save(tensors, metadata={"format": "pt"})
(pathlib.Path(__file__).parent / "model.safetensors").write_bytes(data)
