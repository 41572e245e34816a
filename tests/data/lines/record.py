"""Lines of text files as Python reads them: python3 record.py > cases.json (made with Python 3.11.7).

One case: [text, lines], as for line in open(...), each without its line end.
"""
import io, json, random

written = ["", "\n", "a", "a\n", "a\nb", "a\r\nb\r\n", "a\rb\r", "\r\n\r\n", "\r\r\n", "\n\r", "a\r\n\nb", " \n\t\n", "é\r\n日本\n", "a\x0bb\x0cc\n",
           "a\u2028b\u0085c\n", '"a\nb"\n']
rng = random.Random(1)
written += ["".join(rng.choice(["a", "\n", "\r", " ", "é"]) for _ in range(rng.randrange(1, 14))) for _ in range(120)]
cases = [[text, [line.rstrip("\n") for line in io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")]] for text in written]
print("[" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "]")
