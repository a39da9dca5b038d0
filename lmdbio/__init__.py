"""lmdbio: convert data sets into laid-out LMDB databases, index existing ones, and read them from many MPI ranks.

The work is done in three parts, imported one by one so that each costs only what it needs:
:mod:`lmdbio.convert`, :mod:`lmdbio.layout` and :mod:`lmdbio.reader`.
"""

__version__ = "0.1.0.dev0"
