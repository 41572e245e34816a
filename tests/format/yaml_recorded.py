"""Records yaml_recorded.json: what PyYAML (6.0) makes of documents, or null and false where it refuses them.

    python3 yaml_recorded.py > yaml_recorded.json
"""
import json

import yaml

DOCUMENTS = [
    "a: 1", "a: -7\nb: +3\nc: 0\nd: 9223372036854775807", "a: 1_000_000", "a: 0.5\nb: -1.5e+3\nc: .5\nd: 5.\ne: 1.0e-5",
    "a: true\nb: yes\nc: On\nd: FALSE\ne: no\nf: off", "a:\nb: ~\nc: null\nd: Null", "a: 'true'\nb: \"5\"\nc: ''",
    "a: hello world\nb: it's\nc: \"q \\\" \\n \\u00e9\"\nd: 'don''t'", "a: b # comment\n# whole line\nc: d#e",
    "a: {b: 1, c: [1, 2.5, x], d: {}}\ne: []", "a:\n  b: 1\n  c:\n    - 1\n    - x: y\n      z: 2\n    - [a, b]",
    "a: |\n  two\n  lines\nb: >\n  folded\n  text\nc: |-\n  no end", "---\na: 1\n...\n", "--- \na: 1\n", "", "# nothing\n",
    "- 1\n- b", "just text", "\ufeffa: 1", "a: größe 你好", "a: http://x/y:z\nb: a:b\nc: -x\nd: '- x'", "\"quoted key\": 1",
    "a: 2e400\nc: .\nd: 1.2.3\ne: 1-2\nf: 12e\ng: e5\nh: +\ni: _1\nj: 1__0",
    "{\"a\": 1, \"b\": [true, null, 1.5], \"c\": {\"d\": \"x\"}}", "{a: 1,}", "a: [1,\n  2]",
    # refused
    "a: b: c", "a:\n\tb: 1", "a: 'open", "a: [1", "a: {b", "a: @x", "a: `x`", "a: %x", "a: 1\n b: 2", "a\nb: 1", "a: b\n  c: d", "- a\nb: 1",
    "a: \"\\q\"", "a: *b", "a: }", "a: \x01",
]


def read(text):
    try:
        return [yaml.safe_load(text), True]
    except yaml.YAMLError:
        return [None, False]


rows = [[text, *read(text)] for text in DOCUMENTS]
print("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]")
