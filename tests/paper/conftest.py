"""Data sets of the tests' own, offered by name beside those of LIBSVM."""

import gc

import pytest

from taufpl.datasets import LIBSVM_DATASETS


@pytest.fixture
def offer(monkeypatch):
    """A function that offers a data set until the test ends."""
    (sets,) = gc.get_referents(LIBSVM_DATASETS)  # behind the view, which cannot be written
    return lambda info: monkeypatch.setitem(sets, info.name, info)
