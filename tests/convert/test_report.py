import json
from dataclasses import replace

from lmdbio.convert.report import DatabaseReport, Report
from lmdbio.convert.source import BadInput

TRAIN = DatabaseReport(
    path="out/train.lmdb",
    index="out/train.lmdb/data.mdb.index",
    split="train",
    records=10,
    classes=3,
    empty_classes=1,
    input_bytes=1000,
    file_size=8192,
    hole_bytes=0,
    partitions=1,
    partition_size=1 << 24,
    align=4096,
    align_fell_back=True,
    inline_records=10,
    keys_cut=0,
    case_collisions=0,
    skipped=(BadInput("a.jpg", "expected an image, found an empty file"),),
    ignored={".DS_Store": 2},
    misnamed={".jpeg holding png": 1},
    misnamed_paths=("a/1.jpeg",),
    free_space=1 << 30,
)
VAL = replace(TRAIN, path="out/val.lmdb", split="val", records=5, input_bytes=500, file_size=4096, skipped=())


def test_totals_are_over_all_databases() -> None:
    report = Report((TRAIN, VAL), 2.0)
    assert (report.records, report.input_bytes, report.file_size, report.classes) == (15, 1500, 12288, 3)
    assert [bad.path for bad in report.skipped] == ["a.jpg"]


def test_the_json_form_is_plain_and_whole() -> None:
    found = json.loads(json.dumps(Report((TRAIN, VAL), 2.0).to_json()))
    assert (found["records"], found["seconds"], found["bytes_per_second"], found["skipped"]) == (15, 2.0, 750, 1)
    assert found["databases"][0]["skipped"] == [{"path": "a.jpg", "reason": "expected an image, found an empty file"}]
    assert found["databases"][0]["misnamed"] == {".jpeg holding png": 1}
    assert found["dry_run"] is False


def test_no_time_gives_no_rate() -> None:
    assert Report((), 0.0, dry_run=True).to_json()["bytes_per_second"] == 0
