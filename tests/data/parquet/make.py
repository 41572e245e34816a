"""Writes small Parquet files beside itself, and rows.jsonl: for each file the rows that pyarrow reads in it, as JSON.

    pip install pyarrow==26.0.1 datasets==5.2.0 fastparquet==2026.9.0 polars==2.1.0 duckdb==2.0.1 pandas==3.1.1 && python3 make.py

What rows.jsonl has is what pyarrow's to_pylist() gives, with these rules of snug's: a number that is not finite is null, a decimal a
number, a day or a time the whole number that is stored, an item of a map an object; columns with bytes in them are left out. Classes have
the names that datasets gives them.
"""

import datetime
import decimal
import json
import math
import os

import datasets
import duckdb
import fastparquet
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq

here = os.path.dirname(os.path.abspath(__file__))
recorded = {}


def path(name):
    return os.path.join(here, name + ".parquet")


def plain(value, type):
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if pa.types.is_map(type):
        return [{"key": k, "value": plain(v, type.item_type)} for k, v in value]
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return [plain(v, type.value_type) for v in value]
    if pa.types.is_struct(type):
        return {f.name: plain(value[f.name], f.type) for f in type}
    return float(value) if isinstance(value, decimal.Decimal) else value


def has_bytes(type):
    if pa.types.is_struct(type):
        return any(has_bytes(f.type) for f in type)
    if pa.types.is_list(type):
        return has_bytes(type.value_type)
    return pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_fixed_size_binary(type)


def stored(column):
    """Days and times as the numbers that they are."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def record(name):
    table = pq.read_table(path(name))
    columns = {}
    for field in table.schema:
        if not has_bytes(field.type):
            column = stored(table[field.name])
            columns[field.name] = [plain(v, column.type) for v in column.to_pylist()]
    names = list(columns)
    recorded[name] = [dict(zip(names, row)) for row in zip(*columns.values())]


def write(name, table, **how):
    pq.write_table(table, path(name), **how)
    record(name)


def every_third(values):
    return [None if i % 3 == 2 else v for i, v in enumerate(values)]


def words(n):
    return [f"word {i * i % 97} of the row, {'long ' * (i % 3)}é{i}" for i in range(n)]


def types():
    n = 7
    wide = [0, 1, -1, 2**31 - 1, -(2**31), 123456, 42]
    return pa.table({
        "bool": pa.array(every_third([i % 2 == 0 for i in range(n)])),
        "int8": pa.array([v % 128 - 64 for v in wide], pa.int8()),
        "int32": pa.array(every_third(wide), pa.int32()),
        "int64": pa.array([v * 2**31 for v in wide], pa.int64()),
        "uint8": pa.array([v % 256 for v in wide], pa.uint8()),
        "uint32": pa.array([v % 2**32 for v in wide], pa.uint32()),
        "uint64": pa.array([v % 2**64 for v in wide], pa.uint64()),
        "half": pa.array([0.5, -2.0, 65504.0, 6e-8, float("nan"), 0.0, 1 / 3], pa.float16()),
        "float": pa.array([0.1, -2.5, 3.4e38, 1e-45, float("nan"), float("inf"), 0.0], pa.float32()),
        "double": pa.array(every_third([0.1, -2.5, 1e308, 5e-324, float("-inf"), 1 / 3, -0.5])),
        "small": pa.array([decimal.Decimal(v).scaleb(-2) for v in wide], pa.decimal128(12, 2)),
        "large": pa.array([decimal.Decimal(v).scaleb(-3) for v in wide], pa.decimal128(30, 3)),
        "text": pa.array(["", "a", None, "é\u20ac\U0001f600", "line\nbreak", '"quoted"', "tab\t"]),
        "large_text": pa.array(words(n), pa.large_string()),
        "repeated": pa.array(["x", "y", "x", "x", None, "y", "x"]).dictionary_encode(),
        "day": pa.array([datetime.date(2024, 2, i + 1) for i in range(n)]),
        "time": pa.array([datetime.datetime(2024, 2, 1, i) for i in range(n)], pa.timestamp("us")),
        "nothing": pa.array([None] * n, pa.string()),
    })


def nested():
    messages = [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}], [], None,
                [{"role": "system", "content": None}, None, {"role": None, "content": "x"}],
                [{"role": "user", "content": words(40)[i]} for i in range(40)]]
    return pa.table({
        "id": pa.array([f"row {i}" for i in range(5)]),
        "tokens": pa.array([["a", "b", None], [], None, [None], ["c"] * 70]),
        "deep": pa.array([[[1, 2], []], [None, [3]], None, [[]], [[i, None] for i in range(50)]], pa.list_(pa.list_(pa.int32()))),
        "messages": pa.array(messages, pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        "answers": pa.array([{"text": ["Rome", "in Rome"], "answer_start": [14, 11]}, {"text": [], "answer_start": []}, None,
                             {"text": None, "answer_start": [1]}, {"text": ["x"], "answer_start": None}],
                            pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))])),
        "map": pa.array([[("a", 1), ("b", None)], [], None, [("c", 3)], [("d", 4)]], pa.map_(pa.string(), pa.int64())),
        "outer": pa.array([{"inner": {"x": 1.5}}, {"inner": None}, None, {"inner": {"x": None}}, {"inner": {"x": 2.5}}]),
    })


def many(n=140):
    return pa.table({
        "text": pa.array(words(n)),
        "maybe": pa.array(every_third(words(n))),
        "int": pa.array([(i * 7919) % 1000 - 500 for i in range(n)], pa.int32()),
        "long": pa.array(every_third([i * 2**33 + i * i for i in range(n)]), pa.int64()),
        "float": pa.array([i / 7 for i in range(n)], pa.float32()),
        "double": pa.array(every_third([i / 3 for i in range(n)])),
        "bool": pa.array(every_third([i % 5 < 2 for i in range(n)])),
        "few": pa.array([["red", "green", "blue"][i * i % 3] for i in range(n)]),
    })


def encoding(name, columns, **how):
    table = many().select(list(columns))
    write(name, table, use_dictionary=False, column_encoding=columns, data_page_size=900, compression="snappy", **how)


def classes():
    features = datasets.Features({
        "text": datasets.Value("string"),
        "label": datasets.ClassLabel(names=["sadness", "joy", "anger"]),
        "tokens": datasets.List(datasets.Value("string")),
        "tags": datasets.List(datasets.ClassLabel(names=["O", "B-PER", "I-PER"])),
        "parts": datasets.List({"kind": datasets.ClassLabel(names=["a", "b"]), "n": datasets.Value("int32")}),
        "columns": {"kind": datasets.List(datasets.ClassLabel(names=["c", "d"]))},
    })
    rows = [{"text": f"row {i}", "label": [0, 1, 2, -1, None][i], "tokens": ["x"] * i, "tags": [0, 1, 2, 0][:i],
             "parts": [{"kind": i % 2, "n": i}], "columns": {"kind": [1, 0]}} for i in range(5)]
    data = datasets.Dataset.from_list(rows, features=features)
    data.to_parquet(path("classes"))

    def named(value, feature):
        if isinstance(feature, datasets.ClassLabel):
            return feature.int2str(value) if value is not None and value >= 0 else value
        if isinstance(feature, datasets.List):
            return [named(v, feature.feature) for v in value]
        return {k: named(v, feature[k]) for k, v in value.items()} if isinstance(feature, dict) else value

    recorded["classes"] = [named(row, features) for row in data.to_list()]


def others():
    frame = many(40).drop(["maybe", "bool"]).to_pandas().astype({"text": object, "few": object})
    fastparquet.write(path("fastparquet"), frame, compression="GZIP", object_encoding="utf8", row_group_offsets=[0, 25])
    record("fastparquet")
    polars.from_arrow(nested().append_column("n", pa.array(range(5)))).drop("map").write_parquet(path("polars"), compression="zstd")
    record("polars")
    rows = nested()
    duckdb.sql(f"copy (select * from rows) to '{path('duckdb')}' (format parquet, compression snappy)")
    record("duckdb")


write("types", types(), compression="snappy")
write("nested", nested(), row_group_size=2, compression="zstd")
write("nested-pages", nested(), data_page_size=64, write_batch_size=4, data_page_version="2.0", compression="snappy", use_compliant_nested_type=False)
write("groups", many(20), row_group_size=7, compression="NONE")
write("checksums", many(3), write_page_checksum=True, compression="snappy")
write("empty", many(3).slice(0, 0))
write("bytes", pa.table({"image": pa.array([{"bytes": b"\x89PNG", "path": "a.png"}, None]), "raw": pa.array([b"\xff", b"a"]), "text": ["a", "b"]}))
for version in "1.0", "2.0":
    for codec in "NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4":
        write(f"v{version[0]}-{codec.lower()}", many(8), compression=codec, data_page_version=version)
encoding("plain", {c: "PLAIN" for c in ("text", "maybe", "int", "long", "float", "double", "bool")})
encoding("plain-v2", {c: "PLAIN" for c in ("text", "maybe", "int", "long")} | {"bool": "RLE"}, data_page_version="2.0")
encoding("delta", {"text": "DELTA_LENGTH_BYTE_ARRAY", "maybe": "DELTA_BYTE_ARRAY", "int": "DELTA_BINARY_PACKED", "long": "DELTA_BINARY_PACKED"})
encoding("split", {c: "BYTE_STREAM_SPLIT" for c in ("int", "long", "float", "double")})
write("dictionary", many().select(["text", "int", "few"]), data_page_size=300, dictionary_pagesize_limit=1000)
classes()
others()
with open(os.path.join(here, "rows.jsonl"), "w") as f:
    for name, rows in recorded.items():
        f.write(json.dumps({"file": name, "rows": rows}, ensure_ascii=False, allow_nan=False) + "\n")

# Not read.
pq.write_table(many(3), path("brotli"), compression="BROTLI")


def saved_inputs():
    """Tiny files for tests/fuzz/parquet.c to begin with."""
    folder = os.path.join(here, "..", "..", "fuzz", "corpus", "parquet")
    os.makedirs(folder, exist_ok=True)

    def seed(name, table, **how):
        how = {"compression": "NONE", "write_statistics": False, "store_schema": False, **how}
        pq.write_table(table, os.path.join(folder, "seed-" + name), **how)

    few, rows = many(9), nested()
    seed("dictionary", few.select(["few", "bool"]))
    for name, encoding in (("text", "PLAIN"), ("text", "DELTA_LENGTH_BYTE_ARRAY"), ("maybe", "DELTA_BYTE_ARRAY"),
                           ("long", "DELTA_BINARY_PACKED"), ("double", "BYTE_STREAM_SPLIT"), ("bool", "RLE")):
        seed(encoding.lower(), few.select([name]), use_dictionary=False, column_encoding={name: encoding})
    for name in rows.column_names:
        seed("nested-" + name, rows.select([name]).slice(0, 4), data_page_version="2.0")
    for codec in "SNAPPY", "GZIP", "ZSTD", "LZ4":
        seed(codec.lower(), few.select(["text"]), compression=codec, use_dictionary=False)
    for name in "uint64", "half", "small", "large", "nothing":
        seed("type-" + name, types().select([name]))
    seed("groups", few.select(["few"]), row_group_size=4, write_page_checksum=True)
    features = {"x": {"names": ["a", "b"], "_type": "ClassLabel"}}
    meta = {"huggingface": json.dumps({"info": {"features": features}})}
    seed("classes", pa.table({"x": pa.array([0, 1, 2, -1, None])}).replace_schema_metadata(meta))


saved_inputs()
