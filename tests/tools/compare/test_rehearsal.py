"""Every contestant whose packages are here can rehearse each kind of data: none fails before it is measured."""

import argparse

import pytest

from tools.compare.contestants import load
from tools.compare.worker import rehearse


@pytest.mark.parametrize("kind", ["photos", "tiny"])
@pytest.mark.parametrize("name", ["lmdbio", "lmdbio_source", "stock", "files"])
def test_a_few_records_are_stored_for_nothing(name: str, kind: str) -> None:
    rehearse(load(name), argparse.Namespace(kind=kind, records=10, data_seed=0))
