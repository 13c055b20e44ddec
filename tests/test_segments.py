"""Limits by segment: ranks against SciPy's distributions, pooling, and a simulation with known truth."""

import pickle

import numpy as np
import pytest
from scipy import stats

from taufpl.thresholding import (
    SegmentOrderStatistics,
    SegmentThresholds,
    level_codes,
    negatives_needed,
    shared_delta,
)


def choose(counts, tau=0.01, delta=0.05, insufficient="raise"):
    """Limits for segments with these numbers of negatives; scores rise from 1 in each of them."""
    labels = np.repeat(list(counts), list(counts.values()))
    scores = np.concatenate([np.arange(1.0, n + 1) for n in counts.values()])
    return SegmentOrderStatistics(tau, delta, insufficient).choose(scores, labels)


def test_ranks_are_the_smallest_that_hold_at_their_share_of_delta():
    counts, tau = {"a": 700, "b": 400, "c": 5000}, {"a": 0.02, "b": 0.05, "c": 0.001}
    found = choose(counts, tau)
    assert found.limits == ("a", "b", "c")
    each = 1 - 0.95 ** (1 / 3)
    for name, evidence in zip(found.limits, found.evidence, strict=True):
        n, rank = counts[name], evidence.rank
        assert evidence.threshold == rank
        assert (evidence.tau, evidence.n_negative) == (tau[name], n)
        # For continuous scores the FPR of rank r is Beta(n + 1 - r, r).
        assert stats.beta.sf(tau[name], n + 1 - rank, rank) <= each < stats.beta.sf(tau[name], n + 2 - rank, rank - 1)
        assert evidence.fpr_upper_bound == pytest.approx(stats.beta.ppf(1 - each, n + 1 - rank, rank))
    whole = found.overall(0.05)
    assert (whole.tau, whole.delta, whole.n_negative, whole.threshold) == (0.05, 0.05, 6100, found.strictest)
    assert whole.guaranteed
    assert whole.fpr_upper_bound == max(each.fpr_upper_bound for each in found.evidence)


def exhaustive(counts, taus, delta):
    """The most limits that hold together, over all numbers of them: segments by themselves, and one for the others."""
    best = 0
    for n_limits in range(1, len(counts) + 1):
        each = 1 - (1 - delta) ** (1 / n_limits)
        able = [name for name in counts if (1 - taus[name]) ** counts[name] <= each]
        rest = [name for name in counts if name not in able]
        pooled = any(
            (1 - tau) ** sum(counts[name] for name in rest if taus[name] >= tau) <= each
            for tau in {taus[name] for name in rest}
        )
        if len(able) + pooled >= n_limits:
            best = n_limits
    return best


def test_as_many_limits_as_their_number_allows():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        counts = {f"s{i}": int(n) for i, n in enumerate(rng.integers(1, 500, size=rng.integers(1, 7)))}
        taus = {name: float(rng.choice([0.005, 0.01, 0.02])) for name in counts}
        wanted = exhaustive(counts, taus, 0.05)
        if not wanted:
            with pytest.raises(ValueError, match="no segment has enough negatives"):
                choose(counts, taus)
            continue
        found = choose(counts, taus)
        assert len(found.limits) == wanted
        assert {*found.members, *found.unproven} == {*counts}
        assert not {*found.members} & {*found.unproven}
        for name, evidence in zip(found.limits, found.evidence, strict=True):
            own = [segment for segment, limit in found.members.items() if limit == name]
            assert evidence.guaranteed
            assert evidence.delta == shared_delta(0.05, wanted)
            assert evidence.n_negative == sum(counts[each] for each in own)
            assert evidence.tau == min(taus[each] for each in own)
            assert (name == "others") == (len(own) > 1)
        seen.add(("others" in found.limits, bool(found.unproven), wanted > 1))
    assert len(seen) >= 4


def test_small_segments_share_the_strictest_of_their_tolerances_but_a_tiny_strict_one_does_not_spoil_it():
    found = choose({"a": 3000, "b": 300, "c": 150, "d": 4}, {"a": 0.01, "b": 0.01, "c": 0.02, "d": 1e-6})
    assert found.limits == ("a", "others")
    assert found.unproven == ("d",)
    assert found.members == {"a": "a", "b": "others", "c": "others"}
    assert found.evidence[1].tau == 0.01
    assert not found.overall(0.05).guaranteed
    assert "'d'" in found.overall(0.05).caveats[0]
    assert found.thresholds(["a", "c", "d", "new"]).tolist() == [
        found.by_segment["a"], found.by_segment["c"], found.strictest, found.strictest
    ]  # fmt: skip
    assert found.is_known(["a", "d", "new"]).tolist() == [True, False, False]


def test_two_segments_with_enough_for_one_limit_share_it():
    n = negatives_needed(0.01, 0.05)
    assert n < negatives_needed(0.01, shared_delta(0.05, 2))
    found = choose({"a": n, "b": n})
    assert found.limits == ("others",)
    assert found.evidence[0].n_negative == 2 * n
    assert found.evidence[0].delta == 0.05


def test_small_segments_get_no_alarms_with_infinite():
    found = choose({"a": 500, "b": 250, "c": 250}, insufficient="infinite")
    assert found.limits == ("a", "others")
    assert found.evidence[0].delta == 0.05
    assert found.by_segment["b"] == found.strictest == np.inf
    assert found.overall(0.05).guaranteed
    assert found.overall(0.05).fpr_upper_bound <= 0.01
    assert choose({"a": 10, "b": 10}, insufficient="infinite").by_segment == {"a": np.inf, "b": np.inf}


def test_labels_are_compared_as_texts():
    scores = np.arange(600.0)
    found = SegmentOrderStatistics({1: 0.05, "missing": 0.1}).choose(scores, np.repeat([1.0, np.nan], 300))
    assert found.is_number
    assert found.members == {"1": "1", "missing": "missing"}
    one, missing = found.by_segment["1"], found.by_segment["missing"]
    for labels in ([1, None], np.array(["1", "missing"]), np.array([1.0, np.nan]), [1.0, "missing"]):
        assert found.thresholds(labels).tolist() == [one, missing]


def test_all_limits_hold_together_and_no_more_than_that():
    """Uniform scores of each segment, so that the FPR of a threshold t is 1 - t: the truth is known."""
    counts, tau, delta, n_draws = {"a": 240, "b": 460, "c": 1500}, {"a": 0.05, "b": 0.02, "c": 0.01}, 0.1, 2000
    labels = np.repeat(list(counts), list(counts.values()))
    rng, rule, failed = np.random.default_rng(1), SegmentOrderStatistics(tau, delta), 0
    ranks = {name: each.rank for name, each in zip(counts, choose(counts, tau, delta).evidence, strict=True)}
    exact = 1.0
    for name, n in counts.items():
        exact *= stats.beta.cdf(tau[name], n + 1 - ranks[name], ranks[name])
    assert 1 - exact <= delta < 2 * (1 - exact)
    for _ in range(n_draws):
        scores = rng.random(labels.size)
        found = rule.choose(scores, labels).by_segment
        failed += any(1 - found[name] > tau[name] for name in counts)
    error = np.sqrt(exact * (1 - exact) / n_draws)
    assert abs(failed / n_draws - (1 - exact)) < 4 * error
    # With ties the false-positive rates can only be lower.
    tied = np.mean([
        any(np.mean(np.floor(50 * np.linspace(0, 1, 5001)) > t) > tau[name] for name, t in found.items())
        for found in (rule.choose(np.floor(50 * rng.random(labels.size)), labels).by_segment for _ in range(200))
    ])  # fmt: skip
    assert tied <= delta


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tau": {"a": 0.01}}, "a tolerance for every segment, or one for 'others'; it has none for 'b'"),
        ({"tau": {"a": 0.01, "B": 0.01, "others": 0.1}}, "names the segment 'B', which no row has. Did you mean 'b'"),
        ({"tau": {"a": 0.01, "b": 1.5}}, r"tau\['b'\] must be strictly between 0 and 1"),
        ({"tau": {1: 0.01, "1": 0.02}}, "1, 1.0 and '1' are the same name"),
        ({"labels": np.repeat(["a", "others"], 500)}, "no segment may be called 'others'"),
        ({"labels": ["a"] * 10}, "must have one label a row, 1000"),
        ({"tau": 1e-5}, "tau=1e-05 at delta=0.05 needs at least 299,572 negatives"),
    ],
)
def test_bad_uses_end_with_a_sentence(settings, message):
    settings = {"tau": 0.01, "labels": np.repeat(["a", "b"], 500), **settings}
    with pytest.raises(ValueError, match=message):
        SegmentOrderStatistics(settings["tau"]).choose(np.arange(1000.0), settings["labels"])


def test_records_are_checked_where_they_come_from_files():
    found = choose({"a": 500, "b": 500})
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(ValueError, match="members must name limits"):
        SegmentThresholds(found.limits, found.evidence, {"a": "c"})
    with pytest.raises(ValueError, match="different names with one evidence each"):
        SegmentThresholds(("a",), found.evidence, {})


def test_codes_of_levels_tell_whether_they_are_numbers():
    pandas = pytest.importorskip("pandas")
    numbers = pandas.array([3, None, 1], dtype="Int64")
    assert level_codes(numbers)[::2] == (("1", "3", "missing"), True)
    assert level_codes(numbers).codes.tolist() == [1, 2, 0]
    assert not level_codes([True, False]).is_number
    assert not level_codes(["1", "2"]).is_number
