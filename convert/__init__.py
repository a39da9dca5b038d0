"""A data set in, a laid-out database and its sidecar index out."""

from lmdbio.convert.conversion import convert
from lmdbio.convert.report import DatabaseReport, Report
from lmdbio.convert.source import BadInput

__all__ = ["convert", "BadInput", "DatabaseReport", "Report"]
