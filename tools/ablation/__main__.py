"""The command: ``python -m tools.ablation``."""

import argparse
import datetime as dt
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from lmdbio.layout.index import Index
from lmdbio.reader.options import Direct
from lmdbio.reader.settings import DEFAULT_STREAMS
from tools.ablation import report
from tools.ablation.databases import VARIANTS, make_database, remove_database
from tools.ablation.records import KINDS
from tools.ablation.results import Quality, Result, Results, check
from tools.ablation.rounds import Conditions, run_rounds
from tools.ablation.runs import RUNS, Run
from tools.ablation.shuffle_quality import shuffle_quality
from tools.compare import caches, places
from tools.compare.environments import cache_folder
from tools.compare.results import describe_folder, describe_machine

_PLACES: Final = ("local", "testbed")
_DIRECT: Final[dict[str, Direct]] = {"auto": "auto", "on": True, "off": False}
_N_EPOCHS: Final = 3
_SHUFFLE_WINDOW: Final = 4
_WARM_UP_SHARE: Final = 0.5


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
        most = max(self.options.nodes)
        return max(1, wanted // most) * most


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m tools.ablation", description="Is the layout worth it?")
    parser.add_argument("--place", nargs="+", choices=_PLACES, default=["local"])
    parser.add_argument("--sizes", nargs="+", choices=list(KINDS), default=list(KINDS), help="of the records")
    parser.add_argument("--nodes", nargs="+", type=int, default=[1, 2, 4], help="ranks, a node each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder of the results (default %(default)s)")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where databases are kept")
    parser.add_argument("--records", type=int, help="of each database")
    parser.add_argument("--batch-size", type=int, default=256, help="records of a global batch")
    parser.add_argument("--stock-s", type=float, default=8, help="seconds after which stock LMDB is stopped")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="DATABASE:ORDER", help="runs, with * and ?")
    parser.add_argument("--depth", type=int, help="reads in flight of each rank")
    parser.add_argument("--direct", choices=list(_DIRECT), default="auto", help="reads past the page cache")
    parser.add_argument("--keep", action="store_true", help="leave the databases in the cache")
    return parser.parse_args(arguments)


def chosen(patterns: Sequence[str]) -> tuple[Run, ...]:
    """Return the runs whose ``database:reading`` matches one of the patterns."""
    return tuple(run for run in RUNS if any(fnmatch(f"{run.database}:{run.reading}", one) for one in patterns))


def main() -> None:
    """Measure, and write what was measured after every run."""
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what was begun is undone
    plan = Plan(options, chosen(options.only))
    for folder in (options.out, options.cache):
        folder.mkdir(parents=True, exist_ok=True)
    results = Results(_settings(options), describe_machine([]))
    caches.use_memory(int(caches.free_memory() * _WARM_UP_SHARE))
    for kind in options.sizes:
        for place in options.place:
            _measure(plan, results, place=place, kind=kind)
        if not options.keep:
            for database in plan.databases:
                remove_database(options.cache / f"ablation-{kind}-{plan.n_records(kind)}" / f"{database}.lmdb")
    check(results.results)
    (options.out / "ablation.md").write_text(report.document(results))
    print(options.out / "ablation.md")


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
    return stack.enter_context(places.testbed(plan.options.cache / "ablation-testbed"))


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
    main()
