"""What holds for every command: help, version, exit statuses, who talks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import BIN, MakeFolder, Run

PROGRAMS = [
    ("lmdbio-convert",),
    ("lmdbio-index",),
    *(("lmdbio", n) for n in ("convert", "index", "info", "get", "verify", "bench")),
]
FAIL = "import lmdbio.layout.path as path; path.resolve = lambda *args: {what}"
ids = " ".join


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_every_command_has_help_with_a_line_for_each_option(run: Run, program: tuple[str, ...]) -> None:
    text = run(*program, "--help").ok()
    assert text.startswith("Usage: " + " ".join(program))
    for line in text.partition("Options:")[2].splitlines():
        if line.startswith("  -"):
            assert len(line.split()) > 1


def test_the_kinds_of_sources_have_a_line_each(run: Run) -> None:
    lines = [line.split() for line in run("lmdbio-convert", "--help").ok().splitlines()]
    assert {"imagenet", "folder"} <= {words[0] for words in lines if len(words) > 3}


@pytest.mark.parametrize("program", ["lmdbio", "lmdbio-convert", "lmdbio-index"])
def test_every_program_tells_its_version(run: Run, program: str) -> None:
    assert run(program, "--version").ok().startswith("lmdbio 0.")


NEW = ("lmdbio-convert", "folder", "x", "y")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("lmdbio", "nonsense"), "lmdbio: error: no such command 'nonsense'; see lmdbio --help"),
        (("lmdbio", "info"), "lmdbio info: error: DB: expected a value, found none; see lmdbio info --help"),
        (("lmdbio", "info", "x", "--jsn"), "expected an option that there is, found --jsn: did you mean --json?"),
        (("lmdbio", "info", "x", "--nonsense"), "found --nonsense; see lmdbio info --help"),
        (("lmdbio", "info", "x", "--json=3"), "lmdbio info: error: --json: expected no value, found one"),
        (("lmdbio-index",), "lmdbio-index: error: DB: expected a value, found none"),
        (("lmdbio-convert", "folder", "x"), "lmdbio-convert: error: DST: expected a value, found none"),
        (("lmdbio-convert", "tarball", "x", "y"), "KIND: expected imagenet or folder, found 'tarball'"),
        ((*NEW, "z"), "lmdbio-convert: error: got unexpected extra argument"),
        ((*NEW, "--seed"), "--seed: expected a value, found none; see lmdbio-convert --help"),
        ((*NEW, "--seed", "a"), "--seed: expected a whole number, found 'a'"),
        ((*NEW, "--align", "1MB"), "--align: expected bytes or a size such as 16MiB, 512K or 1GiB, found '1MB'"),
        ((*NEW, "--align", "1MB"), ": did you mean 1MiB?"),
        ((*NEW, "--align", "3000"), "--align: expected an alignment that is a multiple of the page size"),
        ((*NEW, "--partition-size", "0"), "--partition-size: expected a whole number of bytes from 1"),
        ((*NEW, "--partition-size", "16000000"), "multiple of 4096, found 16000000: did you mean 16MiB?"),
        ((*NEW, "--partitions", "0"), "--partitions: expected a whole number from 1, found '0'"),
        ((*NEW, "--partitions", "2", "--partition-size", "16MiB"), "expected one of the two, found both"),
        ((*NEW, "--limit", "0"), "--limit: expected a whole number from 1, found '0'"),
        ((*NEW, "--order", "random"), "--order: expected shuffle or stratified or source, found 'random'"),
        (("lmdbio-index", "x", "--partition-size", "0"), "--partition-size: expected a whole number of bytes"),
    ],
)  # fmt: skip
def test_bad_usage_is_status_2_and_one_line(run: Run, args: tuple[str, ...], line: str) -> None:
    done = run(*args)
    assert (done.status, done.out) == (2, "")
    assert line in done.err
    assert ": error: " in done.err
    assert done.err.count("\n") == 1


def test_a_size_is_asked_after_only_where_it_would_do(run: Run) -> None:
    assert "did you mean" not in run(*NEW, "--align", "3000").err


def test_of_several_ranks_one_tells_of_bad_usage(run: Run) -> None:
    assert run("lmdbio", "info", PMI_RANK="1", PMI_SIZE="2").err == ""


def test_no_command_at_all_gives_the_help(run: Run) -> None:
    done = run("lmdbio")
    assert "Commands:" in done.out + done.err


def test_a_bug_gives_a_traceback(run: Run, database: Path) -> None:
    done = run("lmdbio", "info", database, setup=FAIL.format(what="1 / 0"))
    assert done.status == 1
    assert "Traceback" in done.err
    assert "ZeroDivisionError" in done.err


def test_an_error_of_the_system_is_one_line_unless_it_is_a_bug(run: Run, database: Path) -> None:
    setup = "import errno, os\ndef fail(*args): raise OSError(errno.{code}, os.strerror(errno.{code}), 'a\\nb')\n"
    setup += "import lmdbio.layout.path as path; path.resolve = fail"
    line = run("lmdbio", "info", database, setup=setup.format(code="EROFS")).error("lmdbio info")
    assert line == r"a\nb: Read-only file system"
    assert "Traceback" in run("lmdbio", "info", database, setup=setup.format(code="EBADF")).err


def test_ctrl_c_is_status_130_and_one_line(run: Run, make_folder: MakeFolder, tmp_path: Path) -> None:
    setup = "from lmdbio.layout.writer import DatabaseWriter as C\n"
    setup += "C.finish = lambda *args, **kwargs: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60))"
    done = run("lmdbio-convert", "folder", make_folder(), tmp_path / "out", setup=setup)
    assert (done.status, done.err) == (130, "lmdbio-convert: error: interrupted\n")
    assert not list(tmp_path.glob("out*"))


IMPORTS = """
import os, signal, sys, lmdbio.cli

class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = {argv!r}
lmdbio.cli.{main}()
"""


@pytest.mark.parametrize("module", ["lmdbio.cli.app", "typer", "lmdbio.errors"])
@pytest.mark.parametrize(
    ("program", "main"), [("lmdbio", "main"), ("lmdbio-convert", "main_convert"), ("lmdbio-index", "main_index")]
)
def test_ctrl_c_while_modules_are_imported_is_the_same(module: str, program: str, main: str) -> None:
    script = IMPORTS.format(module=module, argv=[program, "--help"], main=main)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == f"{program}: error: interrupted\n"


def test_ctrl_c_that_the_shell_has_turned_off_stays_off() -> None:
    script = IMPORTS.format(module="lmdbio.cli.app", argv=["lmdbio", "--version"], main="main")
    command = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + script
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("lmdbio 0.")


def test_a_reader_that_goes_away_is_met_with_silence(database: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    for args in (["info", str(database)], ["info", "--json", str(database)], ["get", str(database), "0"]):
        done = subprocess.run([BIN / "lmdbio", *args], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
    os.close(writing)


def test_closed_and_full_outputs_end_no_command_in_a_traceback(database: Path) -> None:
    for args in (f"info {database}", f"get {database} 0"):
        for redirection, status in ((">&-", 0), (">&- 2>&-", 0), ("> /dev/full", 1)):
            done = subprocess.run(f"{BIN}/lmdbio {args} {redirection}", shell=True, capture_output=True, timeout=60)
            assert done.returncode == status, (args, redirection, done.stderr)
            assert done.stderr.count(b"\n") == status
            assert b"Traceback" not in done.stderr


def test_with_standard_error_closed_an_error_does_not_go_to_the_output(tmp_path: Path) -> None:
    done = subprocess.run(f"{BIN}/lmdbio info {tmp_path} 2>&-", shell=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"")


def test_several_ranks_are_refused_by_what_writes_with_one_line_of_rank_0(
    run: Run, make_folder: MakeFolder, database: Path, tmp_path: Path
) -> None:
    source = make_folder(name="other")
    for args in (("lmdbio-convert", "folder", source, tmp_path / "out"), ("lmdbio-index", database)):
        line = run(*args, PMI_RANK="0", PMI_SIZE="2").error(str(args[0]))
        assert "expected one process, found 2 ranks" in line
        other = run(*args, PMI_RANK="1", PMI_SIZE="2")
        assert (other.status, other.out, other.err) == (1, "", "")
    assert not (tmp_path / "out").exists()


def test_of_several_ranks_one_answers(run: Run, database: Path) -> None:
    for args in (("info", database), ("get", database, "0", "--value")):
        assert run("lmdbio", *args, PMI_RANK="1", PMI_SIZE="2").ok() == ""


def test_the_command_line_starts_no_mpi_and_is_quick_to_load() -> None:
    script = "import lmdbio.cli.app, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert not {"mpi4py", "numpy", "tqdm", "lmdb", "PIL"} & set(done.stdout.split())
