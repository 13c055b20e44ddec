"""Strategies as parameters: their settings, searches over them, files, and the parameters of 0.1 that they replace."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from estimator_cases import two_clouds
from taufpl import (
    KernelTauFPLClassifier,
    NeymanPearsonClassifier,
    ScoreScreen,
    ScreeningClassifier,
    TauFPLClassifier,
    thresholding,
)
from taufpl.estimators.strategies import STRATEGIES, Automatic, Strategy, strategy_of
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.metrics import np_scorer
from taufpl.persistence import load_model, save_model
from taufpl.thresholding import CrossFit, HeldOut, OutOfBootstrap, TrainQuantile

X, Y = two_clouds(n=300, m=60)
EARLIER = ("n_rounds", "train_share", "rule", "combine", "holdout", "measure_recall")
OBJECTS = [
    HeldOut(share=0.4, measure_recall=False),
    CrossFit(folds=3),
    OutOfBootstrap(n_rounds=3, train_share=0.6, rule="quantile", combine="refit"),
    TrainQuantile(),
    Automatic(HeldOut(share=0.4)),
]
CLASSIFIERS = {
    "linear": lambda **given: TauFPLClassifier(0.1, reg=0.1, tau_scale=1.0, random_state=0, **given),
    "any scorer": lambda **given: NeymanPearsonClassifier(LogisticRegression(), 0.1, random_state=0, **given),
    "kernel": lambda **given: KernelTauFPLClassifier(0.1, gamma=0.3, reg=0.1, n_components=20, random_state=0, **given),
    "stack": lambda **given: ScreeningClassifier(
        0.1, candidates=[LogisticRegression()], effort="fast", random_state=0, **given
    ),
}


def assert_same(first, second):
    """Two fitted classifiers decide the same and rest on the same evidence."""
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
    assert first.strategy_ == second.strategy_
    assert repr(first.evidence_) == repr(second.evidence_)


# Objects with settings.


def test_strategies_are_where_users_look_for_them():
    for name in ("CrossFit", "HeldOut", "OutOfBootstrap", "TrainQuantile"):
        assert name in thresholding.__all__
        assert getattr(thresholding, name) in STRATEGIES.values()
    assert list(STRATEGIES) == ["np", "cross", "oob", "train"]
    for name, kind in STRATEGIES.items():
        assert type(strategy_of(name)) is kind
        assert kind.name == name
    assert isinstance(strategy_of("auto"), Automatic)
    assert strategy_of(OBJECTS[0]) is OBJECTS[0]


@pytest.mark.parametrize("strategy", OBJECTS, ids=lambda each: each.name)
def test_settings_can_be_read_set_and_copied(strategy):
    model = TauFPLClassifier(threshold=strategy)
    nested = {f"threshold__{name}": each for name, each in strategy.get_params().items()}
    assert nested.items() <= model.get_params().items()
    copy = clone(model)
    assert copy.threshold is not strategy
    assert copy.threshold == strategy == pickle.loads(pickle.dumps(strategy))
    assert "".join(repr(strategy).split()) in "".join(repr(model).split())
    assert isinstance(strategy, Strategy)
    assert strategy != "np"


def test_defaults_are_those_of_the_names():
    assert repr(HeldOut()) == "HeldOut()"
    assert HeldOut().get_params() == {"share": "auto", "measure_recall": True}
    assert CrossFit().get_params() == {"folds": None}
    assert OutOfBootstrap().get_params() == {
        "n_rounds": 10, "train_share": 2 / 3, "rule": "np_score", "combine": "mean",
    }  # fmt: skip
    for name, kind in STRATEGIES.items():
        assert_same(
            CLASSIFIERS["any scorer"](threshold=name).fit(X, Y), CLASSIFIERS["any scorer"](threshold=kind()).fit(X, Y)
        )


def test_folds_are_those_of_cv_unless_the_strategy_has_its_own():
    three, own = (CLASSIFIERS["any scorer"](cv=cv, threshold=each) for cv, each in ((3, "cross"), (5, CrossFit(3))))
    assert_same(three.fit(X, Y), own.fit(X, Y))


@pytest.mark.parametrize("make", [each for name, each in CLASSIFIERS.items() if name != "kernel"])
def test_a_search_sets_the_settings_of_a_strategy(make):
    search = GridSearchCV(make(threshold=HeldOut()), {"threshold__share": [0.3, 0.6]}, scoring=np_scorer(0.1), cv=2)
    assert search.fit(X, Y).best_params_["threshold__share"] in (0.3, 0.6)
    assert search.best_estimator_.threshold.share == search.best_params_["threshold__share"]
    model = make(threshold=OutOfBootstrap()).set_params(threshold__n_rounds=2, threshold__combine="refit")
    assert (model.threshold.n_rounds, model.threshold.combine) == (2, "refit")


def test_recall_is_not_measured_where_it_is_not_asked_for():
    for name, make in CLASSIFIERS.items():
        model = make(threshold=HeldOut(measure_recall=False)).fit(X, Y)
        assert (model.strategy_, model.evidence_.guaranteed) == ("np", True), name
        assert model.evidence_.tpr_estimate is None


def test_a_fitted_scorer_takes_the_rule_of_a_strategy():
    fitted = LogisticRegression().fit(X[::2], Y[::2])
    for strategy, name in ((TrainQuantile(), "train"), (OutOfBootstrap(rule="quantile"), "oob")):
        model = NeymanPearsonClassifier(fitted, 0.1, cv="prefit", delta=None, threshold=strategy).fit(X[1::2], Y[1::2])
        scores = fitted.decision_function(X[1::2])[Y[1::2] == 0]
        assert model.strategy_ == name
        assert model.threshold_ == pytest.approx(
            TrainQuantile(0.1).choose(scores).threshold, rel=1e-4
        )  # raised for rounding
    automatic = NeymanPearsonClassifier(fitted, 0.1, cv="prefit", threshold=Automatic(HeldOut(0.3)))
    assert automatic.fit(X[1::2], Y[1::2]).strategy_ == "np"


def test_automatic_falls_back_on_folds():
    few = np.r_[np.flatnonzero(Y == 0)[:40], np.flatnonzero(Y == 1)]
    with pytest.warns(TooFewNegativesWarning, match="at least 97 in all; there are 40"):
        model = CLASSIFIERS["any scorer"](threshold=Automatic(HeldOut(0.3))).fit(X[few], Y[few])
    assert model.strategy_ == "cross"
    assert model.set_params(threshold="cross").fit(X[few], Y[few]).strategy_ == "cross"


def test_the_training_quantile_is_a_rule_too():
    assert repr(TrainQuantile(tau=0.25)) == "TrainQuantile(tau=0.25)"
    assert TrainQuantile(0.25).choose([0.1, 0.9, 0.3, 0.5], [2.0]).threshold == 0.5
    assert len({TrainQuantile(0.25), TrainQuantile(tau=0.25), TrainQuantile(0.5), TrainQuantile()}) == 3
    with pytest.raises(ValueError, match=r"with a tau: TrainQuantile\(tau=0\.05\)"):
        TrainQuantile().choose([1.0, 2.0])
    with pytest.raises(ValueError, match="takes the tau of the classifier"):
        TauFPLClassifier(threshold=TrainQuantile(0.1)).training_rows(Y)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (HeldOut(share=1.0), "'share' parameter of HeldOut must be"),
        (HeldOut(share="half"), "'share' parameter of HeldOut must be"),
        (HeldOut(measure_recall="no"), "'measure_recall' parameter of HeldOut must be"),
        (CrossFit(folds=1), "'folds' parameter of CrossFit must be"),
        (OutOfBootstrap(n_rounds=0), "'n_rounds' parameter of OutOfBootstrap must be"),
        (OutOfBootstrap(train_share=1.0), "'train_share' parameter of OutOfBootstrap must be"),
        (OutOfBootstrap(rule="best"), "'rule' parameter of OutOfBootstrap must be"),
        (Automatic(HeldOut(share=0.0)), "'share' parameter of HeldOut must be"),
        (Automatic("np"), "'held_out' parameter of Automatic must be"),
        (HeldOut, "'threshold' parameter of NeymanPearsonClassifier must be"),
        ("luck", "'threshold' parameter of NeymanPearsonClassifier must be"),
    ],
)
def test_wrong_settings_are_explained(strategy, words):
    with pytest.raises(ValueError, match=words):
        CLASSIFIERS["any scorer"](threshold=strategy).fit(X, Y)


@pytest.mark.parametrize("strategy", OBJECTS, ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["linear", "any scorer"])
def test_files_keep_the_settings(strategy, name, tmp_path):
    model = CLASSIFIERS[name](threshold=strategy).fit(X, Y)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops").model
    assert loaded.threshold == strategy
    assert_same(loaded, model)
    assert_same(clone(loaded).fit(X, Y), model)
    assert loaded.recalibrate(X[:200]).threshold_ == model.recalibrate(X[:200]).threshold_


# Parameters of 0.1.

MOVED = [
    ("np", {"holdout": 0.4}, HeldOut(share=0.4)),
    ("np", {"measure_recall": False}, HeldOut(measure_recall=False)),
    ("np", {"holdout": 0.4, "measure_recall": False}, HeldOut(share=0.4, measure_recall=False)),
    ("oob", {"n_rounds": 3}, OutOfBootstrap(n_rounds=3)),
    ("oob", {"train_share": 0.6}, OutOfBootstrap(train_share=0.6)),
    ("oob", {"rule": "quantile"}, OutOfBootstrap(rule="quantile")),
    ("oob", {"combine": "refit"}, OutOfBootstrap(combine="refit")),
]


@pytest.mark.parametrize("delta", [0.05, None])
@pytest.mark.parametrize(("threshold", "given", "wanted"), MOVED)
def test_an_earlier_parameter_is_a_setting_of_the_threshold(threshold, given, wanted, delta):
    with pytest.warns(FutureWarning) as caught:
        model = CLASSIFIERS["any scorer"](threshold=threshold, delta=delta, **given)
    (said,) = caught
    named = " and ".join(f"{name}={each!r}" for name, each in given.items())
    assert str(said.message).startswith(
        f"{named} {'is' if len(given) == 1 else 'are'} deprecated: write threshold={wanted!r}."
    )
    assert said.filename == __file__
    assert model.threshold == wanted
    assert_same(model.fit(X, Y), CLASSIFIERS["any scorer"](threshold=wanted, delta=delta).fit(X, Y))


@pytest.mark.parametrize("make", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_an_earlier_share_of_auto_still_falls_back_on_folds(make):
    with pytest.warns(FutureWarning, match=r"holdout=0\.3 is deprecated: write threshold=HeldOut\(share=0\.3\), which"):
        model = make(holdout=0.3)
    assert_same(model.fit(X, Y), make(threshold=HeldOut(share=0.3)).fit(X, Y))
    assert repr(clone(model)) == repr(clone(clone(model)))
    few = np.r_[np.flatnonzero(Y == 0)[:40], np.flatnonzero(Y == 1)]
    with pytest.warns(TooFewNegativesWarning, match="was chosen by 'cross'"):
        assert model.fit(X[few], Y[few]).strategy_ == "cross"


@pytest.mark.parametrize(
    ("threshold", "given", "words"),
    [
        ("auto", {"holdout": "auto"}, "holdout='auto' is deprecated: leave it out, threshold='auto' does the same"),
        ("np", {"measure_recall": True}, "deprecated: leave it out, threshold='np' does the same"),
        ("cross", {"n_rounds": 3}, "n_rounds=3 is deprecated: leave it out, it has no effect where threshold='cross'"),
        ("train", {"rule": "quantile", "holdout": 0.2}, "holdout=0.2 and rule='quantile' are deprecated: leave it out"),
    ],
)
def test_earlier_parameters_without_effect_are_left_out(threshold, given, words):
    with pytest.warns(FutureWarning, match=words):
        model = CLASSIFIERS["any scorer"](threshold=threshold, **given)
    assert model.threshold == threshold


def test_parameters_that_never_were_are_refused_as_python_does():
    for make in CLASSIFIERS.values():
        with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'hold_out'"):
            make(hold_out=0.3)
    with pytest.raises(TypeError, match=r"ScreeningClassifier.__init__\(\) got .* argument 'n_rounds'"):
        CLASSIFIERS["stack"](n_rounds=3)
    with pytest.raises(TypeError, match=r"holdout=0\.3 must be given as a setting of threshold=HeldOut\(\)"):
        TauFPLClassifier(threshold=HeldOut(), holdout=0.3)
    with pytest.raises(ValueError, match="Invalid parameter 'holdout'"):
        TauFPLClassifier().set_params(holdout=0.3)


def test_no_classifier_has_the_earlier_parameters():
    for kind in (KernelTauFPLClassifier, NeymanPearsonClassifier, ScoreScreen, ScreeningClassifier, TauFPLClassifier):
        assert not set(EARLIER) & {*inspect.signature(kind).parameters, *kind._get_param_names()}


@pytest.mark.parametrize(
    ("threshold", "earlier", "wanted"),
    [
        ("auto", {"holdout": "auto", "measure_recall": True, "n_rounds": 10, "rule": "np_score"}, "'auto'"),
        ("auto", {"holdout": 0.3, "n_rounds": 4}, "Automatic(held_out=HeldOut(share=0.3))"),
        ("np", {"holdout": 0.3, "measure_recall": False}, "HeldOut(measure_recall=False, share=0.3)"),
        ("oob", {"holdout": 0.3, "n_rounds": 4}, "OutOfBootstrap(n_rounds=4)"),
        ("cross", {"holdout": 0.3}, "'cross'"),
    ],
)
def test_the_state_of_a_classifier_of_0_1_is_read_without_a_word(threshold, earlier, wanted):
    model = TauFPLClassifier(threshold=threshold)
    state = {**model.__getstate__(), **earlier}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = TauFPLClassifier.__new__(TauFPLClassifier)
        read.__setstate__(state)
    assert repr(read.threshold) == wanted
    assert not set(EARLIER) & vars(read).keys()
    assert repr(clone(read)) == repr(read)
