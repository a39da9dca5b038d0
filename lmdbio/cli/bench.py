"""``lmdbio bench``: how fast a database is read where it lies, in each way and by stock LMDB, and what to use."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lmdbio.cli.failure import CommandError
from lmdbio.cli.launch import communicator, find_launch
from lmdbio.cli.options import BatchSize, Database, IndexFile, Json, Quiet
from lmdbio.cli.parsing import positive_number, seconds_from_1
from lmdbio.cli.plotting import require_plotting
from lmdbio.cli.progress import Progress
from lmdbio.cli.text import print_json

if TYPE_CHECKING:
    from lmdbio.reader.runs import Run
    from lmdbio.reader.survey import Survey
    from lmdbio.reader.ways import State

_STATES: "Final[tuple[State, ...]]" = ("warm", "cold")


def bench(
    db: Database,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="N,…",
            help="Measure with the ranks of the first N nodes only, for each N; all by default.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        str, typer.Option(metavar="STATE,…", help="Of the page cache: cold (emptied before each run), warm, or both.")
    ] = "cold,warm",
    rounds: Annotated[
        int,
        typer.Option(metavar="N", parser=positive_number, help="How often each way is measured; the median counts."),
    ] = 3,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            parser=seconds_from_1,
            help="For all runs together, about: so much is read; a minute by default, more for very many runs.",
            show_default=False,
        ),
    ] = None,
    batch_size: BatchSize = 64,
    index: IndexFile = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the rates, as PNG, SVG or PDF.", show_default=False, readable=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run; read nothing of the values.")] = (
        False
    ),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure how fast a database is read where it lies: by lmdbio in each way, and by stock LMDB.

    Every byte that is read is hashed. Plain reads of the file show what one simple way brings here: no ceiling. Says
    what to use, and what it is worth. Under mpiexec or srun all ranks read.
    """
    from lmdbio.cli.bench_report import Report, print_plan, print_report, report_as_json
    from lmdbio.reader.measure import measure, open_subject
    from lmdbio.reader.survey import survey

    states, wanted = _parse_states(state), _parse_counts(nodes)
    if plot is not None:
        require_plotting(plot)
    comm = communicator()
    facts = survey(db, comm=comm)
    runs = _plan(facts, states, wanted, rounds=rounds, time_limit_s=time_limit)
    talks = find_launch().rank == 0
    if dry_run:
        if talks:
            print_plan(facts, runs, json=json)
        return
    with (
        Progress(quiet=quiet) as progress,
        open_subject(facts, index, comm=comm, batch_size=batch_size) as (subject, made_s),
    ):
        progress.begin("bench", len(runs), unit="runs")
        measurements = measure(
            subject,
            facts,
            runs,
            comm=comm,
            progress=lambda number, run: progress.show(number, f"{run.state}: {run.way.name}, {run.way.order}"),
        )
    report = Report(facts, measurements, batch_size=batch_size, index=index, index_made_s=made_s, rounds=rounds)
    if talks and plot is not None:
        from lmdbio.cli.bench_plot import draw

        draw(report.rows, plot, title=f"{db}: {len(facts.nodes.node_of)} ranks on {facts.nodes.n_nodes} nodes")
    if talks and json:
        print_json(report_as_json(report))
    elif talks and not quiet:
        print_report(report)


def _plan(
    facts: "Survey", states: "list[State]", wanted: list[int] | None, *, rounds: int, time_limit_s: float | None
) -> "list[Run]":
    """Return the runs, or refuse what cannot be done here."""
    from lmdbio.reader.runs import plan_runs

    n_nodes = facts.nodes.n_nodes
    if wanted is not None and wanted[-1] > n_nodes:
        raise CommandError(
            f"--nodes: expected {n_nodes} or less, the nodes that the ranks run on, found {wanted[-1]}: start ranks on "
            "more nodes with mpiexec or srun"
        )
    try:
        return plan_runs(
            states=["as found" if state == "cold" and not facts.can_empty else state for state in states],
            node_counts=wanted or [n_nodes],
            nodes=facts.nodes,
            has_direct=facts.has_direct,
            rounds=rounds,
            time_limit_s=time_limit_s,
        )
    except ValueError as exc:
        raise CommandError(f"--{exc}") from None


def _parse_states(text: str) -> "list[State]":
    """Return the states, ``warm`` first: it fills the memory once, which is slow where memory is virtual."""
    words = text.split(",")
    if not words or not set(words) <= {"cold", "warm"}:
        raise typer.BadParameter(f"--state: expected cold, warm or cold,warm, found {text!r}")
    return [state for state in _STATES if state in words]


def _parse_counts(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        counts = sorted({int(word) for word in text.split(",")})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise typer.BadParameter(f"--nodes: expected numbers from 1 such as 1,2,4, found {text!r}")
    return counts
