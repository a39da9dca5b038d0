"""What a testbed consists of: folders, ports, volume files and command lines. Pure: no I/O."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tools.testbed.volumes import brick_volume, client_volume

STRIPE: Final = "16MB"
"""How much of a file lies on one brick before the next stripe may go to another."""

_CLIENT_OPTIONS: Final = ("--entry-timeout=0", "--attribute-timeout=1", "--auto-invalidation=on")
"""A name is looked up anew at each open, which brings the file's size and time along; where these have changed the
system forgets what it held of the file (not without auto-invalidation: it then keeps the bytes of a file written over
by another node). A file that stays open asks once a second: at 0 s, each read from the cache would ask the servers.
"""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A server or a client to be started."""

    name: str
    argv: list[str]
    volume_file: Path
    volume: str
    """Text of the volume file."""
    log: Path


@dataclass(frozen=True, slots=True)
class Plan:
    """A testbed before it is there; what it says is all that is needed to take it down."""

    folder: str
    """Absolute path of all that belongs to the testbed but the bricks' files."""
    data: str
    """Absolute path of the folder of the bricks' folders."""
    data_is_new: bool
    """Whether the bricks' folders were made for this testbed, or kept from an earlier one."""
    ports: list[int]
    """Where each brick listens."""
    n_nodes: int
    read_delay_us: int
    error_rate: float
    server: str
    """Path of glusterfsd."""
    client: str
    """Path of glusterfs."""

    @property
    def mounts(self) -> list[Path]:
        """Each node's mount."""
        return [Path(self.folder, "mounts", f"node{node}") for node in range(self.n_nodes)]

    @property
    def brick_folders(self) -> list[Path]:
        """Where each brick keeps its files."""
        return [Path(self.data, f"brick{brick}") for brick in range(len(self.ports))]

    @property
    def bricks(self) -> list[Daemon]:
        """The servers."""
        return [
            self._daemon(
                f"brick{number}",
                self.server,
                brick_volume(folder, port=port, read_delay_us=self.read_delay_us),
            )
            for number, (folder, port) in enumerate(zip(self.brick_folders, self.ports, strict=True))
        ]

    @property
    def clients(self) -> list[Daemon]:
        """The nodes' clients, one for each mount."""
        volume = client_volume(self.ports, stripe=STRIPE)
        return [
            self._daemon(f"node{node}", self.client, volume, *_CLIENT_OPTIONS, str(mount))
            for node, mount in enumerate(self.mounts)
        ]

    @property
    def error_library(self) -> Path:
        """What makes the servers' reads fail, if they are to."""
        return Path(self.folder, "daemons", "read_errors.so")

    @property
    def daemons(self) -> list[Daemon]:
        """All of them, in the order in which they are started."""
        return [*self.bricks, *self.clients]

    def _daemon(self, name: str, program: str, volume: str, *more: str) -> Daemon:
        volume_file, log = (Path(self.folder, "daemons", f"{name}.{end}") for end in ("vol", "log"))
        argv = [program, "-f", str(volume_file), "-l", str(log), *more]
        return Daemon(name, argv, volume_file, volume, log)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Plan":
        """Return the plan that `to_json` gave."""
        return cls(**fields)
