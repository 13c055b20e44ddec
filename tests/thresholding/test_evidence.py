"""Samples and evidence: what is kept of all scores, and what a record says beside its threshold."""

from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from taufpl import thresholding
from taufpl.thresholding import ArraySample, Evidence, Rounds, TopSample

SCORES = hnp.arrays(np.float64, st.integers(1, 30), elements=st.integers(-4, 4).map(float))
EVIDENCE = Evidence(1.0, 0.1, 0.2, 50, 3, 0.06, 0.15, rank=46, guaranteed=True, caveats=("first",))


@given(SCORES, st.integers(-5, 5).map(float))
def test_the_highest_scores_answer_as_all_of_them_where_they_can(scores, floor):
    top, ordered = TopSample(scores[scores > floor], scores.size, floor), np.sort(scores)
    for rank in range(1, scores.size + 1):
        assert ArraySample(scores).at_rank(rank) == ordered[rank - 1]
        assert top.at_rank(rank) == max(ordered[rank - 1], floor)
    for threshold in (floor, floor + 0.5, floor + 1.0, 4.0):
        n_above = int(np.sum(scores > threshold))
        assert top.n_above(threshold) == ArraySample(scores).n_above(threshold) == n_above
        assert top.share_above(threshold) == n_above / scores.size
        assert sorted(top.above(threshold)) == ordered[scores.size - n_above :].tolist()
    for ask in (top.ends, top.moments):
        with pytest.raises(TypeError, match="the highest scores do not tell"):
            ask()


def test_ends_are_finite():
    assert ArraySample(np.array([np.inf, 3.0, -np.inf, -7.0])).ends() == (-7.0, 3.0)
    assert ArraySample(np.array([np.inf, -np.inf])).ends() == (0.0, 0.0)


@pytest.mark.parametrize(("hits", "n"), [(0, 4), (3, 17), (17, 17)])
@pytest.mark.parametrize("delta", [0.2, None])
def test_recall_is_a_share_with_the_interval_of_its_count(hits, n, delta):
    scores = np.r_[np.full(hits, 2.0), np.full(n - hits, EVIDENCE.threshold)]
    evidence = Evidence(1.0, 0.1, delta, 50, 3, 0.06, 0.15, rank=None, guaranteed=False)
    for found in (evidence.with_recall(scores), evidence.with_recall(ArraySample(scores))):
        assert found == evidence.with_caught(hits, n)
        assert (found.n_true_positive, found.n_positive, found.tpr_estimate) == (hits, n, hits / n)
    side = (0.05 if delta is None else delta) / 2
    low, high = found.tpr_interval
    assert low == pytest.approx(stats.beta.ppf(side, hits, n - hits + 1) if hits else 0.0)
    assert high == pytest.approx(stats.beta.ppf(1 - side, hits + 1, n - hits) if hits < n else 1.0)


def test_without_positives_there_is_no_recall():
    assert EVIDENCE.with_recall(np.empty(0)) is EVIDENCE
    assert EVIDENCE.tpr_estimate is EVIDENCE.tpr_interval is None
    for known in ("n_positive", "n_true_positive"):
        assert replace(EVIDENCE, **{known: 5}).tpr_interval is None


def test_a_guarantee_is_taken_back_with_its_reason():
    found = EVIDENCE.without_guarantee("second", "third")
    assert (EVIDENCE.guaranteed, found.guaranteed, found.caveats) == (True, False, ("first", "second", "third"))
    assert found.threshold == EVIDENCE.threshold


def test_the_expected_rate_is_the_mean_of_its_distribution():
    # The FPR of the rank r of n is Beta(n - r + 1, r).
    assert EVIDENCE.expected_fpr == pytest.approx(stats.beta(50 - 46 + 1, 46).mean(), rel=1e-14)


def test_rounds_are_counted():
    assert [len(Rounds(np.zeros(n), np.zeros(n), np.zeros(n))) for n in (1, 4)] == [1, 4]


@pytest.mark.parametrize("name", thresholding.__all__)
def test_records_cannot_be_changed_and_take_nothing_on(name):
    kind = getattr(thresholding, name)
    if is_dataclass(kind):
        record = kind.__new__(kind)
        for attribute in (fields(kind)[0].name, "other"):
            with pytest.raises((FrozenInstanceError, TypeError)):
                setattr(record, attribute, 1.0)
        assert not hasattr(record, "__dict__")
