import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.ablation import __main__ as ablation
from tools.compare import __main__ as compare
from tools.compare.command import carry_out, make_folders, size
from tools.compare.data import DataSet, check_packages
from tools.compare.environments import cache_folder

MODULES = {"compare": compare, "ablation": ablation}
ROOT = Path(__file__).parents[3]


def refusal(
    name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return what a command that must not begin says on stderr."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.setattr(MODULES[name].caches, "use_memory", lambda n_bytes: pytest.fail(f"began with {n_bytes}"))
    with pytest.raises(SystemExit) as raised:
        MODULES[name].main()
    assert raised.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{name}: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("name", "option", "value", "expected"),
    [
        ("compare", "--records", "0", "a whole number, 1 or more"),
        ("compare", "--rounds", "-1", "a whole number, 1 or more"),
        ("compare", "--batch-size", "4.5", "a whole number, 1 or more"),
        ("compare", "--seed", "-1", "a whole number, 0 or more"),
        ("compare", "--time-limit", "0", "seconds, more than 0"),
        ("compare", "--run-limit", "nan", "seconds, more than 0"),
        ("compare", "--warm-up", "1XB", "bytes or a size"),
        ("compare", "--warm-up", "900TiB", ".* or less, which is free"),
        ("ablation", "--warm-up", "900TiB", ".* or less, which is free"),
        ("ablation", "--records", "0", "a whole number, 1 or more"),
        ("ablation", "--records", "100", "512 or more, two batches"),
        ("ablation", "--rounds", "x", "a whole number, 1 or more"),
        ("ablation", "--batch-size", "1", "a whole number, 2 or more"),
        ("ablation", "--batch-size", "3", "a record for each of 4 nodes"),
        ("ablation", "--nodes", "0", "a whole number, 1 or more"),
        ("ablation", "--stock-s", "inf", "seconds, 0 or more"),
        ("ablation", "--depth", "0", "a whole number, 1 or more"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_in_one_line(
    name: str,
    option: str,
    value: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(compare.data, "check_packages", lambda data, cache: None)
    monkeypatch.setattr(ablation, "_check_mpi", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    line = refusal(name, [option, value, "--out", str(tmp_path)], monkeypatch, capsys)
    assert re.search(f"{option}: expected {expected}.*, found '?{value[:3]}", line)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("compare", ["--ways", "nosuch"], "'get, no readahead' shuffled, which .* have, found 'nosuch'"),
        ("compare", ["--ways", "cursor", "--questions", "*-shuffled-1"], "expected some that are shuffled"),
        ("compare", ["--questions", "read-tiny-testbed-*"], "asked at local, found .* asked at testbed: see --place"),
        ("compare", ["--place", "testbed"], "asked at testbed, found .* asked at local: see --place"),
        ("compare", ["--contestants", "lmdbio", "nosuch"], "expected one of arrayrecord, .* found 'nosuch'"),
        ("compare", ["--contestants", "nosuch:IT"], "expected module:OBJECT, found 'nosuch:IT'"),
        ("compare", ["--document", "nosuch.md"], "nosuch.md: expected a markdown file"),
        ("compare", ["--stores", "/proc/nosuch"], "--stores: expected a folder that can be made, found /proc/nosuch"),
        ("ablation", ["--only", "shuffle:block", "nosuch"], "sorted:sequential .* found 'nosuch'"),
        ("ablation", ["--out", "/proc/nosuch"], "--out: expected a folder that can be made, found /proc/nosuch"),
    ],
)
def test_a_choice_of_nothing_is_refused_in_one_line(
    name: str,
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(compare.data, "check_packages", lambda data, cache: None)
    monkeypatch.setattr(ablation, "_check_mpi", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert re.search(expected, refusal(name, arguments, monkeypatch, capsys))


def test_photographs_need_packages_that_are_asked_for_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.compare.data.find_spec", lambda name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    line = refusal("compare", ["--records", "7"], monkeypatch, capsys)
    assert "found no skimage and no sklearn: pip install -e '.[demo]'" in line
    (tmp_path / "lmdbio-compare/data/photos-7-0").mkdir(parents=True)
    check_packages(DataSet("photos", 7, 0), tmp_path / "lmdbio-compare")
    check_packages(DataSet("lognormal", 7, 0), tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [["compare", "--questions", "read-tiny-testbed-cold-*", "--place", "testbed"], ["ablation", "--place", "testbed"]],
)
def test_a_testbed_that_cannot_be_is_told_at_the_start(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.testbed.testbed.os.geteuid", lambda: 1000)
    monkeypatch.setattr(ablation, "_check_mpi", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name, *rest = arguments
    line = refusal(name, [*rest, "--out", str(tmp_path / "out")], monkeypatch, capsys)
    assert line == f"{name}: --place testbed: expected to be run by root, who may mount; found another user\n"


@pytest.mark.parametrize("name", ["compare", "ablation"])
def test_a_dry_run_tells_the_plan_and_makes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--dry-run", "--rounds", "2", "--out", str(tmp_path / "out")])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    MODULES[name].main()
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.search(r"\d+ runs, about \d+ minutes", last)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["compare", "ablation"])
def test_help_tells_every_default_and_the_cache(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        MODULES[name].parse_arguments(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for option, value in vars(MODULES[name].parse_arguments([])).items():
        help_text = text.rpartition(f" --{option.replace('_', '-')} ")[2].partition(" --")[0]
        assert value is False or "default" in help_text, option
    assert "may be deleted" in text
    assert str(cache_folder()) in text


def test_sizes_are_read_as_people_write_them() -> None:
    assert [size(text) for text in ("0", "4096", "1G", "1.5KiB", "4e9")] == [0, 4096, 1 << 30, 1536, 4 * 10**9]
    for text in ("1GB", "-1", "nan", "inf"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected bytes or a size such as"):
            size(text)


def test_folders_are_made_where_they_can_be(tmp_path: Path) -> None:
    make_folders({"--out": tmp_path / "a/b"})
    assert (tmp_path / "a/b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"--out: expected a folder that can be made, found .*file"):
        make_folders({"--out": tmp_path / "file"})


def test_a_reader_who_has_enough_ends_a_list_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "tools.compare", "--list"]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_an_interrupt_takes_one_line_and_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert carry_out(interrupted, name="compare") == 130
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert capsys.readouterr().err == "compare: interrupted\n"
