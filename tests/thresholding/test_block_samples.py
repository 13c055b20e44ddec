"""Scores in blocks give the very evidence that the same scores give in one array, and divisions are exact."""

import warnings

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.model_selection import StratifiedKFold

from taufpl.estimators.remote import BlockTable
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.operators import LocalBlocks
from taufpl.operators.remote import _summaries
from taufpl.thresholding import (
    ArraySample,
    JointOrderStatistic,
    NPScoreRule,
    OrderStatistic,
    TrainQuantile,
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
    for name in ("_LEAST_SAMPLE", "_MOST_ENTRIES"):
        monkeypatch.setattr(_summaries, name, request.param)


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


def test_what_cannot_be_ranked_or_collected():
    with pytest.raises(ValueError, match="negative_scores must not hold NaN, got 2 of them"):
        sample([1.0, np.nan, 2.0, 3.0, np.nan])
    many = sample(np.broadcast_to(1.0, 20_000_000))
    assert many.n_above(0.5) == 20_000_000
    with pytest.raises(ValueError, match=r"20000000 scores lie above 0\.5.*rule='quantile'"):
        many.above(0.5)


def labelled(y, cuts=(0, 5, 6, 40), xp=np):
    """A table of rows in blocks, of which only the classes matter."""
    parts = np.split(np.asarray(y), np.minimum(cuts, len(y)))
    states = [
        {"number": i, "start": 0, "is_positive": xp.asarray(part == 1), "is_negative": xp.asarray(part == 0)}
        for i, part in enumerate(parts)
    ]
    return BlockTable.of(LocalBlocks([xp.zeros((len(part), 1)) for part in parts], states, workers=1))


def rows_in(table):
    """Masks of the positives and of the negatives of a table, over all rows."""
    masks = table.blocks.gather(lambda block, state: block.to_host(state["is_positive"], state["is_negative"]))
    positive, negative = (np.concatenate([np.asarray(part[i], dtype=bool) for part in masks]) for i in (0, 1))
    assert (positive.sum(), negative.sum()) == (table.n_positive, table.n_negative)
    return positive, negative


def held_out_of(y, train, held_out):
    """The rows that are held out, where those are the others that train, each in its class."""
    train, held_out = rows_in(train), rows_in(held_out)
    for kind, (own, others) in enumerate(zip(held_out, train, strict=True)):
        np.testing.assert_array_equal(own ^ others, y == 1 - kind)
        assert not (own & others).any()
    return held_out[0] | held_out[1]


def parts_of(y, division):
    """For each part of a division which rows it holds out."""
    with division as parts:
        return np.array(list(parts.map(lambda *tables: held_out_of(y, *tables))))


LABELS = hnp.arrays(np.int64, st.integers(10, 80), elements=st.integers(0, 1)).filter(
    lambda y: 4 <= y.sum() <= len(y) - 4
)


@settings(max_examples=60, deadline=None)
@given(LABELS, st.integers(2, 4))
def test_consecutive_folds_are_those_of_scikit_learn(y, n_folds):
    expected = np.empty(len(y))
    for fold, (_, held_out) in enumerate(StratifiedKFold(n_folds).split(y, y)):
        expected[held_out] = fold
    np.testing.assert_array_equal(
        parts_of(y, labelled(y).search_folds(n_folds)), [expected == fold for fold in range(n_folds)]
    )


@settings(max_examples=60, deadline=None)
@given(LABELS, st.integers(2, 4), st.integers(0, 2**31))
def test_random_folds_have_equal_shares_of_each_class(y, n_folds, seed):
    folds = parts_of(y, labelled(y).folds(n_folds, seed))
    np.testing.assert_array_equal(folds.sum(axis=0), 1)
    for kind in (0, 1):
        sizes = folds[:, y == kind].sum(axis=1)
        assert sizes.size == n_folds
        assert sizes.max() - sizes.min() <= 1


def test_divisions_do_not_depend_on_the_library():
    y = np.random.default_rng(0).integers(0, 2, size=50)
    ours, theirs = labelled(y), labelled(y, xp=strict)
    for divide in (lambda table: table.folds(3, 5), lambda table: table.rounds(3, 0.8, 1)):
        np.testing.assert_array_equal(parts_of(y, divide(ours)), parts_of(y, divide(theirs)))


@settings(max_examples=60, deadline=None)
@given(LABELS, st.data())
def test_so_many_rows_are_held_out(y, data):
    counts, seed = (int(np.sum(y == 0)), int(y.sum())), data.draw(st.integers(0, 2**31))
    n_held = data.draw(st.integers(0, counts[0]))
    with labelled(y).hold_out(n_held, seed, needs_positives=True) as tables:
        held_out = held_out_of(y, *tables)
    assert [int(held_out[y == kind].sum()) for kind in (0, 1)] == [n_held, 0]
    share = data.draw(st.floats(0.01, 0.99))
    (held_out,) = parts_of(y, labelled(y).rounds(1, share, seed))
    expected = [count - min(max(round(share * count), 1), count - 1) for count in counts]
    assert [int(held_out[y == kind].sum()) for kind in (0, 1)] == expected


def test_every_row_is_held_out_equally_often():
    y = np.repeat([0, 1], [50, 20])
    often = np.mean(parts_of(y, labelled(y).rounds(2000, 0.6, 0)), axis=0)
    # Five standard errors of a share of 2,000.
    np.testing.assert_allclose(often, 0.4, atol=5 * np.sqrt(0.24 / 2000))
