"""One process of a contestant: waits for the driver's word, then stores, or reads an epoch and touches every byte.

It runs in the contestant's own environment, so it needs no more than numpy, Pillow and xxhash. What it says, and what
it is told, is in :mod:`tools.compare.ranks`.
"""

import argparse
import ctypes
import gc
import io
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash  # noqa: F401  # before the clock starts
from PIL import Image

from tools.compare import processes
from tools.compare.channel import Channel, connect
from tools.compare.contestant import Buffer, Contestant, Epoch, Ranks, Source, Way
from tools.compare.contestants import load
from tools.compare.data import PHOTOS, DataSet, Folder, Synthetic, open_source
from tools.compare.digests import Tally

CROP: Final = 224
"""Width and height in pixels of what a decoded photograph is cut to."""
_JPEG_START: Final = b"\xff\xd8\xff\xe0"
"""What makes a file an image to those who look at its first bytes."""
_N_REHEARSED: Final = 8
_ALWAYS: Final = ("numpy", "pillow", "xxhash", "lmdb", "mpi4py", "lmdbio")


def decode(value: Buffer) -> bytes:
    """Return the pixels of the middle of a photograph."""
    with Image.open(io.BytesIO(value)) as opened:
        image = opened.convert("RGB")
    left, upper = (image.width - CROP) // 2, (image.height - CROP) // 2
    return image.crop((left, upper, left + CROP, upper + CROP)).tobytes()


def timed(act: Callable[[], None]) -> dict[str, Any]:
    """Return when the act began and ended by the monotonic clock, and the processor time of all processes in it."""
    gc.collect()
    cpu = processes.cpu_s(os.getpid())
    start = time.monotonic()
    act()
    end = time.monotonic()
    return {
        "start": start,
        "end": end,
        "cpu_s": processes.cpu_s(os.getpid()) - cpu,
        "peak_memory": processes.peak_memory(os.getpid()),
    }


def read(epoch: Epoch, number: int, *, decodes: bool, digests: str) -> dict[str, Any]:
    """Read an epoch, leave the digests of what was given in a file, and return the facts."""
    tally = Tally()

    def act() -> None:
        for values in epoch(number):
            tally.add(values)
            if decodes:
                _decode_all(values)
            del values  # so that what holds them can be used for the next batch

    facts = timed(act)
    np.save(digests, np.frombuffer(tally.digests, np.uint64))
    return facts | {"records": len(tally.digests), "bytes": tally.n_bytes}


def _decode_all(values: Sequence[Buffer]) -> None:
    for value in values:
        decode(value)


def store(contestant: Contestant, options: argparse.Namespace) -> dict[str, Any]:
    """Store the data set and sync the file system, and return the facts."""
    target = Path(options.target[0])

    def act() -> None:
        # Listing the source is part of the work, as it is for anybody.
        contestant.convert(open_source(_data_set(options), Path(options.cache)), target)
        _sync_file_system(target)

    return timed(act)


def rehearse(contestant: Contestant, options: argparse.Namespace) -> None:
    """Store a few records for nothing: what is imported and started once is not what storing costs."""
    with tempfile.TemporaryDirectory(prefix="compare-") as name:
        folder, data_set = Path(name), _data_set(options)
        few = Synthetic(DataSet("tiny", _N_REHEARSED, 0))
        source: Source = few
        if data_set.kind in PHOTOS:
            for record in few:
                path = folder / "source" / record.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(_JPEG_START + record.value)
            source = Folder(folder / "source")
        contestant.convert(source, folder / "target")


def _sync_file_system(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    finally:
        os.close(fd)


def versions(contestant: Contestant) -> dict[str, str]:
    """Return the versions of what a contestant is made of, as installed."""
    found = {"python": sys.version.split()[0]}
    for requirement in (*contestant.requirements, *_ALWAYS):
        name = requirement.partition("==")[0].partition("[")[0].strip()
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def serve(channel: Channel, contestant: Contestant, options: argparse.Namespace, *, rank: int) -> None:
    """Do what the driver says until it says to end."""
    way = next((way for way in contestant.ways if way.name == options.way), None)
    if way is None:
        rehearse(contestant, options)
    told = versions(contestant) if options.versions and rank == 0 else {}
    channel.send("hello", rank=rank, pid=os.getpid(), versions=told)
    message = channel.receive()
    if message["say"] == "convert":
        channel.send("done", **store(contestant, options))
        channel.receive()
        return
    assert way is not None, f"{contestant.name}: expected a way called {options.way!r}"
    _serve_epochs(channel, contestant, way, options, rank=rank)


def _serve_epochs(
    channel: Channel, contestant: Contestant, way: Way, options: argparse.Namespace, *, rank: int
) -> None:
    ranks = Ranks(rank, options.size, options.batch_size, options.seed)
    target = Path(options.target[rank % len(options.target)])
    begun = time.monotonic()
    with contestant.open(target, way, ranks) as epoch:
        channel.send("ready", open_s=time.monotonic() - begun)
        while (message := channel.receive())["say"] == "epoch":
            facts = read(epoch, message["number"], decodes=options.decode, digests=message["digests"])
            channel.send("done", **facts)


def _data_set(options: argparse.Namespace) -> DataSet:
    return DataSet(options.kind, options.records, options.data_seed)


def _rank(options: argparse.Namespace) -> int:
    """Return which of the processes this is: mpiexec starts all with the same arguments."""
    if options.rank is not None:
        return int(options.rank)
    from mpi4py import MPI

    return MPI.COMM_WORLD.Get_rank()


def parse_arguments() -> argparse.Namespace:
    """Return what the driver asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--socket", "--contestant", "--cache", "--kind"):
        parser.add_argument(option, required=True)
    for option in ("--records", "--data-seed"):
        parser.add_argument(option, type=int, required=True)
    parser.add_argument("--target", required=True, action="append", help="the folder; several: rank by rank")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--way")
    parser.add_argument("--decode", action="store_true")
    parser.add_argument("--versions", action="store_true", help="look up the versions of packages, which takes long")
    return parser.parse_args()


def main() -> None:
    """Serve the driver; an error goes to it in one line, with the trace on stderr."""
    options = parse_arguments()
    rank = _rank(options)
    channel = connect(options.socket)
    try:
        serve(channel, load(options.contestant), options, rank=rank)
    except BaseException as exc:  # noqa: BLE001  # whatever it is, the driver is told
        traceback.print_exc()
        channel.send("failed", reason=f"{type(exc).__name__}: {exc}")
        sys.stderr.flush()
        os._exit(1)  # the contestant's own threads must not keep a failed rank alive
    finally:
        channel.close()


if __name__ == "__main__":
    main()
