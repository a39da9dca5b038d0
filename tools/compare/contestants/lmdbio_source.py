"""lmdbio over a database in the source's order: what the reader is worth where the layout does not help."""

from tools.compare.contestants.lmdbio import Lmdbio

CONTESTANT = Lmdbio("lmdbio_source", "source")
