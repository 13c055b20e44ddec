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
    {"n_negative": 2**60},
])  # fmt: skip
def test_a_sequence_that_makes_no_sense_is_refused(state):
    sound = {"delta": 0.05, "n_negative": 9, "scores": np.array([1.0, 2.0]), "floor": 0.0, "caveats": ()}
    made = NegativeSequence(0.05)
    made.__setstate__(sound)
    with pytest.raises(ValueError, match=r"sequence of negatives|delta"):
        made.__setstate__({**sound, **state})


def test_too_few_negatives_say_how_many_it_takes():
    with pytest.raises(ValueError, match="needs at least 377 negatives"):
        SequenceStatistic((0.01,)).choose_all(np.arange(300.0))
    (evidence,) = SequenceStatistic((0.01,), insufficient="infinite").choose_all(np.arange(300.0))
    assert evidence.threshold == np.inf
