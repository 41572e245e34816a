"""Records what transformers' mBART tokenizers give sources and targets: a folder of each class with tokenizer.json, and expected.json.
Run with: python record.py"""
import json, os
import transformers as T

here = os.path.dirname(os.path.abspath(__file__))
PIECES = ["▁", "▁the", "▁bank", "▁card", "a", "b", "c", "d", "e", "n", "r", "t", "k", "s", ".", "▁a"]
TEXTS = ["the bank card", "a card", "", "bank </s> card", "de_DE a card."]
LANGUAGES = [(None, None), ("de_DE", "ro_RO"), (None, "fr_XX"), ("it_IT", None)]


def make(cls, codes, base):
    """Ids as in published models: languages behind the pieces."""
    words = ["<s>", "<pad>", "</s>", "<unk>", *PIECES] + sorted(codes) + ["<mask>"]
    vocab = [(w, 0.0 if w.startswith("<") else -2.0 - 0.1 * i) for i, w in enumerate(words)]
    return cls(vocab=vocab, **base)


def record(name, cls, codes, **base):
    d = os.path.join(here, name)
    made = make(cls, codes, base)
    made.save_pretrained(d)
    runs = []
    for source, target in LANGUAGES:
        t = cls.from_pretrained(d)
        if source:
            t.src_lang = source
        if target:
            t.tgt_lang = target
        runs.append({"source": source, "target": target, "sources": [t(x).input_ids for x in TEXTS],
                     "targets": [t(text_target=x).input_ids for x in TEXTS],
                     "cut": [t(x, truncation=True, max_length=4).input_ids for x in TEXTS]})
    with open(d + "/expected.json", "w") as f:
        json.dump({"texts": TEXTS, "runs": runs}, f, indent=1, ensure_ascii=False)
        f.write("\n")


from transformers.models.mbart.tokenization_mbart import FAIRSEQ_LANGUAGE_CODES as CC25
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as M50
record("mbart", T.MBartTokenizer, CC25)
record("mbart50", T.MBart50Tokenizer, M50, src_lang="en_XX", tgt_lang="hi_IN")
