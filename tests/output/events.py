"""python events.py record     writes events.bin, the event file of EVENTS by tensorboard's own classes
python events.py read OUT   reads the event files of `snug train --report-to tensorboard --output-dir OUT` as TensorBoard does, and
                            compares them with OUT/log.jsonl
"""
import glob, json, math, os, struct, sys
import tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog, SourceMetadata
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

nan, inf = float("nan"), float("inf")
# What tests/output/tensorboard.c logs: time, step, scalars.
EVENTS = [
    (1763805607.25, 10, {"train/epoch": 0.5, "train/loss": 0.6931471806, "train/grad_norm": 2.5, "train/learning_rate": 4.5e-05}),
    (1763805608.5, 10, {"eval/loss": 0.25, "eval/accuracy": 1.0, "eval/f1": 0.0}),
    (1763805609.0, 300, {"train/loss": nan, "train/grad_norm": inf, "train/memory": 123456789.0}),
    (1763805610.0, 5000000000, {"train/loss": -inf, "eval/a very long name" + " of a metric" * 12: -0.1}),
]


def record():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "events.bin"), "wb") as f:
        w = RecordWriter(f)
        for event in [Event(wall_time=1763805600.5, file_version="brain.Event:2", source_metadata=SourceMetadata(writer="snug")),
                      Event(wall_time=1763805600.5, step=7, session_log=SessionLog(status=SessionLog.START))]:
            w.write(event.SerializeToString())
        for time, step, scalars in EVENTS:
            for tag, value in scalars.items():
                e = Event(wall_time=time, step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))
                w.write(e.SerializeToString())


def single(x):
    return struct.unpack("<f", struct.pack("<f", float(x)))[0]


def read(out):
    (folder,) = glob.glob(os.path.join(out, "runs", "*"))
    board = EventAccumulator(folder, size_guidance={"scalars": 0})
    board.Reload()
    got = {tag: [(e.step, e.value) for e in board.Scalars(tag)] for tag in board.Tags()["scalars"]}
    want = {}
    for line in open(os.path.join(out, "log.jsonl")):
        o = json.loads(line)
        for key, value in o.items():
            if key in ("step", "state_hash"):
                continue
            tag = "eval/" + key[5:] if key.startswith("eval_") else "train/" + key
            want.setdefault(tag, []).append((o["step"], single(value)))
    for tag in ("train/train_runtime", "train/train_samples_per_second", "train/train_steps_per_second"):
        assert len(got.pop(tag)) == 1, tag
    got["train/epoch"].pop()  # that of the summary
    assert got.keys() == want.keys(), (got.keys(), want.keys())
    for tag in want:
        assert len(got[tag]) == len(want[tag]), (tag, got[tag], want[tag])
        for (a, x), (b, y) in zip(got[tag], want[tag]):
            assert a == b and (x == y or math.isnan(x) and math.isnan(y)), (tag, a, b, x, y)
    files = len(glob.glob(os.path.join(folder, "*")))
    print(f"tensorboard {tensorboard.__version__}: {sum(map(len, want.values()))} scalars of {len(want)} tags, {files} files: as logged")


record() if sys.argv[1] == "record" else read(sys.argv[2])
