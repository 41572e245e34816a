"""Records what peft computes for LoRA adapters on the tiny random models of make.py: the adapter as it saves it, logits, loss, the gradient of
everything that is trained, and the merged weights. Run with: python lora.py [NAME...]   (versions used are written into lora/versions.txt)

Everything is computed in float64 and stored as float32, dropout off, eager attention. B is random: the zeros that it begins with would hide
everything. Names in expected.safetensors are those of the base model's weights, without peft's "base_model.model.".
"""
import json, os, shutil, sys
import torch, transformers as T, peft, bitsandbytes as bnb
from safetensors.torch import load_file, save_file

from as_saved import granite

T.logging.set_verbosity_error()
here = os.path.dirname(os.path.abspath(__file__))
SEQ = T.AutoModelForSequenceClassification
CASES = {  # name: (class, folder of the base, task type, settings)
    "bert_qv": (SEQ, "bert", "SEQ_CLS", dict(target_modules=["query", "value"])),
    "bert_all_linear": (SEQ, "bert", "SEQ_CLS", dict(target_modules="all-linear", use_rslora=True)),
    "bert_patterns": (SEQ, "bert", "SEQ_CLS", dict(target_modules=["key", "output.dense", "bert.pooler.dense"], rank_pattern={"key": 2, r"[a-z]+\.output\.dense": 3},
                                                    alpha_pattern={"bert.encoder.layer.1.output.dense": 16}, layers_to_transform=[1])),
    "bert_regex": (SEQ, "bert", "SEQ_CLS", dict(target_modules=r".*layer\.[0-9]\.(attention\.self\.query|intermediate\.dense)", modules_to_save=["pooler.dense"])),
    "bert_tags_default": (T.AutoModelForTokenClassification, "bert_tags", "TOKEN_CLS", dict()),
    "roberta_default": (SEQ, "roberta", "SEQ_CLS", dict()),
    "distilbert_qv": (SEQ, "distilbert", "SEQ_CLS", dict(target_modules=["q_lin", "v_lin"])),
    "llama_all_linear": (T.AutoModelForCausalLM, "llama", "CAUSAL_LM", dict(target_modules="all-linear")),
    "bert_dora": (SEQ, "bert", "SEQ_CLS", dict(target_modules="all-linear", use_dora=True)),
    "gpt2_dora": (T.AutoModelForCausalLM, "gpt2", "CAUSAL_LM", dict(target_modules=["c_attn", "c_fc", "c_proj"], fan_in_fan_out=True, use_dora=True)),
    "llama_dora": (T.AutoModelForCausalLM, "llama", "CAUSAL_LM", dict(target_modules=["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
                                                                       use_dora=True, use_rslora=True)),
    "llama_default": (T.AutoModelForCausalLM, "llama", "CAUSAL_LM", dict(modules_to_save=["embed_tokens"])),
    "gpt2_conv1d": (T.AutoModelForCausalLM, "gpt2", "CAUSAL_LM", dict(target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True)),
    "phi3_all_linear": (T.AutoModelForCausalLM, "phi3", "CAUSAL_LM", dict(target_modules="all-linear")),
    "qwen2_qv": (T.AutoModelForCausalLM, "qwen2", "CAUSAL_LM", dict(target_modules=["q_proj", "v_proj"], use_rslora=True)),
    "qwen3_default": (T.AutoModelForCausalLM, "qwen3", "CAUSAL_LM", dict(modules_to_save=["lm_head"])),
    "gemma2_blocks": (T.AutoModelForCausalLM, "gemma2", "CAUSAL_LM", dict(target_modules=["k_proj", "o_proj", "up_proj", "down_proj"])),
    "gemma3_pictures_text": (T.AutoModelForCausalLM, "gemma3_pictures", "CAUSAL_LM", dict(target_modules="all-linear", exclude_modules=r".*(vision_tower|multi_modal).*")),
    "llama_classes_saved": (SEQ, "llama_classes", "SEQ_CLS", dict(target_modules=["q_proj", "gate_proj"], modules_to_save=["score", "norm"])),
    "qwen2_moe_all_linear": (T.AutoModelForCausalLM, "qwen2_moe", "CAUSAL_LM", dict(target_modules="all-linear")),
    "qwen2_moe_shared": (T.AutoModelForCausalLM, "qwen2_moe", "CAUSAL_LM", dict(target_modules=["q_proj", "shared_expert_gate"])),
    "qwen3_moe_router": (T.AutoModelForCausalLM, "qwen3_moe", "CAUSAL_LM", dict(target_modules=["q_proj", "v_proj", "gate"])),
    "mixtral_attention": (T.AutoModelForCausalLM, "mixtral_balanced", "CAUSAL_LM", dict(target_modules=["q_proj", "o_proj"])),
    "qwen3_moe_experts": (T.AutoModelForCausalLM, "qwen3_moe", "CAUSAL_LM", dict(target_modules=["q_proj", "v_proj"], rank_pattern={r".*\.gate_up_proj": 3},
                                                                                 target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "mixtral_experts": (T.AutoModelForCausalLM, "mixtral_balanced", "CAUSAL_LM", dict(target_modules=[], target_parameters=["experts.down_proj"], use_rslora=True)),
    "qwen3_moe_all_linear": (T.AutoModelForCausalLM, "qwen3_moe", "CAUSAL_LM", dict(target_modules="all-linear")),
    "mixtral_layers": (T.AutoModelForCausalLM, "mixtral_balanced", "CAUSAL_LM", dict(target_modules=["w1", "w2", "w3", "gate", "v_proj"])),
    "m2m_100_qv": (T.AutoModelForSeq2SeqLM, "m2m_100", "SEQ_2_SEQ_LM", dict(target_modules=["q_proj", "v_proj"])),
    # the base in 4 bits, as bitsandbytes has it: settings of BitsAndBytesConfig
    "llama_nf4": (T.AutoModelForCausalLM, "llama", "CAUSAL_LM", dict(target_modules=["q_proj", "v_proj", "gate_proj", "down_proj"]), dict(quant_type="nf4")),
    "llama_nested": (T.AutoModelForCausalLM, "llama", "CAUSAL_LM", dict(target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]),
                     dict(quant_type="nf4", use_double_quant=True)),
    "phi3_fp4": (T.AutoModelForCausalLM, "phi3", "CAUSAL_LM", dict(target_modules="all-linear"), dict(quant_type="fp4")),
    "roberta_nf4": (SEQ, "roberta", "SEQ_CLS", dict(), dict(quant_type="nf4")),
    "llama_nested_dora": (T.AutoModelForCausalLM, "llama", "CAUSAL_LM", dict(target_modules=["q_proj", "gate_proj", "down_proj"], use_dora=True),
                          dict(quant_type="nf4", use_double_quant=True)),
    # the base in 8 bits: floats (E4M3) with a scale for each row of the file, a power of 2
    "llama_e4m3": (T.AutoModelForCausalLM, "llama", "CAUSAL_LM", dict(target_modules=["q_proj", "v_proj", "o_proj", "up_proj"]), "e4m3"),
    "gpt2_e4m3": (T.AutoModelForCausalLM, "gpt2", "CAUSAL_LM", dict(target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True), "e4m3"),
    "gpt_oss_nf4": (T.AutoModelForCausalLM, "gpt_oss", "CAUSAL_LM", dict(target_modules=["q_proj", "o_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]),
                    dict(quant_type="nf4")),
    "gpt_neox_default": (T.AutoModelForCausalLM, "gpt_neox", "CAUSAL_LM", dict()),
    "gpt_oss_all_linear": (T.AutoModelForCausalLM, "gpt_oss", "CAUSAL_LM", dict(target_modules="all-linear")),
    "gpt_oss_experts": (T.AutoModelForCausalLM, "gpt_oss", "CAUSAL_LM", dict(target_modules=["q_proj", "v_proj"], rank_pattern={r".*\.gate_up_proj": 3},
                                                                             target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    # as OpenAI's cookbook has it: the experts of some layers
    "gpt_oss_layer": (T.AutoModelForCausalLM, "gpt_oss", "CAUSAL_LM", dict(target_modules="all-linear", alpha_pattern={r".*_proj": 3},
                                                                           target_parameters=["1.mlp.experts.gate_up_proj", "1.mlp.experts.down_proj"])),
    "gpt_oss_router": (T.AutoModelForCausalLM, "gpt_oss", "CAUSAL_LM", dict(target_modules="all-linear", target_parameters=["router.weight"])),
    "gpt_oss_down": (T.AutoModelForCausalLM, "gpt_oss", "CAUSAL_LM", dict(target_modules=[], target_parameters=["experts.down_proj", "router.weight"])),
    "gpt_oss_classes_experts": (SEQ, "gpt_oss_classes", "SEQ_CLS", dict(target_modules=["o_proj"], target_parameters=["mlp.experts.gate_up_proj"])),
    "arcee_all_linear": (T.AutoModelForCausalLM, "arcee", "CAUSAL_LM", dict(target_modules="all-linear")),
    "nemotron_biases_dora": (T.AutoModelForCausalLM, "nemotron_biases", "CAUSAL_LM", dict(target_modules=["k_proj", "o_proj", "up_proj"], use_dora=True)),
    "deberta_1_default": (SEQ, "deberta_1", "SEQ_CLS", dict()),
    "deberta_1_all_linear": (SEQ, "deberta_1", "SEQ_CLS", dict(target_modules="all-linear")),
    "granitemoe_all_linear": (T.AutoModelForCausalLM, "granitemoe", "CAUSAL_LM", dict(target_modules="all-linear")),
    "granitemoe_experts": (T.AutoModelForCausalLM, "granitemoe", "CAUSAL_LM", dict(target_modules=["v_proj"], rank_pattern={r".*\.gate_up_proj": 3},
                                                                                   target_parameters=["experts.gate_up_proj", "experts.down_proj", "router.weight"])),
    "granitemoeshared_all_linear": (T.AutoModelForCausalLM, "granitemoeshared", "CAUSAL_LM", dict(target_modules="all-linear")),
    "lfm2_all_linear": (T.AutoModelForCausalLM, "lfm2_biases", "CAUSAL_LM", dict(target_modules="all-linear")),
    "lfm2_nested": (T.AutoModelForCausalLM, "lfm2_biases", "CAUSAL_LM", dict(target_modules=["in_proj", "out_proj", "w2"]),
                    dict(quant_type="nf4", use_double_quant=True)),
    "gpt_neox_all_linear": (SEQ, "gpt_neox_classes", "SEQ_CLS", dict(target_modules="all-linear")),
}


def name_of(n):
    return n.replace(".modules_to_save.default.", ".").replace("magnitude_vector.default.weight", "magnitude_vector").replace(".default.", ".").removeprefix("base_model.model.")


def as_files(n, p, base):
    """A merged parameter under the names that files have for it: of experts, a tensor for each layer of each."""
    if base == "gemma3_pictures":
        return {n.replace("model.language_model.", "language_model.model."): p}
    if "granitemoe" in base:
        return granite({n: p})
    if ".experts." not in n or "gpt_oss" in base:
        return {n.replace(".mlp.gate.", ".block_sparse_moe.gate.") if "mixtral" in base else n: p}
    block, which = n.split(".experts.")
    block, names = (block.replace(".mlp", ".block_sparse_moe"), ("w1", "w3", "w2")) if "mixtral" in base else (block, ("gate_proj", "up_proj", "down_proj"))
    parts = list(zip(names[:2], p.chunk(2, 1))) if which == "gate_up_proj" else [(names[2], p)]
    return {f"{block}.experts.{e}.{name}.weight": w[e] for name, w in parts for e in range(len(p))}


def alone(model, d):
    """A decoder's rows one by one, without padding, as in make.py: there transformers' gradients are finite behind a window too."""
    lengths = d["attention_mask"].sum(1).tolist()
    rows = [model(input_ids=d["input_ids"][i:i + 1, :n]).logits for i, n in enumerate(lengths)]
    if d["labels"].ndim == 1:
        logits = torch.cat(rows)
        return T.modeling_outputs.SequenceClassifierOutput(loss=torch.nn.functional.cross_entropy(logits, d["labels"]), logits=logits)
    losses = [torch.nn.functional.cross_entropy(r[0, :-1], d["labels"][i, 1:n], reduction="sum")
              for i, (n, r) in enumerate(zip(lengths, rows)) if n > 1]
    rows = [torch.nn.functional.pad(r, (0, 0, 0, d["input_ids"].shape[1] - r.shape[1])) for r in rows]
    return T.modeling_outputs.CausalLMOutput(loss=sum(losses) / sum(n - 1 for n in lengths), logits=torch.cat(rows))


def in_4_bits(cls, base, plain, settings):
    """The plain model, where the weights that transformers has in 4 bits are the numbers that bitsandbytes' codes stand for."""
    config = T.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32, llm_int8_skip_modules=["classifier", "lm_head"],
                                  **{"bnb_4bit_" + k: v for k, v in settings.items()})
    model = cls.from_pretrained(f"{here}/{base}", attn_implementation="eager", dtype=torch.float32, quantization_config=config)
    coded = [name + ".weight" for name, m in model.named_modules() if isinstance(m, bnb.nn.Linear4bit)]
    # experts and their routers are parameters, which transformers leaves as they are and snug does not
    coded += [n for n, p in model.named_parameters() if ".experts." in n and p.ndim == 3 or n.endswith(".router.weight")]
    for name in coded:
        w = plain.get_parameter(name)  # in one row: bitsandbytes 0.50.2 mixes up rows of fewer than 64 on a CPU
        codes, state = bnb.functional.quantize_4bit(w.data.float().reshape(1, -1), quant_type=settings["quant_type"],
                                                    compress_statistics=settings.get("use_double_quant", False))
        w.data = bnb.functional.dequantize_4bit(codes, state).double().reshape(w.shape)
    return plain


def in_8_bits(plain):
    """The plain model, where the weights of layers are the numbers that torch's float8_e4m3fn has nearest to them, by the scale of their row."""
    for name, m in plain.named_modules():
        if isinstance(m, (torch.nn.Linear, T.pytorch_utils.Conv1D)) and name != "lm_head":
            w = m.weight.data
            scale = 2.0 ** torch.ceil(torch.log2(w.abs().amax(1, keepdim=True) / 448))
            m.weight.data = (w / scale).float().to(torch.float8_e4m3fn).double() * scale
    return plain


def record(case, cls, base, task, settings, quantized=None):
    g = torch.Generator().manual_seed(11)
    torch.manual_seed(11)
    folder = f"{here}/lora/{case}"
    shutil.rmtree(folder, ignore_errors=True)
    experts = dict(experts_implementation="eager") if any(x in base for x in ("moe", "mixtral", "gpt_oss")) else {}
    load = lambda dtype: cls.from_pretrained(f"{here}/{base}", attn_implementation="eager", dtype=dtype, **experts)
    model = load(torch.float32)
    model = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, task_type=task, **settings))
    with torch.no_grad():
        for n, p in model.named_parameters():
            if p.requires_grad:
                p.add_(torch.randn(p.shape, generator=g) * (0.2 if "lora_B" in n else 0.05))
    model.save_pretrained(folder)
    os.remove(folder + "/README.md")
    c = json.load(open(folder + "/adapter_config.json"))
    c["base_model_name_or_path"] = f"../../{base}"
    for key in ("target_modules", "target_parameters"):
        if isinstance(c[key], list):
            c[key].sort()  # peft writes a set, in any order
    with open(folder + "/adapter_config.json", "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)
        f.write("\n")

    alike = load(torch.float64)
    if quantized:
        alike = in_8_bits(alike) if quantized == "e4m3" else in_4_bits(cls, base, alike, quantized)
    m = peft.PeftModel.from_pretrained(alike, folder, is_trainable=True, autocast_adapter_dtype=False).double().eval()
    d = {k: v.double() if v.is_floating_point() else v for k, v in load_file(f"{here}/{base}/inputs.safetensors").items()}
    out = alone(m, d) if getattr(m.config.get_text_config(), "sliding_window", None) else m(**d)
    out.loss.backward()
    e = {"logits": out.logits.detach(), "loss": out.loss.detach().reshape(1)}
    e.update({"grad." + name_of(n): p.grad.clone() for n, p in m.named_parameters() if p.requires_grad})
    assert {"base_model.model." + n[5:] for n in e if n.startswith("grad.")} == set(load_file(folder + "/adapter_model.safetensors"))
    before = dict(load(torch.float64).named_parameters())
    for n, p in m.merge_and_unload().named_parameters() if not quantized else []:
        n = n.replace(".modules_to_save.default", "").replace(".original_module", "")
        if n in before and not torch.equal(before[n], p):
            e.update({"merged." + name: w for name, w in as_files(n, p.detach(), base).items()})
    save_file({k: v.float().contiguous().clone() for k, v in e.items()}, folder + "/expected.safetensors")


if __name__ == "__main__":
    for case, what in CASES.items():
        if not sys.argv[1:] or case in sys.argv[1:]:
            record(case, *what)
    with open(here + "/lora/versions.txt", "w") as f:
        f.write(f"peft {peft.__version__}, torch {torch.__version__}, transformers {T.__version__}, float64\n"
                "those of BERT, RoBERTa, DistilBERT and GPT-2: torch 2.11.0, transformers 5.17.0\n"
                "those of Mixtral and Qwen3-MoE: torch 2.11.0, transformers 5.24.0\n"
                "those with DoRA: torch 2.15.0, transformers 5.23.0; of Gemma 3 with pictures, of M2M-100 and of Qwen2-MoE: 5.24.0\n"
                "those of experts but gpt-oss: torch 2.11.0, transformers 5.23.0; all-linear and named layers: torch 2.15.0, transformers 5.24.0\n"
                "those in 8 bits: torch 2.15.0, transformers 5.24.0\n"
                "those of Arcee, DeBERTa's first version, Granite MoE, LFM2 and Nemotron: torch 2.15.0, transformers 5.24.0\n"
                "those in 4 bits: bitsandbytes 0.50.2, torch 2.15.0, transformers 5.24.0\n"
                "those of each expert's layers (lora_older.py): peft 0.18.0 and transformers 4.57.6, then peft 0.21.2 and transformers 5.24.0; torch 2.15.0\n")
