"""Thresholds that hold at every look: against exact probabilities, quadrature, and draws with known truth."""

import math
import pickle

import numpy as np
import pytest
from scipy import integrate

from taufpl.thresholding import (
    NegativeSequence,
    SequenceStatistic,
    order_rank,
    sequence_negatives_needed,
    sequence_rank,
)


def ever_fails(rank, tau, delta, horizon):
    """P(M_n <= n - rank(n) for some n up to the horizon), M_n ~ Binomial(n, tau), step by step."""
    alive, failed = np.zeros(horizon + 2), 0.0
    alive[0] = 1.0
    for n in range(1, horizon + 1):
        alive[1:] = alive[1:] * (1 - tau) + alive[:-1] * tau
        alive[0] *= 1 - tau
        found = rank(n, tau, delta)
        if found is not None:
            failed += alive[: n - found + 1].sum()
            alive[: n - found + 1] = 0.0
    return failed


@pytest.mark.parametrize(("tau", "delta"), [(0.1, 0.05), (0.02, 0.1), (0.4, 0.01)])
def test_the_walk_stays_above_at_every_look_with_the_probability_that_is_promised(tau, delta):
    failed = ever_fails(sequence_rank, tau, delta, horizon=1500)
    assert delta / 4 < failed <= delta
    assert ever_fails(order_rank, tau, delta, horizon=1500) > 2 * delta  # one look at a time is another promise


@pytest.mark.parametrize(("n", "tau"), [(377, 0.01), (2000, 0.01), (800, 0.1), (50, 0.5)])
def test_the_rank_is_the_last_at_which_the_mixture_reaches_1_over_delta(n, tau):
    def wealth(k):
        def ratio(root):  # p = root^2 takes the singularity of the density away
            p = root * root
            return math.exp(k * math.log(p / tau) + (n - k) * (math.log1p(-p) - math.log1p(-tau))) / math.sqrt(tau)

        return integrate.quad(ratio, 0, math.sqrt(tau), points=[math.sqrt(max(k, 0.1) / n)], limit=200)[0]

    above = n - sequence_rank(n, tau, 0.05)
    assert wealth(above) >= 20 > wealth(above + 1)


def test_the_first_threshold_and_the_largest_numbers():
    for tau, delta in ((0.05, 0.05), (0.01, 0.025), (1e-6, 0.001)):
        first = sequence_negatives_needed(tau, delta)
        assert sequence_rank(first, tau, delta) == first
        assert sequence_rank(first - 1, tau, delta) is None
    above = 10**9 - sequence_rank(10**9, 0.01, 0.05)
    assert 0.998e7 < above < 10**9 - order_rank(10**9, 0.01, 0.05) < 1e7


def scores_of(rng, kind, size):
    return rng.normal(size=size) if kind == "continuous" else rng.poisson(1.0, size=size).astype(float)


@pytest.mark.parametrize("kind", [pytest.param("continuous", marks=pytest.mark.slow), "ties"])
def test_thresholds_hold_over_50_looks(kind):
    # P(Poisson(1) > 4) = 0.00366 and P(Poisson(1) > 3) = 0.01899.
    tau, delta, n_draws, rng = 0.018, 0.1, 200, np.random.default_rng(0)
    least = 2.0969 if kind == "continuous" else 4.0  # the (1 - tau) quantile: lower thresholds break the tolerance
    sizes = np.geomspace(300, 6000, 50).astype(int).tolist()
    ranks = {rank: [rank(n, tau, delta) - 1 for n in sizes] for rank in (sequence_rank, order_rank)}
    broken = dict.fromkeys(ranks, 0)
    for _ in range(n_draws):
        scores = scores_of(rng, kind, sizes[-1])
        for rank, places in ranks.items():
            lowest = min(np.partition(scores[:n], place)[place] for n, place in zip(sizes, places, strict=True))
            broken[rank] += lowest < least
    assert broken[sequence_rank] <= delta * n_draws + 2 * math.sqrt(delta * n_draws)
    assert broken[order_rank] > 1.5 * delta * n_draws


def test_a_sequence_forgets_low_scores_and_is_as_good():
    rng, taus = np.random.default_rng(0), (0.01, 0.05)
    scores = np.round(rng.normal(size=60_000), 2)
    scores[:10], scores[10:15] = -np.inf, np.inf
    sequence = NegativeSequence(0.05, caveats=("copies",))
    for part in np.split(scores, [100, 30_000, 59_999]):
        sequence = pickle.loads(pickle.dumps(sequence.add(part, taus)))
    assert sequence.scores.size <= 6_000
    assert sequence.floor == np.sort(scores)[-6001]
    whole = SequenceStatistic(taus, 0.05).choose_all(scores)
    for kept, found in zip(sequence.choose_all(taus), whole, strict=True):
        assert (kept.threshold, kept.rank, kept.n_false_positive) == (
            found.threshold, found.rank, found.n_false_positive,
        )  # fmt: skip
        assert (kept.guaranteed, kept.caveats, found.guaranteed, found.looks) == (False, ("copies",), True, "any")
    # A floor above the order statistic takes its place: more careful, never less.
    strict = NegativeSequence(0.05, 60_000, np.array([5.0]), 4.0)
    assert [each.threshold for each in strict.choose_all(taus)] == [4.0, 4.0]


@pytest.mark.parametrize("state", [
    {"n_negative": 1},
    {"scores": np.array([2.0, 1.0, 3.0])},
    {"scores": np.array([1.0, np.nan])},
    {"scores": np.array([1, 2])},
    {"floor": 1.5},
    {"floor": math.nan},
    {"delta": 0.0},
    {"n_negative": 2**53},
    {"scores": np.array([[1.0, 2.0]])},
    {"scores": [1.0, 2.0]},
    {"scores": np.array([1.0, 2.0], dtype=np.float32)},
    {"floor": 1.0},
    {"n_negative": 10**6, "scores": np.arange(1.0, 100_002.0)},
])  # fmt: skip
def test_a_sequence_that_makes_no_sense_is_refused(state):
    sound = {"delta": 0.05, "n_negative": 9, "scores": np.array([1.0, 2.0]), "floor": 0.0, "caveats": ()}
    made = NegativeSequence(0.05)
    made.__setstate__(sound)
    with pytest.raises(ValueError, match=r"sequence of negatives|delta"):
        made.__setstate__({**sound, **state})


@pytest.mark.parametrize("state", [
    {"n_negative": 2}, {"n_negative": 2**53 - 1}, {"scores": np.array([1.0, 1.0])}, {"scores": np.empty(0)},
    {"floor": -math.inf}, {"n_negative": 100_000, "scores": np.arange(1.0, 100_001.0)},
])  # fmt: skip
def test_a_sequence_at_the_border_is_taken(state):
    sound = {"delta": 0.05, "n_negative": 9, "scores": np.array([1.0, 2.0]), "floor": 0.0, "caveats": ()}
    made = NegativeSequence(0.05)
    made.__setstate__({**sound, **state})
    assert pickle.loads(pickle.dumps(made)).n_negative == state.get("n_negative", 9)


def test_too_few_negatives_say_how_many_it_takes():
    with pytest.raises(ValueError, match="needs at least 377 negatives"):
        SequenceStatistic((0.01,)).choose_all(np.arange(300.0))
    needed = sequence_negatives_needed(0.01, 0.025)  # two tolerances share delta
    with pytest.raises(ValueError, match=f"needs at least {needed} negatives"):
        SequenceStatistic((0.1, 0.01)).choose_all(np.arange(300.0))
    (evidence,) = SequenceStatistic((0.01,), insufficient="infinite").choose_all(np.arange(300.0))
    assert evidence.threshold == np.inf
    assert NegativeSequence(0.05).add(np.arange(300.0), (0.01,)).choose_all((0.01,), "infinite") == (evidence,)


@pytest.mark.parametrize("taus", [(0.01,), (0.01, 0.1), (0.5,)])
def test_whatever_the_parts_the_thresholds_are_those_of_all_negatives(taus):
    rng, delta = np.random.default_rng(1), 0.05
    scores = rng.normal(size=12_000)
    for sizes in ([12_000], [9000, 3000], [300, 900, 1, 2000, 8799], [1500] * 8):
        sequence = NegativeSequence(delta)
        for part in np.split(scores, np.cumsum(sizes)[:-1]):
            sequence = sequence.add(part, taus)
        most = max(1000, math.ceil(2 * max(taus) * scores.size))
        # Scores that the first parts let go are missing, and some more; never those that a threshold could be.
        assert 0.9 * most < sequence.scores.size <= most
        np.testing.assert_array_equal(sequence.scores, np.sort(scores[scores > sequence.floor]))
        assert sequence.floor in scores or sequence.scores.size == scores.size
        for tau, kept in zip(taus, sequence.choose_all(taus), strict=True):
            rank = sequence_rank(scores.size, tau, delta / len(taus))
            assert (kept.rank, kept.threshold) == (rank, np.sort(scores)[rank - 1])
            assert (kept.n_negative, kept.n_false_positive) == (12_000, 12_000 - rank)
            assert (kept.tau, kept.fpr_upper_bound, kept.delta) == (tau, tau, delta)
    assert SequenceStatistic(taus, delta).n_needed == sequence_negatives_needed(taus[0], delta / len(taus))


def test_no_more_than_100_000_scores_are_kept():
    scores = np.random.default_rng(2).permutation(120_000).astype(float)
    sequence = NegativeSequence(0.05)
    for part in np.split(scores, 4):
        sequence = sequence.add(part, (0.9,))
    assert (sequence.n_negative, sequence.scores.size, sequence.floor) == (120_000, 100_000, 19_999.0)
    (evidence,) = sequence.choose_all((0.9,))
    assert evidence.rank < 20_000  # the threshold is the floor then, above the order statistic
    assert (evidence.threshold, evidence.n_false_positive) == (19_999.0, 100_000)


def test_negatives_count_once():
    rng, taus = np.random.default_rng(3), (0.01,)
    first, second = rng.normal(size=(2, 2000))
    sequence = NegativeSequence(0.05).add(first, taus).add(second, taus)
    assert len(sequence.added) == 2
    for again in (first, second[::-1], rng.permutation(first)):
        with pytest.raises(ValueError, match=r"very scores of negatives that were added before.* give new ones"):
            sequence.add(again, taus)
    # Of many tied scores others may well be the same, and a few scores are no proof.
    for tied in (np.full(50, 2.0), np.repeat([1.0, 2.0, 3.0], 30), np.arange(9.0)):
        assert NegativeSequence(0.05).add(tied, taus).add(tied, taus).n_negative == 2 * tied.size
    with pytest.raises(ValueError, match=r"^these 20 negatives have the very scores"):
        NegativeSequence(0.05).add(np.r_[np.inf, np.arange(19.0)], taus).add(np.r_[np.inf, np.arange(19.0)], taus)


@pytest.mark.parametrize(
    ("known", "new", "refused"),
    [
        (np.arange(100.0), np.r_[np.arange(9.0), 0.5], "9 of the 10 highest"),
        (np.arange(100.0), np.r_[np.arange(8.0), 0.5, 1.5], None),
        (np.arange(100.0), np.arange(9.0), None),  # of nine it may be chance
        (np.arange(9.0), np.r_[np.arange(9.0), 0.5], None),
        (np.arange(10.0), np.r_[np.arange(9.0), 0.5], "9 of the 10 highest"),
        (np.arange(100.0), np.arange(50.0) + 1e-9, "50 of the 50 highest"),  # summed in another order
        (np.arange(100.0), np.arange(50.0) + 1e-3, None),
        (np.r_[0.0, np.arange(99.0)], np.arange(50.0), "50 of the 50 highest"),  # 99 different ones of 100
        (np.r_[0.0, 1.0, np.arange(98.0)], np.arange(50.0), None),
        (np.r_[np.arange(99.0), np.inf], np.arange(50.0), None),
        (np.full(20, 5.0), np.r_[np.full(19, 5.0), 1.0], None),
        (np.arange(100.0) / 100 - 7, np.arange(5.0, 60.0) / 100 - 7, "55 of the 55 highest"),
    ],
)
def test_parts_of_what_is_known_are_refused_where_that_cannot_be_chance(known, new, refused):
    sequence = NegativeSequence(0.05).add(known, (0.01,))
    if refused is None:
        assert sequence.add(new, (0.01,)).n_negative == known.size + new.size
    else:
        with pytest.raises(ValueError, match=f"{refused} of these negatives have the very scores"):
            sequence.add(new, (0.01,))
