"""Rows as Python's csv module reads them: python3 record.py > cases.jsonl (made with Python 3.11.7).

One case a line: [delimiter, text, rows], rows null where csv.reader(strict=True) refuses the text. Blank lines, which
csv.reader gives as empty rows and csv.DictReader skips, are left out.
"""
import csv, io, json, random

written = [
    "", "\n", "a", "a,b\n1,2\n", "a,b\r\n1,2\r\n", "a,b\r1,2\r", "a,b\r\n1,2\n3,4\r5,6", "a\n\n\nb\n", "a\r\n\r\nb",
    '"a","b"\n', '"a""b",c\n', '"a\nb",c\n', '"a\r\nb"\r\n', '"a\rb"\r', 'a"b,c\n', 'a"b"\n', '""\n', '"",""\n', ",\n",
    ",,", "a,", '"a"b\n', '"a" ,b\n', '"a\\"b"\n', '"a', '"a\n\n', '"a""', "a, b\n", ' "a",b\n', "a\tb;c\n", "\ufeffa\n"[1:],
    '"\n"\n"', "é,ü\n", "日本,\U0001f600\n", "  \n", "\r\r\n", "a\r\r\nb", '"a",\n', ',"a"', '"",', "null,NA,None,nan,\n",
    "'a,b'\n", '"a,b"', '"a";"b"\n',
]
cases = [(",", text) for text in written] + [(";", text) for text in written] + [("\t", "a\tb,c\n1\t\"2\t\"\n")]
rng = random.Random(1)
for _ in range(600):
    alphabet = rng.choice([['a', ',', '"', '\n'], ['a', ',', '"', '\n', '\r', ';', ' ', 'é'], ['"', '"', ',', '\r', '\n', 'b']])
    cases.append((",", "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 24)))))
for _ in range(100):  # what csv.writer makes of any fields
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=rng.choice(["\n", "\r\n"]))
    for _ in range(rng.randrange(1, 4)):
        writer.writerow(["".join(rng.choice('a,"\n\r é') for _ in range(rng.randrange(5))) for _ in range(3)])
    cases.append((",", out.getvalue()))

for delimiter, text in cases:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    except csv.Error:
        rows = None
    print(json.dumps([delimiter, text, rows], ensure_ascii=False))
