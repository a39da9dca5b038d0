"""Sizes as people write them: parsed for options, formatted for summaries. Pure: no I/O."""

import re
from fractions import Fraction

import typer

_UNITS = {"": 0, "B": 0, "K": 10, "KIB": 10, "M": 20, "MIB": 20, "G": 30, "GIB": 30, "T": 40, "TIB": 40}
_LARGEST = 1 << 62  # offsets in a file are signed 64-bit numbers, and sums of two must be too
_DECIMAL = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT])B\s*", re.ASCII | re.IGNORECASE)
_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_size(text: str | int) -> int:
    """Return the number of bytes that a size stands for.

    Units are binary: KiB, MiB, GiB and TiB, with K, M, G and T for short, in upper or lower case; a bare number is
    bytes. ``MB`` and its like are refused, since people mean two things by them: 10^6 and 2^20.

    Raises
    ------
    typer.BadParameter
        If it is no size, or no whole number of bytes from 1 to 2^62.

    >>> parse_size("16MiB"), parse_size("1.5K"), parse_size("4096")
    (16777216, 1536, 4096)
    """
    match = _PATTERN.fullmatch(str(text))
    shift = _UNITS.get(match[2].upper()) if match else None
    if match is None or shift is None:
        decimal = _DECIMAL.fullmatch(str(text))
        hint = f": did you mean {decimal[1]}{decimal[2].upper()}iB?" if decimal else ""
        raise typer.BadParameter(f"expected bytes or a size such as 16MiB, 512K or 1GiB, found {str(text)!r}{hint}")
    size = Fraction(match[1]) * (1 << shift)
    if size.denominator != 1 or not 1 <= size <= _LARGEST:
        raise typer.BadParameter(f"expected a whole number of bytes from 1 to 2^62, found {str(text)!r}")
    return size.numerator


def binary_namesake(n_bytes: int) -> str | None:
    """Return the size in binary units that a number of bytes in decimal ones may have been meant for, if it is such.

    >>> binary_namesake(16_000_000), binary_namesake(16 << 20)
    ('16MiB', None)
    """
    for unit, decimal in (("TiB", 10**12), ("GiB", 10**9), ("MiB", 10**6), ("KiB", 10**3)):
        if n_bytes % decimal == 0:
            return f"{n_bytes // decimal}{unit}"
    return None


def format_size(n_bytes: float) -> str:
    """Return a size in the largest binary unit that leaves at least 1, to three digits or so.

    >>> format_size(300), format_size(4096), format_size(2_362_232_013)
    ('300 B', '4.0 KiB', '2.2 GiB')
    """
    size = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1000 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"


def format_rate(n_bytes: int, seconds: float) -> str:
    """Return a rate in MB/s, decimal as disks and networks are sold.

    >>> format_rate(3_000_000, 2.0)
    '1.5 MB/s'
    """
    return f"{n_bytes / 1e6 / max(seconds, 1e-9):,.1f} MB/s"
