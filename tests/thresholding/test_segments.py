"""Limits by segment: ranks against SciPy's distributions, pooling, and a simulation with known truth."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from taufpl.thresholding import (
    OrderStatistic,
    SegmentOrderStatistics,
    SegmentThresholds,
    level_codes,
    named_tolerances,
    negatives_needed,
    segment_tolerances,
    sequence_negatives_needed,
    shared_delta,
    shown_names,
    split_by_code,
    tolerance_of,
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
    """Segments with a limit of their own, and those that share one, over all subsets: exact arithmetic on powers."""

    def enough(members, n_limits):
        tau, n = min(taus[name] for name in members), sum(counts[name] for name in members)
        return (1 - tau) ** n <= 1 - (1 - delta) ** (1 / n_limits)

    sizes = [
        size
        for size in range(len(counts) + 1)
        if any(all(enough([name], size) for name in own) for own in combinations(counts, size))
    ]
    most = sizes[-1]
    candidates = [own for own in combinations(counts, most) if all(enough([name], most) for name in own)]
    pools = []
    for own in candidates:
        rest = [name for name in counts if name not in own]
        if all(enough([name], most + 1) for name in own):
            by_tau = [[name for name in rest if taus[name] >= tau] for tau in sorted({taus[name] for name in rest})]
            pools += [(own, members) for members in by_tau if enough(members, most + 1)][:1]
    return candidates, pools


def test_the_most_segments_have_limits_of_their_own_and_the_others_one_that_costs_none_of_these():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(100):
        counts = {f"s{i}": int(n) for i, n in enumerate(rng.integers(1, 500, size=rng.integers(1, 7)))}
        taus = {name: float(rng.choice([0.005, 0.01, 0.02])) for name in counts}
        candidates, pools = exhaustive(counts, taus, 0.05)
        if candidates == [()] and not pools:
            with pytest.raises(ValueError, match="no segment has enough negatives"):
                choose(counts, taus)
            continue
        found = choose(counts, taus)
        own = tuple(name for name in found.limits if name != "others")
        pool = [name for name, limit in found.members.items() if limit == "others"]
        assert own in candidates
        assert (own, pool) in pools if pool else own not in [each for each, _ in pools]
        assert {*found.members, *found.unproven} == {*counts}
        assert not {*found.members} & {*found.unproven}
        for name, evidence in zip(found.limits, found.evidence, strict=True):
            members = pool if name == "others" else [name]
            assert evidence.guaranteed
            assert evidence.delta == shared_delta(0.05, len(found.limits))
            assert evidence.n_negative == sum(counts[each] for each in members)
            assert evidence.tau == min(taus[each] for each in members)
        seen.add((bool(pool), bool(found.unproven), len(own) > 1))
    assert len(seen) >= 6


def test_a_pool_takes_no_limit_from_a_segment_that_can_prove_its_own():
    # At tau 0.005 three limits need 814 negatives each, and four 871; at 0.02 three need 202, and four 216.
    counts = {"DE": 850, "FR": 3000, "US": 3000, "FO": 110, "GL": 110}
    taus = {"DE": 0.005, "FR": 0.01, "US": 0.01, "FO": 0.02, "GL": 0.02}
    found = choose(counts, taus)
    assert found.limits == ("DE", "FR", "US")
    assert found.unproven == ("FO", "GL")
    assert {each.delta for each in found.evidence} == {shared_delta(0.05, 3)}
    more = choose(counts | {"DE": 880}, taus)
    assert more.limits == ("DE", "FR", "US", "others")


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


def test_of_two_segments_with_enough_for_one_limit_each_has_it_or_none():
    n = negatives_needed(0.01, 0.05)
    assert n < negatives_needed(0.01, shared_delta(0.05, 2))
    found = choose({"a": n, "b": n})
    assert (found.limits, found.unproven) == (("a",), ("b",))
    assert (found.evidence[0].n_negative, found.evidence[0].delta) == (n, 0.05)
    pooled = choose({"a": n - 1, "b": n - 1})
    assert pooled.limits == ("others",)
    assert (pooled.evidence[0].n_negative, pooled.evidence[0].delta) == (2 * n - 2, 0.05)


def test_small_segments_get_no_alarms_with_infinite():
    found = choose({"a": 500, "b": 250, "c": 250}, insufficient="infinite")
    assert found.limits == ("a", "others")
    assert found.evidence[0].delta == 0.05
    assert found.by_segment["b"] == found.strictest == np.inf
    assert found.overall(0.05).guaranteed
    assert found.overall(0.05).fpr_upper_bound <= 0.01
    assert choose({"a": 10, "b": 10}, insufficient="infinite").by_segment == {"a": np.inf, "b": np.inf}


def test_limits_stay_what_they_were_for_further_negatives():
    found = choose({"a": 3000, "b": 180, "c": 150, "d": 4}, {"a": 0.01, "b": 0.02, "c": 0.02, "d": 1e-6})
    assert (found.limits, found.unproven) == (("a", "others"), ("d",))
    division = found.division("raise", ["c", "new", "d", "a", "z"])
    assert (division.limits, division.members) == (found.limits, found.members)
    assert division.unproven == ("d", "new", "z")
    assert division.rules == (OrderStatistic(0.01, shared_delta(0.05, 2)), OrderStatistic(0.02, shared_delta(0.05, 2)))
    names = ["a", "b", "c", "d", "new"]
    assert division.places(names).tolist() == [0, 1, 1, -1, -1]
    scores, of = np.random.default_rng(0).normal(size=5000), np.random.default_rng(1).integers(0, 5, 5000)
    later = division.choose(scores, division.places(names)[of])
    for evidence, rule, mine in zip(later.evidence, division.rules, (of == 0, (of == 1) | (of == 2)), strict=True):
        assert evidence == rule.choose(scores[mine])
    assert (later.unproven, later.column, later.is_number) == (division.unproven, None, False)
    # With infinite the others get no alarms, however many they are.
    nobody = found.division("infinite", []).choose(scores, division.places(names)[of])
    assert [each.threshold for each in nobody.evidence] == [later.evidence[0].threshold, np.inf]
    assert nobody.evidence[1].n_negative == np.sum((of == 1) | (of == 2))


def test_segments_that_lose_their_limit_never_get_a_lower_threshold():
    counts = {"a": 3000, "b": 500, "c": 400, "d": 1}
    found = choose(counts, {"a": 0.05, "b": 0.05, "c": 0.05, "d": 1e-6})
    assert found.members == {"a": "a", "b": "b", "c": "c"}
    high = SegmentThresholds(found.limits, found.evidence, found.members, found.unproven, floor=9000.0)
    a, b, c = (found.by_segment[name] for name in "abc")
    assert a > b > c
    assert found.strictest == a
    assert high.strictest == 9000.0
    assert high.thresholds(["d", "b"]).tolist() == [9000.0, b]
    for members, expected in [("abcd", -np.inf), ("bcd", a), ("acd", b), ("ad", b), ("d", a)]:
        assert high.floor_without(dict.fromkeys(members)) == expected
    for members in ("abc", "bc", ""):  # the floor was that of d
        assert high.floor_without(dict.fromkeys(members)) == 9000.0


def test_the_record_of_all_limits_adds_them_up():
    found = choose({"a": 700, "b": 400}, {"a": 0.02, "b": 0.05})
    one, other = found.evidence
    caveats = (("x", "y"), ("y", "z"))
    voided = iter(each.without_guarantee(*own) for each, own in zip(found.evidence, caveats, strict=True))
    whole = found.with_evidence(lambda _: next(voided)).overall(0.05)
    assert (whole.guaranteed, whole.caveats) == (False, ("x", "y", "z"))
    assert (whole.n_negative, whole.n_false_positive) == (1100, one.n_false_positive + other.n_false_positive)
    assert whole.fpr_estimate == whole.n_false_positive / 1100 > 0
    assert whole.rank is None
    nobody = SegmentOrderStatistics(0.01, insufficient="infinite").divide({"a": 0, "b": 0}, {"a": 0.01, "b": 0.01})
    empty = nobody.choose(np.empty(0), np.empty(0, np.intp)).overall(0.05)
    assert (empty.n_negative, empty.fpr_estimate, empty.threshold, empty.guaranteed) == (0, 0.0, np.inf, True)


def test_limits_that_hold_at_every_look_take_more_negatives():
    needed, more = negatives_needed(0.01, 0.05), sequence_negatives_needed(0.01, 0.05)
    assert needed < more
    taus = {"a": 0.01}
    for n, every_look, message in [(needed - 1, False, f"{needed}"), (more - 1, True, f"{more}")]:
        rule = SegmentOrderStatistics(0.01, every_look=every_look)
        with pytest.raises(ValueError, match=f"needs at least {message} negatives .* got {n} in 1 segments"):
            rule.divide({"a": n}, taus)
        assert rule.divide({"a": n + 1}, taus).members == {"a": "a"}


def test_segments_without_negatives_join_no_limit():
    division = SegmentOrderStatistics(0.01).divide({"a": 2000, "b": 500, "c": 0}, dict.fromkeys("abc", 0.01))
    assert (division.members, division.unproven) == ({"a": "a", "b": "b"}, ("c",))
    pooled = SegmentOrderStatistics(0.01).divide({"a": 200, "b": 200, "c": 0}, dict.fromkeys("abc", 0.01))
    assert (pooled.members, pooled.unproven) == ({"a": "others", "b": "others"}, ("c",))


def test_segments_that_have_just_enough_together_share_a_limit():
    taus = dict.fromkeys("ab", 0.01)  # 299 negatives, as in closed form: .99^299 <= .05 < .99^298
    assert SegmentOrderStatistics(0.01).divide({"a": 150, "b": 149}, taus).members == {"a": "others", "b": "others"}
    with pytest.raises(ValueError, match="needs at least 299 negatives"):
        SegmentOrderStatistics(0.01).divide({"a": 149, "b": 149}, taus)


def test_values_are_split_in_the_order_given():
    codes, values = np.random.default_rng(0).integers(-1, 5, 60), np.arange(60)
    parts = split_by_code(values, codes, 6)
    assert [part.tolist() for part in parts] == [values[codes == code].tolist() for code in range(6)]


def test_tolerances_by_name():
    named = {1.0: 0.1, "b": 0.2, "others": 0.3}
    assert named_tolerances(named) == {"1": 0.1, "b": 0.2, "others": 0.3}
    assert named_tolerances(0.05) == {"others": 0.05}
    assert segment_tolerances(named, ["1", "b", "c"]) == {"1": 0.1, "b": 0.2, "c": 0.3}
    assert [tolerance_of(name, named_tolerances(named)) for name in ("b", "c")] == [0.2, 0.3]
    assert tolerance_of("c", {"a": 0.2, "b": 0.1}) == 0.1
    with pytest.raises(ValueError, match="name that of a segment at least; got none"):
        named_tolerances({})


def test_of_many_names_a_few_are_shown():
    assert shown_names(list("abcde")) == "'a', 'b', 'c', 'd', 'e'"
    assert shown_names([f"s{i}" for i in range(1205)]) == "'s0', 's1', 's2', 's3', 's4' and 1,200 more"


def test_labels_are_compared_as_texts():
    scores = np.arange(600.0)
    found = SegmentOrderStatistics({1: 0.05, "missing": 0.1}).choose(scores, np.repeat([1.0, np.nan], 300))
    assert found.is_number
    assert found.members == {"1": "1", "missing": "missing"}
    one, missing = found.by_segment["1"], found.by_segment["missing"]
    for labels in ([1, None], np.array(["1", "missing"]), np.array([1.0, np.nan]), [1.0, "missing"]):
        assert found.thresholds(labels).tolist() == [one, missing]


@pytest.mark.slow
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
    older = found.__getstate__()
    del older["floor"]
    restored = SegmentThresholds.__new__(SegmentThresholds)
    restored.__setstate__(older)
    assert restored == found
    with pytest.raises(ValueError, match="must be a number, got NaN"):
        SegmentThresholds(found.limits, found.evidence, {}, floor=np.nan)
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
