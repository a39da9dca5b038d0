"""The text of GlusterFS volume files: one of each brick, and one that all clients share. Pure: no I/O.

A volume file is a stack of translators, the lowest first; each is a name, a type, options and the translators below.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

EXPORT: Final = "threads"
"""The translator of a brick that its server gives to clients."""

_LOOPBACK: Final = "127.0.0.1"
_TCP: Final = {"transport-type": "tcp", "transport.address-family": "inet"}


def brick_volume(directory: str | os.PathLike[str], *, port: int, read_delay_us: int) -> str:
    """Return the volume file of a server that listens on loopback and keeps its files in a directory.

    Parameters
    ----------
    directory
        Where the files lie; its file system must have extended attributes.
    port
        Where the server listens.
    read_delay_us
        What each read waits before it is answered, in microseconds; others overtake it meanwhile.
    """
    stack = [
        _translator("posix", "storage/posix", {"directory": os.fspath(directory)}),
        _translator("locks", "features/locks", {}, ["posix"]),
    ]
    below = "locks"
    if read_delay_us:
        delay = {"enable": "READ", "delay-duration": str(read_delay_us), "delay-percentage": "100"}
        stack.append(_translator("delay", "debug/delay-gen", delay, [below]))
        below = "delay"
    stack.append(_translator(EXPORT, "performance/io-threads", {"thread-count": "16"}, [below]))
    server = {
        **_TCP,
        "transport.socket.bind-address": _LOOPBACK,
        "transport.socket.listen-port": str(port),
        f"auth.addr.{EXPORT}.allow": _LOOPBACK,
    }
    stack.append(_translator("server", "protocol/server", server, [EXPORT]))
    return "\n".join(stack)


def client_volume(ports: Sequence[int], *, stripe: str) -> str:
    """Return the volume file of a client that spreads each file's stripes over the servers on these ports."""
    clients = [f"client{number}" for number in range(len(ports))]
    stack = [
        _translator(
            client,
            "protocol/client",
            {**_TCP, "remote-host": _LOOPBACK, "remote-port": str(port), "remote-subvolume": EXPORT},
        )
        for client, port in zip(clients, ports, strict=True)
    ]
    stack.append(_translator("distribute", "cluster/distribute", {}, clients))
    stack.append(_translator("stripes", "features/shard", {"shard-block-size": stripe}, ["distribute"]))
    behind = {"flush-behind": "off"}
    stack.append(_translator("behind", "performance/write-behind", behind, ["stripes"]))
    return "\n".join(stack)


def _translator(name: str, kind: str, options: Mapping[str, str], below: Sequence[str] = ()) -> str:
    lines = [f"volume {name}", f"  type {kind}", *(f"  option {key} {value}" for key, value in options.items())]
    if below:
        lines.append(f"  subvolumes {' '.join(below)}")
    return "\n".join([*lines, "end-volume", ""])
