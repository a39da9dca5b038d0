"""The reader: extents in, batches out. Records of a database by direct offsets, for one process or for many ranks."""

from lmdbio.reader.batch import Batch
from lmdbio.reader.dataset import Dataset
from lmdbio.reader.options import ReadOptions
from lmdbio.reader.parallel import ParallelReader
from lmdbio.reader.record import Record

__all__ = ["Batch", "Dataset", "ParallelReader", "ReadOptions", "Record"]
