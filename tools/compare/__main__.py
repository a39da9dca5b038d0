"""The command: ``python -m tools.compare``."""

import argparse
import datetime as dt
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tools.compare import caches, charts, data, tables
from tools.compare.contestants import all_names, load
from tools.compare.driver import Driver, Settings, data_set_of
from tools.compare.environments import PLOT, cache_folder, python_of
from tools.compare.members import chosen_ways, join
from tools.compare.performance import write_measured
from tools.compare.questions import PLACES, SHORT, Question, all_questions, select
from tools.compare.ranks import ROOT
from tools.compare.results import Results, describe_machine
from tools.compare.rounds import Clock

_SHORT_CONTESTANTS: Final = ("lmdbio", "stock", "webdataset", "files")
_WARM_UP_SHARE: Final = 0.6
_OVERHEAD_S: Final = 1.0
_GUESSED_RATE: Final = 600e6
"""Bytes a second, for a plan that nobody has tried yet."""


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m tools.compare", description="Compare lmdbio with its peers.")
    parser.add_argument("--list", action="store_true", help="print the questions and contestants")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and about how long it takes")
    parser.add_argument("--questions", nargs="+", default=list(SHORT), metavar="NAME", help="names, with * and ?")
    parser.add_argument("--contestants", nargs="+", default=list(_SHORT_CONTESTANTS), metavar="NAME", help="or: all")
    parser.add_argument(
        "--ways", nargs="+", default=["*"], metavar="NAME", help="only the ways that are named so, with * and ?"
    )
    parser.add_argument("--place", nargs="+", choices=PLACES, default=["local"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, help="of each data set at most")
    parser.add_argument("--batch-size", type=int, default=64, help="records of a batch on each rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="for all rounds")
    parser.add_argument(
        "--run-limit", type=float, metavar="SECONDS", default=300.0, help="for one run of one contestant"
    )
    parser.add_argument(
        "--warm-up", type=float, metavar="BYTES", help="memory to use once before, 60 %% of what is free"
    )
    parser.add_argument("--stores", type=Path, help="where stores are made; a temporary folder in the cache")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder of the results (default %(default)s)")
    parser.add_argument("--document", type=Path, help="markdown file whose measured part is written anew")
    return parser.parse_args(arguments)


def estimate_s(questions: Sequence[Question], n_rows: Sequence[int], sizes: Sequence[int], n_rounds: int) -> float:
    """Return about how long the rounds take, each question having so many rows and bytes."""
    runs = (
        rows * (_OVERHEAD_S + question.n_epochs * size / _GUESSED_RATE)
        for question, rows, size in zip(questions, n_rows, sizes, strict=True)
    )
    return n_rounds * sum(runs)


def main() -> None:
    """List, plan, or compare."""
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what was begun is undone
    if options.list:
        _list()
        return
    names = all_names() if options.contestants == ["all"] else options.contestants
    settings = _settings(options)
    try:
        questions = select(options.questions, places=options.place)
        for name in names:
            load(name)
    except ValueError as exc:
        raise SystemExit(f"compare: {exc}") from exc
    rows = [_n_rows(names, question, options.ways) for question in questions]
    sizes = [data_set_of(question.data, settings).n_bytes for question in questions]
    expected_s = estimate_s(questions, rows, sizes, options.rounds)
    if options.dry_run:
        for question, n_rows in zip(questions, rows, strict=True):
            print(f"{question.name}: {n_rows} rows x {options.rounds} rounds")
        print(f"{sum(rows) * options.rounds} runs, about {expected_s / 60:.0f} minutes, data and stores not counted")
        return
    _compare(options, settings, names, questions, n_runs=sum(rows) * options.rounds)


def _list() -> None:
    for question in all_questions():
        print(f"question    {question.name}")
    for kind in data.KINDS.values():
        print(f"data        {kind.name}: {kind.n_records:,} records of {kind.mean_size:,} bytes")
    for name in all_names():
        contestant = load(name)
        for way in contestant.ways:
            print(f"contestant  {contestant.name}: {way.name} ({way.order}, shuffle: {way.shuffle})")


def _n_rows(names: Sequence[str], question: Question, ways: Sequence[str]) -> int:
    """Return how many entrants there are, ceilings included."""
    if question.order is None:
        return len(names) + 1
    return sum(way.order == question.order for name in names for way in chosen_ways(load(name), ways)) + 3


def _settings(options: argparse.Namespace) -> Settings:
    cache = cache_folder()
    return Settings(
        cache=cache,
        stores=options.stores or cache / "stores",
        results=options.out / "results.json",
        n_rounds=options.rounds,
        n_records=options.records,
        batch_size=options.batch_size,
        seed=options.seed,
        timeout_s=options.run_limit,
    )


def _compare(
    options: argparse.Namespace, settings: Settings, names: Sequence[str], questions: list[Question], *, n_runs: int
) -> None:
    for folder in (settings.stores, settings.cache, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    members, notes = join(names, options.ways, cache=settings.cache)
    plot = python_of(PLOT, cache=settings.cache)
    n_bytes = int(caches.free_memory() * _WARM_UP_SHARE) if options.warm_up is None else int(options.warm_up)
    print(f"compare: using {n_bytes / 1e9:.1f} GB of memory once", file=sys.stderr, flush=True)
    caches.use_memory(n_bytes)
    results = Results(_described(options), describe_machine([]), questions, notes=notes)
    clock = Clock(n_runs, options.time_limit)
    with tempfile.TemporaryDirectory(prefix="run-", dir=settings.stores) as stores:
        driver = Driver(replace(settings, stores=Path(stores)), members, results, clock)
        try:
            driver.ask(questions)
        finally:
            results.save(settings.results)
    text = tables.document(results)
    (options.out / "results.md").write_text(text)
    drawn = [plot, "-m", charts.__name__, str(settings.results.resolve()), str(options.out.resolve())]
    subprocess.run(drawn, check=True, cwd=ROOT, stdout=sys.stderr)
    if options.document is not None:
        write_measured(options.document, text, pictures=sorted(options.out.glob("*.png")))
    print(text)


def _described(options: argparse.Namespace) -> dict[str, Any]:
    drops = "sync and drop_caches" if caches.can_drop_all() else "sync and posix_fadvise(DONTNEED) of each file"
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "command": shlex.join(["python", "-m", "tools.compare", *sys.argv[1:]]),
        "rounds": options.rounds,
        "records": options.records,
        "batch_size": options.batch_size,
        "seed": options.seed,
        "cold": drops,
    }


if __name__ == "__main__":
    main()
