"""What ``lmdbio read`` says: each epoch in a few lines, for people and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from lmdbio import __version__
from lmdbio.cli.sizes import format_rate, format_size
from lmdbio.cli.text import plural, print_line, print_table
from lmdbio.reader.meter import Stats


@dataclass(frozen=True, slots=True)
class Epoch:
    """What all ranks did in an epoch."""

    number: int
    """From 0."""
    ranks: Sequence[Stats]
    """Of each rank."""

    def total(self, name: str) -> Any:
        """Return the sum of a number over the ranks."""
        return sum(map(attrgetter(name), self.ranks))

    def most(self, name: str) -> Any:
        """Return the largest of a number over the ranks."""
        return max(map(attrgetter(name), self.ranks))


def print_epochs(epochs: Iterable[Epoch]) -> None:
    """Print what each epoch took."""
    for epoch in epochs:
        seconds, useful = epoch.most("elapsed_s"), epoch.total("useful_bytes")
        ranks = f" on {plural(len(epoch.ranks), 'rank')}" if len(epoch.ranks) > 1 else ""
        print_line(
            f"epoch {epoch.number}: {plural(epoch.total('records'), 'record')}, {format_size(useful)} in "
            f"{seconds:.2f} s{ranks}: {format_rate(useful, seconds)}"
        )
        print_table([(f"  {name}", text) for name, text in _lines(epoch, seconds)])


def _lines(epoch: Epoch, seconds: float) -> list[tuple[str, str]]:
    useful, read, reads = (epoch.total(name) for name in ("useful_bytes", "read_bytes", "reads"))
    next_s = epoch.total("next_s") / len(epoch.ranks)
    wait_s = epoch.total("wait_s") / len(epoch.ranks)
    of_time = next_s / max(seconds, 1e-9)
    lines = [
        ("next()", f"{next_s:.2f} s, {of_time:.0%} of the time; {wait_s:.2f} s of them reading or waiting for reads"),
        ("read", f"{format_size(read)}, {read / max(1, useful):.2f} times what was handed out (ahead included)"),
        ("reads", f"{reads:,} of {format_size(read / max(1, reads))}, {_depth(epoch):.1f} in flight on each rank"),
        ("held", f"{format_size(epoch.most('peak_held_bytes'))} at most on a rank"),
    ]
    if epoch.total("verify_s"):
        lines.append(("checksums", f"{epoch.total('verify_s') / len(epoch.ranks):.2f} s in next()"))
    if epoch.total("retries"):
        lines.append(("tried again", plural(epoch.total("retries"), "read")))
    faults = f"{epoch.total('minor_faults'):,} minor, {epoch.total('major_faults'):,} with I/O"
    switches = f"{epoch.total('voluntary_switches'):,} to wait, {epoch.total('involuntary_switches'):,} forced"
    return [*lines, ("page faults", faults), ("switches", switches)]


def _depth(epoch: Epoch) -> float:
    return float(epoch.total("read_s") / epoch.total("busy_s")) if epoch.total("busy_s") else 0.0


def report_as_json(epochs: Iterable[Epoch], *, n_records: int, order: str, batch_size: int) -> dict[str, Any]:
    """Return all that was counted."""
    return {
        "version": __version__,
        "n_records": n_records,
        "order": order,
        "batch_size": batch_size,
        "epochs": [
            {
                "epoch": epoch.number,
                "records": epoch.total("records"),
                "bytes": epoch.total("useful_bytes"),
                "seconds": epoch.most("elapsed_s"),
                "bytes_per_second": epoch.total("useful_bytes") / max(epoch.most("elapsed_s"), 1e-9),
                "ranks": [{**asdict(rank), "read_size": rank.read_size, "depth": rank.depth} for rank in epoch.ranks],
            }
            for epoch in epochs
        ],
    }
