"""The monitor against exact expectations, exact crossing probabilities, plain loops, and long simulations."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from taufpl.monitoring import FPRMonitor
from taufpl.monitoring._stream import ABOVE, BELOW, LOG_WEIGHTS, SHIFTS, log_wealth


def fed(flags, **given_settings):
    monitor = FPRMonitor(**given_settings)
    monitor.update(flags)
    return monitor


def plain_log_wealth(flags, tau):
    """Product of likelihood ratios for each alternative, in the order of coming, then the mixture."""
    wealth = 0.0
    for log_weight, shift in zip(LOG_WEIGHTS, SHIFTS, strict=True):
        p = 1 / (1 + (1 - tau) / tau * math.exp(-shift))
        log_ratio = sum(math.log(p / tau) if x else math.log((1 - p) / (1 - tau)) for x in flags)
        wealth += math.exp(log_weight + log_ratio)
    return math.log(wealth)


# The bets.


def test_weights_are_shares():
    assert np.exp(LOG_WEIGHTS).sum() == pytest.approx(1.0, rel=1e-14)
    assert np.all(SHIFTS > 0)


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


@pytest.mark.parametrize("shifts", [ABOVE, BELOW], ids=["above", "below"])
@pytest.mark.parametrize(("rate", "delta"), [(0.02, 0.05), (0.1, 0.05), (0.1, 0.2), (0.3, 0.5)])
def test_probability_of_a_wrong_rejection_added_up_exactly(rate, delta, shifts):
    """Follow the distribution of the count over 3,000 looks at the rate itself; what crosses leaves it.

    Bets ABOVE are the alarm, and the lower bound at every look; bets BELOW the upper bound, and "within".
    """
    alive, crossed = np.array([1.0]), 0.0
    for n in range(1, 3001):
        alive = np.append(alive * (1 - rate), 0.0) + np.append(0.0, alive * rate)
        possible = np.flatnonzero(alive > 1e-30)  # what is left out is far below any digit that counts
        beyond = possible[log_wealth(possible, np.array([n]), np.array([rate]), shifts) >= -math.log(delta)]
        crossed += alive[beyond].sum()
        alive[beyond] = 0.0
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


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 700), max_size=6))
def test_batches_make_no_difference(seed, cuts):
    flags = np.random.default_rng(seed).random(3000) < 0.08
    whole, parts = fed(flags, tau=0.06, run_length=300), FPRMonitor(tau=0.06, run_length=300)
    for part in np.split(flags, np.cumsum(cuts)):
        parts.update(part)
    assert (parts.alarm_at, parts.change_at) == (whole.alarm_at, whole.change_at)
    assert (parts.log_wealth, parts.log_change_evidence) == (whole.log_wealth, whole.log_change_evidence)
    assert all(np.array_equal(a, b) for a, b in zip(parts.history, whole.history, strict=True))


def test_one_by_one_is_the_same():
    flags = np.random.default_rng(1).random(2500) < 0.05
    single = FPRMonitor(tau=0.02)
    answers = [single.update(flag) for flag in flags.tolist()]
    whole = fed(flags.astype(int), tau=0.02)
    assert single.alarm_at == whole.alarm_at == answers.index(True) + 1
    assert single.change_at == whole.change_at > single.alarm_at
    assert answers == sorted(answers)  # once raised it stays
    assert all(np.array_equal(a, b) for a, b in zip(single.history, whole.history, strict=True))


def test_a_large_batch_is_the_same_as_its_parts():
    """Of which large ones are taken anyway: the alarms come late."""
    flags = np.random.default_rng(2).random(400_000) < np.repeat([0.089, 0.1], [150_000, 250_000])
    whole, parts = fed(flags, tau=0.09), FPRMonitor(tau=0.09)
    assert whole.alarm_at > whole.change_at > 150_000
    for part in np.split(flags, np.arange(70, flags.size, 9_973)):
        parts.update(part)
    assert (parts.alarm_at, parts.change_at) == (whole.alarm_at, whole.change_at)
    assert (parts.log_wealth, parts.log_change_evidence) == (whole.log_wealth, whole.log_change_evidence)
    assert (parts.n_seen, parts.n_false_alarms) == (400_000, flags.sum())


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


@pytest.mark.slow
@pytest.mark.statistics
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_few_false_alarms_over_a_hundred_thousand_looks(share):
    tau, delta, n_runs = 0.01, 0.05, 400
    rng = np.random.default_rng(4)
    rate = np.mean([fed(rng.random(100_000) < share * tau, tau=tau, delta=delta).alarm for _ in range(n_runs)])
    assert rate <= delta + 4 * math.sqrt(delta * (1 - delta) / n_runs)


@pytest.mark.parametrize("tau", [0.001, 0.01, 0.1])
def test_twice_the_tolerance_is_always_found(tau):
    rng = np.random.default_rng(5)
    n = min(100_000, round(2000 / tau))
    alarms = [fed(rng.random(n) < 2 * tau, tau=tau).alarm_at for _ in range(60)]
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
def test_bounds_are_where_the_bets_would_just_reject(n_false, n_seen, delta):
    n_false = min(n_false, n_seen)
    monitor = FPRMonitor(delta=delta)
    monitor.update_counts(n_false, n_seen)
    lower, upper = monitor.fpr_lower_bound, monitor.fpr_upper_bound
    assert 0 <= lower <= monitor.fpr <= upper <= 1
    for bound, shifts, away in ((lower, ABOVE, -1e-9), (upper, BELOW, 1e-9)):
        if 1e-12 < bound < 1 - 1e-6:
            around = np.array([bound * (1 + away), bound * (1 - away)])
            rejected, kept = log_wealth(np.full(2, n_false), np.full(2, n_seen), around, shifts)
            assert rejected > -math.log(delta) > kept


def test_bounds_hold_at_all_times_for_the_mean_rate():
    # Rates that drift; each bound must stay on its side of their running mean at every look: there the bets against the
    # mean have never reached 1/delta.
    rng, n_runs, delta = np.random.default_rng(7), 1000, 0.05
    rates = 0.02 + 0.02 * np.sin(np.arange(4000) / 300)
    seen = np.arange(1, 4001)
    mean = np.cumsum(rates) / seen
    looks = np.unique(np.r_[1:200:3, 200:4001:25]) - 1
    misses = np.zeros(2)
    for _ in range(n_runs):
        false = np.cumsum(rng.random(4000) < rates)
        for side, shifts in enumerate((ABOVE, BELOW)):
            log = log_wealth(false[looks], seen[looks], mean[looks], shifts)
            misses[side] += log.max() >= -math.log(delta)
    assert np.all(misses / n_runs <= delta + 3 * math.sqrt(delta * (1 - delta) / n_runs))


def test_bound_and_alarm_agree():
    history = (monitor := fed(np.random.default_rng(8).random(1000) < 0.03)).history
    assert monitor.alarm_at == history.n_seen[(history.fpr_lower_bound >= 0.01).argmax()]


@pytest.mark.parametrize(
    ("rate", "verdict"), [(0.004, "within"), (0.01, "open"), (0.03, "left")], ids=["low", "at tau", "high"]
)
def test_verdict_is_the_side_of_the_tolerance_that_is_proven(rate, verdict):
    monitor = fed(np.random.default_rng(10).random(8000) < rate)
    assert monitor.verdict == verdict
    assert (monitor.fpr_upper_bound <= 0.01) == (verdict == "within")
    assert (monitor.fpr_lower_bound >= 0.01) == (verdict == "left") == monitor.alarm


def test_a_bound_at_the_tolerance_itself_is_within():
    bound = fed(np.zeros(2000, dtype=bool)).fpr_upper_bound
    assert fed(np.zeros(2000, dtype=bool), tau=bound).verdict == "within"
    assert fed(np.zeros(2000, dtype=bool), tau=math.nextafter(bound, 0)).verdict == "open"


def test_a_change_takes_the_word_within_back():
    flags = np.random.default_rng(11).random(20_000) < 0.004
    monitor = fed(flags)
    assert monitor.verdict == "within"
    monitor.update(np.repeat([True, False], 12))
    assert monitor.fpr_upper_bound <= 0.01
    assert (monitor.change, monitor.alarm, monitor.verdict) == (True, False, "open")


# The change detector.


def plain_log_change(flags, tau):
    """The recursion R = (R + 1) L for every alternative that the detector has, negative by negative."""
    findable = SHIFTS >= 0.25
    weights = np.exp(LOG_WEIGHTS[findable]) / np.exp(LOG_WEIGHTS[findable]).sum()
    p = 1 / (1 + (1 - tau) / tau * np.exp(-SHIFTS[findable]))
    total, course = np.zeros(weights.size), []
    for flag in flags:
        total = (total + 1) * (p / tau if flag else (1 - p) / (1 - tau))
        course.append(math.log(weights @ total))
    return course


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.sampled_from([0.001, 0.01, 0.1, 0.4]))
def test_change_evidence_is_the_sum_over_start_times(flags, tau):
    history = fed(np.array(flags), tau=tau).history
    np.testing.assert_allclose(history.log_change_evidence, plain_log_change(flags, tau), atol=1e-9)


@pytest.mark.parametrize("tau", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
def test_change_evidence_is_expected_to_grow_by_one_a_negative(tau, share):
    # Over all sequences of 8, with their probabilities at the rate share * tau.
    rate, expected = share * tau, 0.0
    for flags in product((False, True), repeat=8):
        probability = math.prod(rate if x else 1 - rate for x in flags)
        expected += probability * fed(np.array(flags), tau=tau).change_evidence if probability else 0.0
    assert expected <= 8 + 1e-9
    if share == 1.0:
        assert expected == pytest.approx(8.0, abs=1e-9)


def test_change_evidence_of_counts_is_expected_to_grow_by_one_a_negative():
    # Over all counts of two batches, with two negatives before and between them, at the rate tau.
    tau, sizes, expected = 0.1, (7, 20), 0.0
    for first, *counts, second in product((0, 1), range(8), range(21), (0, 1)):
        monitor = FPRMonitor(tau=tau)
        monitor.update(first)
        monitor.update_counts(counts[0], 7)
        monitor.update(second)
        monitor.update_counts(counts[1], 20)
        probability = math.prod(stats.binom.pmf([first, second, *counts], [1, 1, *sizes], tau))
        expected += probability * monitor.change_evidence
    assert expected == pytest.approx(29.0, abs=1e-9)


def test_batches_of_one_count_are_flags():
    flags = np.random.default_rng(12).random(300) < 0.2
    counted = FPRMonitor(tau=0.1, run_length=100)
    for flag in flags:
        counted.update_counts(int(flag), 1)
    ordered = fed(flags, tau=0.1, run_length=100)
    assert counted.change_at == ordered.change_at
    assert counted.log_change_evidence == pytest.approx(ordered.log_change_evidence, rel=1e-12)


@pytest.mark.parametrize("tau", [0.02, 0.1, 0.5])
def test_a_change_is_the_first_crossing_of_a_plain_loop(tau):
    """At the least run length too the statistic crosses at false alarms only."""
    rng = np.random.default_rng(13)
    for _ in range(20):
        flags = rng.random(round(40 / tau)) < rng.choice([tau, 2 * tau])
        crossed = np.array(plain_log_change(flags, tau)) >= math.log(10 / tau)
        assert fed(flags, tau=tau, run_length=10 / tau).change_at == (crossed.argmax() + 1 if crossed.any() else None)


@pytest.mark.statistics
def test_a_false_signal_comes_at_most_once_in_a_run_length():
    tau, run_length, n_runs = 0.1, 200, 300
    rng = np.random.default_rng(14)
    times = np.array(
        [fed(rng.random(8000) < tau, tau=tau, run_length=run_length).change_at or 8000 for _ in range(n_runs)]
    )
    error = times.std() / math.sqrt(n_runs)
    assert run_length <= times.mean() + 3 * error
    assert times.mean() <= 6 * run_length  # not asleep either
    # Among the first n negatives: with probability at most n / run_length.
    for n in (20, 60):
        assert (times <= n).mean() <= n / run_length + 3 * math.sqrt(n / run_length / n_runs)


def test_a_good_past_does_not_delay_the_signal_of_a_change():
    """10,965 healthy negatives, then 2.5 times the tolerance: as in the report of the defect."""
    rng, past, n_runs = np.random.default_rng(15), 10_965, 60
    fresh, late, late_test = [], [], []
    for _ in range(n_runs):
        drifted = rng.random(12_000) < 0.025
        fresh.append(fed(drifted).change_at)
        monitor = fed(np.concatenate((rng.random(past) < 0.008, drifted)))
        late.append(monitor.change_at - past)
        late_test.append(monitor.alarm_at - past)
    assert 0.6 <= np.median(late) / np.median(fresh) <= 1.2
    assert np.median(late) <= 1200
    assert np.median(late_test) >= 3 * np.median(late)


def test_the_detector_can_be_turned_off():
    monitor = fed(np.ones(5000, dtype=bool), run_length=math.inf)
    assert monitor.alarm
    assert not monitor.change


def test_run_length_is_that_of_five_thousand_allowed_false_alarms():
    assert FPRMonitor(tau=0.01).run_length == 500_000
    assert FPRMonitor(tau=0.01, run_length=10_000).run_length == 10_000


# Events.


def once_an_event(flags, names):
    """One flag an event, in the order of their first rows; rows without a name are events of their own."""
    flagged = {}
    for place, (flag, name) in enumerate(zip(flags, names, strict=True)):
        key = ("row", place) if name is None else ("event", name)
        flagged[key] = flagged.get(key, False) or bool(flag)
    return np.array(list(flagged.values()), dtype=bool)


def state_of(monitor):
    return monitor.n_seen, monitor.n_false_alarms, monitor.alarm_at, monitor.change_at, monitor.log_change_evidence


@settings(max_examples=60)
@given(st.data())
def test_an_event_counts_once_whatever_the_batches(data):
    rows = data.draw(st.lists(st.tuples(st.booleans(), st.sampled_from([None, *range(12)])), max_size=80))
    flags, names = np.array([flag for flag, _ in rows], dtype=bool), [name for _, name in rows]
    chosen = {"tau": 0.3, "delta": 0.3, "run_length": 34}
    expected = fed(once_an_event(flags, names), **chosen)
    parts = FPRMonitor(**chosen)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        before = parts.alarm, parts.change
        parts.update(flags[start:end], events=names[start:end])
        assert (parts.alarm, parts.change) >= before  # once raised they stay
    assert state_of(parts) == state_of(expected)
    assert all(np.array_equal(a, b) for a, b in zip(parts.history, expected.history, strict=True))


def test_a_burst_is_no_change():
    rng = np.random.default_rng(16)
    flags = rng.random(5000) < 0.008
    names = np.arange(5000)
    burst = slice(2000, 2060)
    flags[burst], names[burst] = True, 2000
    assert fed(flags).change
    monitor = FPRMonitor()
    monitor.update(flags, events=names)
    assert monitor.n_seen == 5000 - 59
    assert not monitor.change


def test_an_event_that_comes_back_after_10_000_others_counts_anew():
    monitor = FPRMonitor()
    others = [f"b{place}" for place in range(9_999)]
    monitor.update([0] * 10_000 + [1], events=["a", *others, "a"])
    assert (monitor.n_seen, monitor.n_false_alarms) == (10_000, 1)
    monitor.update([0, 1], events=["d", "a"])  # a was the oldest of 10,001
    assert (monitor.n_seen, monitor.n_false_alarms) == (10_002, 2)


def test_events_that_are_missing_or_not_given_count_one_by_one():
    pandas = pytest.importorskip("pandas")
    monitor = FPRMonitor()
    monitor.update([1, 1, 1, 1], events=pandas.array([1, None, None, 1], dtype="Int64"))
    monitor.update([1, 1], events=[math.nan, math.nan])
    monitor.update(True, events=1)
    monitor.update([1, 0])
    assert (monitor.n_seen, monitor.n_false_alarms) == (7, 6)
    copy = pickle.loads(pickle.dumps(monitor))
    copy.update([1], events=[1])
    assert copy.n_seen == 7
    copy.update_counts(0, 10)  # completes the events before it
    copy.update([1], events=[1])
    assert (copy.n_seen, copy.n_false_alarms) == (18, 7)


def test_nothing_is_lost_between_events_and_flags():
    monitor = FPRMonitor()
    monitor.update([], events=[])
    monitor.update([True])
    assert monitor.n_seen == 1


# State, words.


def test_before_the_first_negative():
    monitor = FPRMonitor()
    assert not monitor.update([])
    assert math.isnan(monitor.fpr)
    assert (monitor.fpr_lower_bound, monitor.fpr_upper_bound, monitor.verdict) == (0.0, 1.0, "open")
    assert (monitor.log_wealth, monitor.evidence) == (pytest.approx(0.0), pytest.approx(1))
    assert (monitor.log_change_evidence, monitor.change_evidence) == (-math.inf, 0.0)
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
    assert not monitor.change


def test_overwhelming_evidence_is_infinite():
    monitor = fed(np.ones(5000, dtype=bool))
    assert monitor.evidence == monitor.change_evidence == math.inf


def test_words():
    monitor = FPRMonitor(tau=0.1)
    monitor.update_counts(5, 100)
    assert "no alarm, 5 false alarms in 100 negatives (FPR 0.05, at least 0.0" in repr(monitor)
    monitor.update_counts(90, 100)
    assert "ALARM at 200 and CHANGE at 200, 95 false alarms in 200 negatives" in repr(monitor)
    assert repr(monitor).endswith("tolerance: left)")


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: FPRMonitor(tau=0), ValueError, "tau must be strictly between 0 and 1, got 0"),
        (lambda: FPRMonitor(tau=1.0), ValueError, "tau must be strictly between 0 and 1"),
        (lambda: FPRMonitor(delta=0.0), ValueError, "delta must be strictly between 0 and 1"),
        (lambda: FPRMonitor(delta="a"), TypeError, "delta must be a number, got 'a'"),
        (
            lambda: FPRMonitor(run_length=900),
            ValueError,
            "run_length must be at least 10 / tau = 1000 negatives, got 900",
        ),
        (lambda: FPRMonitor(run_length=math.nan), ValueError, "run_length must be at least 10 / tau"),
        (lambda: FPRMonitor(run_length="1e6"), TypeError, "run_length must be a number, got '1e6'"),
        (lambda: FPRMonitor().update([0, 1], events=["a"]), ValueError, "event of each of the 2 negatives, got 1"),
        (lambda: FPRMonitor().update([0], events=[["a"]]), TypeError, r"hashable names; got \['a'\]"),
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
