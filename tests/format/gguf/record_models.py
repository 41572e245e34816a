"""GGUF files of tiny models as llama.cpp's converter makes them, and what they stand for. For tests/format/gguf_model.c and
tests/tokenizer/gguf.c.

usage: record_models.py      with the packages gguf, numpy, tokenizers, transformers and xxhash; writes beside itself

llama.gguf granite.gguf gemma.gguf gemma2.gguf gemma3.gguf olmo2.gguf phi2.gguf phi3.gguf starcoder2.gguf mixtral.gguf qwen3moe.gguf    models with tensors of several types; NAME.json has the config.json that they were made from, and
                                 the weights under transformers' names, as gguf.quants.dequantize gives them: type, shape, XXH3-128
smollm.gguf llama-bpe.gguf qwen2.gguf phi-2.gguf spm.gguf    tokenizers trained on the texts below
NAME.jsonl                       texts with the ids that the tokenizers library gives them
export.json                      what the models' tensors are as F32, F16, BF16 and Q8_0, as gguf.quants.quantize stores them: type,
                                 XXH3-128 of the bytes; for tests/output/export_gguf.c
configs.json                     config.json of some models as transformers writes it today; likewise
"""
import json
import numpy as np, xxhash
from gguf import MODEL_ARCH_NAMES, GGMLQuantizationType as T, GGUFReader, GGUFWriter, get_tensor_name_map, RopeScalingType
from gguf.quants import dequantize, quantize
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from record import HERE

TEXTS = """The quick brown fox jumps over the lazy dog, and it doesn't care who's watching.
In 2024 there were 1234567 of them; by 31.12.2025 there will be 98.6% more.
naïve café Ångström – “quoted” … 日本語の文章です。 привет мир, как дела? 😀👍🏽
def f(x):\n    return x ** 2  # square\n\n\tif x >= 10: print("a\\tb")
I'VE said it's THEY'LL we'd; can't won't   many   spaces    here
What is the capital of France? The capital of France is Paris.
the other there their then than that this these those and ending spending pending
""".splitlines()
TEXTS = [t.replace("\\n", "\n").replace("\\t", "\t") for t in TEXTS]
MORE = ["", " ", "a", "  two  spaces ", "\n\n\r\n x", "e\u0301 combining and é", "1 12 123 1234 12345", "<|im_start|>user\nhello there<|im_end|>\n", "x<s>y</s>", "\u2581low", "ﬁ ½ Ⅷ 𝔘", "the\u00a0end", "tab\tand\x00nul".replace("\x00", "")]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def write_ids(name, tok):
    with open(f"{HERE}/{name}.jsonl", "w", encoding="utf-8") as f:
        for text in TEXTS + MORE:
            f.write(json.dumps({"text": text, "ids": tok.encode(text).ids}, ensure_ascii=False) + "\n")


def add_special(w, tok, special, types):
    for s in special:
        types[tok.token_to_id(s)] = 3


def byte_level(name, pre, specials, normalizer=None, ignore_merges=False, bos=None):
    """A tokenizer of the family, and a function that writes it into a GGUF file's metadata."""
    tok = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    # As in the hub's files: the special tokens have ids behind the model's vocabulary, or in front of it.
    tok.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=380, special_tokens=specials if name == "smollm" else [], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    if bos:
        tok.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tok.token_to_id(bos))])
    write_ids(name, tok)

    def write(w):
        vocab = tok.get_vocab(); tokens = sorted(vocab, key=vocab.get); types = [3 if t in specials else 1 for t in tokens]
        tokens += [f"[PAD{i}]" for i in range(3)]; types += [5] * 3  # fills up the table of embeddings
        w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre(name); w.add_token_list(tokens); w.add_token_types(types)
        w.add_token_merges([" ".join(m) for m in json.loads(tok.to_str())["model"]["merges"]])
        w.add_bos_token_id(vocab[specials[0]]); w.add_eos_token_id(vocab[specials[1]])
        if bos is None:
            w.add_add_bos_token(False)
        w.add_chat_template("{% for m in messages %}<|im_start|>{{ m['content'] }}{% endfor %}")
        return len(tokens)
    return write


def spm():
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>"]; bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    train = [("▁" + t.replace(" ", "▁")) for t in TEXTS]
    seed = Tokenizer(models.BPE()); seed.pre_tokenizer = pre_tokenizers.Split(Regex("(?=▁)"), "isolated")
    seed.train_from_iterator(train, trainers.BpeTrainer(vocab_size=160, show_progress=False))
    learned = json.loads(seed.to_str())["model"]
    # SentencePiece's order: special tokens, bytes, merged pieces by rank, characters.
    merged = [a + b for a, b in learned["merges"]]; chars = [t for t in learned["vocab"] if len(t) == 1]
    tokens = specials + bytes_ + list(dict.fromkeys(merged)) + chars
    scores = [0.0] * 259 + [-float(i) for i in range(len(tokens) - 259)]
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = [(t[:k], t[k:], -scores[i]) for i, t in enumerate(tokens) if types[i] == 1 for k in range(1, len(t)) if t[:k] in vocab and t[k:] in vocab]
    merges.sort(key=lambda m: (m[2], -len(m[0]), -len(m[1])))
    tok.model = models.BPE(vocab=vocab, merges=[(a, b) for a, b, _ in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    write_ids("spm", tok)

    def write(w):
        w.add_tokenizer_model("llama"); w.add_tokenizer_pre("default"); w.add_token_list(tokens); w.add_token_scores(scores); w.add_token_types(types)
        w.add_bos_token_id(1); w.add_eos_token_id(2); w.add_unk_token_id(0); w.add_add_bos_token(True); w.add_add_space_prefix(True)
        return len(tokens)
    return write


def finish(w):
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


def metadata(w, c):
    w.add_block_count(c["num_hidden_layers"]); w.add_context_length(c["max_position_embeddings"]); w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"]); w.add_head_count(c["num_attention_heads"]); w.add_head_count_kv(c["num_key_value_heads"])
    if "rms_norm_eps" in c: w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    else: w.add_layer_norm_eps(c.get("layer_norm_eps") or c["norm_epsilon"])
    if "rope_theta" in c: w.add_rope_freq_base(c["rope_theta"])
    w.add_vocab_size(c["vocab_size"])


def permute(w, heads):
    """convert_hf_to_gguf.py, LlamaModel.permute"""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def model(name, c, names, kinds, tokenizer, norm_shift, extra, arch=None, experts=None):
    """experts: what the converter calls the tensor of all of them: part of the file, name in the package's table, name of one."""
    arch = arch or name
    rng = np.random.default_rng(7)
    w = GGUFWriter(f"{HERE}/{name}.gguf", arch)
    known = get_tensor_name_map(next(a for a, n in MODEL_ARCH_NAMES.items() if n == arch), c["num_hidden_layers"])
    w.add_name("a tiny model")
    c["vocab_size"] = tokenizer(w)
    metadata(w, c); extra(w)
    H, F, D, A, K = c["hidden_size"], c["intermediate_size"], c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    shapes = {"self_attn.q_proj": (A * D, H), "self_attn.k_proj": (K * D, H), "self_attn.v_proj": (K * D, H), "self_attn.o_proj": (H, A * D), "mlp.gate_proj": (F, H), "mlp.up_proj": (F, H), "mlp.down_proj": (H, F),
              "self_attn.qkv_proj": ((A + 2 * K) * D, H), "mlp.gate_up_proj": (2 * F, H)}
    if name == "gemma3": shapes |= {"self_attn.q_norm": (D,), "self_attn.k_norm": (D,)}
    if name == "qwen3moe": shapes |= {"self_attn.q_norm": (D,), "self_attn.k_norm": (D,)}
    if experts:
        E, G = c.get("num_experts") or c["num_local_experts"], c.get("moe_intermediate_size", F)
        shapes |= {"mlp.gate": (E, H), "block_sparse_moe.gate": (E, H)}
    if name in ("phi2", "starcoder2"): shapes |= {"self_attn.dense": (H, A * D), "mlp.fc1": (F, H), "mlp.fc2": (H, F), "mlp.c_fc": (F, H), "mlp.c_proj": (H, F)}
    if name == "olmo2": shapes |= {"self_attn.q_norm": (A * D,), "self_attn.k_norm": (K * D,)}
    if name in ("phi2", "phi3"): del c["head_dim"]
    tensors = {"model.embed_tokens.weight": ("token_embd.weight", (c["vocab_size"], H)), ("model.final_layernorm" if name == "phi2" else "model.norm") + ".weight": ("output_norm.weight", (H,))}
    if not c["tie_word_embeddings"]:
        tensors["lm_head.weight"] = ("output.weight", (c["vocab_size"], H))
    for i in range(c["num_hidden_layers"]):
        for own, hf in names.items():
            tensors[f"model.layers.{i}.{hf}.weight"] = (f"blk.{i}.{own}.weight", shapes.get(hf, (H,)))
        for own, (merged, one) in (experts or {}).items():
            tensors[merged.format(i) + ".weight"] = (f"blk.{i}.{own}.weight", (E, H, G) if own == "ffn_down_exps" else (E, G, H), f"model.layers.{i}.{one}.weight")
    if name in ("phi2", "starcoder2"):  # all have biases, but for the embeddings; Phi's head too
        tensors |= {hf[:-6] + "bias": (own[:-6] + "bias", shape[:1]) for hf, (own, shape) in tensors.items() if own != "token_embd.weight" and (own != "output.weight" or name == "phi2")}
    expected = {}
    for k, (hf, (own, shape, *one)) in enumerate(tensors.items()):
        assert known.get_name(hf, (".weight", ".bias")) == own, (hf, own)
        kind = T.F32 if len(shape) == 1 or "ffn_gate_inp" in own else kinds[k % len(kinds)]
        x = rng.standard_normal(shape).astype(np.float32)
        if kind in (T.F32, T.F16): stored = x.astype(np.float32 if kind == T.F32 else np.float16); back = stored
        else: stored = quantize(x, kind); back = stored if kind == T.BF16 else dequantize(stored, kind).astype(np.float32)
        heads = {"attn_q.weight": A, "attn_k.weight": K}.get(".".join(own.split(".")[2:]))
        if arch in ("llama", "granite") and heads:  # rows of blocks move as a whole
            stored = permute(stored, heads)
        if len(shape) == 1: back = stored - np.float32(norm_shift)
        w.add_tensor(own, stored, raw_dtype=kind)
        for e in range(shape[0] if one else 0):
            expected[one[0].format(e)] = [{T.F16: "F16", T.BF16: "BF16"}.get(kind, "F32"), shape[1:], xxhash.xxh3_128_hexdigest(np.ascontiguousarray(back[e]).tobytes())]
        if not one: expected[hf] = [{T.F16: "F16", T.BF16: "BF16"}.get(kind, "F32"), shape, xxhash.xxh3_128_hexdigest(np.ascontiguousarray(back).tobytes())]
    finish(w)
    with open(f"{HERE}/{name}.json", "w") as f:
        f.write('{"config": ' + json.dumps(c) + ',\n "tensors": {' + ",".join(f"\n  {json.dumps(n)}: {json.dumps(v)}" for n, v in expected.items()) + "}}\n")


LLAMA = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
GEMMA2 = {**LLAMA, "ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}

GEMMA3 = {**GEMMA2, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
OLMO2 = {n: GEMMA3[n] for n in GEMMA3 if n not in ("attn_norm", "ffn_norm")}
PHI3 = {**{n: LLAMA[n] for n in ("attn_norm", "ffn_norm", "attn_output", "ffn_down")}, "attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}


PHI2 = {**{n: LLAMA[n] for n in ("attn_norm", "attn_q", "attn_k", "attn_v")}, "attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
STARCODER2 = {**{n: LLAMA[n] for n in LLAMA if n[:4] != "ffn_" or n == "ffn_norm"}, "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
DENSE = ("ffn_gate", "ffn_up", "ffn_down")
MIXTRAL = {**{n: LLAMA[n] for n in LLAMA if n not in DENSE}, "ffn_gate_inp": "block_sparse_moe.gate"}
QWEN3MOE = {**{n: LLAMA[n] for n in LLAMA if n not in DENSE}, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate_inp": "mlp.gate"}


def llama3_factors(c, s):
    """convert_hf_to_gguf.py, LlamaModel.generate_extra_tensors"""
    out = []
    for f in 1.0 / (c["rope_theta"] ** (np.arange(0, c["head_dim"], 2, dtype=np.float32) / c["head_dim"])):
        wave = 2 * np.pi / f
        if wave < s["original_max_position_embeddings"] / s["high_freq_factor"]: out.append(1)
        elif wave > s["original_max_position_embeddings"] / s["low_freq_factor"]: out.append(s["factor"])
        else:
            smooth = (s["original_max_position_embeddings"] / wave - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
            out.append(1 / ((1 - smooth) / s["factor"] + smooth))
    return np.array(out, dtype=np.float32)


def export(names):
    out = {}
    for name in names:
        for kind in (T.F32, T.F16, T.BF16, T.Q8_0):
            rows = {}
            for t in GGUFReader(f"{HERE}/{name}.gguf").tensors:
                x = np.array(dequantize(t.data, t.tensor_type), dtype=np.float32)
                k = T.F32 if len(t.shape) == 1 or "ffn_gate_inp" in t.name else kind
                if name.startswith("gemma") and len(t.shape) == 1: x = (x - np.float32(1)) + np.float32(1)  # a folder has the number without the 1
                raw = x if k == T.F32 else x.astype(np.float16) if k == T.F16 else quantize(x, k)
                if t.name != "rope_freqs.weight": rows[t.name] = [k.name, xxhash.xxh3_128_hexdigest(raw.tobytes())]
            out[f"{name} {kind.name}"] = rows
    with open(HERE + "/export.json", "w") as f:
        f.write("{" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in out.items()) + "}\n")


def spell(names):
    """Each config.json above in transformers' own spelling."""
    from transformers import AutoConfig
    out = {}
    for name in names:
        with open(f"{HERE}/{name}.json") as f: c = json.load(f)["config"]
        out[name] = {k: v for k, v in AutoConfig.for_model(**c).to_dict().items() if k not in ("transformers_version", "_name_or_path")}
    with open(HERE + "/configs.json", "w") as f:
        f.write("{" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in out.items()) + "}\n")


def main():
    byte = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = lambda digits: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WORDS.replace("DIGITS", digits)), "isolated"), byte])
    smollm = byte_level("smollm", pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), ["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    llama3 = byte_level("llama-bpe", split(r"\p{N}{1,3}"), ["<|im_start|>", "<|im_end|>"], ignore_merges=True, bos="<|im_start|>")
    qwen2 = byte_level("qwen2", split(r"\p{N}"), ["<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC())
    phi = byte_level("phi-2", pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>", "<|end|>"])
    pieces = spm()
    for name, write in (("smollm", smollm), ("llama-bpe", llama3), ("qwen2", qwen2), ("phi-2", phi), ("spm", pieces)):
        w = GGUFWriter(f"{HERE}/{name}.gguf", "llama"); write(w); finish(w)

    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    c = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "rope_scaling": scaling, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
         "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32"}
    def of_llama(w):
        w.add_rope_dimension_count(8); w.add_tensor("rope_freqs.weight", llama3_factors(c, scaling))
    model("llama", c, LLAMA, [T.Q8_0, T.F16, T.Q4_1, T.F32, T.Q5_0, T.BF16], smollm, 0, of_llama)

    g = {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 32, "query_pre_attn_scalar": 32, "max_position_embeddings": 8192, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "tie_word_embeddings": True, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
         "sliding_window": 4096, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}
    def of_gemma2(w):
        w.add_key_length(32); w.add_value_length(32); w.add_attn_logit_softcapping(50.0); w.add_final_logit_softcapping(30.0); w.add_sliding_window(4096)
    model("gemma2", g, GEMMA2, [T.Q4_0, T.Q5_1], pieces, 1, of_gemma2)

    g = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 32, "query_pre_attn_scalar": 32, "max_position_embeddings": 131072, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
         "tie_word_embeddings": True, "sliding_window": 1024, "sliding_window_pattern": 6, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}
    def of_gemma3(w):
        w.add_key_length(32); w.add_value_length(32); w.add_sliding_window(1024); w.add_rope_scaling_type(RopeScalingType.LINEAR); w.add_rope_scaling_factor(8.0)
    model("gemma3", g, GEMMA3, [T.Q4_0, T.Q8_0], pieces, 1, of_gemma3)

    o = {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "max_position_embeddings": 4096, "rms_norm_eps": 1e-06, "rope_theta": 500000.0, "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32"}
    model("olmo2", o, OLMO2, [T.Q8_0, T.F16], smollm, 0, lambda w: w.add_rope_dimension_count(8))

    factors = {"short_factor": [1.0, 1.0299999713897705, 1.25], "long_factor": [1.05, 2.5, 32.0]}
    p = {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
         "rope_scaling": {"rope_type": "longrope", **{k: [float(np.format_float_positional(np.float32(x), unique=True)) for x in v] for k, v in factors.items()}},
         "sliding_window": 2047, "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None, "torch_dtype": "float32"}
    def of_phi3(w):
        w.add_rope_dimension_count(6); w.add_rope_scaling_orig_ctx_len(4096); w.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(32) / np.log(4096)))); w.add_sliding_window(2047)
        for k, v in factors.items(): w.add_tensor(f"rope_factors_{k.split('_')[0]}.weight", np.array(v, dtype=np.float32))
    model("phi3", p, PHI3, [T.Q8_0, T.F16], smollm, 0, of_phi3)

    m = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "max_position_embeddings": 32768, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "tie_word_embeddings": False, "num_local_experts": 3, "num_experts_per_tok": 2, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32"}
    def of_mixtral(w):
        w.add_rope_dimension_count(8); w.add_expert_count(3); w.add_expert_used_count(2)
    model("mixtral", m, MIXTRAL, [T.Q8_0, T.Q4_0, T.F16, T.F32, T.Q5_1, T.BF16], smollm, 0, of_mixtral, "llama",
          {f"ffn_{n}_exps": (f"layers.{{}}.feed_forward.experts.{w}", f"block_sparse_moe.experts.{{}}.{w}") for n, w in (("gate", "w1"), ("up", "w3"), ("down", "w2"))})

    q = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 96, "moe_intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 40960, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": False, "num_experts": 4, "num_experts_per_tok": 3, "norm_topk_prob": True,
         "decoder_sparse_step": 1, "mlp_only_layers": [], "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32"}
    def of_qwen3moe(w):
        w.add_key_length(32); w.add_value_length(32); w.add_expert_count(4); w.add_expert_used_count(3); w.add_expert_feed_forward_length(64)
    model("qwen3moe", q, QWEN3MOE, [T.Q8_0, T.Q5_0, T.Q4_1, T.F16], smollm, 0, of_qwen3moe, None,
          {f"ffn_{n}_exps": (f"model.layers.{{}}.mlp.experts.{n}_proj", f"mlp.experts.{{}}.{n}_proj") for n in ("gate", "up", "down")})

    g = {"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_act": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 32, "max_position_embeddings": 8192, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": [2, 5], "torch_dtype": "float32"}
    def of_gemma(w):  # a turn's end is another token than the text's, as the converter writes of Gemma's chats
        w.add_key_length(32); w.add_value_length(32); w.add_eot_token_id(5)
    model("gemma", g, LLAMA, [T.Q4_0, T.Q8_0], pieces, 1, of_gemma)

    i = {"architectures": ["GraniteForCausalLM"], "model_type": "granite", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 10000000.0, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
         "residual_multiplier": 0.22, "logits_scaling": 8.0, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32"}
    def of_granite(w):
        w.add_rope_dimension_count(8); w.add_attention_scale(0.015625); w.add_embedding_scale(12.0); w.add_residual_scale(0.22); w.add_logit_scale(8.0)
    model("granite", i, LLAMA, [T.Q8_0, T.F16, T.Q5_0], smollm, 0, of_granite)

    p = {"architectures": ["PhiForCausalLM"], "model_type": "phi", "hidden_act": "gelu_new", "hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
         "max_position_embeddings": 2048, "partial_rotary_factor": 0.75, "layer_norm_eps": 1e-05, "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32"}
    def of_phi2(w):
        w.add_rope_dimension_count(6)
        p["rope_theta"] = 10000.0  # the converter leaves it out
    model("phi2", p, PHI2, [T.Q8_0, T.F16, T.Q5_1], smollm, 0, of_phi2)

    s = {"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 8, "max_position_embeddings": 16384, "norm_epsilon": 1e-05, "rope_theta": 1000000.0, "use_bias": True, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32"}
    model("starcoder2", s, STARCODER2, [T.Q8_0, T.F16, T.Q4_0], smollm, 0, lambda w: w.add_rope_dimension_count(8))
    export(["llama", "gemma2", "olmo2", "gemma3", "phi3", "mixtral", "qwen3moe", "gemma", "granite", "phi2", "starcoder2"])
    spell(["llama", "gemma2", "gemma3", "phi3", "mixtral", "qwen3moe", "gemma", "granite", "phi2", "starcoder2"])


if __name__ == "__main__":
    main()
