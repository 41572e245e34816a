#!/usr/bin/env python3
"""Records what transformers makes of translators' folders without a tokenizer.json, for tests/tokenizer/families.c.

    pip install transformers==5.24.0 sentencepiece==0.2.3 torch
    python3 record_translators.py

Writes translators/NAME: models of SentencePiece, vocab.json, a tiny model, tokenizer_config.json and rows.jsonl with the ids and decoded
texts of the class of transformers: what a source gets ("text"), and what a target gets. Sources and targets are cut by models that have
learned other texts. expected.json has the model's loss over some sources and targets, and what it writes, for tests/run/translators.c.
Models of SentencePiece are only trained where they are not there, as in record_sentencepiece.py.
"""
import io
import json
import os
import random
import shutil

import sentencepiece
import torch
from transformers import AutoTokenizer, M2M100Config, M2M100ForConditionalGeneration, MarianConfig, MarianMTModel

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "translators")
# As in record_sentencepiece.py, and a rule that begins another one: the longest counts.
RULES = [("FB01", "66 69"), ("FF21", "41"), ("FF41", "61"), ("3000", "20"), ("A0", "20"), ("9", "20"), ("D", "20"), ("A", "20"), ("C9", "45 301"),
         ("65 301", "E9"), ("65 301 302", "45"), ("2122", "54 4D"), ("200B", ""), ("BD", "31 2044 32"), ("915 94D", "4B"), ("2026", "20 2E 20")]


def recorded_texts():
    with open(os.path.join(HERE, "families", "gpt2", "rows.jsonl"), encoding="utf-8") as f:
        return [row["text"] for row in map(json.loads, f) if row["kind"] == "text"]


TEXTS = recorded_texts()
MARIAN = dict(tokenizer_class="MarianTokenizer", source_lang="en", target_lang="xx")
M2M = dict(tokenizer_class="M2M100Tokenizer", src_lang="en", tgt_lang="ro")
BLANKS = dict(remove_extra_whitespaces=False, add_dummy_prefix=False, split_by_whitespace=False)
# NAME: model_type, settings of spm_train, tokenizer_config.json
FOLDERS = {
    "marian": ("marian", dict(), dict()),
    "marian_bpe": ("marian", dict(model_type="bpe", treat_whitespace_as_suffix=True, user_defined_symbols=["<|x|>", "ab"]), MARIAN),
    "marian_bytes": ("marian", dict(byte_fallback=True, user_defined_symbols=["▁▁", "(-", "<|x|>"], control_symbols=["<c>"], vocab_size=420, remove_extra_whitespaces=False), dict(MARIAN, added_tokens_decoder={
        "0": dict(content="</s>", lstrip=False, normalized=False, rstrip=False, single_word=False, special=True),
        "1": dict(content="<unk>", lstrip=False, normalized=False, rstrip=False, single_word=False, special=True)})),
    "marian_blanks": ("marian", dict(BLANKS), dict(MARIAN, model_max_length=64)),
    "m2m100": ("m2m_100", dict(model_type="bpe", normalization_rule_name="identity"), M2M),
    "m2m100_wmt21": ("m2m_100", dict(), dict(M2M, language_codes="wmt21", src_lang="de", tgt_lang="is", additional_special_tokens=[
        "__en__", "__ha__", "__is__", "__ja__", "__cs__", "__ru__", "__zh__", "__de__"])),
}


def train(name, file, lines, settings):
    path = os.path.join(OUT, name, file)
    if os.path.exists(path):
        return open(path, "rb").read()
    rules = os.path.join("/tmp", f"rules-{os.getpid()}.tsv")
    with open(rules, "w") as f:
        f.writelines(f"{a}\t{b}\n" for a, b in RULES)
    args = dict(dict(vocab_size=180), **settings)
    if "normalization_rule_name" not in args:
        args["normalization_rule_tsv"] = rules
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, hard_vocab_limit=False, num_threads=1, minloglevel=2, character_coverage=0.98, **args)
    os.remove(rules)
    return model.getvalue()


def pieces(model):
    p = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [p.id_to_piece(i) for i in range(len(p)) if not p.is_control(i) and not p.is_unknown(i)]


def rows(name, t):
    rng = random.Random(name)
    texts = ["", " ", "a", " a  b ", "  Hello\tworld\r\n\n 12 3", "É e\u0301 ﬁ ＡＢａ ½ ™ क्ष क्", "e\u0301\u0302e\u0301 \u200B a\u200Bb\u00A0c\u3000d…", "</s><s>x <unk>y<pad> z", ">>fr<< a", ">>fr<<a b", " >>fr<< a", ">>xx<<", ">><<a",
             ">> a", "a >>fr<< b", "</s>>>de<<a</s> >>de<< b", "__en__ a __ro__", "x <|x|>  user\n<|x|>abab y z<c>", "(-(- ab", "ÀÉÎõü ǅ İ ſ Σς", "日本語日本 한국어 😀👍🏽 \U0001F1E6\U0001F1E7 a", "a▁b ▁ c▁▁d", "..,,!!?? ''", "###  ##### 000 0000000",
             "Don't can't I'm", "<0x41><0xE2>"] + rng.sample([s for s in TEXTS if 0 < len(s) < 80], 30)
    for s in texts:
        ids = t(s)["input_ids"]
        yield {"kind": "text", "text": s, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False), "decoded_skip_special": t.decode(ids, skip_special_tokens=True)}
        yield {"kind": "target", "text": s, "ids": t(text_target=s)["input_ids"]}
    for a, b in zip(texts[2:8], texts[20:26]):
        yield {"kind": "pair", "a": a, "b": b, "ids": t(a, b)["input_ids"]}
    for _ in range(25):
        ids = [rng.randrange(len(t)) for _ in range(rng.randrange(1, 12))]
        yield {"kind": "decode", "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False), "decoded_skip_special": t.decode(ids, skip_special_tokens=True)}


def write(folder, file, content):
    with open(os.path.join(folder, file), "wb" if isinstance(content, bytes) else "w", **({} if isinstance(content, bytes) else {"encoding": "utf-8"})) as f:
        f.write(content)


def make(name, model_type, settings, config):
    rng = random.Random(name)
    lines = [t.replace("\n", " ") for t in TEXTS if t.strip() and t.isprintable() and max(t) < "\u0180"] * 3
    if settings.get("normalization_rule_name") == "identity" or "split_by_whitespace" in settings:
        lines = [line for line in lines if "  " not in line]
    others = [line.replace("e", "ë").replace("th", "ß") for line in lines]
    models = {"source.spm": train(name, "source.spm", lines, settings), "target.spm": train(name, "target.spm", others, settings)} if model_type == "marian" \
        else {"sentencepiece.bpe.model": train(name, "sentencepiece.bpe.model", lines, settings)}
    names = ["</s>", "<unk>"] if model_type == "marian" else ["<s>", "<pad>", "</s>", "<unk>"]
    for model in models.values():
        names += [p for p in pieces(model) if p not in names and rng.random() < 0.97]  # some pieces have no id
    names += [">>fr<<", ">>de<<", "<pad>"] if model_type == "marian" else ["日本"]
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for file, model in models.items():
        write(folder, file, model)
    write(folder, "vocab.json", json.dumps({p: i for i, p in enumerate(names)}, ensure_ascii=False, separators=(",", ":")) + "\n")
    if config:
        write(folder, "tokenizer_config.json", json.dumps(config, indent=1) + "\n")
    pad, eos = names.index("<pad>"), names.index("</s>")
    sizes = dict(vocab_size=len(names) + (0 if model_type == "marian" else 108), d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                 encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=64, pad_token_id=pad, eos_token_id=eos, bos_token_id=eos, forced_eos_token_id=eos, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
                 decoder_start_token_id=pad if model_type == "marian" else eos, scale_embedding=True, dropout=0.0, init_std=0.3)
    torch.manual_seed(len(name))
    model = MarianMTModel(MarianConfig(**sizes)) if model_type == "marian" else M2M100ForConditionalGeneration(M2M100Config(**sizes))
    model.save_pretrained(folder)
    t = AutoTokenizer.from_pretrained(folder)
    print(name, type(t).__name__, len(t))
    write(folder, "rows.jsonl", "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows(name, t)))
    write(folder, "expected.json", json.dumps(expected(model.eval(), t, lines, others), ensure_ascii=False, separators=(",", ":")) + "\n")


def expected(model, t, lines, others):
    pairs = [(a, b) for a, b in zip(lines, others) if len(a) < 40][3:9]
    loss, tokens, written = 0.0, 0, []
    for source, target in pairs:
        x = t(source, text_target=target, return_tensors="pt")
        n = x["labels"].shape[1]
        with torch.no_grad():
            loss += model(**x).loss.item() * n
        tokens += n
        x = t(source, return_tensors="pt")
        more = dict(forced_bos_token_id=t.get_lang_id(t.tgt_lang)) if hasattr(t, "get_lang_id") else {}
        written.append(model.generate(**x, max_new_tokens=8, do_sample=False, num_beams=1, **more)[0, 1:].tolist())
    return {"rows": [{"source": a, "target": b} for a, b in pairs], "loss": loss / tokens, "written": written}


for name, (model_type, settings, config) in FOLDERS.items():
    make(name, model_type, settings, config)
