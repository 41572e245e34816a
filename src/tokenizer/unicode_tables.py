#!/usr/bin/env python3
"""Writes unicode_tables.h: what Hugging Face's tokenizers library thinks of every code point.

    pip install tokenizers==0.23.3 && python3 unicode_tables.py > unicode_tables.h

The library mixes Unicode versions: general categories from the crate unicode_categories 0.1 (Unicode 8), decompositions
from unicode-normalization-alignments 0.1 (Unicode 12), lower case and white space from the Rust it was built with, \\w
from the crate regex. So each property is asked of the library itself, code point by code point, and no version of
utf8proc can change what a model's tokens are. Only the decompositions and combining classes of characters that the
library does know come from utf8proc at run time: Unicode promises never to change those. This script checks that the
installed utf8proc agrees.
"""
import ctypes
import ctypes.util
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# ORDER char_flag: unicode.h names the bits
FLAGS = {name: 1 << bit for bit, name in enumerate(["DROP", "SPACE", "PUNCT", "HAN", "MARK", "NFD", "LOWER", "WORD"])}


def bert(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **options}).normalize_str


def word_test():
    """\\w is seen through an added token with single_word: "X" is found before c only when c is not \\w."""
    t = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    t.add_special_tokens([AddedToken("X", single_word=True, normalized=False)])
    return lambda s: 1 not in t.encode("X" + s).ids


def properties():
    clean, han, strip, lower = (bert(**{k: True}) for k in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"))
    nfd, split, is_word = normalizers.NFD().normalize_str, pre_tokenizers.BertPreTokenizer().pre_tokenize_str, word_test()
    highest = "\u0345"  # combining class 240, which no other character has or exceeds
    flags, lowered = {}, {}
    for c in CODE_POINTS:
        s, f = chr(c), 0
        pieces = [p for p, _ in split("a" + s + "b")]
        f |= FLAGS["SPACE"] if pieces == ["a", "b"] else 0
        f |= FLAGS["PUNCT"] if pieces == ["a", s, "b"] else 0
        f |= FLAGS["DROP"] if clean(s) == "" else 0
        assert clean(s) in ("", s) or (clean(s) == " " and f == FLAGS["SPACE"])
        f |= FLAGS["HAN"] if han(s) != s else 0
        f |= FLAGS["MARK"] if strip(s) == "" and nfd(s) == s else 0
        f |= FLAGS["NFD"] if nfd(s) != s or nfd(highest + s) != highest + s or s == highest else 0
        f |= FLAGS["LOWER"] if lower(s) != s else 0
        f |= FLAGS["WORD"] if is_word(s) else 0
        flags[c] = f
        if lower(s) != s:
            lowered[c] = lower(s)
    return flags, lowered


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_int16), ("combining_class", ctypes.c_int16)]


def check_utf8proc(flags):
    lib = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
    lib.utf8proc_get_property.restype = ctypes.POINTER(Property)
    nfd = normalizers.NFD().normalize_str
    example = {}  # one character of each combining class that the library knows
    for c, f in flags.items():
        if f & FLAGS["NFD"] and nfd(chr(c)) == chr(c):
            example.setdefault(unicodedata.combining(chr(c)), chr(c))
    classes = sorted(example)
    for c, f in flags.items():
        if not f & FLAGS["NFD"]:
            continue
        out, last = (ctypes.c_int32 * 16)(), ctypes.c_int(0)
        n = lib.utf8proc_decompose_char(c, out, 16, 16, ctypes.byref(last))  # 16 is UTF8PROC_DECOMPOSE
        assert "".join(map(chr, out[:n])) == nfd(chr(c)), hex(c)
        if nfd(chr(c)) == chr(c):
            smaller = [k for k in classes if nfd(example[k] + chr(c)) == example[k] + chr(c)]
            assert lib.utf8proc_get_property(c).contents.combining_class == smaller[-1], hex(c)


def runs(flags):
    """Each run of equal flags as (first code point << 8 | flags)."""
    out, before = [], None
    for c in range(0x110000):
        f = flags.get(c, before)  # surrogates cannot occur
        if f != before:
            out.append(c << 8 | f)
            before = f
    return out


def lower_rows(lowered):
    """(first, last, step, delta): every step-th code point from first to last becomes itself + delta."""
    assert {c for c, s in lowered.items() if len(s) > 1} == {0x130} and lowered[0x130] == "i\u0307"
    delta = {c: ord(s) - c for c, s in lowered.items() if len(s) == 1}
    rows = []
    for c in sorted(delta):
        if rows:
            first, last, step, d = rows[-1]
            if d == delta[c] and (c - last == step or (first == last and c - last in (1, 2))):
                rows[-1] = (first, c, c - last, d)
                continue
        rows.append((c, c, 1, delta[c]))
    return rows


def print_list(items):
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 120:
            print(line)
            line = "   "
        line += " " + item + ","
    print(line)


flags, lowered = properties()
check_utf8proc(flags)
print(f"""\
/* unicode_tables.h: made by unicode_tables.py from tokenizers {tokenizers.__version__}; see there. */
#ifndef TOKENIZER_UNICODE_TABLES_H
#define TOKENIZER_UNICODE_TABLES_H

#include <stdint.h>

/* clang-format off */
/* Runs of code points with equal flags: first code point << 8 | flags (enum char_flag). */
static const uint32_t char_runs[] = {{""")
print_list([f"0x{r:X}" for r in runs(flags)])
print("""\
};

/* Lower case: every step-th code point from first to last becomes itself + delta. U+0130 is left out. */
static const struct lower_row {
    uint32_t first, last;
    int32_t step, delta;
} lower_rows[] = {""")
print_list([f"{{0x{a:X}, 0x{b:X}, {s}, {d}}}" for a, b, s, d in lower_rows(lowered)])
print("""\
};
/* clang-format on */

#endif""")
