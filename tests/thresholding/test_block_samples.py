"""Scores in blocks give the very evidence that the same scores give in one array, and divisions are exact."""

import warnings
from collections import Counter

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.model_selection import StratifiedKFold

from taufpl.estimators.remote._divisions import AssignParts, Consecutive, Dealt, HeldOut
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.operators import LocalBlocks
from taufpl.operators.remote import _order as _block_order
from taufpl.thresholding import (
    ArraySample,
    JointOrderStatistic,
    NPScoreRule,
    OrderStatistic,
    TrainQuantile,
    remote,
    share_above,
)
from taufpl.thresholding.remote import BlockSample

TIED = hnp.arrays(np.float64, st.integers(1, 60), elements=st.integers(-3, 3).map(float))
ANY = hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(allow_nan=False))


def scores_of(block, state):
    return state["scores"]


def in_blocks(scores, cuts=(0, 1, 3, 17), xp=np):
    """Blocks of uneven sizes, some of them empty."""
    parts = np.split(np.asarray(scores), np.minimum(cuts, len(scores)))
    states = [{"scores": xp.asarray(part)} for part in parts]
    return LocalBlocks([xp.zeros((len(part), 1)) for part in parts], states)


def sample(scores, **how):
    return BlockSample(in_blocks(scores, **how), scores_of)


@pytest.fixture(params=[32, 3], ids=["few", "many"])
def sizes(request, monkeypatch):
    """As it is, where few values all travel; and so small that samples of them have to do."""
    monkeypatch.setattr(_block_order, "_LEAST_SAMPLE", request.param)
    monkeypatch.setattr(_block_order, "_MOST_ENTRIES", request.param)


@pytest.mark.usefixtures("sizes")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TIED | ANY)
def test_every_rank_and_every_count(scores):
    found = sample(scores)
    assert found.size == len(scores)
    np.testing.assert_array_equal([found.at_rank(i + 1) for i in range(len(scores))], np.sort(scores))
    for threshold in [*scores[:5], -np.inf, np.inf]:
        assert found.n_above(threshold) == np.sum(scores > threshold)
        np.testing.assert_array_equal(np.sort(found.above(threshold)), np.sort(scores[scores > threshold]))
    finite = scores[np.isfinite(scores)]
    assert found.ends() == ArraySample(scores).ends() == ((finite.min(), finite.max()) if finite.size else (0.0, 0.0))


def test_mean_and_deviation():
    scores = np.random.default_rng(0).normal(size=30)
    for found in (ArraySample(scores), sample(scores), sample(scores, xp=strict)):
        assert found.moments() == pytest.approx((scores.mean(), scores.std()))


@pytest.mark.usefixtures("sizes")
def test_ranks_in_another_library():
    scores = np.random.default_rng(0).integers(-5, 5, size=30) * 0.5
    found = sample(scores, xp=strict)
    np.testing.assert_array_equal([found.at_rank(rank) for rank in (1, 10, 30)], np.sort(scores)[[0, 9, 29]])
    assert found.n_above(1.0) == np.sum(scores > 1.0)
    np.testing.assert_array_equal(np.sort(found.above(1.0)), np.sort(scores[scores > 1.0]))


@pytest.mark.usefixtures("sizes")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TIED | ANY, TIED | ANY, st.floats(0.01, 0.95))
def test_rules_find_the_same_evidence(negative, positive, tau):
    rules = [TrainQuantile(tau), OrderStatistic(tau, 0.3, "largest"), NPScoreRule(tau)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewNegativesWarning)
        for rule in rules:
            assert rule.choose(sample(negative), sample(positive)) == rule.choose(negative, positive)
        joint = JointOrderStatistic((tau, 0.5), 0.3, "infinite")
        assert joint.choose_all(sample(negative)) == joint.choose_all(negative)
    assert share_above(sample(positive), sample(negative), tau) == share_above(positive, negative, tau)
    evidence = rules[0].choose(negative)
    assert evidence.with_recall(sample(positive)) == evidence.with_recall(positive)


def test_ranks_of_many_values_take_few_rounds():
    rng = np.random.default_rng(0)
    values = np.concatenate((rng.normal(size=200_000), np.zeros(50_000), rng.standard_cauchy(50_000)))
    found = sample(values, cuts=(100_000, 150_000, 250_000))
    ordered = np.sort(values)
    for rank in (1, 7, 100_000, 150_000, 299_999, 300_000):
        before = found.blocks.n_rounds
        assert found.at_rank(rank) == ordered[rank - 1]
        assert found.blocks.n_rounds - before <= 7


def test_what_cannot_be_ranked_or_collected(monkeypatch):
    with pytest.raises(ValueError, match="negative_scores must not hold NaN, got 2 of them"):
        sample([1.0, np.nan, 2.0, 3.0, np.nan])
    monkeypatch.setattr(remote, "_MOST_ABOVE", 2)
    with pytest.raises(ValueError, match=r"3 scores lie above 0.*rule='quantile'"):
        sample([1.0, 2.0, 3.0, 0.0]).above(0.0)


def divided(division, y, cuts=(0, 5, 6, 40), xp=np):
    """Codes of all rows, as the blocks hold them."""
    parts = np.split(np.asarray(y), np.minimum(cuts, len(y)))
    states = [
        {"number": i, "is_positive": xp.asarray(part == 1), "is_negative": xp.asarray(part == 0)}
        for i, part in enumerate(parts)
    ]
    blocks = LocalBlocks([xp.zeros((len(part), 1)) for part in parts], states)
    counts = [(int(np.sum(part == 0)), int(np.sum(part == 1))) for part in parts]
    blocks.change(AssignParts.of(division, counts))
    return np.concatenate(
        [block.to_host(state["part"])[0] for block, state in zip(blocks._blocks, blocks._states, strict=True)]
    )


LABELS = hnp.arrays(np.int64, st.integers(10, 80), elements=st.integers(0, 1)).filter(
    lambda y: 4 <= y.sum() <= len(y) - 4
)


@settings(max_examples=60, deadline=None)
@given(LABELS, st.integers(2, 4))
def test_consecutive_folds_are_those_of_scikit_learn(y, n_folds):
    expected = np.empty(len(y))
    for fold, (_, held_out) in enumerate(StratifiedKFold(n_folds).split(y, y)):
        expected[held_out] = fold
    division = Consecutive.folds(n_folds, (int(np.sum(y == 0)), int(y.sum())), int(y[0]))
    np.testing.assert_array_equal(divided(division, y), expected)


@settings(max_examples=60, deadline=None)
@given(LABELS, st.integers(2, 4), st.integers(0, 2**31))
def test_random_folds_have_equal_shares_of_each_class(y, n_folds, seed):
    codes = divided(Dealt.folds(n_folds, seed), y)
    for kind in (0, 1):
        sizes = Counter(codes[y == kind].tolist())
        assert len(sizes) == n_folds
        assert max(sizes.values()) - min(sizes.values()) <= 1


def test_codes_do_not_depend_on_the_library():
    y = np.random.default_rng(0).integers(0, 2, size=50)
    for division in (Dealt.folds(3, 5), HeldOut.draw((3, 4), (int(np.sum(y == 0)), int(y.sum())), 1)):
        np.testing.assert_array_equal(divided(division, y), divided(division, y, xp=strict))


@settings(max_examples=60, deadline=None)
@given(LABELS, st.data())
def test_so_many_rows_are_held_out(y, data):
    counts = (int(np.sum(y == 0)), int(y.sum()))
    held = tuple(data.draw(st.integers(0, count)) for count in counts)
    codes = divided(HeldOut.draw(held, counts, data.draw(st.integers(0, 2**31))), y)
    assert set(codes.tolist()) <= {0, 1}
    assert [int(codes[y == kind].sum()) for kind in (0, 1)] == list(held)


def test_every_row_is_held_out_equally_often():
    y = np.repeat([0, 1], [50, 20])
    often = np.mean([divided(HeldOut.draw((20, 5), (50, 20), seed), y) for seed in range(2000)], axis=0)
    # Five standard errors of a share of 2,000.
    np.testing.assert_allclose(often[:50], 0.4, atol=5 * np.sqrt(0.24 / 2000))
    np.testing.assert_allclose(often[50:], 0.25, atol=5 * np.sqrt(0.1875 / 2000))
