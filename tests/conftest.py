"""Settings of every run, the one cluster, who runs what under pytest-xdist, and the last line."""

import os

import pytest
from hypothesis import settings

from missing import what_is_missing

# Displays are drawn, never shown.
os.environ.setdefault("MPLBACKEND", "Agg")

# A first call pays for imports and caches, so that a deadline would measure those.
settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Tests that take seconds each: the processes begin with them, so that none is left alone with one at the end.
LONG = ("cluster", "browser", "gallery", "statistics", "slow")


@pytest.fixture(scope="session")
def cluster():
    """Two Dask workers with a process each: one cluster for the run, on the process that owns its tests."""
    pytest.importorskip("distributed")
    from dask_cases import two_workers

    with two_workers() as made:
        yield made


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests of the cluster; where processes share tests, say which stay together, and begin with long ones."""
    for item in items:
        if "cluster" in item.fixturenames:
            item.add_marker("cluster")
    if not config.getoption("loadgroup", default=False):
        return
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        alone = item.nodeid if marks & {"gallery", "statistics"} else item.location[0]
        item.add_marker(pytest.mark.xdist_group("cluster" if "cluster" in marks else alone))
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in LONG))


def pytest_terminal_summary(terminalreporter, config):
    reasons = {(report.nodeid, report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ())}
    for line in what_is_missing([reason for _, reason in sorted(reasons)], config.getoption("markexpr")):
        terminalreporter.write_line(line)
