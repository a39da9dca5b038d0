"""What must be known of a database and the machines that read it before runs are planned: facts, no speeds."""

import mmap
import os
from dataclasses import dataclass
from typing import Final

from lmdbio.comm import Comm, agreement
from lmdbio.errors import FormatError
from lmdbio.layout.file import DataFile
from lmdbio.layout.meta import read_meta
from lmdbio.layout.path import PathLike, resolve
from lmdbio.reader import page_cache
from lmdbio.reader.file_state import network_file_system
from lmdbio.reader.memory import available_memory
from lmdbio.reader.nodes import Nodes, find_nodes

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
_PROBE_SIZE: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts, the same on every rank."""

    database: str
    """As it was named."""
    data: str
    """Its data file."""
    file_size: int
    """Bytes of the data file."""
    n_records: int
    """Records of the database."""
    nodes: Nodes
    """Where the ranks run."""
    memory: int
    """Bytes that the page cache may take, on the node where they are fewest."""
    network: str | None
    """The file system's name if it is one of a network."""
    has_direct: bool
    """Whether the file system reads past its page cache, on every node."""
    can_empty: bool
    """Whether the page cache can be emptied of the file, on every node."""


def survey(database: PathLike, *, comm: Comm) -> Survey:
    """Collective. Look at the database and at the machines; every rank must call.

    Raises
    ------
    MissingDatabaseError, ReadError, FormatError
        If it is not there, or no database, or has no records; on every rank alike.
    """
    nodes = find_nodes(comm)
    with agreement(comm):
        path = os.fspath(resolve(database).data)
        with DataFile(path) as file:
            n_records = read_meta(file).main.entries
            if n_records == 0:
                raise FormatError(f"{path}: expected a database with records to read, found an empty one")
            size = file.size
            network = network_file_system(file.fileno())
            has_direct = _reads_directly(path)
        is_first = nodes.is_first(comm.Get_rank())
        local = (available_memory(), has_direct, page_cache.can_empty(path) if is_first else True)
    memories, direct, can_empty = zip(*comm.allgather(local), strict=True)
    return Survey(
        os.fspath(database), path, size, n_records, nodes, min(memories), network, all(direct), all(can_empty)
    )


def _reads_directly(path: str) -> bool:
    """Return whether a read past the page cache succeeds: tried with the file's first pages."""
    fd = -1
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _O_DIRECT)
        with mmap.mmap(-1, _PROBE_SIZE) as buffer:  # memory at a page's bound
            os.preadv(fd, [buffer], 0)
    except OSError:  # refused when opened or when read; whatever else is wrong with the file, other reads will tell
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return _O_DIRECT != 0
