"""Folds of the small tables here run in threads too, where a test asks for several jobs."""

import pytest

from taufpl.estimators import _array_table


@pytest.fixture(autouse=True)
def threads_for_small_tables(monkeypatch):
    monkeypatch.setattr(_array_table, "_MANY", 0)
