"""The command: ``python -m tools.ablation``."""

import argparse
import datetime as dt
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from lmdbio.layout.index import Index
from lmdbio.reader.options import Direct
from lmdbio.reader.settings import DEFAULT_STREAMS
from tools.ablation import report
from tools.ablation.databases import VARIANTS, make_database, remove_database
from tools.ablation.estimates import making_s, run_s
from tools.ablation.records import KINDS
from tools.ablation.results import Quality, Result, Results, check
from tools.ablation.rounds import Conditions, run_rounds
from tools.ablation.runs import RUNS, Run
from tools.ablation.shuffle_quality import shuffle_quality
from tools.compare import caches, places
from tools.compare.command import Parser, carry_out, make_folders, refuse, seconds_or_none, size, whole, words
from tools.compare.data import KINDS as DATA_KINDS
from tools.compare.environments import cache_folder
from tools.compare.results import describe_folder, describe_machine

_NAME: Final = "ablation"
_PLACES: Final = ("local", "testbed")
_TESTBED: Final = "ablation-testbed"
_DIRECT: Final[dict[str, Direct]] = {"auto": "auto", "on": True, "off": False}
_N_EPOCHS: Final = 3
_SHUFFLE_WINDOW: Final = 4
_WARM_UP_SHARE: Final = 0.5
_LEAST_BATCHES: Final = 2
"""Of an epoch, for its shuffle quality to say anything."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    options: argparse.Namespace
    runs: tuple[Run, ...]
    """In each round."""

    @property
    def databases(self) -> list[str]:
        """Names of the variants that are read."""
        return list(dict.fromkeys(run.database for run in self.runs))

    def n_records(self, kind: str) -> int:
        """Return how many records of a kind there are: a multiple of the nodes, so that no record is read twice."""
        wanted: int = self.options.records or KINDS[kind].n_records
        most: int = max(self.options.nodes)
        return max(1, wanted // most) * most

    @property
    def n_runs(self) -> int:
        """Runs in all rounds, by all numbers of nodes, at all places, of all sizes."""
        options = self.options
        n_rounds: int = options.rounds
        return n_rounds * len(self.runs) * len(options.nodes) * len(options.place) * len(options.sizes)

    @property
    def expected_s(self) -> float:
        """About how long everything takes."""
        options = self.options
        total = 0.0
        for kind in options.sizes:
            n_records = self.n_records(kind)
            n_bytes = n_records * DATA_KINDS[KINDS[kind].data].mean_size
            for place in options.place:
                facts = {"place": place, "n_records": n_records, "n_bytes": n_bytes, "stock_s": options.stock_s}
                round_s = sum(run_s(one, **facts) for one in self.runs)
                total += options.rounds * len(options.nodes) * round_s
                total += making_s(len(self.databases), n_bytes=n_bytes)
        return total


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's options."""
    kinds = words(KINDS)
    numbers = ", ".join(f"{kind.n_records:,} of {kind.name}" for kind in KINDS.values())
    parser = Parser(
        prog=f"python -m tools.{_NAME}",
        description="Is the layout worth it?",
        epilog="The cache may be deleted; what it holds is removed after use unless --keep says otherwise.",
    )
    add = parser.add_argument
    add("--dry-run", action="store_true", help="print the plan and about how long it takes")
    add("--place", nargs="+", choices=_PLACES, default=["local"], help="where databases lie (default local)")
    add("--sizes", nargs="+", choices=list(KINDS), default=list(KINDS), help=f"of the records (default {kinds})")
    add("--nodes", nargs="+", type=whole(1), default=[1, 2, 4], metavar="N", help="ranks, a node each (default 1 2 4)")
    add("--rounds", type=whole(1), default=5, metavar="N", help="of all runs (default %(default)s)")
    add("--out", type=Path, default=Path("bench"), metavar="FOLDER", help="of the results (default %(default)s)")
    add(
        "--cache",
        type=Path,
        default=cache_folder(),
        metavar="FOLDER",
        help="where databases are made, in $XDG_CACHE_HOME if that is set (default %(default)s)",
    )
    add("--records", type=whole(1), metavar="N", help=f"of each database (default {numbers})")
    add("--batch-size", type=whole(2), default=256, metavar="N", help="records of a global batch (default %(default)s)")
    add(
        "--stock-s",
        type=seconds_or_none,
        default=8.0,
        metavar="SECONDS",
        help="after which stock LMDB is stopped; 0: never (default %(default)g)",
    )
    add(
        "--warm-up",
        type=size,
        metavar="SIZE",
        help=f"memory to use once before, such as 4GiB, or 0 (default {_WARM_UP_SHARE:.0%}% of what is free)",
    )
    add("--only", nargs="+", default=["*"], metavar="DATABASE:ORDER", help="runs, with * and ? (default *)")
    add("--depth", type=whole(1), metavar="N", help="reads in flight of each rank (default: the reader's)")
    add("--direct", choices=list(_DIRECT), default="auto", help="reads past the page cache (default %(default)s)")
    add("--keep", action="store_true", help="leave the databases in the cache")
    return parser.parse_args(arguments)


def chosen(patterns: Sequence[str]) -> tuple[Run, ...]:
    """Return the runs whose ``database:reading`` matches one of the patterns.

    Raises
    ------
    ValueError
        If a pattern matches none.
    """
    names = {run: f"{run.database}:{run.reading}" for run in RUNS}
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names.values()):
            raise ValueError(f"--only: expected some of {shlex.join(names.values())}, found {pattern!r}")
    return tuple(run for run, name in names.items() if any(fnmatch(name, pattern) for pattern in patterns))


def make_plan(options: argparse.Namespace) -> Plan:
    """Return what the options ask for.

    Raises
    ------
    ValueError
        If there is no such thing, or so few records that nothing could be said.
    """
    plan = Plan(options, chosen(options.only))
    if options.batch_size < max(options.nodes):
        raise ValueError(
            f"--batch-size: expected a record for each of {max(options.nodes)} nodes, found {options.batch_size}"
        )
    least = _LEAST_BATCHES * options.batch_size
    for kind in options.sizes:
        if plan.n_records(kind) < least:
            raise ValueError(f"--records: expected {least} or more, two batches, found {plan.n_records(kind)}")
    return plan


def main() -> None:
    """Measure, and write what was measured after every run."""
    options = parse_arguments()
    try:
        plan = make_plan(options)
        if options.dry_run:
            _tell_plan(plan)
            return
        _check_mpi()
        caches.check_memory(options.warm_up)
        make_folders({"--out": options.out, "--cache": options.cache})
        if "testbed" in options.place:
            places.check_testbed(options.cache / _TESTBED)
    except ValueError as exc:
        refuse(_NAME, exc)
    results = Results(_settings(options), describe_machine([]))
    caches.use_memory(int(caches.free_memory() * _WARM_UP_SHARE) if options.warm_up is None else options.warm_up)
    for kind in options.sizes:
        for place in options.place:
            _measure(plan, results, place=place, kind=kind)
        if not options.keep:
            for database in plan.databases:
                remove_database(options.cache / f"ablation-{kind}-{plan.n_records(kind)}" / f"{database}.lmdb")
    check(results.results)
    (options.out / "ablation.md").write_text(report.document(results))
    print(options.out / "ablation.md")


def _tell_plan(plan: Plan) -> None:
    options = plan.options
    for one in plan.runs:
        print(f"{one.database}:{one.reading}")
    sizes = ", ".join(f"{plan.n_records(kind):,} records of {kind}" for kind in options.sizes)
    print(f"{len(plan.runs)} runs x {options.rounds} rounds x {words(options.nodes)} nodes x {sizes}, at", end=" ")
    print(f"{words(options.place)}: {plan.n_runs} runs, about {plan.expected_s / 60:.0f} minutes, databases included")


def _check_mpi() -> None:
    """Refuse to begin without MPI.

    Raises
    ------
    ValueError
        If it is not there.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    if find_spec("mpi4py") is None or not (beside.exists() or shutil.which("mpiexec")):
        raise ValueError("MPI: expected mpi4py and mpiexec, found one or both missing: pip install -e '.[demo]'")


def _measure(plan: Plan, results: Results, *, place: str, kind: str) -> None:
    options = plan.options
    with ExitStack() as stack:
        roots = _roots(plan, place, kind, stack)
        for database in plan.databases:
            _say(f"making {kind} {database}")
            made = make_database(options.cache, VARIANTS[database], kind=kind, n_records=plan.n_records(kind))
            _note_quality(plan, results, kind, database, made)
            roots.put(made)
            if place != "local" and not options.keep:
                remove_database(made)
        results.machine["file_systems"][place] = describe_folder(roots.nodes[0])
        read_options = _read_options(options)
        conditions = Conditions(place, kind, roots, options.batch_size, options.stock_s, read_options)
        for result in run_rounds(conditions, plan.runs, n_rounds=options.rounds, nodes=options.nodes):
            results.results.append(result)
            results.save(options.out / "ablation.json")
            _tell(result)


def _roots(plan: Plan, place: str, kind: str, stack: ExitStack) -> places.Roots:
    if place == "local":
        return places.local(plan.options.cache / f"ablation-{kind}-{plan.n_records(kind)}")
    return stack.enter_context(places.testbed(plan.options.cache / _TESTBED))


def _note_quality(plan: Plan, results: Results, kind: str, database: str, made: Path) -> None:
    """Work out the shuffle quality of each order in which a database is read, once."""
    index = None
    for run in plan.runs:
        if run.database != database or run.is_stock or results.quality(kind, run):
            continue
        index = index or Index.open(made)
        quality = shuffle_quality(
            index,
            order=run.reading,
            seed=0,
            batch_size=plan.options.batch_size,
            streams=DEFAULT_STREAMS,
            shuffle_window=_SHUFFLE_WINDOW,
            n_epochs=_N_EPOCHS,
        )
        results.qualities.append(Quality(kind, run, quality))


def _read_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the reader is told beside its defaults."""
    depth = {} if options.depth is None else {"depth": options.depth}
    return depth | {"direct": _DIRECT[options.direct]}


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "command": shlex.join(["python", "-m", "tools.ablation", *sys.argv[1:]]),
        "rounds": options.rounds,
        "batch_size": options.batch_size,
        "stock_s": options.stock_s,
    }


def _tell(result: Result) -> None:
    run = result.run
    _say(
        f"{result.place} {result.kind} round {result.round + 1}, {result.nodes} nodes, {run.database} {run.reading}: "
        f"{result.rate / 1e6:,.1f} MB/s, {result.records / result.seconds:,.0f} records/s, {result.seconds:.2f} s"
    )


def _say(text: str) -> None:
    print(f"ablation: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(carry_out(main, name=_NAME))
