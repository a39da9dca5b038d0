"""The sidecar's container: named arrays and one text in a safetensors file. What they mean is the index's business.

Written with the safetensors library; read with a parser of our own, which trusts no number, and positioned reads, since
that library maps files. Source of the format: the safetensors documentation, "Format": a u64 with the size of the
header, the header as JSON, then the arrays' bytes end to end without gaps.
"""

import json
import math
import os
import re
import stat
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save, save_file

from lmdbio.errors import FormatError, MissingDatabaseError, MissingIndexError, TargetError
from lmdbio.layout.file import DataFile

METADATA_NAME: Final = "lmdbio"
"""Name of the one metadata entry; safetensors writes several in no fixed order."""
MAX_HEADER_SIZE: Final = 100_000_000
"""Largest header in bytes, as in the safetensors library."""
_SIZE_BYTES: Final = 8
_MAX_DIMENSIONS: Final = 32
_METADATA: Final = "__metadata__"
_DTYPES: Final = {"U8": "<u1", "U32": "<u4", "U64": "<u8", "I64": "<i8"}

Arrays: TypeAlias = dict[str, NDArray[Any]]


def to_bytes(arrays: Arrays, text: str) -> bytes:
    """Return the sidecar as bytes; equal input gives equal bytes."""
    return save(_contiguous(arrays), metadata={METADATA_NAME: text})


def write(path: str | os.PathLike[str], arrays: Arrays, text: str) -> None:
    """Write the sidecar under a temporary name beside its own, sync it, rename it; what stood there is replaced.

    Raises
    ------
    TargetError
        If it cannot be written.
    """
    goal = os.fspath(path)
    temporary = f"{goal}.{os.getpid()}.tmp"
    try:
        mode = _reserve(temporary)
        save_file(_contiguous(arrays), temporary, metadata={METADATA_NAME: text})
        os.chmod(temporary, mode)
        _sync(temporary)
        os.replace(temporary, goal)
        _sync(os.path.dirname(goal) or ".")
    except (OSError, SafetensorError) as exc:
        with suppress(OSError):
            os.unlink(temporary)
        raise TargetError(
            f"{goal}: cannot write the index: {_reason(exc)}: mend that, or name another place for it"
        ) from exc


def _reason(error: OSError | SafetensorError) -> str:
    """Return what the system said; the safetensors library wraps it in words of its own, and its number in brackets."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])).lower() if number else str(error)


def read(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Return the bytes of a sidecar after a look at its header, uint8, shape (file size,).

    Raises
    ------
    MissingIndexError
        If there is no such file.
    FormatError
        If it is no safetensors file, or too large for memory.
    ReadError
        If it cannot be read.
    """
    try:
        file = DataFile(path)
    except MissingDatabaseError as exc:
        raise MissingIndexError(f"{os.fspath(path)}: expected an index, found none") from exc
    with file:
        head = file.read_array(0, min(file.size, _SIZE_BYTES))
        header_size = _header_size(head, file.size, file.path)
        _parse_header(file.read(_SIZE_BYTES, header_size), file.size - _SIZE_BYTES - header_size, file.path)
        try:
            return file.read_array(0, file.size)
        except MemoryError:
            raise FormatError(f"{file.path}: expected an index that fits memory, found {file.size} bytes") from None


def parse(held: NDArray[np.uint8], *, path: str) -> tuple[Arrays, str]:
    """Return the arrays, as read-only views, and the text of a sidecar.

    Parameters
    ----------
    held
        All its bytes, uint8, shape (file size,).
    path
        Its name, for messages.

    Raises
    ------
    FormatError
        If it is no safetensors file, or has no entry of ours.
    """
    header_size = _header_size(held[:_SIZE_BYTES], len(held), path)
    start = _SIZE_BYTES + header_size
    header = _parse_header(held[_SIZE_BYTES:start].tobytes(), len(held) - start, path)
    metadata = header.pop(_METADATA, {})
    text = metadata.get(METADATA_NAME) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise FormatError(f"{path}: expected an index of lmdbio, found a safetensors file without its metadata")
    arrays = {}
    for name, entry in header.items():
        if entry["dtype"] in _DTYPES:
            begin, end = entry["data_offsets"]
            arrays[name] = _view(held[start + begin : start + end], _DTYPES[entry["dtype"]], entry["shape"], path)
    return arrays, text


def _view(held: NDArray[np.uint8], dtype: str, shape: list[int], path: str) -> NDArray[Any]:
    try:
        array = held.view(dtype).reshape(shape)
    except (ValueError, OverflowError) as exc:  # no bytes at all, in a shape that numpy cannot have
        raise FormatError(f"{path}: expected the shape of an array, found {shape!s:.80}") from exc
    array.flags.writeable = False
    return array


def _header_size(head: NDArray[np.uint8], file_size: int, path: str) -> int:
    if len(head) < _SIZE_BYTES:
        raise FormatError(f"{path}: expected an index (a safetensors file), found {file_size} bytes")
    size = int.from_bytes(head.tobytes(), "little")
    if size > min(MAX_HEADER_SIZE, file_size - _SIZE_BYTES):
        raise FormatError(
            f"{path}: expected an index (a safetensors file), found a header of {size} bytes in {file_size} bytes"
        )
    return size


def _parse_header(text: bytes, data_size: int, path: str) -> dict[str, Any]:
    """Return the header, once its arrays are known to tile the ``data_size`` bytes that follow it."""
    try:
        header = json.loads(text.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as exc:
        raise FormatError(f"{path}: expected a safetensors header in JSON, found other bytes ({exc!s:.80})") from exc
    if not isinstance(header, dict):
        raise FormatError(f"{path}: expected a safetensors header of named arrays, found {header!r:.40}")
    bounds = []
    for name, entry in header.items():
        if name != _METADATA:
            bounds.append(_check_entry(name, entry, path))
    expected = 0
    for begin, end in sorted(bounds):
        if begin != expected:
            raise FormatError(f"{path}: expected an array's bytes from {expected} on, found them from {begin} on")
        expected = end
    if expected != data_size:
        raise FormatError(f"{path}: expected {expected} bytes of arrays, found {data_size}: is it cut short?")
    return header


def _check_entry(name: str, entry: Any, path: str) -> tuple[int, int]:
    """Return (begin, end) of an array whose entry agrees with itself."""
    wrong = FormatError(f"{path}: expected array {name!r:.40} with dtype, shape and data_offsets, found {entry!r:.120}")
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        raise wrong
    shape, offsets = _whole_numbers(entry.get("shape")), _whole_numbers(entry.get("data_offsets"))
    if shape is None or offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise wrong
    dtype = _DTYPES.get(entry["dtype"])
    if dtype is not None and math.prod(shape) * np.dtype(dtype).itemsize != offsets[1] - offsets[0]:
        raise wrong
    return offsets[0], offsets[1]


def _whole_numbers(found: Any) -> list[int] | None:
    """Return a short list of numbers from 0 as it is, and None for anything else."""
    fits = isinstance(found, list) and len(found) <= _MAX_DIMENSIONS
    return found if fits and all(type(item) is int and item >= 0 for item in found) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a name stands twice")
    return entries


def _contiguous(arrays: Arrays) -> Arrays:
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _reserve(path: str) -> int:
    """Make a new file and return its mode; the safetensors library replaces it by one that only its owner reads."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


def _sync(path: str) -> None:
    """Make what was written to a file or directory last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
