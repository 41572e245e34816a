"""Records rows of the tables of positions that transformers calculates, 16 columns wide, into sines.safetensors: of M2M-100 for positions 0, 500 and
1023 (rows 2, 502, 1025), of Marian likewise (rows 0, 500, 1023). For tests/run/models.c. Run with: python sines.py   (torch 2.15.0, transformers 5.24.0)"""
import os
from safetensors.torch import save_file
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

tables = {"m2m_100": M2M100SinusoidalPositionalEmbedding.get_embedding(1026, 16, 1)[[2, 502, 1025]],
          "marian": MarianSinusoidalPositionalEmbedding(1024, 16).create_weight()[[0, 500, 1023]]}
save_file({k: v.contiguous() for k, v in tables.items()}, os.path.dirname(os.path.abspath(__file__)) + "/sines.safetensors")
