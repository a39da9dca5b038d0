"""Messages between the driver and its ranks: one JSON object a line, over a socket in the file system."""

import json
import socket
import time
from typing import Any, Final

_PIECE_SIZE: Final = 1 << 16


class ChannelClosed(Exception):  # noqa: N818  # the other side has ended, which the driver expects of a failed rank
    """The other side is gone."""


class Channel:
    """One end of a connection.

    Parameters
    ----------
    connection
        A connected stream socket; closed with the channel.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._held = b""

    def send(self, say: str, **facts: Any) -> None:
        """Send a message.

        Raises
        ------
        ChannelClosed
            If nobody is there to take it.
        """
        try:
            self.connection.sendall(json.dumps({"say": say} | facts).encode() + b"\n")
        except OSError as exc:
            raise ChannelClosed from exc

    def receive(self, *, until: float | None = None) -> dict[str, Any]:
        """Return the next message.

        Parameters
        ----------
        until
            When to give up, by the monotonic clock; None: never.

        Raises
        ------
        ChannelClosed
            If the other side ended.
        TimeoutError
            If nothing came in time.
        """
        while b"\n" not in self._held:
            if until is not None:
                self.connection.settimeout(max(1e-3, until - time.monotonic()))
            try:
                piece = self.connection.recv(_PIECE_SIZE)
            except TimeoutError:
                raise
            except OSError as exc:
                raise ChannelClosed from exc
            if not piece:
                raise ChannelClosed
            self._held += piece
        line, _, self._held = self._held.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """End the connection."""
        self.connection.close()


def connect(path: str) -> Channel:
    """Return a channel to the driver that listens at a path."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return Channel(connection)
