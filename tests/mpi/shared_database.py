"""The database that the tests of reading share: values that are empty, inline, and of one page and more."""

from typing import Final

SIZES: Final = [0, 1, 100, 3000, 5000, 20_000, 40_000] * 23
N: Final = len(SIZES)
