"""Thresholds over the life of a classifier: how they share delta, and what is kept between them."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from taufpl import (
    KernelTauFPLClassifier,
    NeymanPearsonClassifier,
    ScoreScreen,
    ScreeningClassifier,
    TauFPLClassifier,
)
from taufpl.exceptions import RepeatedRowsWarning, TooFewNegativesWarning
from taufpl.persistence import load_model, save_model
from taufpl.thresholding import OrderStatistic, SequenceStatistic, sequence_negatives_needed

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1], [1500, 150])
X = RNG.normal(size=(1650, 3)) + 2.0 * Y[:, np.newaxis]
MODELS = {
    "neyman-pearson": lambda **given: NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0, **given),
    "prefit": lambda **given: NeymanPearsonClassifier(
        LogisticRegression().fit(X[::2], Y[::2]), 0.05, cv="prefit", random_state=0, **given
    ),
    "ranking": lambda **given: TauFPLClassifier(0.05, reg=1.0, tau_scale=1.0, random_state=0, **given),
    "kernel": lambda **given: KernelTauFPLClassifier(
        0.05, reg=0.1, gamma=0.3, n_components=20, random_state=0, **given
    ),
    "stack": lambda **given: ScreeningClassifier(
        0.05, candidates=[LogisticRegression()], effort="fast", random_state=0, **given
    ),
}


def negatives(n, shift=0.0):
    return RNG.normal(size=(n, 3)) + shift


@pytest.mark.parametrize("name", MODELS)
def test_any_number_of_looks(name, tmp_path):
    model = MODELS[name](looks="any").fit(X, Y)
    first = model.evidence_
    assert (first.guaranteed, first.looks, first.delta) == (True, "any", 0.025)
    parts = [negatives(n) for n in (1, 700, 3000)]
    for part in parts[:2]:
        model.recalibrate(part)
    save_model(model, tmp_path / "model.skops")
    model = load_model(tmp_path / "model.skops").model
    model.recalibrate(parts[2])
    # What a rule on all scores together says: those that were held out, and those of three recalibrations.
    held_out = np.setdiff1d(np.arange(len(Y)), model.training_rows(Y))
    rows = np.concatenate((X[held_out][Y[held_out] == 0], *parts))
    raw = model.decision_function(rows) + model.threshold_
    (whole,) = SequenceStatistic((0.05,), 0.025).choose_all(raw)
    found = model.evidence_
    assert (found.n_negative, found.rank, found.n_false_positive) == (
        whole.n_negative,
        whole.rank,
        whole.n_false_positive,
    )
    assert found.threshold == pytest.approx(whole.threshold, rel=1e-5)
    assert found.guaranteed
    assert [each.delta_spent for each in model.threshold_history_] == [0.025, 0.0, 0.0, 0.0]
    # A restart forgets them all, for half of the delta that is left.
    model.recalibrate(parts[2], restart=True)
    assert (model.evidence_.n_negative, model.evidence_.delta) == (3000, 0.0125)
    model.recalibrate(parts[1])
    assert (model.evidence_.n_negative, model.evidence_.delta) == (3700, 0.0125)
    assert [each.delta_spent for each in model.threshold_history_[-2:]] == [0.0125, 0.0]
    assert model.threshold_history_[-2].event == "restart"
    # A refit begins a new life.
    assert model.fit(X, Y).evidence_.delta == 0.025


@pytest.mark.parametrize("name", MODELS)
def test_a_number_of_looks(name):
    model, fresh = MODELS[name](looks=3).fit(X, Y), negatives(900)
    assert (model.evidence_.delta, model.evidence_.looks) == (pytest.approx(0.05 / 3), 3)
    for _ in range(2):
        model.recalibrate(fresh)
        expected = OrderStatistic(0.05, 0.05 / 3).choose(model.decision_function(fresh) + model.threshold_)
        assert (model.evidence_.rank, model.evidence_.guaranteed) == (expected.rank, True)
    before = model.threshold_, len(model.threshold_history_)
    with pytest.raises(ValueError, match=r"delta=0\.05 is spent: with looks=3, 3 thresholds have been chosen"):
        model.recalibrate(fresh)
    assert (model.threshold_, len(model.threshold_history_)) == before
    assert sum(each.delta_spent for each in model.threshold_history_) == pytest.approx(0.05)


def test_one_look_is_as_before_and_spends_delta_again():
    model = MODELS["neyman-pearson"]().fit(X, Y)
    assert clone(model).looks == 1
    for _ in range(2):
        model.recalibrate(negatives(300))
    assert [each.delta_spent for each in model.threshold_history_] == [0.05] * 3
    assert (model.evidence_.looks, model.sequences_) == (1, ())


def test_measured_thresholds_spend_nothing():
    model = MODELS["neyman-pearson"](looks="any", threshold="cross").fit(X, Y)
    assert (model.sequences_, model.threshold_history_[0].delta_spent) == ((), 0.0)
    model.recalibrate(negatives(500))
    assert (model.sequences_[0].n_negative, model.threshold_history_[1].delta_spent) == (500, 0.025)


def test_several_tolerances_and_scores_of_ones_own():
    scores, later = RNG.normal(size=2000), RNG.normal(size=2000)
    screen = ScoreScreen(tau=(0.01, 0.05), looks="any", pos_label=1, higher_is_positive=False).fit(
        -scores, np.zeros(2000)
    )
    screen.recalibrate(-later)
    whole = SequenceStatistic((0.01, 0.05), 0.025).choose_all(np.concatenate((scores, later)))
    assert [each.threshold for each in screen.evidence_] == [each.threshold for each in whole]
    assert screen.threshold_history_[1].threshold == screen.threshold_ == -whole[0].threshold


def test_copies_void_all_thresholds_of_their_sequence():
    model = MODELS["neyman-pearson"](looks="any").fit(X, Y)
    with pytest.warns(RepeatedRowsWarning):
        model.recalibrate(np.repeat(negatives(200), 5, axis=0))
    assert not model.recalibrate(negatives(2000)).evidence_.guaranteed
    assert "exact copies" in model.evidence_.caveats[0]
    assert model.recalibrate(negatives(2000), restart=True).evidence_.guaranteed


def test_the_same_negatives_are_not_added_twice():
    model, fresh = MODELS["neyman-pearson"](looks="any").fit(X, Y), negatives(3000)
    model.recalibrate(fresh)
    before = model.sequences_[0].n_negative, len(model.threshold_history_)
    with pytest.raises(ValueError, match="A negative counts once: give new ones"):
        model.recalibrate(fresh[::-1])
    assert (model.sequences_[0].n_negative, len(model.threshold_history_)) == before
    levels = ScoreScreen(tau=0.05, looks="any", pos_label=1).fit(np.round(fresh[:, 0], 1), np.zeros(3000))
    levels.recalibrate(np.round(fresh[:, 1], 1))  # few values, which repeat by chance
    assert levels.recalibrate(np.round(fresh[:, 2], 1)).evidence_.n_negative == 9000
    for place in range(3):  # but not all of them as often
        with pytest.raises(ValueError, match="A negative counts once: give new ones"):
            levels.recalibrate(np.round(fresh[::-1, place], 1))
    truths = ScoreScreen(tau=0.05, looks="any", pos_label=1).fit(fresh[:, 0] > 2, np.zeros(3000))
    assert truths.recalibrate(fresh[::-1, 0] > 2).evidence_.n_negative == 6000  # two values say nothing


def test_too_few_negatives_for_the_first_threshold():
    needed = sequence_negatives_needed(0.05, 0.025)
    few = np.r_[np.arange(needed + 5), np.arange(1500, 1650)]
    with pytest.warns(TooFewNegativesWarning, match=f"needs {needed} negatives"):
        MODELS["neyman-pearson"](looks="any").fit(X[few], Y[few])
    model = MODELS["neyman-pearson"](looks="any", insufficient="infinite").fit(X[few], Y[few])
    while model.threshold_ == np.inf:
        model.recalibrate(negatives(10))
    assert model.evidence_.n_negative in range(needed, needed + 10)


@pytest.mark.parametrize(("given", "call", "said"), [
    ({}, {"restart": True}, "restart=True begins a new sequence of negatives, for looks='any'"),
    ({"looks": 4}, {"restart": True}, "got looks=4"),
    ({"looks": "any"}, {"segments": np.arange(900) % 2}, "limits by segment begin sequences of their own"),
])  # fmt: skip
def test_bad_uses_of_recalibrate(given, call, said):
    model = MODELS["neyman-pearson"](**given).fit(X, Y)
    with pytest.raises(ValueError, match=said):
        model.recalibrate(negatives(900), **call)


@pytest.mark.parametrize(("given", "said"), [
    ({"looks": 0}, "'looks' parameter"),
    ({"looks": "all"}, "'looks' parameter"),
])  # fmt: skip
def test_bad_uses_of_fit(given, said):
    with pytest.raises(ValueError, match=said):
        MODELS["ranking"](**given).fit(X, Y)


def test_every_limit_by_segment_has_its_own_sequence(tmp_path):
    places = np.arange(1650) % 38
    segments = np.array(["east", "west", "north", "tiny", "small"])[np.where(places < 36, places // 12, 3 + places % 2)]
    new = ["east", "west"] * 400 + ["north"] * 15 + ["nowhere"] * 5
    model = TauFPLClassifier({"others": 0.1, "west": 0.05}, reg=1.0, tau_scale=2.0, looks="any", random_state=0)
    model.fit(X, Y, segments=segments)
    held_out = np.setdiff1d(np.arange(1650), model.training_rows(Y, segments=segments))
    limits, parts = model.segments_.limits, [(X[held_out][Y[held_out] == 0], segments[held_out][Y[held_out] == 0])]
    assert (limits, model.segments_.members["small"]) == (("east", "north", "west", "others"), "others")
    for _ in range(2):
        parts.append((negatives(820), np.array(new)))
        with pytest.warns(TooFewNegativesWarning, match="nowhere"):
            model.recalibrate(parts[-1][0], segments=parts[-1][1])
        save_model(model, tmp_path / "model.skops")
        model = load_model(tmp_path / "model.skops").model
    rows, names = np.concatenate([each for each, _ in parts]), np.concatenate([each for _, each in parts])
    share = 1 - (1 - 0.025) ** 0.25
    for limit, found in zip(model.segments_.limits, model.segments_.evidence, strict=True):
        own = np.isin(names, [name for name, its_limit in model.segments_.members.items() if its_limit == limit])
        raw = model.decision_function(rows[own], segments=names[own]) + found.threshold
        (whole,) = SequenceStatistic((found.tau,), share).choose_all(raw)
        assert (found.n_negative, found.rank, found.looks) == (own.sum(), whole.rank, "any")
        assert found.threshold == pytest.approx(whole.threshold, rel=1e-5)
        assert found.delta == pytest.approx(share)
    assert model.segments_.unproven == ("nowhere",)
    assert [each.delta_spent for each in model.threshold_history_] == [0.025, 0.0, 0.0]
    # A restart divides the segments anew, by the new negatives alone.
    with pytest.warns(TooFewNegativesWarning, match="in 4 segments"):
        model.recalibrate(parts[-1][0], segments=parts[-1][1], restart=True)
    assert model.segments_.limits == ("east", "west")
    assert model.threshold_history_[-1].delta_spent == 0.0125


def test_limits_by_segment_share_what_a_look_has():
    segments = np.where(np.arange(1650) % 2, "east", "west")
    model = TauFPLClassifier(0.1, reg=1.0, tau_scale=1.0, looks=2, random_state=0).fit(X, Y, segments=segments)
    assert model.evidence_.delta == 0.025
    assert model.segments_.evidence[0].delta == pytest.approx(1 - (1 - 0.025) ** 0.5)
    assert {each.looks for each in model.segments_.evidence} == {2}
    model.recalibrate(X[:1500], segments=segments[:1500])
    with pytest.raises(ValueError, match="is spent"):
        model.recalibrate(X[:1500], segments=segments[:1500])


def test_a_failed_recalibration_changes_nothing():
    rng = np.random.default_rng(0)
    screen = ScoreScreen(tau=0.05, looks=3, pos_label=1).fit(rng.normal(size=1000), np.zeros(1000, int))
    before = (screen.threshold_, screen.threshold_history_)
    with pytest.raises(TypeError):
        screen.recalibrate(rng.normal(size=1000), source=3)
    assert (screen.threshold_, screen.threshold_history_) == before
    for month in ("february.csv", "march.csv"):
        screen.recalibrate(rng.normal(size=1000), source=Path(month))
    assert [each.source for each in screen.threshold_history_] == [None, "february.csv", "march.csv"]
    with pytest.raises(ValueError, match="is spent"):
        screen.recalibrate(rng.normal(size=1000))


def test_a_sequence_holds_for_the_tau_that_it_began_with():
    rng = np.random.default_rng(0)
    screen = ScoreScreen(tau=0.05, looks="any", pos_label=1).fit(rng.normal(size=1000), np.zeros(1000, int))
    with pytest.raises(ValueError, match="tau has changed"):
        screen.set_params(tau=0.04).recalibrate(rng.normal(size=1000))
    screen.recalibrate(rng.normal(size=1000), restart=True)
    assert screen.evidence_.tau == 0.04
    screen.set_params(looks=1).recalibrate(rng.normal(size=1000))
    assert screen.threshold_history_[-1].delta_spent == 0.05
