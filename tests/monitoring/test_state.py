"""States of monitors: going on from a file gives what one stream would have given; and monitors by segment."""

import copy
import json
import math
from functools import cache

import numpy as np
import pytest

from taufpl.monitoring import MOST_SEGMENTS, FPRMonitor, SegmentMonitor


def through_json(monitor):
    return type(monitor).from_dict(json.loads(json.dumps(monitor.to_dict(), allow_nan=False)))


def stream(n=20_000, seed=0):
    """Flags that go bad, and events of which some come back, and some are missing."""
    rng = np.random.default_rng(seed)
    flags = rng.random(n) < np.where(np.arange(n) < 0.8 * n, 0.008, 0.03)
    events = np.maximum(0, np.arange(n) - rng.integers(0, 50, n)).astype(object)
    events[rng.random(n) < 0.1] = None
    events[::7] = [f"case {name}" for name in events[::7]]
    return flags, events


@pytest.mark.parametrize("has_events", [pytest.param(False, marks=pytest.mark.slow), True])
def test_going_on_from_a_state_is_one_stream(has_events):
    flags, events = stream()
    whole, parts = FPRMonitor(0.01), FPRMonitor(0.01)
    whole.update(flags, events if has_events else None)
    cuts = np.sort(np.random.default_rng(1).integers(0, flags.size, 5))
    for rows in np.split(np.arange(flags.size), cuts):
        parts.update(flags[rows], events[rows] if has_events else None)
        parts = through_json(parts)
    assert parts.to_dict() == whole.to_dict()
    assert (parts.alarm_at, parts.change_at, parts.evidence) == (whole.alarm_at, whole.change_at, whole.evidence)
    assert parts.change_at is not None
    for mine, other in zip(parts.history, whole.history, strict=True):
        np.testing.assert_array_equal(mine, other)
    # Counts and settings, too.
    both = [FPRMonitor(0.02, 0.1, math.inf) for _ in range(2)]
    for place in range(3):
        for each in both:
            each.update_counts(place, 100)
        both[1] = through_json(both[1])
    assert both[0].to_dict() == both[1].to_dict()
    assert both[1].run_length == math.inf
    assert through_json(FPRMonitor()).to_dict() == FPRMonitor().to_dict()


def change(state, path, value):
    *parts, last = path
    for part in parts:
        state = state[part]
    state[last] = value


@cache
def good_state():
    monitor = FPRMonitor(0.01)
    monitor.update(stream(2000)[0])
    monitor.update([True, False], ["a", "b"])
    state = monitor.to_dict()
    FPRMonitor.from_dict(copy.deepcopy(state))
    return state


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (["tau"], 2.0, "tau must be strictly between 0 and 1"),
        (["run_length"], 3, "run_length must be at least"),
        (["stream"], [], "the state of the monitor.stream is not an object"),
        (["stream", "n_seen"], -1, "stream.n_seen is not a whole number, not negative"),
        (["stream", "n_seen"], 2**60, "more than can be counted"),
        (["stream", "n_false_alarms"], 10**6, "more false alarms than negatives"),
        (["stream", "n_false_alarms"], 1, "counted its false alarms in two ways"),
        (["stream", "alarm_at"], 0, "alarm_at outside its negatives"),
        (["stream", "stride"], 3, "a stride that is no power of 2"),
        (["stream", "points", 3], 1, "points out of their order"),
        (["stream", "points"], [1], "points that do not fit its states"),
        (["stream", "change", "log_starts", 0], math.inf, "not finite"),
        (["stream", "change", "log_starts"], [1.0], "of another size"),
        (["event_names"], ["7", "7"], "an event twice"),
        (["event_names"], ["[]", "7"], "events that are no texts or numbers"),
        (["event_flags"], [True], "events that do not fit their flags"),
        (["event_names"], ["NaN", "7"], "events that are no texts or numbers"),
        (["stream", "change_at"], 2001, "change_at outside its negatives"),
        (["stream", "stride"], 0, "a stride that is no power of 2"),
        (["stream", "stride"], 2**54, "a stride that is no power of 2"),
        (["stream", "points", 5], 8, "points out of their order"),
        (["stream", "points", 0], 0, "points out of their order"),
        (["stream", "points", -1], 2001, "points out of their order"),
        (["stream", "point_states", 100, "n_false"], 2000, "a change detector that is ahead of its negatives"),
        (["stream", "point_states", 100, "n_seen"], 1500, "a change detector that is ahead of its negatives"),
        (["stream", "change", "n_seen"], 2001, "a change detector that is ahead of its negatives"),
        (["stream", "change", "n_seen"], 0, "a change detector (that is ahead of its negatives|of another size)"),
    ],
)
def test_states_that_no_monitor_can_have_are_refused(path, value, match):
    state = copy.deepcopy(good_state())
    change(state, path, value)
    with pytest.raises(ValueError, match=match):
        FPRMonitor.from_dict(state)


def test_states_at_the_border_are_taken():
    first = FPRMonitor(1e-6, run_length=1e7)
    assert first.update(True)
    one = through_json(first)
    assert (one.alarm_at, one.change_at, one.n_seen, one.n_false_alarms) == (1, first.change_at, 1, 1)
    full = FPRMonitor()
    full.update(np.arange(1024) % 2)
    assert len(full.history.n_seen) == 1024
    assert through_json(full).to_dict() == full.to_dict()
    far = FPRMonitor()
    far.update_counts(0, 2**53)
    assert through_json(far).n_seen == 2**53
    far.update_counts(0, 1)
    with pytest.raises(ValueError, match="more than can be counted"):
        through_json(far)
    wide = copy.deepcopy(good_state())
    wide["stream"]["stride"] = 2**53
    assert FPRMonitor.from_dict(wide).n_seen == 2002
    many = FPRMonitor()
    many.update(np.zeros(10_500), [None if n % 3 else n for n in range(10_500)])
    assert through_json(many).to_dict() == many.to_dict()
    state = many.to_dict()
    state["event_names"].append("20000")
    state["event_flags"].append(False)
    with pytest.raises(ValueError, match="events that do not fit their flags"):
        FPRMonitor.from_dict(state)


def test_events_that_json_cannot_hold_are_named():
    monitor = FPRMonitor()
    monitor.update([True], [(1, 2)])
    with pytest.raises(TypeError, match=r"events are texts or numbers; got \(1, 2\)"):
        monitor.to_dict()


# By segment.


def test_segments_are_monitors_of_their_rows():
    flags, events = stream(6000)
    segment = np.random.default_rng(2).choice([1.0, 2.0, np.nan], flags.size, p=[0.7, 0.2, 0.1])
    taus = {"1": 0.01, 2: 0.02, "others": 0.05}
    whole, parts = (SegmentMonitor(taus, 0.1, segments=[1, "2"]) for _ in range(2))
    whole.update(flags, segment, events)
    for rows in np.split(np.arange(flags.size), [10, 3000, 3001]):
        parts.update(flags[rows], segment[rows], events[rows])
        parts = through_json(parts)
    assert parts.to_dict() == whole.to_dict()
    share = 1 - 0.95 ** (1 / 3)
    for name, tau, rows in (("1", 0.01, segment == 1), ("2", 0.02, segment == 2), ("others", 0.05, np.isnan(segment))):
        alone = FPRMonitor(tau, whole.monitors[name].delta, 2 * 5000 / tau)
        alone.update(flags[rows], events[rows])
        assert alone.to_dict() == whole.monitors[name].to_dict()
        assert alone.delta == pytest.approx(share)
    assert (whole.whole.tau, whole.whole.delta) == (0.05, pytest.approx(0.05))


def test_segments_that_come_later_share_what_is_left():
    watch = SegmentMonitor(0.01)
    names = np.arange(200)
    watch.update(np.zeros(200, bool), names)
    assert list(watch.monitors) == [*map(str, range(MOST_SEGMENTS - 1)), "others"]
    assert watch.monitors["others"].n_seen == 200 - MOST_SEGMENTS + 1
    # Together they have half of delta, as if they were independent; the whole has the other.
    kept = math.prod(1 - each.delta for each in watch.monitors.values())
    assert kept == pytest.approx(0.975, rel=1e-12)
    assert through_json(watch).to_dict() == watch.to_dict()


@pytest.mark.parametrize("run_length", [None, 4000, math.inf])
def test_what_each_monitor_gets_of_delta_and_of_the_run_length(run_length):
    d, flags = 0.1, np.zeros(60, bool)

    def settings(watch):
        return {name: (each.tau, round(each.delta, 12), each.run_length) for name, each in watch.monitors.items()}

    def expected(tau, weight):
        usual = 5000 / tau if run_length is None else run_length
        return tau, round(1 - (1 - d) ** weight, 12), 2 * usual

    taus = {"a": 0.02, "b": 0.01, "others": 0.03}
    known = SegmentMonitor(taus, 2 * d, run_length, ["b", "a", "others"])
    assert known.segments == ("a", "b")
    assert list(known.monitors) == ["a", "b"]
    known.update(flags[:4], ["z", "b", "y", ""])
    assert settings(known) == {name: expected(taus[name], 1 / 3) for name in ("a", "b", "others")}
    assert [each.n_seen for each in known.monitors.values()] == [0, 1, 3]
    assert (known.whole.tau, round(known.whole.delta, 12), known.whole.run_length) == expected(0.03, 1)
    later = SegmentMonitor({"a": 0.02, "b": 0.01}, 2 * d, run_length)
    later.update(flags, [*"cab", *map(str, range(57))])
    found = list(settings(later).items())
    for k, (name, tau) in enumerate({"c": 0.01, "a": 0.02, "b": 0.01}.items(), start=1):
        assert found[k - 1] == (name, expected(tau, 1 / (k * (k + 1))))
    assert found[48] == ("45", expected(0.01, 1 / (49 * 50)))
    assert found[49:] == [("others", expected(0.01, 1 / 50))]
    for watch in (known, later):
        assert settings(through_json(watch)) == settings(watch)
        assert through_json(watch).run_length == watch.run_length


def test_a_signal_of_one_is_a_signal_of_all():
    rng = np.random.default_rng(5)
    flags = {0: rng.random(20_000) < 0.003, 1: rng.random(20_000) < 0.003}
    segment = np.repeat(["a", "b"], 20_000)
    watch = SegmentMonitor(0.01, run_length=2000, segments=["a", "b"])
    watch.update(np.concatenate([flags[0], flags[1]]), segment)
    assert (watch.alarm, watch.change, watch.raised) == (False, False, [])
    watch.update(np.ones(3, bool), ["b"] * 3)
    for _ in range(20):
        if watch.monitors["b"].change:
            break
        watch.update([True], "b")
    assert (watch.monitors["b"].change, watch.monitors["b"].alarm, watch.monitors["a"].change) == (True, False, False)
    assert (watch.change, watch.alarm, watch.raised) == (True, False, ["b"])
    # Each segment at its own tolerance, and the whole at the loosest: nothing but the whole has been left by much.
    spread = SegmentMonitor(0.01, run_length=1000)
    for place in range(40):
        spread.update([True], f"s{place}")
        if spread.whole.change:
            break
    assert (spread.change, spread.raised) == (True, [])
    assert spread.whole.alarm == spread.alarm
    assert "all segments: FPRMonitor(tau=0.01" in repr(spread)
    assert "\n  s0: FPRMonitor(tau=0.01" in repr(spread)


def test_an_event_counts_once_in_each_of_its_segments():
    watch = SegmentMonitor(0.01)
    watch.update([0, 1, 1, 0, 1], list("aabba"), [1, 1, 1, 2, 1])
    watch.update([0, 1], list("bb"), [1, 2])
    assert (watch.whole.n_seen, watch.whole.n_false_alarms) == (2, 2)
    assert [(name, each.n_seen, each.n_false_alarms) for name, each in watch.monitors.items()] == [
        ("a", 1, 1), ("b", 2, 2),
    ]  # fmt: skip


@pytest.mark.statistics
@pytest.mark.parametrize("known", [["a", "b", "c"], pytest.param(None, marks=pytest.mark.slow)])
def test_any_alarm_is_false_with_probability_delta_at_most(known):
    """Rates at the tolerance itself, unequal segments, looked at after every negative."""
    rng, draws, delta = np.random.default_rng(3), 200, 0.3
    taus = {"a": 0.02, "b": 0.1, "c": 0.3}
    n_raised = 0
    for _ in range(draws):
        segment = rng.choice(["a", "b", "c"], 2000, p=[0.6, 0.3, 0.1])
        watch = SegmentMonitor(taus, delta, math.inf, known)
        n_raised += watch.update(rng.random(2000) < np.array([taus[each] for each in segment]), segment)
    assert n_raised / draws <= delta


def test_a_small_segment_is_found_and_named():
    rng = np.random.default_rng(4)
    segment = np.where(rng.random(30_000) < 0.02, "FO", "EU")
    watch = SegmentMonitor(0.01)
    assert watch.update(rng.random(30_000) < np.where(segment == "FO", 0.08, 0.006), segment)
    assert (watch.raised, watch.whole.alarm, watch.alarm) == (["FO"], False, True)
    assert not watch.reset().alarm
    assert not watch.change


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: SegmentMonitor({}), "tau must be a tolerance"),
        (lambda: SegmentMonitor({"EU": 2}), r"tau\['EU'\] must be strictly between 0 and 1"),
        (lambda: SegmentMonitor(run_length=10), "run_length must be at least 10 / tau = 1000 negatives, got 10"),
        (lambda: SegmentMonitor().update([True], ["a", "b"]), "segments must name that of each of the 1 negatives"),
    ],
)
def test_wrong_use_of_segments_is_explained(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (["names"], ["a", "a"], "segments that it cannot have come to"),
        (["monitors", 0, "delta"], 0.5, "settings that do not fit together"),
        (["monitors"], [], "segments that it cannot have come to"),
        (["tau"], {"a": "x"}, r"tau\['a'\] must be a number"),
    ],
)
def test_states_that_no_segments_can_have_are_refused(path, value, match):
    watch = SegmentMonitor(0.01)
    watch.update([True, False], ["a", "b"])
    state = watch.to_dict()
    change(state, path, value)
    with pytest.raises((ValueError, TypeError), match=match):
        SegmentMonitor.from_dict(state)
