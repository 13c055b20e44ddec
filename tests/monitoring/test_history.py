"""The points of a monitored stream that are kept: which they are, and what is known there."""

import numpy as np
import pytest

from taufpl.monitoring import FPRMonitor


def points_kept(ends):
    """The first of some looks in each cell, for the smallest cells that are few enough, and the last look."""
    stride = 1
    while True:
        first = {end // stride: end for end in reversed(ends)}
        if len(first) <= 1024:
            return sorted({*first.values(), ends[-1]})
        stride *= 2


@pytest.mark.parametrize("n", [1, 2, 1023, 1024, 1025, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("batch", [1, 700, 5000])
def test_points_of_flags_are_evenly_spaced(n, batch):
    flags, monitor = np.arange(n) % 50 == 3, FPRMonitor()
    for start in range(0, n, batch):
        monitor.update(flags[start : start + batch])
    history = monitor.history
    assert history.n_seen.tolist() == points_kept(range(1, n + 1))
    np.testing.assert_array_equal(history.n_false_alarms, np.cumsum(flags)[history.n_seen - 1])


@pytest.mark.parametrize(("n_batches", "most"), [(1023, 2), (1024, 2), (1025, 2), (1500, 40), (4000, 3)])
def test_points_of_counts_are_the_first_of_their_cells(n_batches, most):
    rng, monitor = np.random.default_rng(n_batches), FPRMonitor(0.1)
    sizes = rng.integers(0, most, n_batches) + (most == 2)
    false = rng.binomial(sizes, 0.05)
    for n_false, size in zip(false.tolist(), sizes.tolist(), strict=True):
        monitor.update_counts(n_false, size)
    history, ends = monitor.history, np.cumsum(sizes)
    assert history.n_seen.tolist() == points_kept([end for end, size in zip(ends.tolist(), sizes, strict=True) if size])
    places = np.searchsorted(ends, history.n_seen)
    np.testing.assert_array_equal(history.n_false_alarms, np.cumsum(false)[places])
    assert history.log_change_evidence[-1] == monitor.log_change_evidence
    assert (history.fpr_lower_bound[-1], history.fpr_upper_bound[-1]) == (
        monitor.fpr_lower_bound, monitor.fpr_upper_bound,
    )  # fmt: skip


def test_what_is_known_at_a_point_is_what_a_monitor_up_to_there_knows():
    flags = np.random.default_rng(1).random(3000) < 0.02
    whole = FPRMonitor()
    whole.update(flags)
    for place in (0, 1, 17, 400, -2, -1):
        n = int(whole.history.n_seen[place])
        part = FPRMonitor()
        part.update(flags[:n])
        assert [column[place] for column in whole.history] == [
            n, part.n_false_alarms, part.fpr, part.fpr_lower_bound, part.log_wealth, part.fpr_upper_bound,
            pytest.approx(part.log_change_evidence, rel=1e-12),
        ]  # fmt: skip


def test_looks_at_counts_see_both_alarms_at_their_levels():
    """A batch at the end of which the evidence has just come to its level, or just not."""
    for n_false in range(1, 40):
        monitor = FPRMonitor(0.01, run_length=5000)
        monitor.update_counts(n_false, 300)
        assert monitor.alarm == (monitor.evidence >= 20)
        assert monitor.change == (monitor.change_evidence >= 5000)
        assert (monitor.alarm_at or 300) == (monitor.change_at or 300) == 300


def test_history_is_short_and_even():
    flags = np.random.default_rng(9).random(300_000) < 0.01
    monitor = FPRMonitor()
    monitor.update(flags)
    history = monitor.history
    assert 500 <= len(history.n_seen) <= 1025
    assert history.n_seen[-1] == 300_000
    assert set(np.diff(history.n_seen[1:-1]).tolist()) == {512}
    assert np.array_equal(history.n_false_alarms, np.cumsum(flags)[history.n_seen - 1])
    assert np.array_equal(history.fpr, history.n_false_alarms / history.n_seen)
    assert history.log_wealth[-1] == monitor.log_wealth


def test_history_of_counts_is_short():
    monitor = FPRMonitor()
    for _ in range(5000):
        monitor.update_counts(1, 1001)
    history = monitor.history
    assert len(history.n_seen) <= 1025
    assert np.all(np.diff(history.n_seen) > 0)
    assert history.n_seen[-1] == 5000 * 1001
