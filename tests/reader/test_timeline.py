"""A timeline holds the latest spans, and is a trace that browsers read."""

import json
import threading
from pathlib import Path

import pytest

from lmdbio.reader import ParallelReader, ReadOptions, fetch
from lmdbio.reader.timeline import Timeline
from tests.reader.made import make_datum_database


def test_spans_are_events_in_microseconds_from_the_first_on(tmp_path: Path) -> None:
    timeline = Timeline()
    timeline.add("read", 10.0, 10.002, 77, {"bytes": 5, "reads": 1})
    timeline.add("next", 9.5, 10.5, threading.get_ident(), {})
    path = tmp_path / "trace.json"
    path.write_text("old")
    timeline.save(path, rank=3)
    trace = json.loads(path.read_text())
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert names == {0: "consumer", 1: "reads ahead 1"}
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(e["name"], e["ts"], e["dur"], e["pid"], e["tid"], e["args"]) for e in events] == [
        ("read", 500_000.0, 2000.0, 3, 1, {"bytes": 5, "reads": 1}),
        ("next", 0.0, 1_000_000.0, 3, 0, {}),
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]


def test_the_latest_are_kept() -> None:
    timeline = Timeline(2)
    for number in range(5):
        timeline.add("next", number, number + 1, 0, {})
    assert [span.begin_s for span in timeline.spans] == [3, 4]
    assert Timeline().to_fields()["traceEvents"][0]["name"] == "process_name"


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        Timeline().save(tmp_path / "none" / "trace.json")
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        Timeline().save(tmp_path / "taken")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


def test_a_reader_notes_every_read_and_every_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_datum_database(tmp_path / "a.lmdb", [10_000] * 50)
    monkeypatch.setattr(fetch.RecordFile, "read_cached", lambda self, offset, buffer: 0)
    options = ReadOptions(coalesce=100_000, read_size=32768, depth=3)
    with ParallelReader(tmp_path / "a.lmdb", batch_size=5, options=options, verify="checksum") as reader:
        timeline = reader.record_timeline()
        list(reader)
        reader.close()
        stats = reader.stats
    spans = timeline.spans
    reads = [span for span in spans if span.name == "read"]
    assert sum(span.facts["bytes"] for span in reads) == stats.read_bytes
    assert sum(span.facts["reads"] for span in reads) == stats.reads
    assert len({span.thread for span in reads}) > 1
    consumer = {span.thread for span in spans if span.name != "read"}
    assert consumer == {threading.get_ident()}
    for name, seconds in (("next", stats.next_s), ("wait", stats.wait_s), ("verify", stats.verify_s)):
        own = [span.end_s - span.begin_s for span in spans if span.name == name]
        assert sum(own) == pytest.approx(seconds)
    assert sum(span.name == "next" for span in spans) == 10
