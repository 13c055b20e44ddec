"""Limits on held-out rows: how many each of them holds out, and thresholds and recall of segments by hand."""

import re

import numpy as np
import pytest
from sklearn.base import clone

from estimator_cases import ScoreItself
from taufpl import NeymanPearsonClassifier
from taufpl.estimators.strategies import Fitter, LinearFitter, Outcome, Plan, at_other_tolerances, held_out_size
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.thresholding import (
    HeldOut,
    NegativeSequence,
    OrderStatistic,
    SegmentOrderStatistics,
    SequenceStatistic,
    negatives_needed,
    sequence_negatives_needed,
    shared_delta,
)

SIZES = {"a": (600, 30), "b": (300, 20), "c": (6, 10)}  # negatives and positives


def draw(seed, sizes=SIZES):
    """Rows of segments in random order; the score is the first feature, and no two are equal."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.repeat([0, 1], each) for each in sizes.values()])
    labels = np.repeat(list(sizes), [sum(each) for each in sizes.values()])
    order = rng.permutation(y.size)
    return (rng.normal(size=y.size) + y)[order, np.newaxis], y[order], labels[order]


X, Y, LABELS = draw(0)


def screen(tau=0.05, share="auto", measure_recall=True, **settings):
    threshold = HeldOut(share, measure_recall)
    return NeymanPearsonClassifier(ScoreItself(), tau, threshold=threshold, random_state=0, **settings)


def held_out_of(model, **given):
    """The rows that do not train; negatives all, where positives are not held out with them."""
    return np.setdiff1d(np.arange(Y.size), model.training_rows(Y, segments=LABELS, **given))


@pytest.mark.parametrize("share", ["auto", 0.6])
def test_segments_hold_out_what_each_limit_needs(share):
    held = held_out_of(screen(share=share))
    delta = shared_delta(0.05, 2)
    assert not Y[held].any()
    for name, n in (("a", 600), ("b", 300)):
        wanted = held_out_size(n, Plan((0.05,), delta), share)
        assert np.sum(LABELS[held] == name) == wanted > 0
    assert "c" not in LABELS[held]  # no proof is possible there: all of them train
    nobody = held_out_of(screen(share=share, insufficient="infinite"))
    assert np.array_equal(nobody, held)


@pytest.mark.parametrize("tau", [0.05, 0.005, 0.001])
def test_segments_in_groups_or_by_time_hold_out_one_half_or_what_a_proof_takes(tau):
    for given in ({"groups": np.arange(Y.size)}, {"order": np.where(Y == 1, -1, np.arange(Y.size))}):
        for share, n_held in [
            ("auto", min(max(453, negatives_needed(tau, 0.05)), 905)), (0.2, 181), (0.0001, 1), (0.9999, 905),
        ]:  # fmt: skip
            held = held_out_of(screen(tau, share=share, insufficient="infinite"), **given)
            assert np.sum(Y[held] == 0) == n_held


def test_a_segment_keeps_a_fifth_of_its_negatives_to_learn_from():
    y = np.repeat([0, 1], [74, 10])
    assert np.sum(screen().training_rows(y, segments=np.full(84, "a")) < 74) == 15
    with pytest.raises(ValueError, match="no segment has enough negatives"):
        screen().training_rows(y[1:], segments=np.full(83, "a"))


def caught(thresholds, which):
    return int(np.sum(X[which, 0] > thresholds[which]))


def test_thresholds_and_recall_of_segments_by_hand():
    """The score does not depend on the fit, so that all folds find what the model itself finds."""
    model = screen()
    held = held_out_of(model)
    with pytest.warns(TooFewNegativesWarning, match="in 1 segment, even together, beside the other limits: 'c'"):
        model.fit(X, Y, segments=LABELS)
    limits, expected = model.segments_, {}
    assert (limits.limits, limits.unproven) == (("a", "b"), ("c",))
    for name, evidence in zip(limits.limits, limits.evidence, strict=True):
        wanted = OrderStatistic(0.05, shared_delta(0.05, 2)).choose(X[held[LABELS[held] == name], 0])
        assert evidence.threshold == pytest.approx(wanted.threshold, rel=1e-12)
        assert (evidence.rank, evidence.n_negative, evidence.guaranteed) == (wanted.rank, wanted.n_negative, True)
        expected[name] = evidence.threshold
    expected["c"] = max(expected.values())
    thresholds = np.array([expected[each] for each in LABELS])
    for name, evidence in zip(limits.limits, limits.evidence, strict=True):
        own = (Y == 1) & np.isin(LABELS, name)
        assert (evidence.n_true_positive, evidence.n_positive) == (caught(thresholds, own), own.sum())
    whole = model.evidence_
    assert (whole.n_true_positive, whole.n_positive) == (caught(thresholds, Y == 1), 60)
    assert (whole.threshold, whole.guaranteed) == (expected["c"], False)
    # A segment that loses its limit is counted at the threshold that it had, or the strictest.
    high = max(expected, key=expected.get)
    sizes = {name: (each[0] if name != high else 5, each[1]) for name, each in SIZES.items()}
    later_X, later_y, later_labels = draw(1, sizes)
    later_X[later_y == 0] -= 2.0
    with pytest.warns(TooFewNegativesWarning, match="in 2 segments"):
        model.recalibrate(later_X, later_y, segments=later_labels)
    (limit,) = model.segments_.limits
    (own,) = model.segments_.evidence
    assert limit != high
    assert own.threshold < model.segments_.strictest == expected["c"]
    levels = np.where(later_labels == limit, own.threshold, expected["c"])
    positive = later_y == 1
    assert model.evidence_.n_true_positive == np.sum(later_X[positive, 0] > levels[positive])
    assert own.n_true_positive == np.sum(later_X[positive & (later_labels == limit), 0] > own.threshold)


def test_segments_without_alarms_catch_nobody():
    model = screen(insufficient="infinite")
    model.fit(X, Y, segments=LABELS)
    others = model.segments_.evidence[model.segments_.limits.index("others")]
    assert (others.threshold, others.n_true_positive, others.n_positive, others.n_negative) == (np.inf, 0, 10, 0)
    assert model.evidence_.n_positive == 60
    assert model.evidence_.n_true_positive == sum(each.n_true_positive for each in model.segments_.evidence)


def test_negatives_of_all_looks_choose_the_limits_of_segments():
    sizes = {name: SIZES[name] for name in "ab"}
    parts = [draw(seed, sizes) for seed in (2, 3, 4)]
    model = screen(looks="any")
    first_X, first_y, first_labels = parts[0]
    train = model.training_rows(first_y, segments=first_labels)
    held = np.setdiff1d(np.arange(first_y.size), train)
    model.fit(first_X, first_y, segments=first_labels)
    seen_X, seen_labels = [first_X[held, 0]], [first_labels[held]]
    delta = shared_delta(0.025, 2)
    for name, n in (("a", 600), ("b", 300)):  # nothing is snapped: all will be of use later
        wanted = max(round(n / 2), sequence_negatives_needed(0.05, delta))
        assert np.sum(first_labels[held] == name) == wanted
    for later_X, later_y, later_labels in parts[1:]:
        model.recalibrate(later_X, later_y, segments=later_labels)
        seen_X.append(later_X[later_y == 0, 0])
        seen_labels.append(later_labels[later_y == 0])
        scores, names = np.concatenate(seen_X), np.concatenate(seen_labels)
        for name, evidence in zip("ab", model.segments_.evidence, strict=True):
            (wanted,) = SequenceStatistic((0.05,), delta).choose_all(scores[names == name])
            assert evidence.threshold == pytest.approx(wanted.threshold, rel=1e-12)
            assert (evidence.rank, evidence.n_negative, evidence.looks) == (wanted.rank, wanted.n_negative, "any")
            own = (later_y == 1) & (later_labels == name)
            assert (evidence.n_true_positive, evidence.n_positive) == (
                np.sum(later_X[own, 0] > evidence.threshold), own.sum(),
            )  # fmt: skip


def test_other_tolerances_are_looked_at_on_the_same_negatives():
    model, taus = screen(), (0.02, 0.1, 0.001)
    held = np.setdiff1d(np.arange(Y.size), model.training_rows(Y))
    with at_other_tolerances(taus) as asked:
        model.fit(X, Y)
        found = asked.evidence
        clone(model).set_params(threshold="train").fit(X, Y)
        assert asked.evidence == found
    for tau, evidence in zip(taus, found, strict=True):
        wanted = OrderStatistic(tau, 0.05, "infinite").choose(X[held, 0])
        assert evidence.threshold == pytest.approx(wanted.threshold, rel=1e-12)  # raised by rounding
        assert (evidence.rank, evidence.tau) == (wanted.rank, tau)
        assert (evidence.n_true_positive, evidence.n_positive) == (np.sum(X[Y == 1, 0] > wanted.threshold), 60)
    assert found[2].threshold == np.inf
    assert model.evidence_.tau == 0.05
    model.fit(X, Y)  # nobody asks now
    assert asked.evidence == found


@pytest.mark.parametrize("kind", [Fitter, LinearFitter])
def test_what_is_not_said_of_a_fitter_holds_for_rankings(kind):
    methods = dict.fromkeys(("prepare", "fit", "scores"), lambda *_: None)
    ranking = type("Ranking", (kind,), methods)()
    assert ranking.is_linear(None) == (kind is LinearFitter)
    assert (ranking.has_scale(None), ranking.unseen_parts(None, None)) == (False, None)
    assert (ranking.learns_from_positives, ranking.learns_from_neighbours) == (True, False)


@pytest.mark.parametrize("tau", [0.05, (0.05, 0.2)])
def test_too_few_held_out_say_which_share_would_do(tau):
    needed = negatives_needed(0.05, 0.05 / np.size(tau))
    y, few = np.repeat([0, 1], [1000, 10]), np.repeat([0, 1], [needed + 5, 10])
    share = f"{1.01 * needed / 1000:.2g}"
    said = f"needs at least {needed} negatives held out, got 10 of 1,000 (share=0.01): threshold=HeldOut(share={share})"
    with pytest.raises(ValueError, match=re.escape(said)):
        screen(tau, share=0.01).training_rows(y)
    assert np.sum(screen(tau, share=float(share)).training_rows(y) < 1000) <= 1000 - needed
    with pytest.raises(
        ValueError, match=rf"got 10 of {few.size - 10} .*: about {2 * needed} negatives in all are needed"
    ):
        screen(tau, share=10 / (needed + 5)).training_rows(few)
    assert np.sum(screen(tau, share=0.01, insufficient="infinite").training_rows(y) < 1000) == 990
    with pytest.raises(ValueError, match="needs at least 2 negatives, one to fit on and one to hold out; got 1"):
        screen(tau).training_rows([0, 1, 1, 1])


def test_the_fewest_that_may_be_held_out():
    assert np.sum(screen(insufficient="infinite").training_rows([0, 0, 1, 1]) < 2) == 1
    # Several tolerances may do with fewer than equal shares of delta take; of thresholds for every look none may.
    y, single, shared = np.repeat([0, 1], [1000, 10]), negatives_needed(0.05, 0.05), negatives_needed(0.05, 0.025)
    assert single < shared
    assert np.sum(screen((0.05, 0.2), share=single / 1000).training_rows(y) < 1000) == 1000 - single
    needed = sequence_negatives_needed(0.05, 0.025)  # one half of delta is for the first sequence
    assert np.sum(screen(looks="any", share=needed / 1000).training_rows(y) < 1000) == 1000 - needed
    with pytest.raises(ValueError, match=f"needs at least {needed} negatives held out, got {needed - 1} of"):
        screen(looks="any", share=(needed - 1) / 1000).training_rows(y)


def test_positives_that_are_tied_with_a_threshold_are_not_above_it():
    tied, segments = np.round(X), np.where(LABELS == "a", "a", "b")
    model = screen().fit(tied, Y, segments=segments)
    for name, evidence in zip(model.segments_.limits, model.segments_.evidence, strict=True):
        own = tied[(Y == 1) & (segments == name), 0]
        level = round(evidence.threshold)
        assert (own == level).any()
        assert (evidence.n_true_positive, evidence.n_positive) == (np.sum(own > level), own.size)


@pytest.mark.parametrize("n_positive", [1, 2, 3, 12])
def test_recall_takes_two_positives(n_positive):
    rows = np.r_[np.flatnonzero(Y == 0), np.flatnonzero(Y == 1)[:n_positive]]
    model = screen().fit(X[rows], Y[rows])
    assert model.evidence_.n_positive == (None if n_positive == 1 else n_positive)
    unmeasured = screen(measure_recall=False).fit(X[rows], Y[rows])
    assert (unmeasured.evidence_.n_positive, unmeasured.evidence_.tpr_estimate) == (None, None)


def test_late_positives_tell_the_recall_and_a_few_that_are_held_out_with_their_groups_do_not():
    late = screen().fit(X, Y, order=np.where(Y == 1, np.arange(Y.size) % 2 * 2000, np.arange(Y.size)))
    # Of the positives those that are late alone, at the threshold itself.
    late_rows = np.flatnonzero((Y == 1) & (np.arange(Y.size) % 2 == 1))
    assert late.evidence_.n_positive == late_rows.size
    assert late.evidence_.n_true_positive == np.sum(X[late_rows, 0] > late.evidence_.threshold)
    # Every second positive is in a group with a negative, and some of these are held out: all positives tell it.
    groups, positive = np.arange(Y.size), np.flatnonzero(Y == 1)
    groups[positive[::2]] = np.flatnonzero(Y == 0)[: positive[::2].size]
    model = screen()
    train = model.training_rows(Y, groups=groups)
    assert 0 < np.sum(Y[train] == 1) < 60
    assert model.fit(X, Y, groups=groups).evidence_.n_positive == np.sum(Y[train] == 1)


def test_a_guarantee_is_void_in_all_that_an_outcome_holds():
    scores, labels = np.arange(600.0), np.repeat(["a", "b"], 300)
    segments = SegmentOrderStatistics(0.05).choose(scores, labels)
    evidence, sequence = (OrderStatistic(0.05).choose(scores),) * 2, NegativeSequence(0.05, caveats=("first",))
    bare, full = Outcome((), evidence, 1.0), Outcome((), evidence, 1.0, segments, (sequence,))
    for outcome in (bare, full):
        assert outcome.without_guarantee(None) is outcome
        found = outcome.without_guarantee("copies")
        assert [(each.guaranteed, each.caveats) for each in found.evidence] == [(False, ("copies",))] * 2
    assert (bare.without_guarantee("copies").segments, bare.without_guarantee("copies").sequences) == (None, None)
    found = full.without_guarantee("copies")
    assert [(each.guaranteed, each.caveats) for each in found.segments.evidence] == [(False, ("copies",))] * 2
    assert [each.caveats for each in found.sequences] == [("first", "copies")]
