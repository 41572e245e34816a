#!/usr/bin/env python3
"""Writes class_tables.h: sets of code points that the steps of a tokenizer need beside those of unicode_tables.h.

    pip install tokenizers==0.23.3 && python3.11 class_tables.py T5/tokenizer.json > class_tables.h

(T5's normalizer is a Precompiled step.)

Like unicode_tables.py it asks the tokenizers library itself. The general categories of its regular expressions are
those of Oniguruma (Unicode 16); PCRE2 has those of its own version, which is 14 in Debian 12. The tables hold what the library
has and Python 3.11 (Unicode 14) has not, by category; what a newer PCRE2 knows itself is there twice, which does no harm.
"""
import base64
import ctypes
import ctypes.util
import json
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Cf Zs".split()


def ranges(members):
    out = []
    for c in sorted(members):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def category(name):
    """Members of \\p{name}, which Split cuts off from what follows."""
    split = pre_tokenizers.Split(Regex(r"\p{%s}" % name), "isolated").pre_tokenize_str
    return {c for c in CODE_POINTS if len(split(chr(c) + "\n")) == 2}


def newer(name):
    library = category(name)
    old = {c for c in CODE_POINTS if unicodedata.category(chr(c)) == name}
    gone = old - library
    if gone:
        print(name, "lost", [hex(c) for c in sorted(gone)], file=sys.stderr)
    return ranges(library - old)


def extenders():
    """What joins the character before it in one grapheme cluster. There the Precompiled step of nmt_nfkc loses it ("º" becomes "o"). Of
    4 bytes it makes a cluster too long to be looked up whole, and what is before it stays as it was."""
    t = json.load(open(sys.argv[1]))["normalizer"]
    n = normalizers.Precompiled(base64.b64decode(t["precompiled_charsmap"])).normalize_str
    assert n("º") == "o"
    assert n("U\u0324\u0350") == "\u1E72"
    short = {c for c in CODE_POINTS if c < 0x10000 and len(chr(c).encode()) <= 3 and n("º" + chr(c)) == "o" and n(chr(c)) != ""}
    return short | {c for c in CODE_POINTS if c > 0xFFFF and not n("U\u0324\u0350" + chr(c)).startswith("\u1E72")}


def check_utf8proc(known):
    lib = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
    nfkd = normalizers.NFKD().normalize_str
    for c in known:
        out, last = (ctypes.c_int32 * 32)(), ctypes.c_int(0)
        n = lib.utf8proc_decompose_char(c, out, 32, 16 | 4, ctypes.byref(last))  # UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
        assert "".join(map(chr, out[:n])) == nfkd(chr(c)), hex(c)


def print_ranges(name, comment, members):
    print(f"/* {comment} */\nstatic const struct char_range {name}[] = {{")
    line = "   "
    for a, b in members:
        item = f" {{0x{a:X}, 0x{b:X}}},"
        if len(line) + len(item) > 120:
            print(line)
            line = "   "
        line += item
    print(line + "\n};\n")


nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
strip = normalizers.StripAccents().normalize_str
digits = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str
compat = {c for c in CODE_POINTS if nfkd(chr(c)) != nfd(chr(c))}
check_utf8proc(compat)
print(f"""\
/* class_tables.h: made by class_tables.py from tokenizers {tokenizers.__version__}; see there. */
#ifndef TOKENIZER_CLASS_TABLES_H
#define TOKENIZER_CLASS_TABLES_H

#include "tokenizer/char_class.h"

/* clang-format off */""")
print_ranges("numeric", "Digits: numeric characters", ranges(c for c in CODE_POINTS if len(digits("a" + chr(c))) == 2))
print_ranges("accents", "StripAccents: what it removes", ranges(c for c in CODE_POINTS if strip("a" + chr(c)) == "a"))
print_ranges("compat", "NFKC, NFKD: characters with a compatibility decomposition", ranges(compat))
print_ranges("extenders", "Precompiled: what is one grapheme cluster with the character before it", ranges(extenders()))
found = {name: newer(name) for name in CATEGORIES}
for name in CATEGORIES:
    if found[name]:
        print_ranges("newer_" + name, f"\\p{{{name}}} beyond Unicode 14", found[name])
print("#define NEWER_CATEGORIES(X) " + " ".join(f"X({n})" for n in CATEGORIES if found[n]))
print("""/* clang-format on */

#endif""")
