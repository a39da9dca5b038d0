"""What the bulk writer says that it wrote: where each value lies, in key order. Pure: no I/O."""

from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from lmdbio.layout.meta import Meta
from lmdbio.layout.plan import DatabasePlan
from lmdbio.layout.tree_pages import value_offsets, written_records

_Fact = TypeVar("_Fact", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class WrittenDatabase:
    """What was written and where it lies; arrays in key order unless they say otherwise."""

    reordered: NDArray[np.int64] | None
    """Plan-order number of each record, shape (n_written,); None where that is all of them in plan order."""
    offsets: NDArray[np.uint64]
    """First byte of each value in the file, shape (n_written,)."""
    lengths: NDArray[np.uint32]
    """Bytes of each value, shape (n_written,)."""
    checksums: NDArray[np.uint64] | None
    """xxh3-64 of each value, shape (n_written,), if they were taken."""
    layout_order: NDArray[np.int64] | None
    """Places in key order sorted by where the values lie, shape (n_written,); None where that is key order."""
    partitions: NDArray[np.int64]
    """Bounds of the partitions in layout order, none empty, shape (n_partitions + 1,)."""
    meta: Meta
    """The live meta page."""

    @property
    def records(self) -> NDArray[np.int64]:
        """Plan-order number of each record, int64, shape (n_written,)."""
        return np.arange(len(self.offsets)) if self.reordered is None else self.reordered

    @classmethod
    def of(
        cls, plan: DatabasePlan, written: NDArray[np.bool_], checksums: NDArray[np.uint64] | None, meta: Meta
    ) -> Self:
        """Return what was written after a plan.

        Parameters
        ----------
        plan
            The plan.
        written
            Whether each record was written, in plan order, bool, shape (n_records,).
        checksums
            The xxh3-64 of each value, in plan order, uint64, shape (n_records,), if they were taken.
        meta
            The live meta page.
        """
        offsets = value_offsets(plan, written)
        in_plan_order = plan.key_order is None and len(offsets) == plan.n_records
        reordered = None if in_plan_order else written_records(plan, written)

        def taken(facts: NDArray[_Fact]) -> NDArray[_Fact]:
            return facts if reordered is None else facts[reordered]

        pages = taken(plan.value_pages)
        order = None
        if np.any(pages[1:] < pages[:-1]):
            # Key order is the order of slots within a leaf, and the sort is stable.
            order = np.argsort(pages, kind="stable")
            pages = pages[order]
        bounds = np.append(np.searchsorted(pages, plan.region_pages), len(pages))
        del pages
        return cls(
            reordered=reordered,
            offsets=offsets,
            lengths=taken(plan.lengths).astype(np.uint32),
            checksums=None if checksums is None else taken(checksums),
            layout_order=order,
            partitions=np.unique(bounds),
            meta=meta,
        )
