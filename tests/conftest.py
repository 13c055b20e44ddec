"""Settings of every run, the one cluster, who runs what under pytest-xdist, and the last line."""

import os
import signal

import pytest
from hypothesis import settings

from missing import what_is_missing

# Displays are drawn, never shown.
os.environ.setdefault("MPLBACKEND", "Agg")

# A shell has its background jobs ignore Ctrl-C, and so would all that they start; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A first call pays for imports and caches, so that a deadline would measure those.
settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
PROFILE = "ci" if os.environ.get("CI") else "local"
settings.register_profile("quick", settings.get_profile(PROFILE), max_examples=30)
settings.load_profile(PROFILE)

# Tests that take seconds each: the processes begin with them, so that none is left alone with one at the end.
LONG = ("cluster", "browser", "gallery", "statistics", "slow")
# Checks of scikit-learn that others repeat in a harder form: on sparse arrays, on read-only rows of single precision.
REPEATED = ("check_estimator_sparse_matrix", "check_classifiers_train(readonly_memmap=True)")
# Where tests compare sums that BLAS or NumPy add up in several ways.
ROUNDING = tuple(
    f"tests/{name}"
    for name in (
        *(
            "estimators/remote",
            "house/test_golden.py",
            "inspection",
            "kernels",
            "operators",
            "paper/test_cost_sensitive.py",
        ),
        *("paper/test_cutting_planes.py", "paper/test_partial_auc.py", "paper/test_published_projections.py"),
        *("paper/test_rank_svm.py", "problem", "projection/remote", "solvers"),
    )
)
# Files of long tests that share nothing.
ALONE = ("test_guarantee.py", "test_properties.py", "test_docs.py", "test_benchmarks.py")


@pytest.fixture(scope="session")
def cluster():
    """Two Dask workers with a process each: one cluster for the run, on the process that owns its tests."""
    pytest.importorskip("distributed")
    from dask_cases import two_workers

    with two_workers() as made:
        yield made


def pytest_configure(config):
    """A third of the examples, where slow tests are left out."""
    if "not slow" in config.getoption("markexpr"):
        settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark tests of the cluster and those that look at rounding; begin with long ones where processes share them."""
    for item in items:
        if "cluster" in item.fixturenames:
            item.add_marker("cluster")
        if item.nodeid.startswith(ROUNDING):
            item.add_marker("rounding")
        if any(name in item.name for name in REPEATED):
            item.add_marker("slow")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """`--dist loadscope`, where a file is a scope: its models are fitted once."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class LoadFilesAndCluster(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.split("::")[0]
            if "/test_dask_" in path or "[dask cluster" in nodeid:
                return "cluster"  # of which there is one
            return nodeid if path.endswith(ALONE) else path

    return LoadFilesAndCluster(config, log)


def pytest_terminal_summary(terminalreporter, config):
    reasons = {(report.nodeid, report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ())}
    for line in what_is_missing([reason for _, reason in sorted(reasons)], config.getoption("markexpr")):
        terminalreporter.write_line(line)
