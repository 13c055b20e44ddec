"""The monitor against exact expectations, exact crossing probabilities, a plain loop, and long simulations."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from taufpl.monitoring import _LOG_WEIGHTS, _SHIFTS, FPRMonitor, _log_wealth


def fed(flags, **given_settings):
    monitor = FPRMonitor(**given_settings)
    monitor.update(flags)
    return monitor


def plain_log_wealth(flags, tau):
    """Product of likelihood ratios for each alternative, in the order of coming, then the mixture."""
    wealth = 0.0
    for log_weight, shift in zip(_LOG_WEIGHTS, _SHIFTS, strict=True):
        p = 1 / (1 + (1 - tau) / tau * math.exp(-shift))
        log_ratio = sum(math.log(p / tau) if x else math.log((1 - p) / (1 - tau)) for x in flags)
        wealth += math.exp(log_weight + log_ratio)
    return math.log(wealth)


# The bets.


def test_weights_are_shares():
    assert np.exp(_LOG_WEIGHTS).sum() == pytest.approx(1.0, rel=1e-14)
    assert np.all(_SHIFTS > 0)


@given(st.lists(st.booleans(), max_size=30), st.sampled_from([0.001, 0.01, 0.1, 0.4]))
def test_wealth_is_the_mixture_of_likelihood_ratios(flags, tau):
    monitor = fed(np.array(flags, dtype=bool), tau=tau)
    assert monitor.log_wealth == pytest.approx(plain_log_wealth(flags, tau), abs=1e-10)
    assert monitor.evidence == pytest.approx(math.exp(monitor.log_wealth))


@pytest.mark.parametrize("tau", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
def test_wealth_does_not_grow_within_the_tolerance(tau, share):
    # Over all sequences of 10, with their probabilities at the rate share * tau.
    rate, expected = share * tau, 0.0
    for flags in product((False, True), repeat=10):
        probability = math.prod(rate if x else 1 - rate for x in flags)
        expected += probability * fed(np.array(flags), tau=tau).evidence if probability else 0.0
    assert expected <= 1 + 1e-12
    if share == 1.0:
        assert expected == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("tau", "delta"), [(0.02, 0.05), (0.1, 0.05), (0.1, 0.2), (0.3, 0.5)])
def test_probability_of_a_false_alarm_added_up_exactly(tau, delta):
    """Follow the distribution of the count over 3,000 looks at the rate tau; what crosses leaves it."""
    alive, crossed = np.array([1.0]), 0.0
    for n in range(1, 3001):
        alive = np.append(alive * (1 - tau), 0.0) + np.append(0.0, alive * tau)
        counts = np.arange(alive.size)
        beyond = _log_wealth(counts, np.full(counts.size, n), np.full(counts.size, tau)) >= -math.log(delta)
        crossed += alive[beyond].sum()
        alive[beyond] = 0.0
        if np.any(beyond):
            alive = alive[: beyond.argmax() + 1]  # the wealth increases with the count
    assert crossed <= delta
    assert crossed >= 0.2 * delta  # not asleep either


def test_the_alarm_is_the_first_crossing_of_a_plain_loop():
    rng = np.random.default_rng(0)
    for _ in range(8):
        flags = rng.random(200) < 0.2
        log_wealths = [plain_log_wealth(flags[:n], 0.1) for n in range(1, 201)]
        crossings = [n for n, value in enumerate(log_wealths, start=1) if value >= -math.log(0.2)]
        assert fed(flags, tau=0.1, delta=0.2).alarm_at == (crossings[0] if crossings else None)


# Batches.


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 700), max_size=6))
def test_batches_make_no_difference(seed, cuts):
    flags = np.random.default_rng(seed).random(3000) < 0.08
    whole, parts = fed(flags, tau=0.06), FPRMonitor(tau=0.06)
    for part in np.split(flags, np.cumsum(cuts)):
        parts.update(part)
    assert parts.alarm_at == whole.alarm_at
    assert parts.log_wealth == whole.log_wealth
    assert all(np.array_equal(a, b) for a, b in zip(parts.history, whole.history, strict=True))


def test_one_by_one_is_the_same():
    flags = np.random.default_rng(1).random(2500) < 0.05
    single = FPRMonitor(tau=0.02)
    answers = [single.update(flag) for flag in flags.tolist()]
    whole = fed(flags.astype(int), tau=0.02)
    assert single.alarm_at == whole.alarm_at == answers.index(True) + 1
    assert answers == sorted(answers)  # once raised it stays
    assert np.array_equal(single.history.log_wealth, whole.history.log_wealth)


def test_blocks_of_a_large_batch_make_no_difference(monkeypatch):
    flags = np.random.default_rng(2).random(5000) < 0.12
    whole = fed(flags, tau=0.09)
    assert whole.alarm
    monkeypatch.setattr("taufpl.monitoring._BLOCK", 7)
    assert fed(flags, tau=0.09).alarm_at == whole.alarm_at


def test_counts_look_once_a_batch():
    flags = np.random.default_rng(3).random(4000) < 0.03
    ordered, counted = fed(flags), FPRMonitor()
    for batch in np.split(flags, 8):
        counted.update_counts(int(batch.sum()), batch.size)
    assert counted.log_wealth == ordered.log_wealth
    assert ordered.alarm_at <= counted.alarm_at
    assert counted.alarm_at % 500 == 0
    assert counted.history.n_seen.tolist() == [500 * i for i in range(1, 9)]


def test_counts_and_flags_can_be_mixed():
    monitor = FPRMonitor(tau=0.1)
    monitor.update_counts(0, 0)
    assert len(monitor.history.n_seen) == 0
    monitor.update_counts(3, 1500)
    monitor.update(np.zeros(1000, dtype=bool))
    monitor.update_counts(1, 4000)
    assert (monitor.n_seen, monitor.n_false_alarms) == (6500, 4)
    assert np.all(np.diff(monitor.history.n_seen) > 0)


# Over long runs.


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_few_false_alarms_over_a_hundred_thousand_looks(share):
    tau, delta, n_runs = 0.01, 0.05, 400
    rng = np.random.default_rng(4)
    rate = np.mean([fed(rng.random(100_000) < share * tau, tau=tau, delta=delta).alarm for _ in range(n_runs)])
    assert rate <= delta + 4 * math.sqrt(delta * (1 - delta) / n_runs)


@pytest.mark.parametrize("tau", [0.001, 0.01, 0.1])
def test_twice_the_tolerance_is_always_found(tau):
    rng = np.random.default_rng(5)
    alarms = [fed(rng.random(100_000) < 2 * tau, tau=tau).alarm_at for _ in range(60)]
    assert None not in alarms
    # Growth of a bettor who knew the rate, and some room for not knowing it.
    growth = 2 * tau * math.log(2) + (1 - 2 * tau) * math.log((1 - 2 * tau) / (1 - tau))
    assert np.median(alarms) <= 2.5 * math.log(20) / growth


def test_a_change_is_found_after_a_quiet_start():
    rng = np.random.default_rng(6)
    rates = np.repeat([0.005, 0.04], [5_000, 15_000])
    alarms = [fed(rng.random(20_000) < rates).alarm_at for _ in range(50)]
    assert None not in alarms
    assert np.mean(np.array(alarms) > 5_000) >= 0.95


def test_ten_million_negatives_lose_no_digits():
    monitor = FPRMonitor(tau=0.01)
    monitor.update_counts(101_500, 10_000_000)
    best = stats.binom.logpmf(101_500, 10**7, 0.01015) - stats.binom.logpmf(101_500, 10**7, 0.01)
    assert best - 6 <= monitor.log_wealth <= best
    assert monitor.alarm
    assert 0.01 < monitor.fpr_lower_bound < 0.01015


# The bound.


@given(st.integers(0, 300), st.integers(1, 3000), st.sampled_from([0.01, 0.05, 0.3]))
def test_lower_bound_is_where_the_test_would_just_reject(n_false, n_seen, delta):
    n_false = min(n_false, n_seen)
    monitor = FPRMonitor(delta=delta)
    monitor.update_counts(n_false, n_seen)
    bound = monitor.fpr_lower_bound
    assert 0 <= bound <= monitor.fpr
    if bound > 1e-12:
        around = np.array([bound * (1 - 1e-9), bound * (1 + 1e-9)])
        log_wealth = _log_wealth(np.full(2, n_false), np.full(2, n_seen), around)
        assert log_wealth[0] > -math.log(delta) > log_wealth[1]


def test_lower_bound_holds_at_all_times_for_the_mean_rate():
    # Rates that drift; the bound must stay under their running mean at every look.
    rng = np.random.default_rng(7)
    rates = 0.02 + 0.02 * np.sin(np.arange(4000) / 300)
    mean = np.cumsum(rates) / np.arange(1, 4001)
    misses = 0
    for _ in range(150):
        history = fed(rng.random(4000) < rates).history
        misses += bool(np.any(history.fpr_lower_bound > mean[history.n_seen - 1]))
    assert misses / 150 <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 150)


def test_bound_and_alarm_agree():
    history = (monitor := fed(np.random.default_rng(8).random(1000) < 0.03)).history
    assert monitor.alarm_at == history.n_seen[(history.fpr_lower_bound >= 0.01).argmax()]


# History, state, words.


def test_history_is_short_and_even():
    flags = np.random.default_rng(9).random(300_000) < 0.01
    history = fed(flags).history
    assert 500 <= len(history.n_seen) <= 1025
    assert history.n_seen[-1] == 300_000
    assert set(np.diff(history.n_seen[1:-1]).tolist()) == {512}
    assert np.array_equal(history.n_false_alarms, np.cumsum(flags)[history.n_seen - 1])
    assert np.array_equal(history.fpr, history.n_false_alarms / history.n_seen)
    assert history.log_wealth[-1] == fed(flags).log_wealth


def test_history_of_counts_is_short():
    monitor = FPRMonitor()
    for _ in range(5000):
        monitor.update_counts(1, 1001)
    history = monitor.history
    assert len(history.n_seen) <= 1025
    assert np.all(np.diff(history.n_seen) > 0)
    assert history.n_seen[-1] == 5000 * 1001


def test_before_the_first_negative():
    monitor = FPRMonitor()
    assert not monitor.update([])
    assert math.isnan(monitor.fpr)
    assert (monitor.fpr_lower_bound, monitor.log_wealth, monitor.evidence) == (
        0.0,
        pytest.approx(0.0),
        pytest.approx(1),
    )
    assert all(len(column) == 0 for column in monitor.history)
    assert repr(monitor) == "FPRMonitor(tau=0.01, delta=0.05): nothing seen yet"


def test_reset_and_pickle():
    monitor = fed(np.ones(50, dtype=bool))
    copy = pickle.loads(pickle.dumps(monitor))
    assert copy.alarm_at == monitor.alarm_at
    assert copy.update(False)
    assert copy.n_seen == 51
    assert repr(monitor.reset()) == repr(FPRMonitor())
    assert not monitor.alarm


def test_overwhelming_evidence_is_infinite():
    assert fed(np.ones(5000, dtype=bool)).evidence == math.inf


def test_words():
    monitor = FPRMonitor(tau=0.1)
    monitor.update_counts(5, 100)
    assert "no alarm, 5 false alarms in 100 negatives (FPR 0.05, at least 0.0" in repr(monitor)
    monitor.update_counts(90, 100)
    assert "ALARM at 200, 95 false alarms in 200 negatives" in repr(monitor)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: FPRMonitor(tau=0), ValueError, "tau must be strictly between 0 and 1, got 0"),
        (lambda: FPRMonitor(tau=1.0), ValueError, "tau must be strictly between 0 and 1"),
        (lambda: FPRMonitor(delta=0.0), ValueError, "delta must be strictly between 0 and 1"),
        (lambda: FPRMonitor(delta="a"), TypeError, "delta must be a number, got 'a'"),
        (lambda: FPRMonitor().update([0, 2]), ValueError, "false_alarms must hold True or False .* update_counts"),
        (lambda: FPRMonitor().update([0.0, np.nan]), ValueError, "false_alarms must hold True or False"),
        (lambda: FPRMonitor().update(["yes"]), ValueError, "false_alarms must hold True or False"),
        (lambda: FPRMonitor().update([[True]]), ValueError, r"one-dimensional array of flags, got shape \(1, 1\)"),
        (lambda: FPRMonitor().update_counts(3, 2), ValueError, "n_false_alarms must be at most n_negative, 2; got 3"),
        (lambda: FPRMonitor().update_counts(-1, 2), ValueError, "n_false_alarms must be at least 0, got -1"),
        (lambda: FPRMonitor().update_counts(0.5, 2), TypeError, "n_false_alarms must be an integer, got 0.5"),
    ],
)
def test_wrong_use_is_explained(call, error, match):
    with pytest.raises(error, match=match):
        call()
