"""Records what transformers generates greedily, into expected.jsonl beside the prompts. Run with: python record.py NAME...

A NAME_adapter is the model NAME with an adapter of PEFT's, which is made too where it is not there.

A name of ../make.py whose folder is not here gets one: that configuration with longer inputs and untied output embeddings (but
encoder-decoders as they are), weights large enough for prompts to go their own ways, and prompts.

The files of gpt2 and mistral are of transformers 5.17.0 and torch 2.11.0, those of arcee, bloom, cohere, cohere2, ernie4_5, exaone4, falcon, gemma, glm, glm4,
gpt_bigcode, gpt_neo, gpt_oss, gptj, granite, granitemoe, granitemoeshared, hunyuan, lfm2, lfm2_biases, m2m_100, marian, ministral, nemotron, olmo, olmo3, olmoe, opt, opt_projected, pegasus, phi,
qwen2_moe, seed_oss,
stablelm and starcoder2 of 5.24.0 and 2.15.0, the others
of 5.23.0 and 2.15.0; in float64 on a CPU. Each
result was the same in float32 and with weights disturbed by 1e-5, so that no choice was close.
"""
import json, os, sys
import peft, torch, transformers as T

here = os.path.dirname(os.path.abspath(__file__))
LENGTHS = [1, 2, 3, 5, 8, 13, 17]
OF_BART = ("bart", "mbart", "marian", "pegasus", "m2m_100")


def kind(d):
    """The class; of an encoder-decoder the prompts are sources, and its decoder's first token is not in the answers."""
    seq2seq = T.AutoConfig.from_pretrained(d).is_encoder_decoder
    return (T.AutoModelForSeq2SeqLM, 1) if seq2seq else (T.AutoModelForCausalLM, None)


def disturb(model, by, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:  # else it is a table of sines
                p.add_(torch.randn(p.shape, generator=g).to(p.dtype) * by)
    return model


def make(d, name, seed):
    cfg = T.AutoConfig.from_pretrained(os.path.join(here, "..", name))
    cfg.get_text_config().max_position_embeddings, cfg.architectures = 64, None
    for c in (cfg, cfg.get_text_config()):
        c.tie_word_embeddings &= cfg.is_encoder_decoder
    torch.manual_seed(seed)
    model = disturb(kind(os.path.join(here, "..", name))[0].from_config(cfg, dtype=torch.float32), 0.5, seed)
    if cfg.model_type in OF_BART:  # whose output is normed and tied: it would say what it reads
        decoder = model.model.decoder
        last = decoder.layer_norm if hasattr(decoder, "layer_norm") else decoder.layers[-1].final_layer_norm
        torch.nn.init.normal_(last.weight)
        if "bart" in cfg.model_type:
            torch.nn.init.normal_(decoder.embed_positions.weight, std=3)
        else:  # sines, which then count
            model.model.shared.weight.data.mul_(0.25)
    own = model.generation_config
    if cfg.model_type == "mbart":  # the end token first, then the language
        own.decoder_start_token_id, own.forced_bos_token_id = 2, 5
    model.save_pretrained(d)
    if os.path.exists(d + "/generation_config.json") and cfg.model_type != "mbart":
        os.remove(d + "/generation_config.json")
    g = torch.Generator().manual_seed(seed)
    with open(d + "/prompts.jsonl", "w") as f:
        for n in LENGTHS:
            f.write(json.dumps({"input_ids": torch.randint(3, cfg.get_text_config().vocab_size, (n,), generator=g).tolist()}) + "\n")


def make_adapter(d, base):
    model = T.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    torch.manual_seed(13)
    model = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=8, task_type="CAUSAL_LM", target_modules="all-linear"))
    g = torch.Generator().manual_seed(13)
    with torch.no_grad():
        for n, p in model.named_parameters():
            if "lora_B" in n:
                p.copy_(torch.randn(p.shape, generator=g) * 0.2)
    model.save_pretrained(d)
    os.remove(d + "/README.md")
    c = json.load(open(d + "/adapter_config.json"))
    c["base_model_name_or_path"] = "../" + os.path.basename(base)
    c["target_modules"].sort()  # peft writes a set, in any order
    with open(d + "/adapter_config.json", "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)
        f.write("\n")


def greedy(d, dtype, disturbed=0.0):
    base = d.removesuffix("_adapter")
    auto, begin = kind(base)
    experts = {"experts_implementation": "eager"} if os.path.basename(base) in ("gpt_oss", "mixtral", "granitemoe", "granitemoeshared", "olmoe", "qwen2_moe", "qwen3_moe") else {}
    model = auto.from_pretrained(base, dtype=dtype, attn_implementation="eager", **experts).eval()
    if base != d:
        model = peft.PeftModel.from_pretrained(model, d, autocast_adapter_dtype=False).to(dtype).eval()
    disturb(model, disturbed, 17)
    for row in open(base + "/prompts.jsonl"):
        ids = torch.tensor([json.loads(row)["input_ids"]])
        made = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False,
                              use_cache=begin is None)  # whose cache has room for as many layers as the encoder's
        yield made[0, begin or ids.shape[1]:].tolist()


def stable(d):
    """The answers, where no choice was close; else None."""
    made = list(greedy(d, torch.float64))
    return made if made == list(greedy(d, torch.float32)) == list(greedy(d, torch.float64, 1e-5)) else None


for name in sys.argv[1:]:
    d = os.path.join(here, name)
    if name.endswith("_adapter") and not os.path.exists(d):
        make_adapter(d, d.removesuffix("_adapter"))
    new, seed, made = not os.path.exists(d), 13, None
    enough = 5 if name in OF_BART else 10
    while new and (len({t for ids in made or [] for t in ids}) < enough or max(len(set(ids)) for ids in made) < 4):  # a model that says little shows little
        make(d, name, seed)
        made, seed = stable(d), seed + 1
    made = made or stable(d)
    assert made, name
    with open(d + "/expected.jsonl", "w") as f:
        f.writelines(json.dumps(ids) + "\n" for ids in made)
