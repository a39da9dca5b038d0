"""The command: ``python -m tools.compare``."""

import argparse
import datetime as dt
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lmdbio.cli.sizes import format_size
from tools.compare import caches, charts, data, places, tables
from tools.compare.ceilings import FLAT
from tools.compare.command import Parser, carry_out, make_folders, refuse, seconds, size, whole, words
from tools.compare.contestants import all_names, load
from tools.compare.driver import Driver, Settings, data_set_of
from tools.compare.environments import PLOT, cache_folder, python_of
from tools.compare.estimates import run_s, trials_s
from tools.compare.members import check_ways, chosen_ways, join
from tools.compare.performance import check_document, measured_text, write_measured
from tools.compare.questions import PLACES, SHORT, Question, all_questions, select
from tools.compare.ranks import ROOT
from tools.compare.results import Results, describe_machine
from tools.compare.rounds import Clock

_NAME: Final = "compare"
_SHORT_CONTESTANTS: Final = ("lmdbio", "stock", "webdataset", "files")
_WARM_UP_SHARE: Final = 0.6
_CP: Final = "cp"
_N_DD: Final = 3
"""Ways of dd in a question about reading: the two fastest, and the fastest of equal depth."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared."""

    settings: Settings
    names: Sequence[str]
    """Of the contestants."""
    questions: list[Question]
    rows: list[list[str]]
    """For each question, the contestant of each row, ceilings included."""

    @property
    def n_runs(self) -> int:
        """Runs in all rounds."""
        return self.settings.n_rounds * sum(map(len, self.rows))

    @property
    def expected_s(self) -> float:
        """About how long all rounds take."""
        sets = [data_set_of(question.data, self.settings) for question in self.questions]
        runs = (
            run_s(question, contestant, n_records=data_set.n_records, n_bytes=data_set.n_bytes)
            for question, contestants, data_set in zip(self.questions, self.rows, sets, strict=True)
            for contestant in contestants
        )
        return self.settings.n_rounds * sum(runs) + trials_s(self.questions, [one.n_bytes for one in sets])


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's options."""
    cache = cache_folder()
    parser = Parser(
        prog=f"python -m tools.{_NAME}",
        description="Compare lmdbio with its peers.",
        epilog=f"{cache} (in $XDG_CACHE_HOME if that is set) holds photographs, digests of the data sets, and a "
        "virtual environment for each peer, so that later runs need not make them again; it may be deleted.",
    )
    add = parser.add_argument
    add("--list", action="store_true", help="print the questions and contestants")
    add("--dry-run", action="store_true", help="print the plan and about how long it takes")
    add(
        "--questions",
        nargs="+",
        default=list(SHORT),
        metavar="NAME",
        help=f"names, with * and ? (default {words(SHORT)})",
    )
    add(
        "--contestants",
        nargs="+",
        default=list(_SHORT_CONTESTANTS),
        metavar="NAME",
        help=f"names, or: all (default {words(_SHORT_CONTESTANTS)})",
    )
    add(
        "--ways",
        nargs="+",
        default=["*"],
        metavar="NAME",
        help="only the ways that are named so, with * and ? (default *)",
    )
    add("--place", nargs="+", choices=PLACES, default=["local"], help="where stores lie (default local)")
    add("--rounds", type=whole(1), default=5, metavar="N", help="of all contestants (default %(default)s)")
    add("--records", type=whole(1), metavar="N", help="of each data set at most (default: all; see --list)")
    add(
        "--batch-size",
        type=whole(1),
        default=64,
        metavar="N",
        help="records of a batch on each rank (default %(default)s)",
    )
    add("--seed", type=whole(0), default=0, metavar="N", help="of data and shuffles (default %(default)s)")
    add("--time-limit", type=seconds, metavar="SECONDS", help="for all rounds (default: none)")
    add(
        "--run-limit",
        type=seconds,
        metavar="SECONDS",
        default=300.0,
        help="for one run of one contestant (default %(default)g)",
    )
    add(
        "--warm-up",
        type=size,
        metavar="SIZE",
        help=f"memory to use once before, such as 4GiB, or 0 (default {_WARM_UP_SHARE:.0%}% of what is free)",
    )
    add("--stores", type=Path, metavar="FOLDER", help=f"where stores are made and removed (default {cache / 'stores'})")
    add("--out", type=Path, default=Path("bench"), metavar="FOLDER", help="of the results (default %(default)s)")
    add("--document", type=Path, metavar="FILE", help="markdown whose measured part is written anew (default: none is)")
    return parser.parse_args(arguments)


def main() -> None:
    """List, plan, or compare."""
    options = parse_arguments()
    if options.list:
        _list()
        return
    try:
        plan = make_plan(options)
        if options.document is not None:
            check_document(options.document)
        if options.dry_run:
            _tell(plan)
            return
        _check_machine(plan, options)
    except (ValueError, OSError) as exc:
        refuse(_NAME, exc)
    _compare(options, plan)


def make_plan(options: argparse.Namespace) -> Plan:
    """Return what the options ask for.

    Raises
    ------
    ValueError
        If there is no such thing.
    """
    names = all_names() if options.contestants == ["all"] else list(dict.fromkeys(options.contestants))
    questions = select(options.questions, places=options.place)
    contestants = [load(name) for name in names]
    check_ways(contestants, options.ways)
    rows = [_rows(names, question, options.ways) for question in questions]
    if not any(set(row) - {FLAT, _CP} for row in rows):
        orders = words(dict.fromkeys(question.order for question in questions))
        raise ValueError(f"ways: expected some that are {orders}, as the questions are, found {words(options.ways)}")
    return Plan(_settings(options), names, questions, rows)


def _check_machine(plan: Plan, options: argparse.Namespace) -> None:
    """Refuse what this machine cannot do, before hours of work."""
    settings = plan.settings
    for kind in dict.fromkeys(question.data for question in plan.questions):
        data.check_packages(data_set_of(kind, settings), settings.cache)
    caches.check_memory(options.warm_up)
    make_folders({"--stores": settings.stores, "XDG_CACHE_HOME": settings.cache, "--out": options.out})
    if any(question.place == "testbed" for question in plan.questions):
        places.check_testbed(settings.stores / "testbed")


def _tell(plan: Plan) -> None:
    for question, row in zip(plan.questions, plan.rows, strict=True):
        print(f"{question.name}: {len(row)} rows x {plan.settings.n_rounds} rounds")
    minutes = f"{plan.expected_s / 60:.0f} minutes"
    print(f"{plan.n_runs} runs, about {minutes} if nothing limits them, making data and stores not counted")


def _list() -> None:
    for question in all_questions():
        print(f"question    {question.name}")
    for kind in data.KINDS.values():
        print(f"data        {kind.name}: {kind.n_records:,} records of {kind.mean_size:,} bytes")
    for name in all_names():
        contestant = load(name)
        for way in contestant.ways:
            print(f"contestant  {contestant.name}: {way.name} ({way.order}, shuffle: {way.shuffle})")


def _rows(names: Sequence[str], question: Question, ways: Sequence[str]) -> list[str]:
    """Return the contestant of each row of a question, ceilings included."""
    if question.order is None:
        return [*names, _CP]
    found = [name for name in names for way in chosen_ways(load(name), ways) if way.order == question.order]
    return found + [FLAT] * _N_DD if question.work == "read" else found


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


def _compare(options: argparse.Namespace, plan: Plan) -> None:
    settings = plan.settings
    members, notes = join(plan.names, options.ways, cache=settings.cache)
    plot = _plotter(settings.cache, notes)
    n_bytes = int(caches.free_memory() * _WARM_UP_SHARE) if options.warm_up is None else options.warm_up
    if n_bytes:
        print(f"compare: using {format_size(n_bytes)} of memory once", file=sys.stderr, flush=True)
    caches.use_memory(n_bytes)
    results = Results(_described(options), describe_machine([]), plan.questions, notes=notes)
    clock = Clock(plan.n_runs, options.time_limit)
    with tempfile.TemporaryDirectory(prefix="run-", dir=settings.stores) as stores:
        driver = Driver(replace(settings, stores=Path(stores)), members, results, clock)
        try:
            driver.ask(plan.questions)
        finally:
            results.save(settings.results)
    text = tables.document(results)
    (options.out / "results.md").write_text(text)
    if plot is not None:
        drawn = [plot, "-m", charts.__name__, str(settings.results.resolve()), str(options.out.resolve())]
        subprocess.run(drawn, check=True, cwd=ROOT, stdout=sys.stderr)
    if options.document is not None:
        write_measured(options.document, measured_text([results]), pictures=sorted(options.out.glob("*.png")))
    print(text)


def _plotter(cache: Path, notes: list[str]) -> str | None:
    """Return the interpreter that draws charts; without one there are none, and a note says why."""
    try:
        return python_of(PLOT, cache=cache)
    except RuntimeError as exc:
        notes.append(f"charts: left out: {exc}")
        return None


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
    sys.exit(carry_out(main, name=_NAME))
